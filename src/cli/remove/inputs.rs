//! Resolves input arguments and `-o` to a list of tasks, before anything is read or written.
//!
//! A folder keeps its tree, a glob the tree below its first wildcard, any other input only its name. What a folder or a glob finds is a
//! file, even if its name reads like a URL. Hidden files, pipes and devices are left out, and links out of the folder unless `follow`
//! is set. An input is never overwritten, and no two inputs have one output. Results of earlier runs that a folder or a glob finds are
//! left out: files below the output folder, and `X-cutout` next to `X` where inputs and results share a folder.

use super::destination::Destination;
use super::source_and_sink::{Sink, Source, is_glob};
use crate::bulk::has_image_extension;
use crate::image::SourceUrl;
use glob::MatchOptions;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Component, Path, PathBuf};
use walkdir::{DirEntry, WalkDir};

/// Appended to the names of results in the folder of their inputs.
const SUFFIX: &str = "-cutout";

/// A picture and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Task {
    pub(in crate::cli) source: Source,
    pub(in crate::cli) sink: Sink,
}

/// An input that is not processed, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rejected {
    pub(super) input: PathBuf,
    pub(super) reason: String,
}

/// The resolved inputs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Inputs {
    /// In the order of the arguments; folders sorted by name.
    pub(super) tasks: Vec<Task>,
    /// Inputs that cannot be processed.
    pub(super) rejected: Vec<Rejected>,
    /// Files that were found and are not processed.
    pub(super) left_out: Vec<Rejected>,
}

/// The tasks for `arguments`. Results in a folder have the `extension`; with `follow` links out of a folder are tasks.
pub(super) fn resolve(arguments: &[PathBuf], destination: &Destination, extension: &str, follow: bool) -> Inputs {
    let mut inputs = Inputs::default();
    let (plain, arguments): (Vec<_>, Vec<_>) = arguments.iter().cloned().partition(|input| is_plain_http(input));
    plain.iter().for_each(|input| inputs.reject(input, "only https addresses are fetched"));
    match destination {
        Destination::Stdout => {
            let task = |input: &PathBuf| Task { source: Source::parse(input), sink: Sink::Stdout };
            inputs.tasks.extend(arguments.iter().map(task));
        }
        Destination::File(path) => {
            for input in &arguments {
                if is_same_file(input, path) {
                    inputs.reject(input, "the result would overwrite it; choose another name after -o");
                } else {
                    inputs.tasks.push(Task { source: Source::parse(input), sink: Sink::File(path.clone()) });
                }
            }
        }
        Destination::Folder(folder) => add_folder_tasks(&mut inputs, &arguments, folder, extension, follow),
    }
    inputs
}

fn is_plain_http(input: &Path) -> bool {
    input.to_str().is_some_and(|input| input.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http://")))
}

fn is_same_file(a: &Path, b: &Path) -> bool {
    matches!((fs::canonicalize(a), fs::canonicalize(b)), (Ok(a), Ok(b)) if a == b)
}

/// The path without links, as far as it exists.
fn without_links(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| in_real_folder(path))
}

/// The path with its folder without links; a link as the last part is kept.
fn in_real_folder(path: &Path) -> PathBuf {
    match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) => without_links(or_current_dir(folder)).join(name),
        _ => path.to_owned(),
    }
}

impl Inputs {
    /// Whether a file is one of the inputs or results.
    pub(super) fn contains(&self, file: &Path) -> bool {
        let file = without_links(file);
        let of_tasks = self.tasks.iter().flat_map(|task| [task.source.file(), task.sink.file()]).flatten();
        let rejected = self.rejected.iter().map(|rejected| rejected.input.as_path());
        of_tasks.chain(rejected).any(|path| without_links(path) == file)
    }

    fn reject(&mut self, input: &Path, reason: impl Into<String>) {
        self.rejected.push(Rejected { input: input.to_owned(), reason: reason.into() });
    }

    /// Whether the file `path`, found in the `folder` without links, is processed; if not, it is listed as left out.
    fn takes(&mut self, path: &Path, folder: &Path, follow: bool) -> bool {
        let reason = if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            "it is a pipe, a socket or a device"
        } else if !follow && fs::canonicalize(path).is_ok_and(|real| !real.starts_with(folder)) {
            "it is a link that leads out of its folder (--follow takes it)"
        } else {
            return true;
        };
        self.left_out.push(Rejected { input: path.to_owned(), reason: reason.to_owned() });
        false
    }
}

/// A picture given as an argument, or found in a folder or by a glob.
struct Found {
    path: PathBuf,
    /// Path of the result below the output folder, with the input's extension.
    relative: PathBuf,
    /// Whether the user named it.
    is_argument: bool,
}

