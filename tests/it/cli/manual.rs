//! `backdrop completions` and `backdrop man`.

use crate::support::command::{backdrop, stdout};
use std::fs;

#[test]
fn completions_and_manual_pages_know_every_subcommand() {
    let help = stdout(&backdrop().arg("--help").output().unwrap());
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        // Not the second line of a description.
        .filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert!(commands.len() > 12 && commands.contains(&"watch"), "{commands:?}");
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = backdrop().args(["completions", shell]).output().unwrap();
        let script = stdout(&output);
        assert_eq!(output.status.code(), Some(0));
        for name in commands.iter().chain(&["contact-sheet"]) {
            assert!(script.contains(name), "{shell} lacks {name}");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    assert_eq!(backdrop().arg("man").arg(&pages).status().unwrap().code(), Some(0));
    let read = |name: &str| fs::read_to_string(pages.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(read("backdrop.1").contains("backdrop\\-remove(1)"));
    for name in commands {
        assert!(read(&format!("backdrop-{name}.1")).contains(".SH SYNOPSIS"));
    }
}
