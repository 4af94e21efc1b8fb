//! Imports point down, never sideways: the layers of `src/lib.rs`, checked by reading the sources.
//!
//! The compiler keeps `kernels` (a crate of its own) free of everything above it; within the crate this test does.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Lowest first. A module may use the modules of the lines above its own, and itself.
const LAYERS: &[&[&str]] = &[
    &["fuzzing", "image", "telemetry"],
    &["codec", "compose", "matting", "model"],
    &["face", "recipe"],
    &["engine", "source", "store"],
    &["generate"],
    &["account", "pipeline"],
    &["bulk", "cutter", "video"],
    &["jobs"],
    &["http"],
    &["config"],
    &["cli"],
];

fn layer_of(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// The modules of this crate that a source text names: `crate::module::…` and `crate::{a::…, b::…}`.
fn used_modules(source: &str) -> BTreeSet<String> {
    let code = without_comments(source);
    let mut used = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        // `$crate::` in a macro means the same crate; `my_crate::` does not.
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let rest = code[at + "crate::".len()..].trim_start();
        match rest.strip_prefix('{') {
            Some(group) => used.extend(names_in_group(group)),
            None => used.extend(first_name(rest)),
        }
    }
    used
}

fn first_name(path: &str) -> Option<String> {
    let name: String = path.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!name.is_empty()).then_some(name)
}

/// The first name of each entry of `{a::x, b::{c, d}}`, given what follows the first brace.
fn names_in_group(group: &str) -> Vec<String> {
    let (mut depth, mut names, mut start) = (0, Vec::new(), 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                names.extend(first_name(&group[start..at]));
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names
}

/// Good enough for `crate::` paths: a string that holds `//` loses its tail, which names no module.
fn without_comments(source: &str) -> String {
    source.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The module that a file belongs to; nothing for the roots, which may name everything.
fn module_of(path: &Path) -> Option<String> {
    let first = path.components().next()?.as_os_str().to_str()?;
    let name = first.strip_suffix(".rs").unwrap_or(first);
    (!matches!(name, "lib" | "main")).then(|| name.to_owned())
}

/// What is wrong with one file.
fn violations(path: &Path, source: &str) -> Vec<String> {
    let Some(module) = module_of(path) else { return Vec::new() };
    let Some(own) = layer_of(&module) else {
        return vec![format!("{}: module {module} is in no layer", path.display())];
    };
    let is_wrong = |used: &String| *used != module && layer_of(used).is_some_and(|layer| layer >= own);
    used_modules(source)
        .into_iter()
        .filter(is_wrong)
        .map(|used| format!("{}: {module} uses {used}, which is not below it", path.display()))
        .collect()
}

/// Whether a source text names a path outside of the repository: one that leaves it from its root, or the folder beside it.
fn leaves_the_repository(source: &str) -> bool {
    ["\"/../", "join(\"../", "../shared"].iter().any(|path| source.contains(path))
}

fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("src is there") {
        let path = entry.expect("src can be read").path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "py") {
            into.push(path);
        }
    }
}

/// A crate's source files by module path (`["account", "keys"]`; the root is empty), without tests and comments.
type Sources = BTreeMap<Vec<String>, String>;

/// The paths that a source text names from `crate`, `super` or `self`, groups expanded, as segments.
fn named_paths(code: &str) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    for root in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(root) {
            // `super::super::x` is read from its first segment, and `my_crate::x` is another crate.
            if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            expand(&code[at..], &mut Vec::new(), &mut paths);
        }
    }
    paths
}

/// Reads one `use` tree from the start of `code` into `paths`, each behind `prefix`; returns the bytes read.
fn expand(code: &str, prefix: &mut Vec<String>, paths: &mut Vec<Vec<String>>) -> usize {
    let (depth, mut at) = (prefix.len(), 0);
    loop {
        at += code[at..].len() - code[at..].trim_start().len();
        if code[at..].starts_with('{') {
            at += 1;
            loop {
                at += code[at..].len() - code[at..].trim_start_matches([' ', '\n', ',']).len();
                match code[at..].chars().next() {
                    Some('}') => break at += 1,
                    Some(c) if c.is_alphabetic() || c == '_' || c == '*' => at += expand(&code[at..], prefix, paths),
                    // Not a tree after all.
                    Some(_) | None => break,
                }
            }
            break;
        }
        let name: String = code[at..].chars().take_while(|c| c.is_alphanumeric() || *c == '_' || *c == '*').collect();
        at += name.len();
        if name.is_empty() {
            break;
        }
        prefix.push(name);
        if let Some(rest) = code[at..].strip_prefix("::") {
            at = code.len() - rest.len();
        } else {
            let renamed = code[at..].trim_start().strip_prefix("as ");
            if let Some(rest) = renamed {
                at = code.len() - rest.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_').len();
            }
            paths.push(prefix.clone());
            break;
        }
    }
    prefix.truncate(depth);
    at
}