fn add_folder_tasks(inputs: &mut Inputs, arguments: &[PathBuf], folder: &Path, extension: &str, follow: bool) {
    let mut found = Vec::new();
    for argument in arguments {
        expand(argument, folder, &mut found, inputs, follow);
    }
    let output_of = |picture: &Found| {
        let output = folder.join(&picture.relative).with_extension(extension);
        let is_next_to_input = match (picture.path.parent(), output.parent()) {
            (Some(from), Some(to)) => is_same_file(or_current_dir(from), or_current_dir(to)),
            _ => false,
        };
        if !is_next_to_input {
            return output;
        }
        let mut name = picture.path.file_stem().unwrap_or_default().to_owned();
        name.push(SUFFIX);
        name.push(".");
        name.push(extension);
        output.with_file_name(name)
    };
    let outputs: Vec<PathBuf> = found.iter().map(output_of).collect();
    // Without extensions: an earlier run may have written another format.
    let results: HashMap<PathBuf, usize> =
        outputs.iter().enumerate().map(|(index, output)| (in_real_folder(output).with_extension(""), index)).collect();
    let (mut originals, mut places) = (HashSet::new(), HashSet::new());
    let mut kept = Vec::new();
    for (index, (picture, output)) in found.iter().zip(outputs).enumerate() {
        let place = in_real_folder(&picture.path);
        let stem = place.with_extension("");
        let is_result = results.get(&stem).is_some_and(|&from| from != index);
        let is_suffixed = stem.to_string_lossy().ends_with(SUFFIX);
        // Written by an earlier run: found, named `-cutout`, and the result of another input.
        let is_earlier_result = is_result && is_suffixed && !picture.is_argument;
        // An input that is given or found twice is processed once. A link with another name is another input.
        if !is_earlier_result && places.insert(place) {
            originals.insert(without_links(&picture.path));
            kept.push((picture, output));
        }
    }
    let mut taken: HashMap<PathBuf, &Path> = HashMap::new();
    for (picture, output) in kept {
        if fs::canonicalize(&output).is_ok_and(|output| originals.contains(&output)) {
            inputs.reject(&picture.path, format!("its result would overwrite the input {}", output.display()));
        } else if let Some(first) = taken.get(&output) {
            // A link to the first picture shares its result.
            if !is_same_file(first, &picture.path) {
                let reason = format!("{} is already the result of {}", output.display(), first.display());
                inputs.reject(&picture.path, reason);
            }
        } else {
            let path = picture.path.clone();
            let source = if picture.is_argument { Source::parse(&path) } else { Source::File(path) };
            inputs.tasks.push(Task { source, sink: Sink::File(output.clone()) });
            taken.insert(output, &picture.path);
        }
    }
}

