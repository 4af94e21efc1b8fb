//! The binary with ffmpeg: a job survives a restart of the daemon.

#![cfg(unix)]

use crate::cli::serve::Running;
use reqwest::multipart::{Form, Part};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Stops a test that hangs.
const LONG: Duration = Duration::from_secs(300);

/// Three seconds of moving shapes with a tone, at ten frames a second.
pub(crate) fn clip(folder: &Path) -> Vec<u8> {
    let file = folder.join("clip.mp4");
    let sources = ["-f", "lavfi", "-i", "testsrc2=size=160x96:rate=10", "-f", "lavfi", "-i", "sine=frequency=440"];
    let made = Command::new("ffmpeg").args(["-v", "error", "-y"]).args(sources).args(["-t", "3"]).arg(&file).status();
    assert!(made.expect("ffmpeg is installed").success());
    std::fs::read(file).expect("it was made")
}

/// Polls until the job is in the expected state.
async fn until(running: &Running, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let began = Instant::now();
    loop {
        let job = running.get(path).await;
        if holds(&job) {
            return job;
        }
        assert!(began.elapsed() < LONG && job["status"] != "error", "still waiting: {job}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn a_job_survives_a_restart_of_the_daemon_and_finishes() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let rate = [("BACKDROP_LIMITS_RATE_PER_MINUTE", "100000")];
    let mut first = Running::start(&data, &rate);
    let form = Form::new().part("file", Part::bytes(clip(folder.path())).file_name("clip.mp4"));
    let post = first.post("/video/remove").multipart(form);
    let job: Value = post.send().await.expect("an answer").json().await.expect("JSON");
    let path = job["status_url"].as_str().unwrap_or_else(|| panic!("{job}")).to_owned();
    until(&first, &path, |job| job["status"] != "queued").await;
    first.daemon.signal("TERM");
    assert_eq!(first.daemon.0.wait().expect("it ends").code(), Some(0));

    let second = Running::start(&data, &rate);
    let done = until(&second, &path, |job| job["status"] == "done").await;
    assert_eq!(
        (&done["progress"], &done["output_seconds"], &done["format"]),
        (&100.into(), &3.0.into(), &"webm".into())
    );
    let result = second.client.get(done["result_url"].as_str().expect("an address")).send().await.expect("an answer");
    assert_eq!((result.status().as_u16(), &result.headers()["content-type"]), (200, &"video/webm".parse().unwrap()));
    let result = result.bytes().await.expect("a body");
    assert_eq!(Some(result.len() as u64), done["size_bytes"].as_u64());
    assert!(result.starts_with(&[0x1A, 0x45, 0xDF, 0xA3]), "Matroska");
    // After so many requests the rate limit may answer first.
    let account = until(&second, "/account", |account| account["used"].is_u64()).await;
    assert_eq!((&account["used"], &account["cost_usd"]), (&3.into(), &0.15.into()));
}