/// The module whose file defines what `path`, named in the module `from`, means: re-exports are followed.
fn defining_module(sources: &Sources, from: &[String], path: &[String], hops: usize) -> Option<Vec<String>> {
    let mut module = from.to_vec();
    let mut rest = path;
    while let [first, tail @ ..] = rest {
        match first.as_str() {
            "crate" => module.clear(),
            "super" => drop(module.pop()?),
            "self" => {}
            _ => break,
        }
        rest = tail;
    }
    while let [first, tail @ ..] = rest {
        module.push(first.clone());
        if !sources.contains_key(&module) {
            module.pop();
            break;
        }
        rest = tail;
    }
    let code = sources.get(&module)?;
    let Some(item) = rest.first().filter(|_| hops > 0) else { return Some(module) };
    for (at, _) in code.match_indices(" use ").filter(|(at, _)| is_public(&code[..*at])) {
        let mut exported = Vec::new();
        expand(&code[at + " use ".len()..], &mut Vec::new(), &mut exported);
        if let Some(path) = exported.into_iter().find(|path| path.last() == Some(item)) {
            return defining_module(sources, &module, &path, hops - 1);
        }
    }
    Some(module)
}

/// Whether what follows `before` has `pub` or `pub(…)` in front of it.
fn is_public(before: &str) -> bool {
    let line = before.rsplit('\n').next().unwrap_or_default().trim();
    line == "pub" || (line.starts_with("pub(") && line.ends_with(')'))
}

/// Groups of files that import each other. A folder's own file and the files below it count as one module.
fn circles(sources: &Sources) -> Vec<Vec<String>> {
    let imports: BTreeMap<&[String], BTreeSet<Vec<String>>> = sources
        .iter()
        .map(|(module, code)| {
            let used = named_paths(code).into_iter().filter_map(|path| defining_module(sources, module, &path, 4));
            let others = used.filter(|used| !used.starts_with(module) && !module.starts_with(used));
            (module.as_slice(), others.collect())
        })
        .collect();
    let reached = |from: &[String]| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from.to_vec()]);
        while let Some(module) = open.pop() {
            for next in imports.get(module.as_slice()).into_iter().flatten() {
                if seen.insert(next.clone()) {
                    open.push(next.clone());
                }
            }
        }
        seen
    };
    let reach: BTreeMap<&[String], BTreeSet<Vec<String>>> =
        imports.keys().map(|module| (*module, reached(module))).collect();
    let mut found = BTreeSet::new();
    for (module, reachable) in &reach {
        let back = |other: &&Vec<String>| reach.get(other.as_slice()).is_some_and(|of| of.contains(*module));
        let mut circle: Vec<String> = reachable.iter().filter(back).map(|other| other.join("::")).collect();
        if !circle.is_empty() {
            circle.push(module.join("::"));
            circle.sort();
            circle.dedup();
            found.insert(circle);
        }
    }
    found.into_iter().collect()
}

/// The sources of the crate whose modules lie in `root`. What only tests use is left out: `mod tests` ends a file.
fn crate_sources(root: &Path) -> Sources {
    let mut files = Vec::new();
    sources(root, &mut files);
    let is_test =
        |path: &Path| path.components().any(|part| matches!(part.as_os_str().to_str(), Some("tests" | "tests.rs")));
    files.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    files
        .iter()
        .map(|path| path.strip_prefix(root).expect("below the root"))
        .filter(|path| !is_test(path))
        .map(|path| {
            let text = without_comments(&fs::read_to_string(root.join(path)).expect("sources are text"));
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned();
            let mut module: Vec<String> =
                path.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
            if module.last().is_some_and(|last| matches!(last.as_str(), "mod" | "lib" | "main")) {
                module.pop();
            }
            (module, code)
        })
        .collect()
}

