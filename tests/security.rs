//! `security.md` names the tests of each threat in SECURITY.md. Each test exists and is not ignored.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Names of tests in a text: words of three or more parts in backticks.
fn named(text: &str) -> BTreeSet<&str> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter(|word| word.split('_').count() > 2 && word.bytes().all(is_part_of_a_name)).collect()
}

fn is_part_of_a_name(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_'
}

/// The threats of SECURITY.md: headings of the third level.
fn threats(document: &str) -> Vec<&str> {
    document.lines().filter_map(|line| line.strip_prefix("### ")).collect()
}

/// Each threat of a list, with the text after it.
fn items(list: &str) -> Vec<(&str, &str)> {
    list.split("\n- **").skip(1).map(|item| item.split_once("**:").expect("a threat, then its tests")).collect()
}

/// Collects the names of functions after `#[test]` or `#[tokio::test…]` without `#[ignore]`.
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
fn every_threat_names_tests_that_exist() {
    let mut existing = BTreeSet::new();
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    ["src", "tests", "kernels"].iter().for_each(|folder| tests_in(&root.join(folder), &mut existing));
    let items = items(include_str!("security.md"));
    let listed: Vec<_> = items.iter().map(|(threat, _)| *threat).collect();
    assert_eq!(listed, threats(include_str!("../SECURITY.md")));
    for (threat, tests) in items {
        let named = named(tests);
        assert!(!named.is_empty(), "no test shows this: {threat}");
        let missing: Vec<_> = named.into_iter().filter(|name| !existing.contains(*name)).collect();
        assert!(missing.is_empty(), "tests/security.md names tests that are not there, or ignored: {missing:?}");
    }
}

#[test]
fn names_and_tests_are_recognised() {
    let text = "| Bombs | `a_bomb_is_refused`, `make audit`, `open`, `decode.sandbox` |";
    assert_eq!(named(text).into_iter().collect::<Vec<_>>(), ["a_bomb_is_refused"]);
    let source = "fn helper_of_it() {}\n#[tokio::test]\nasync fn a_bomb_is_refused() {\n}\n\
        #[test]\n#[ignore = \"run by fn a\"]\nfn its_child() {}\n#[test]\nfn other() {}";
    assert_eq!(tests_of(source), ["a_bomb_is_refused", "other"]);
    assert_eq!(threats("## All\n### Bombs\nLarge.\n### Clips\n"), ["Bombs", "Clips"]);
    let list = "# Tests\n\n- **Bombs**: `a_bomb_is_refused`,\n  `other`.\n- **Clips**: none.\n";
    assert_eq!(items(list), [("Bombs", " `a_bomb_is_refused`,\n  `other`."), ("Clips", " none.\n")]);
}
