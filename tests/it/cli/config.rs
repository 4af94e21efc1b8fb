//! `backdrop config`: where settings come from, and what becomes of mistakes.

use crate::support::command::{backdrop, json, stderr, stdout};
use std::fs;

#[test]
fn the_effective_configuration_shows_who_won() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backdrop.toml");
    fs::write(&file, "data_dir = 'file'\n[server]\nmax_connections = 7\n[limits]\nrate_per_minute = 5\n").unwrap();
    let output = backdrop()
        .args(["config", "--json", "--data-dir", "flag", "--config"])
        .arg(&file)
        .env("BACKDROP_DATA_DIR", "variable")
        .env("BACKDROP_LIMITS_RATE_PER_MINUTE", "6")
        .env("BACKDROP_LISTEN", "127.0.0.1:1")
        .output()
        .unwrap();
    let config = json(&output);
    assert_eq!(config["data_dir"], "flag");
    assert_eq!(config["limits"]["rate_per_minute"], 6);
    assert_eq!(config["server"]["max_connections"], 7);
    assert_eq!(config["server"]["listen"], "127.0.0.1:1");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn the_printed_configuration_is_itself_a_valid_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backdrop.toml");
    let first = stdout(&backdrop().arg("config").output().unwrap());
    fs::write(&file, &first).unwrap();
    let second = backdrop().args(["config", "--config"]).arg(&file).output().unwrap();
    assert_eq!(stdout(&second), first, "{}", stderr(&second));
}

#[test]
fn secrets_are_masked() {
    let output = backdrop().arg("config").env("BACKDROP_BOOTSTRAP_KEY", "bd_live_verysecret").output().unwrap();
    assert!(stdout(&output).contains("bootstrap_key = \"***\""));
    assert!(!stdout(&output).contains("verysecret") && !stderr(&output).contains("verysecret"));
}

#[test]
fn every_mistake_is_told_at_once_and_the_command_does_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backdrop.toml");
    fs::write(&file, "[server]\nlisen = '127.0.0.1:1'\n").unwrap();
    let output = backdrop()
        .args(["serve", "--listen", "nowhere", "--config"])
        .arg(&file)
        .env("BACKDROP_ENGINE_MAX_BATCH", "many")
        .env("BACKDROP_ENGINE_MODEL", "best")
        .output()
        .unwrap();
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("the configuration has 4 mistakes"), "{told}");
    assert!(told.contains("backdrop.toml: server.lisen: unknown field `lisen`"), "{told}");
    assert!(told.contains("BACKDROP_ENGINE_MAX_BATCH: engine.max_batch: "), "{told}");
    assert!(told.contains("BACKDROP_ENGINE_MODEL: engine.model: "), "{told}");
    assert!(told.contains("--listen: server.listen: "), "{told}");
}

#[test]
fn a_configuration_file_that_is_not_there_is_told() {
    let output = backdrop().args(["config", "--config", "/nowhere/backdrop.toml"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("/nowhere/backdrop.toml: cannot be read"), "{}", stderr(&output));
}

#[test]
fn the_data_folder_may_be_named_after_the_subcommand() {
    let folder = tempfile::tempdir().unwrap();
    let output = backdrop().args(["accounts", "list", "--json", "--data-dir"]).arg(folder.path()).output().unwrap();
    assert!(!stderr(&output).contains("unexpected argument"), "{}", stderr(&output));
}
