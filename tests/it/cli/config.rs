//! `backdrop config`: precedence of sources, and errors.

use crate::support::command::{backdrop, json, stderr, stdout};
use std::fs;

#[test]
fn the_printed_configuration_is_a_valid_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backdrop.toml");
    let first = stdout(&backdrop().arg("config").output().unwrap());
    fs::write(&file, &first).unwrap();
    let second = backdrop().args(["config", "--config"]).arg(&file).output().unwrap();
    assert_eq!(stdout(&second), first, "{}", stderr(&second));
}

#[test]
fn all_errors_are_listed_together_and_the_command_does_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backdrop.toml");
    fs::write(&file, "[server]\nlisen = '127.0.0.1:1'\n").unwrap();
    let output = backdrop()
        .args(["serve", "--listen", "nowhere", "--config"])
        .arg(&file)
        .env("BACKDROP_ENGINE_MAX_BATCH", "many")
        .env("BACKDROP_ENGINE_MODEL", "../best")
        .output()
        .unwrap();
    let printed = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{printed}");
    assert!(printed.contains("the configuration has 4 mistakes"), "{printed}");
    assert!(printed.contains("backdrop.toml:2: server.lisen: unknown field `lisen`"), "{printed}");
    assert!(printed.contains("BACKDROP_ENGINE_MAX_BATCH: engine.max_batch: "), "{printed}");
    assert!(printed.contains("BACKDROP_ENGINE_MODEL: engine.model: "), "{printed}");
    assert!(printed.contains("--listen: server.listen: "), "{printed}");
}

#[test]
fn localhost_is_an_address() {
    let run = |name: &str, value: &str| backdrop().args(["config", "--json"]).env(name, value).output().unwrap();
    assert_eq!(json(&run("BACKDROP_LISTEN", "localhost:8099"))["server"]["listen"], "127.0.0.1:8099");
    let printed = stderr(&run("BACKDROP_LISTEN", "localhost"));
    assert!(printed.contains("\"localhost\" is not an address with a port, such as 127.0.0.1:8080"), "{printed}");
}

#[test]
fn data_dir_may_follow_the_subcommand() {
    let folder = tempfile::tempdir().unwrap();
    let output = backdrop().args(["accounts", "list", "--json", "--data-dir"]).arg(folder.path()).output().unwrap();
    let printed = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{printed}");
    assert!(printed.contains(&format!("no store at {}", folder.path().display())), "{printed}");
}