#[test]
fn imports_point_down() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 20, "only {} source files were found", files.len());
    let wrong: Vec<String> = files
        .iter()
        .flat_map(|path| {
            let source = fs::read_to_string(path).expect("sources are text");
            violations(path.strip_prefix(&root).expect("below src"), &source)
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_import_that_points_up_or_sideways_is_found() {
    let check = |path: &str, source: &str| violations(Path::new(path), source).len();
    assert_eq!(check("codec/png.rs", "use crate::image::Frame;"), 0);
    assert_eq!(check("codec/png.rs", "use crate::codec::probe;"), 0);
    assert_eq!(check("codec/png.rs", "use crate::http::App;"), 1);
    assert_eq!(check("codec/png.rs", "use crate::matting;"), 1, "sideways");
    assert_eq!(check("codec/png.rs", "fn f() -> crate::engine::Engine { crate::store::open() }"), 2);
    assert_eq!(check("pipeline.rs", "use crate::{codec::{self, x}, image::Frame, http::{a, b}, cli};"), 2);
    assert_eq!(check("recipe/x.rs", "macro_rules! m { () => { $crate::http::x() } }"), 1);
    assert_eq!(check("engine/mod.rs", "/// See `crate::http`.\n// crate::cli\nuse other_crate::http;"), 0);
    assert_eq!(check("lib.rs", "use crate::cli;"), 0);
    assert_eq!(check("surprise/mod.rs", ""), 1, "a new module needs a layer");
}

#[test]
fn no_source_or_test_reads_a_path_outside_of_the_repository() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let mut files = Vec::new();
    ["src", "kernels", "tests", "weights/train/tests"]
        .iter()
        .for_each(|folder| sources(&root.join(folder), &mut files));
    files.retain(|path| *path != root.join("tests/layering.rs"));
    assert!(files.len() > 100, "only {} source files were found", files.len());
    let leaves = |path: &&PathBuf| leaves_the_repository(&fs::read_to_string(path).expect("sources are text"));
    let wrong: Vec<_> = files.iter().filter(leaves).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    assert!(leaves_the_repository(r#"concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/data/eval")"#));
    assert!(!leaves_the_repository(r#"include_bytes!("../reference/fgnet/scene.u16")"#));
}

#[test]
fn every_layer_is_there() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join("src");
    for module in LAYERS.iter().flat_map(|layer| layer.iter()) {
        let (file, folder) = (root.join(format!("{module}.rs")), root.join(module));
        assert!(file.is_file() || folder.is_dir(), "{module} is in a layer but not in src");
    }
}

#[test]
fn no_files_import_each_other() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    for folder in ["src", "kernels"] {
        let sources = crate_sources(&root.join(folder));
        assert!(sources.len() > 20, "only {} modules were found in {folder}", sources.len());
        let found: Vec<String> = circles(&sources).iter().map(|circle| circle.join(" <-> ")).collect();
        assert!(found.is_empty(), "{folder}:\n{}", found.join("\n"));
    }
}

#[test]
fn files_that_import_each_other_are_found() {
    let check = |files: &[(&str, &str)]| {
        let module = |path: &str| path.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
        circles(&files.iter().map(|(path, code)| (module(path), (*code).to_owned())).collect())
    };
    let circle = |names: &[&str]| vec![names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()];
    let facade = "mod a;\nmod b;\npub use a::A;\npub(crate) use b::{B as C, D};";
    assert_eq!(check(&[("m", facade), ("m::a", "use super::b::B;"), ("m::b", "")]), Vec::<Vec<String>>::new());
    assert_eq!(
        check(&[("m", facade), ("m::a", "use super::b::B;"), ("m::b", "use super::a;")]),
        circle(&["m::a", "m::b"])
    );
    // Through the folder's own file, in a group, and by a path without `use`.
    assert_eq!(
        check(&[("m", facade), ("m::a", "use super::{x, D};"), ("m::b", "fn f() -> crate::m::A {}")]),
        circle(&["m::a", "m::b"])
    );
    assert_eq!(
        check(&[
            ("m", ""),
            ("m::a", "use super::b::X;"),
            ("m::b", "use super::c::{self, Y};"),
            ("m::c", "use super::a::Z;")
        ]),
        circle(&["m::a", "m::b", "m::c"])
    );
    // A folder's own file beside the files below it.
    assert_eq!(check(&[("m", "mod a;\nuse a::A;\nstruct S;"), ("m::a", "use super::S;")]), Vec::<Vec<String>>::new());
    assert_eq!(check(&[("m", "use crate::n::N;"), ("n", "use crate::m::M;")]), circle(&["m", "n"]));
}
