//! The lock files of the program and of the fuzz targets: every crate comes from crates.io, is pinned by a checksum, and is
//! one that the manifests need.
//!
//! Needs no network, so it holds on every machine; `make audit` checks advisories and licences as well, of the program's lock
//! file, in which those of the fuzz targets are.

use std::collections::{BTreeMap, BTreeSet};
use toml::Value;

/// The source of every crate but our own.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";
/// The crates of this repository, in the lock file of the program and in that of the fuzz targets.
const OWN: [&str; 3] = ["backdrop", "backdrop-kernels", "backdrop-tests"];
const OWN_OF_FUZZ: [&str; 3] = ["backdrop", "backdrop-fuzz", "backdrop-kernels"];

fn packages(text: &str) -> Vec<Value> {
    let lock: Value = toml::from_str(text).expect("the lock file is TOML");
    lock["package"].as_array().expect("a list of packages").clone()
}

fn field(package: &Value, name: &str) -> String {
    package.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// What is wrong with a lock file of the crates `own` and what they need.
fn mistakes(text: &str, own: &[&str]) -> Vec<String> {
    let packages = packages(text);
    let mut mistakes = Vec::new();
    // What a dependency may be called in the file: the name alone, or with its version where there are several.
    let mut needs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in &packages {
        let [name, version, source, checksum] =
            ["name", "version", "source", "checksum"].map(|key| field(package, key));
        if own.contains(&name.as_str()) {
            if !source.is_empty() {
                mistakes.push(format!("{name} {version} is from {source}, and not from this repository"));
            }
        } else if source != REGISTRY {
            let source = if source.is_empty() { "a path" } else { &source };
            mistakes.push(format!("{name} {version} is from {source}"));
        } else if checksum.len() != 64 || !checksum.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            mistakes.push(format!("{name} {version} has no checksum"));
        }
        let listed = package.get("dependencies").and_then(Value::as_array).into_iter().flatten();
        let listed = listed.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>();
        for key in [name.clone(), format!("{name} {version}")] {
            needs.entry(key).or_default().extend(listed.iter().cloned());
        }
    }
    let mut reached = BTreeSet::new();
    let mut waiting: Vec<String> = own.iter().map(|&name| name.to_owned()).collect();
    while let Some(name) = waiting.pop() {
        match needs.get(&name) {
            None => mistakes.push(format!("{name} is needed and not locked")),
            Some(more) if reached.insert(name) => waiting.extend(more.iter().cloned()),
            Some(_) => {}
        }
    }
    for package in &packages {
        let (name, version) = (field(package, "name"), field(package, "version"));
        if !reached.contains(&name) && !reached.contains(&format!("{name} {version}")) {
            mistakes.push(format!("{name} {version} is locked, and nothing needs it"));
        }
    }
    mistakes
}

#[test]
fn every_crate_is_pinned_comes_from_the_registry_and_is_needed() {
    for (text, own) in
        [(include_str!("../Cargo.lock"), &OWN[..]), (include_str!("../fuzz/Cargo.lock"), &OWN_OF_FUZZ[..])]
    {
        let wrong = mistakes(text, own);
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

#[test]
fn the_fuzz_targets_have_the_crates_of_the_program() {
    let key = |package: &Value| ["name", "version", "checksum"].map(|key| field(package, key));
    let program: BTreeSet<_> = packages(include_str!("../Cargo.lock")).iter().map(key).collect();
    for package in packages(include_str!("../fuzz/Cargo.lock")) {
        let [name, version, _] = key(&package);
        // To mend it: cargo update --manifest-path fuzz/Cargo.toml --precise VERSION NAME.
        let is_own = OWN_OF_FUZZ.contains(&name.as_str());
        assert!(is_own || program.contains(&key(&package)), "{name} {version} is not in the program's lock file");
    }
}

#[test]
fn a_crate_of_another_source_without_checksum_or_use_is_found() {
    let sum = "0123456789abcdef".repeat(4);
    let own = |needs: &str| format!("[[package]]\nname = 'backdrop'\nversion = '1.0.0'\ndependencies = [{needs}]\n");
    let kernels = "[[package]]\nname = 'backdrop-kernels'\nversion = '1.0.0'\n";
    let crate_of = |name: &str, source: &str, checksum: &str| {
        format!("[[package]]\nname = '{name}'\nversion = '2.0.0'\nsource = '{source}'\nchecksum = '{checksum}'\n")
    };
    let lock = |needs: &str, package: &str| mistakes(&format!("{}{kernels}{package}", own(needs)), &OWN[..2]);
    assert_eq!(lock("'a'", &crate_of("a", REGISTRY, &sum)), [""; 0]);
    assert_eq!(lock("'a 2.0.0'", &crate_of("a", REGISTRY, &sum)), [""; 0]);
    assert_eq!(
        lock("'a'", &crate_of("a", "git+https://example.org/a", &sum)),
        ["a 2.0.0 is from git+https://example.org/a"]
    );
    assert_eq!(lock("'a'", "[[package]]\nname = 'a'\nversion = '2.0.0'\n"), ["a 2.0.0 is from a path"]);
    assert_eq!(lock("'a'", &crate_of("a", REGISTRY, "")), ["a 2.0.0 has no checksum"]);
    assert_eq!(lock("", &crate_of("a", REGISTRY, &sum)), ["a 2.0.0 is locked, and nothing needs it"]);
    assert_eq!(lock("'b'", ""), ["b is needed and not locked"]);
}
