//! Which file becomes which: inputs and `-o` become a list of tasks, before anything is read or written.
//!
//! Rules: a folder keeps its tree, a glob keeps the tree below its first wildcard, anything else only its name.
//! Nothing is ever written over an input, and no two inputs are written to one output.

use crate::bulk::EXTENSIONS;
use crate::image::SourceUrl;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Appended to the name when results land among their inputs.
const SUFFIX: &str = "-cutout";

/// Where a picture comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// Standard input.
    Stdin,
    /// A file.
    File(PathBuf),
    /// A file elsewhere.
    Url(SourceUrl),
}

/// Where a result goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sink {
    /// Standard output.
    Stdout,
    /// A file.
    File(PathBuf),
}

/// One picture to cut out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Task {
    /// The picture.
    pub(super) source: Source,
    /// Its result.
    pub(super) sink: Sink,
}

/// An input that cannot be done, and why. It does not stop the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    /// The input as it was named.
    pub(super) input: PathBuf,
    /// Why.
    pub(super) reason: String,
}

/// What to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// In the order of the arguments; folders sorted by name.
    pub(super) tasks: Vec<Task>,
    /// What cannot be done.
    pub(super) refused: Vec<Refused>,
}

/// What `-o` means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    /// `-`.
    Stdout,
    /// One file, because there is one input and the name has an extension.
    File(PathBuf),
    /// A folder, made when it is missing.
    Folder(PathBuf),
}

impl Destination {
    /// Reads `-o` in the light of the inputs.
    ///
    /// # Errors
    /// When many pictures would go to one place.
    pub(super) fn of(output: &Path, inputs: &[PathBuf]) -> Result<Self, String> {
        let one_picture = matches!(inputs, [only] if is_stdio(only) || only.is_file() || url(only).is_some());
        if is_stdio(output) {
            return if one_picture {
                Ok(Self::Stdout)
            } else {
                Err("only one picture fits on standard output".to_owned())
            };
        }
        let names_folder = output.is_dir() || output.as_os_str().to_string_lossy().ends_with(std::path::is_separator);
        if one_picture && !names_folder && output.extension().is_some() {
            return Ok(Self::File(output.to_owned()));
        }
        if inputs.iter().any(|input| is_stdio(input)) {
            return Err("a picture from standard input needs a file name after -o, such as cutout.png, or -".to_owned());
        }
        if output.is_file() {
            return Err(format!("{} is a file, but these inputs need a folder", output.display()));
        }
        Ok(Self::Folder(output.to_owned()))
    }

    /// The `format` that the name of the one output asks for.
    pub(super) fn format(&self) -> Option<String> {
        match self {
            Self::File(path) => {
                let extension = path.extension()?.to_str()?.to_lowercase();
                Some(if extension == "jpeg" { "jpg".to_owned() } else { extension })
            }
            Self::Stdout | Self::Folder(_) => None,
        }
    }
}

/// Whether an argument means standard input or output.
fn is_stdio(argument: &Path) -> bool {
    argument.as_os_str() == "-"
}

/// Lists the tasks. `extension` is that of results in a folder.
pub(super) fn plan(inputs: &[PathBuf], destination: &Destination, extension: &str) -> Plan {
    let mut plan = Plan::default();
    match destination {
        Destination::Stdout => {
            plan.tasks.extend(inputs.iter().map(|input| Task { source: source_of(input), sink: Sink::Stdout }))
        }
        Destination::File(path) => {
            for input in inputs {
                if is_same_file(input, path) {
                    plan.refuse(input, "the result would overwrite it; choose another name after -o");
                } else {
                    plan.tasks.push(Task { source: source_of(input), sink: Sink::File(path.clone()) });
                }
            }
        }
        Destination::Folder(folder) => plan_folder(&mut plan, inputs, folder, extension),
    }
    plan
}

fn source_of(input: &Path) -> Source {
    match url(input) {
        Some(url) => Source::Url(url),
        None if is_stdio(input) => Source::Stdin,
        None => Source::File(input.to_owned()),
    }
}

/// The address that an argument is.
fn url(argument: &Path) -> Option<SourceUrl> {
    argument.to_str().and_then(|text| SourceUrl::parse(text).ok())
}

/// The name of the file behind an address, as far as it says one that a folder may hold.
fn name_of(url: &SourceUrl) -> PathBuf {
    let last = url.as_url().path_segments().and_then(|mut segments| segments.next_back()).unwrap_or_default();
    let plain = |name: &&str| !name.is_empty() && !name.starts_with('.') && !name.contains(['%', '\\', ':']);
    PathBuf::from(Some(last).filter(plain).unwrap_or("picture"))
}

fn is_same_file(a: &Path, b: &Path) -> bool {
    matches!((fs::canonicalize(a), fs::canonicalize(b)), (Ok(a), Ok(b)) if a == b)
}

impl Plan {
    fn refuse(&mut self, input: &Path, reason: impl Into<String>) {
        self.refused.push(Refused { input: input.to_owned(), reason: reason.into() });
    }
}

