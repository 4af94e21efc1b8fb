//! Imports between folders point to lower layers: the layers of `src/lib.rs` and of `src/http`, checked by reading the sources.
//! Imports within a folder are free. `kernels` is a separate crate, which the compiler keeps independent.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Lowest first. A module may use itself and the modules of the lines above.
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

/// The folders of `src/http`, lowest first. A folder may use its own line and the lines above; files directly in `src/http` are free.
const HTTP: &[&[&str]] =
    &[&["config", "reply"], &["connection"], &["admission", "request"], &["routes"], &["compat", "contract", "page"]];

fn layer_of(layers: &[&[&str]], module: &str) -> Option<usize> {
    layers.iter().position(|layer| layer.contains(&module))
}

/// The modules below `root` (`crate::`) that a source text names: `crate::module::…` and `crate::{a::…, b::…}`.
fn used_modules(source: &str, root: &str) -> BTreeSet<String> {
    let code = without_comments(source);
    let mut used = BTreeSet::new();
    for (at, _) in code.match_indices(root) {
        // `$crate::` in a macro means this crate; `my_crate::` does not.
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let rest = code[at + root.len()..].trim_start();
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

/// Sufficient for `crate::` paths: a string that contains `//` loses its tail, which names no module.
fn without_comments(source: &str) -> String {
    source.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The module of a file; `None` for the roots, which may import all modules.
fn module_of(path: &Path) -> Option<String> {
    let first = path.components().next()?.as_os_str().to_str()?;
    let name = first.strip_suffix(".rs").unwrap_or(first);
    (!matches!(name, "lib" | "main")).then(|| name.to_owned())
}

/// Forbidden imports of a file.
fn violations(path: &Path, source: &str) -> Vec<String> {
    let Some(module) = module_of(path) else { return Vec::new() };
    let Some(own) = layer_of(LAYERS, &module) else {
        return vec![format!("{}: module {module} is in no layer", path.display())];
    };
    let is_above = |used: &String| *used != module && layer_of(LAYERS, used).is_some_and(|layer| layer >= own);
    let mut wrong: Vec<String> = used_modules(source, "crate::").into_iter().filter(is_above).collect();
    let folder = path.strip_prefix("http").ok().and_then(Path::parent).and_then(module_of);
    if let Some(own) = folder.and_then(|folder| layer_of(HTTP, &folder)) {
        let is_above = |used: &String| layer_of(HTTP, used).is_some_and(|layer| layer > own);
        wrong.extend(used_modules(source, "crate::http::").into_iter().filter(is_above));
    }
    wrong.into_iter().map(|used| format!("{}: uses {used}, which is not below it", path.display())).collect()
}

/// Whether a source text names a path outside of the repository.
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
    assert_eq!(check("http/request/form.rs", "use crate::http::{admission::x, connection, state::ApiState};"), 0);
    assert_eq!(check("http/request/form.rs", "use crate::http::{reply, routes::image};"), 1, "a folder above");
    assert_eq!(check("http/state.rs", "use crate::http::routes;"), 0, "a file beside the folders");
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
    for (layers, root) in [(LAYERS, root.clone()), (HTTP, root.join("http"))] {
        for module in layers.concat() {
            let is_there = root.join(module).is_dir() || root.join(format!("{module}.rs")).is_file();
            assert!(is_there, "{module} is in a layer but not in {}", root.display());
        }
    }
}
