//! `backdrop doctor` and `backdrop health`.

use crate::support::command::{backdrop, json, stderr, stdout};
use crate::support::postgres::{Server, name_of};
use std::collections::BTreeMap;

/// The status of each check by name, and the exit code.
fn statuses(variables: &[(&str, &str)]) -> (BTreeMap<String, String>, Option<i32>) {
    let folder = tempfile::tempdir().unwrap();
    let output = backdrop()
        .args(["doctor", "--json", "--data-dir"])
        .arg(folder.path().join("data"))
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let report = json(&output);
    let text = |check: &serde_json::Value, field: &str| check[field].as_str().expect(field).to_owned();
    for check in report["checks"].as_array().unwrap() {
        assert_eq!(check["remedy"].is_string(), check["status"] != "ok", "{check}");
    }
    let checks = report["checks"].as_array().unwrap().iter();
    (checks.map(|check| (text(check, "name"), text(check, "status"))).collect(), output.status.code())
}

#[test]
fn a_machine_that_cuts_out_passes_and_each_fault_is_named() {
    let (checks, code) = statuses(&[]);
    assert_eq!(code, Some(0), "{checks:?}");
    for name in ["configuration", "network", "data directory", "store", "clips"] {
        assert_eq!(checks[name], "ok", "{checks:?}");
    }
    assert_eq!(checks["heic"], if cfg!(feature = "heic") { "ok" } else { "warning" });
    assert!(["processor", "open files", "memory", "certificates"].iter().all(|name| checks.contains_key(*name)));

    let (checks, code) = statuses(&[
        ("BACKDROP_VIDEO_FFMPEG", "/nowhere/ffmpeg"),
        ("SSL_CERT_FILE", "/dev/null"),
        ("SSL_CERT_DIR", "/nowhere"),
    ]);
    assert_eq!((checks["clips"].as_str(), checks["certificates"].as_str(), code), ("warning", "warning", Some(0)));

    let (checks, code) = statuses(&[("BACKDROP_DEVICE", "no-such-adapter"), ("BACKDROP_DATA_DIR", "/ignored")]);
    assert_eq!((checks["network"].as_str(), checks["clips"].as_str(), code), ("failed", "ok", Some(1)));
}

#[test]
fn an_empty_database_is_reached_and_not_changed() {
    let Some(server) = Server::start() else { return };
    let url = server.database();
    let (checks, _) = statuses(&[("BACKDROP_STORE_URL", &url), ("BACKDROP_JOBS_RESULTS", "file:///nowhere")]);
    assert_eq!(checks["store"], "ok");
    assert_eq!(server.sql(name_of(&url), "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").trim(), "0");
}

#[test]
fn a_wrong_setting_is_reported_as_text_with_a_remedy() {
    let output = backdrop().arg("doctor").env("BACKDROP_ENGINE_MAX_BATCH", "0").output().unwrap();
    let printed = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(
        printed.starts_with("FAILED   configuration") && printed.contains("BACKDROP_ENGINE_MAX_BATCH"),
        "{printed}"
    );
    assert!(printed.contains("→ correct it"), "{printed}");
}

#[test]
fn health_without_a_daemon_fails() {
    let folder = tempfile::tempdir().unwrap();
    let output = backdrop().args(["health", "--data-dir"]).arg(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no daemon uses"), "{}", stderr(&output));
}