/// A picture that was named or found.
struct Found {
    path: PathBuf,
    /// Path of the result below the output folder, still with the input's extension.
    relative: PathBuf,
    /// Whether somebody typed this very name.
    named: bool,
}

fn plan_folder(plan: &mut Plan, inputs: &[PathBuf], folder: &Path, extension: &str) {
    let mut found = Vec::new();
    for input in inputs {
        expand(input, folder, &mut found, plan);
    }
    let output_of = |picture: &Found| {
        let output = folder.join(&picture.relative).with_extension(extension);
        let beside_input = match (picture.path.parent(), output.parent()) {
            (Some(from), Some(to)) => is_same_file(or_here(from), or_here(to)),
            _ => false,
        };
        if !beside_input {
            return output;
        }
        let mut name = picture.path.file_stem().unwrap_or_default().to_owned();
        name.push(SUFFIX);
        name.push(".");
        name.push(extension);
        output.with_file_name(name)
    };
    let outputs: Vec<PathBuf> = found.iter().map(output_of).collect();
    let results: HashMap<PathBuf, usize> = outputs
        .iter()
        .enumerate()
        .filter_map(|(index, output)| Some((fs::canonicalize(output).ok()?, index)))
        .collect();
    let mut originals: HashSet<PathBuf> = HashSet::new();
    let mut kept = Vec::new();
    for (index, (picture, output)) in found.iter().zip(outputs).enumerate() {
        let path = fs::canonicalize(&picture.path).unwrap_or_else(|_| picture.path.clone());
        let is_result = results.get(&path).is_some_and(|&from| from != index);
        let is_suffixed = path.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with(SUFFIX));
        // Found, not named, called `-cutout` and another one's result: our own earlier work.
        let is_earlier_work = is_result && is_suffixed && !picture.named;
        // An input that was named twice, or named and found, is done once.
        if !is_earlier_work && originals.insert(path) {
            kept.push((picture, output));
        }
    }
    let mut taken: HashMap<PathBuf, &Path> = HashMap::new();
    for (picture, output) in kept {
        if fs::canonicalize(&output).is_ok_and(|output| originals.contains(&output)) {
            plan.refuse(&picture.path, format!("its result would overwrite the input {}", output.display()));
        } else if let Some(first) = taken.get(&output) {
            plan.refuse(&picture.path, format!("{} is already the result of {}", output.display(), first.display()));
        } else {
            plan.tasks.push(Task { source: source_of(&picture.path), sink: Sink::File(output.clone()) });
            taken.insert(output, &picture.path);
        }
    }
}

/// `""`, the parent of a bare name, means the working directory.
fn or_here(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

fn expand(input: &Path, output: &Path, found: &mut Vec<Found>, plan: &mut Plan) {
    if let Some(url) = url(input) {
        return found.push(Found { path: input.to_owned(), relative: name_of(&url), named: true });
    }
    if input.is_dir() {
        return walk(input, Path::new(""), output, found, plan);
    }
    let pattern = input.to_str().filter(|text| !input.exists() && text.contains(['*', '?', '[']));
    let Some(pattern) = pattern else {
        let relative = PathBuf::from(input.file_name().unwrap_or(OsStr::new("picture")));
        return found.push(Found { path: input.to_owned(), relative, named: true });
    };
    let base: PathBuf = input
        .components()
        .take_while(|part| !matches!(part, Component::Normal(name) if name.to_string_lossy().contains(['*', '?', '['])))
        .collect();
    match glob::glob(pattern) {
        Err(error) => plan.refuse(input, error.to_string()),
        Ok(matches) => {
            let before = found.len();
            for entry in matches {
                match entry {
                    Ok(path) if path.is_dir() => {}
                    Ok(path) => {
                        let relative = path.strip_prefix(&base).unwrap_or(&path).to_owned();
                        found.push(Found { path, relative, named: false });
                    }
                    Err(error) => plan.refuse(error.path(), error.error().to_string()),
                }
            }
            if found.len() == before {
                plan.refuse(input, "matches no file");
            }
        }
    }
}

fn walk(folder: &Path, relative: &Path, output: &Path, found: &mut Vec<Found>, plan: &mut Plan) {
    let entries = match fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>) {
        Ok(entries) => entries,
        Err(error) => return plan.refuse(folder, error.to_string()),
    };
    let mut names: Vec<_> = entries.into_iter().map(|entry| entry.file_name()).collect();
    names.sort();
    for name in names {
        let (path, below) = (folder.join(&name), relative.join(&name));
        if name.to_string_lossy().starts_with('.') {
            continue;
        }
        // A link to a folder is not followed: it may lead back up.
        if path.is_dir() {
            if !path.is_symlink() && !is_same_file(&path, output) {
                walk(&path, &below, output, found, plan);
            }
        } else if has_known_extension(&path) {
            found.push(Found { path, relative: below, named: false });
        }
    }
}

