//! SECURITY.md names, threat by threat, the tests that show what it promises: each of them exists, and is no ignored one.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The tests that a text names: words of three or more parts in backticks.
fn named(text: &str) -> BTreeSet<&str> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter(|word| word.split('_').count() > 2 && word.bytes().all(is_part_of_a_name)).collect()
}

fn is_part_of_a_name(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_'
}

/// The rows of a table without its head, as cells.
fn rows(table: &str) -> Vec<Vec<&str>> {
    let rows = table.lines().filter(|line| line.starts_with("| ") && !line.contains("---")).skip(1);
    rows.map(|row| row.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
}

/// The text of a section of SECURITY.md.
fn section(heading: &str) -> &'static str {
    let (_, section) = include_str!("../SECURITY.md").split_once(heading).expect("the section");
    section.split("\n## ").next().unwrap_or_default()
}

/// Collects the names of the functions behind `#[test]` and `#[tokio::test…]` that a usual run does not ignore.
fn tests_in(folder: &Path, into: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a folder of the repository") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            tests_in(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.extend(tests_of(&fs::read_to_string(&path).expect("a source file")));
        }
    }
}

fn tests_of(source: &str) -> Vec<String> {
    let mut tests = Vec::new();
    let (mut is_test, mut is_ignored) = (false, false);
    for line in source.lines().map(str::trim) {
        is_test |= line == "#[test]" || line.starts_with("#[tokio::test");
        is_ignored |= line.starts_with("#[ignore");
        if let Some((_, rest)) = line.split_once("fn ").filter(|_| is_test && !line.starts_with('#')) {
            if !is_ignored {
                tests.push(rest.split('(').next().unwrap_or_default().to_owned());
            }
            (is_test, is_ignored) = (false, false);
        }
    }
    tests
}

#[test]
fn every_promise_names_tests_that_exist() {
    let table = section("## Which test shows it");
    let mut existing = BTreeSet::new();
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    ["src", "tests", "kernels"].iter().for_each(|folder| tests_in(&root.join(folder), &mut existing));
    let named = named(table);
    assert!(named.len() > 40, "{named:?}");
    let missing: Vec<_> = named.into_iter().filter(|name| !existing.contains(*name)).collect();
    assert!(missing.is_empty(), "SECURITY.md names tests that are not there, or ignored: {missing:?}");
}

#[test]
fn every_threat_has_rows_and_every_row_a_test() {
    let threats = rows(section("## What is protected, and from whom"));
    let threats: Vec<_> = threats.iter().map(|row| row[0].split("**").nth(1).expect("a name in bold")).collect();
    let shown = rows(section("## Which test shows it"));
    for row in &shown {
        assert!(row.last().is_some_and(|tests| !named(tests).is_empty()), "no test shows this: {row:?}");
    }
    // The first row of a threat names it; the others leave that out.
    let shown: Vec<_> = shown.iter().map(|row| row[0]).filter(|threat| !threat.is_empty()).collect();
    assert_eq!(shown, threats);
}

#[test]
fn names_and_tests_are_recognised() {
    let text = "| Bombs | `a_bomb_is_refused`, `make audit`, `open`, `decode.sandbox` |";
    assert_eq!(named(text).into_iter().collect::<Vec<_>>(), ["a_bomb_is_refused"]);
    let source = "fn helper_of_it() {}\n#[tokio::test]\nasync fn a_bomb_is_refused() {\n}\n\
        #[test]\n#[ignore = \"run by fn a\"]\nfn its_child() {}\n#[test]\nfn other() {}";
    assert_eq!(tests_of(source), ["a_bomb_is_refused", "other"]);
    let table = "| Threat | Test |\n| --- | --- |\n| **Bombs**: large | `a_bomb_is_refused` |\n| | `other` |\n";
    assert_eq!(rows(table), [["**Bombs**: large", "`a_bomb_is_refused`"], ["", "`other`"]]);
}