/// Replaces `""`, the parent of a bare name, by the working directory.
fn or_current_dir(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

/// Adds the pictures of an argument: a URL, a folder, a glob or a file.
fn expand(input: &Path, output: &Path, found: &mut Vec<Found>, inputs: &mut Inputs, follow: bool) {
    if let Source::Url(url) = Source::parse(input) {
        return found.push(Found { path: input.to_owned(), relative: file_name(&url), is_argument: true });
    }
    if input.is_dir() {
        return walk(input, output, found, inputs, follow);
    }
    let Some(pattern) = input.to_str().filter(|_| is_glob(input)) else {
        let relative = PathBuf::from(input.file_name().unwrap_or(OsStr::new("picture")));
        return found.push(Found { path: input.to_owned(), relative, is_argument: true });
    };
    let base: PathBuf = input
        .components()
        .take_while(|part| !matches!(part, Component::Normal(name) if name.to_string_lossy().contains(['*', '?', '['])))
        .collect();
    // An output folder inside the base is not searched, as by `walk`.
    let (results, searched) = (without_links(output), without_links(or_current_dir(&base)));
    let is_inside = results != searched && results.starts_with(&searched);
    let is_result = |path: &Path| is_inside && in_real_folder(path).starts_with(&results);
    // As in a shell and in `walk`, a wildcard matches no hidden file.
    let options = MatchOptions { require_literal_leading_dot: true, ..MatchOptions::new() };
    match glob::glob_with(pattern, options) {
        Err(error) => inputs.reject(input, error.to_string()),
        Ok(matches) => {
            let before = found.len() + inputs.left_out.len();
            for entry in matches {
                match entry {
                    Ok(path) if path.is_dir() || is_result(&path) || !inputs.takes(&path, &searched, follow) => {}
                    Ok(path) => {
                        let relative = path.strip_prefix(&base).unwrap_or(&path).to_owned();
                        found.push(Found { path, relative, is_argument: false });
                    }
                    Err(error) => inputs.reject(error.path(), error.error().to_string()),
                }
            }
            if found.len() + inputs.left_out.len() == before {
                inputs.reject(input, "matches no file");
            }
        }
    }
}

/// Adds the pictures below a folder, without hidden files and those below `output`.
fn walk(folder: &Path, output: &Path, found: &mut Vec<Found>, inputs: &mut Inputs, follow: bool) {
    let root = without_links(folder);
    let is_left_out = |entry: &DirEntry| {
        let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
        is_hidden || entry.file_type().is_dir() && is_same_file(entry.path(), output)
    };
    let is_searched = |entry: &DirEntry| entry.depth() == 0 || !is_left_out(entry);
    for entry in WalkDir::new(folder).sort_by_file_name().into_iter().filter_entry(is_searched) {
        match entry {
            Ok(entry) => {
                let path = entry.path();
                // Links to folders are not followed: they may form a cycle.
                let is_picture = !path.is_dir() && has_image_extension(&entry.file_name().to_string_lossy());
                if is_picture && inputs.takes(path, &root, follow) {
                    let relative = path.strip_prefix(folder).unwrap_or(path).to_owned();
                    found.push(Found { path: entry.into_path(), relative, is_argument: false });
                }
            }
            Err(error) => {
                let reason = error.io_error().map_or_else(|| error.to_string(), ToString::to_string);
                inputs.reject(error.path().unwrap_or(folder), reason);
            }
        }
    }
}

/// The file name of a URL, if a folder can hold it, else `picture`.
fn file_name(url: &SourceUrl) -> PathBuf {
    let last = url.as_url().path_segments().and_then(|mut segments| segments.next_back()).unwrap_or_default();
    let plain = |name: &&str| !name.is_empty() && !name.starts_with('.') && !name.contains(['%', '\\', ':']);
    PathBuf::from(Some(last).filter(plain).unwrap_or("picture"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::test_files::folder_with;

    /// The tasks of `inputs → output` as `input > output` lines, and the rejected inputs, relative to `root`.
    fn lines(root: &Path, inputs: &[&str], output: &str) -> (Vec<String>, Vec<String>) {
        let inputs: Vec<_> = inputs.iter().map(|input| root.join(input)).collect();
        let destination = Destination::new(&root.join(output), &inputs).unwrap();
        let resolved = resolve(&inputs, &destination, "png", false);
        let show = |path: &Path| path.strip_prefix(root).unwrap_or(path).display().to_string();
        let tasks = resolved.tasks.iter().map(|task| match (&task.source, &task.sink) {
            (Source::File(from), Sink::File(to)) => format!("{} > {}", show(from), show(to)),
            other => format!("{other:?}"),
        });
        (tasks.collect(), resolved.rejected.iter().map(|rejected| show(&rejected.input)).collect())
    }

    /// Inputs relative to a folder, the output, the expected tasks, and the inputs that are rejected.
    type Case = (&'static [&'static str], &'static str, &'static [&'static str], &'static [&'static str]);

    #[track_caller]
    fn check(files: &[&str], cases: &[Case]) {
        let root = folder_with(files);
        for &(inputs, output, tasks, rejected) in cases {
            let (resolved, refused) = lines(root.path(), inputs, output);
            assert_eq!((&resolved[..], &refused[..]), (&owned(tasks)[..], &owned(rejected)[..]), "{inputs:?} {output}");
        }
    }

    fn owned(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn folders_and_globs_keep_their_trees_without_hidden_and_other_files() {
        check(
            &["in/b/c.JPEG", "in/a.jpg", "in/notes.txt", "in/.hidden/x.jpg", "in/._a.jpg", "in/x/a.jpg", "in/x/b.txt"],
            &[
                (
                    &["in"],
                    "out",
                    &["in/a.jpg > out/a.png", "in/b/c.JPEG > out/b/c.png", "in/x/a.jpg > out/x/a.png"],
                    &[],
                ),
                (&["in/*.jpg", "in/*/*.jpg"], "out", &["in/a.jpg > out/a.png", "in/x/a.jpg > out/x/a.png"], &[]),
                (&["in/._a.jpg"], "out", &["in/._a.jpg > out/._a.png"], &[]),
            ],
        );
    }

    #[test]
    fn of_two_inputs_with_one_output_the_second_is_rejected() {
        let tasks = &["in/a.jpg > out/a.png", "in/b.jpg > out/b.png"];
        check(&["in/a.jpg", "in/a.png", "in/b.jpg"], &[(&["in"], "out", tasks, &["in/a.png"])]);
    }

    #[test]
    fn an_output_folder_inside_the_inputs_is_not_searched() {
        check(
            &["in/a.jpg", "in/out/a.png", "in/out/b/c.png"],
            &[
                (&["in"], "in/out", &["in/a.jpg > in/out/a.png"], &[]),
                (&["in/**/*.*"], "in/out", &["in/a.jpg > in/out/a.png"], &[]),
                // An output folder that is or contains the base has originals.
                (&["in/*.jpg"], "in", &["in/a.jpg > in/a-cutout.png"], &[]),
                (&["in/*.jpg"], "", &["in/a.jpg > a.png"], &[]),
            ],
        );
    }

    #[test]
    fn results_in_their_inputs_folder_get_a_suffix_and_are_not_processed_again() {
        let again = &["in/a.jpg > in/a-cutout.png", "in/b-cutout.jpg > in/b-cutout-cutout.png"];
        let named = &["in/a.jpg > in/a-cutout.png", "in/a-cutout.webp > in/a-cutout-cutout.png"];
        let elsewhere =
            &["in/a-cutout.webp > out/a-cutout.png", "in/a.jpg > out/a.png", "in/b-cutout.jpg > out/b-cutout.png"];
        check(
            &["in/a.jpg", "in/a-cutout.webp", "in/b-cutout.jpg"],
            &[
                (&["in"], "in", again, &[]),
                (&["in/*"], "in", again, &[]),
                (&["in/a.jpg", "in/a-cutout.webp"], "in", named, &[]),
                (&["in"], "out", elsewhere, &[]),
            ],
        );
    }

    #[test]
    fn what_is_found_is_a_file_whatever_its_path_reads_like() {
        let root = folder_with(&["https:/host/x.jpg"]);
        // A path relative to the working directory would be this one: only the name is parsed.
        let found = Found { path: "https:/host/x.jpg".into(), relative: "x.jpg".into(), is_argument: false };
        assert!(matches!(Source::parse(&found.path), Source::Url(_)));
        assert_eq!(lines(root.path(), &["https:"], "out").0, ["https:/host/x.jpg > out/host/x.png"]);
    }

    #[cfg(unix)]
    #[test]
    fn pipes_and_links_out_of_the_folder_are_left_out() {
        let root = folder_with(&["in/a.jpg", "outside.jpg"]);
        let at = |path: &str| root.path().join(path);
        rustix::fs::mknodat(rustix::fs::CWD, at("in/pipe.jpg"), rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
            .unwrap();
        std::os::unix::fs::symlink("../outside.jpg", at("in/link.jpg")).unwrap();
        for input in ["in", "in/*"] {
            let inputs = [at(input)];
            let destination = Destination::new(&at("out"), &inputs).unwrap();
            let [kept, followed] = [false, true].map(|follow| resolve(&inputs, &destination, "png", follow));
            assert_eq!((kept.tasks.len(), kept.left_out.len()), (1, 2), "{input}");
            assert_eq!((followed.tasks.len(), followed.left_out.len()), (2, 1), "{input}");
        }
        // A link that is named is processed.
        assert_eq!(lines(root.path(), &["in/link.jpg"], "out").0, ["in/link.jpg > out/link.png"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_with_another_name_is_another_input() {
        let root = folder_with(&["in/a.jpg"]);
        for link in ["in/b.jpg", "in/a.png"] {
            std::os::unix::fs::symlink("a.jpg", root.path().join(link)).unwrap();
        }
        let expected = vec!["in/a.jpg > out/a.png".to_owned(), "in/b.jpg > out/b.png".to_owned()];
        assert_eq!(lines(root.path(), &["in"], "out"), (expected.clone(), vec![]));
        // Given twice, each is processed once.
        assert_eq!(lines(root.path(), &["in", "in/b.jpg"], "out"), (expected, vec![]));
    }

    #[test]
    fn inputs_and_results_are_contained_by_any_path() {
        let root = folder_with(&["in/a.jpg", "in/a.png"]);
        let inputs = [root.path().join("in")];
        let output = root.path().join("out");
        let resolved = resolve(&inputs, &Destination::new(&output, &inputs).unwrap(), "png", false);
        assert_eq!((resolved.tasks.len(), resolved.rejected.len()), (1, 1));
        let contains = |file: &str| resolved.contains(&root.path().join(file));
        assert_eq!(["in/a.jpg", "in/a.png", "in/../out/a.png"].map(contains), [true; 3]);
        assert_eq!(["sheet.png", "out/s.png"].map(contains), [false; 2]);
    }

    #[test]
    fn an_input_is_never_overwritten_even_when_given_as_output() {
        check(
            &["a.png", "in/a.jpg"],
            &[
                (&["a.png"], "a.png", &[], &["a.png"]),
                (&["in/a.jpg", "a.png"], "", &["a.png > a-cutout.png"], &["in/a.jpg"]),
            ],
        );
    }
}