fn has_known_extension(path: &Path) -> bool {
    path.extension()
        .and_then(OsStr::to_str)
        .is_some_and(|extension| EXTENSIONS.iter().any(|known| extension.eq_ignore_ascii_case(known)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, b"x").unwrap();
        }
        root
    }

    /// The plan of `inputs → output` as `input > output` lines, relative to `root`.
    fn lines(root: &Path, inputs: &[&str], output: &str) -> (Vec<String>, Vec<String>) {
        let inputs: Vec<_> = inputs.iter().map(|input| root.join(input)).collect();
        let destination = Destination::of(&root.join(output), &inputs).unwrap();
        let plan = plan(&inputs, &destination, "png");
        let show = |path: &Path| path.strip_prefix(root).unwrap_or(path).display().to_string();
        let tasks = plan.tasks.iter().map(|task| match (&task.source, &task.sink) {
            (Source::File(from), Sink::File(to)) => format!("{} > {}", show(from), show(to)),
            other => format!("{other:?}"),
        });
        (tasks.collect(), plan.refused.iter().map(|refused| show(&refused.input)).collect())
    }

    #[test]
    fn a_folder_keeps_its_tree_and_leaves_other_files_alone() {
        let root = tree(&["in/b/c.JPG", "in/a.webp", "in/notes.txt", "in/.hidden/x.png"]);
        let (tasks, refused) = lines(root.path(), &["in"], "out");
        assert_eq!(tasks, ["in/a.webp > out/a.png", "in/b/c.JPG > out/b/c.png"]);
        assert!(refused.is_empty());
    }

    #[test]
    fn a_glob_keeps_the_tree_below_its_first_wildcard() {
        let root = tree(&["in/x/a.jpg", "in/y/b.jpg", "in/y/b.txt"]);
        let (tasks, _) = lines(root.path(), &["in/*/*.jpg"], "out");
        assert_eq!(tasks, ["in/x/a.jpg > out/x/a.png", "in/y/b.jpg > out/y/b.png"]);
    }

    #[test]
    fn two_inputs_with_one_output_are_told_and_only_the_second_is_refused() {
        let root = tree(&["in/a.jpg", "in/a.png", "in/b.jpg"]);
        let (tasks, refused) = lines(root.path(), &["in"], "out");
        assert_eq!(tasks, ["in/a.jpg > out/a.png", "in/b.jpg > out/b.png"]);
        assert_eq!(refused, ["in/a.png"]);
    }

    #[test]
    fn results_among_their_inputs_get_another_name_and_are_not_cut_out_again() {
        let root = tree(&["in/a.png", "in/b.jpg"]);
        let expected = ["in/a.png > in/a-cutout.png", "in/b.jpg > in/b-cutout.png"];
        assert_eq!(lines(root.path(), &["in"], "in").0, expected);
        fs::write(root.path().join("in/a-cutout.png"), b"x").unwrap();
        assert_eq!(lines(root.path(), &["in"], "in"), (expected.map(String::from).to_vec(), vec![]));
    }

    #[test]
    fn an_output_folder_inside_the_input_folder_is_not_searched() {
        let root = tree(&["in/a.jpg", "in/out/old.png"]);
        assert_eq!(lines(root.path(), &["in"], "in/out").0, ["in/a.jpg > in/out/a.png"]);
    }

    #[test]
    fn an_input_is_never_overwritten_even_when_both_are_named() {
        let root = tree(&["a.png", "in/a.jpg"]);
        let (tasks, refused) = lines(root.path(), &["a.png"], "a.png");
        assert!(tasks.is_empty());
        assert_eq!(refused, ["a.png"]);
        let (tasks, refused) = lines(root.path(), &["in/a.jpg", "a.png"], "");
        assert_eq!(tasks, ["a.png > a-cutout.png"]);
        assert_eq!(refused, ["in/a.jpg"]);
    }

    #[test]
    fn one_picture_and_a_name_with_an_extension_is_a_file() {
        let root = tree(&["a.jpg", "b.jpg"]);
        let (a, b) = (root.path().join("a.jpg"), root.path().join("b.jpg"));
        let output = root.path().join("c.webp");
        let destination = Destination::of(&output, std::slice::from_ref(&a)).unwrap();
        assert_eq!(destination, Destination::File(output.clone()));
        assert_eq!(destination.format().as_deref(), Some("webp"));
        assert_eq!(Destination::of(&output, &[a, b]).unwrap(), Destination::Folder(output));
    }

    #[test]
    fn standard_output_takes_one_picture_and_standard_input_needs_a_name() {
        let stdio = PathBuf::from("-");
        assert_eq!(Destination::of(&stdio, std::slice::from_ref(&stdio)), Ok(Destination::Stdout));
        assert!(Destination::of(&stdio, &["a.jpg".into(), "b.jpg".into()]).is_err());
        assert!(Destination::of(Path::new("folder"), &[stdio]).is_err());
    }
}
