//! Standard error that nothing reads any more: commands and the daemon continue without their log.

use crate::bulk::support::{fill, rows_below, tree, url};
use crate::cli::serve::{Daemon, KEY};
use crate::support::command::{backdrop, http_client, photo};
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// A pipe whose reader has ended.
fn closed_pipe() -> Stdio {
    let (_reader, writer) = std::io::pipe().expect("a pipe");
    writer.into()
}

fn code(command: &mut Command) -> Option<i32> {
    command.stdout(Stdio::null()).stderr(closed_pipe()).status().expect("the binary runs").code()
}

#[tokio::test]
async fn a_daemon_without_a_reader_of_its_log_answers_and_drains() {
    let folder = tempfile::tempdir().unwrap();
    let mut daemon = Daemon::start_with(folder.path(), &[("BACKDROP_BOOTSTRAP_KEY", KEY)]);
    let lines = BufReader::new(daemon.0.stderr.take().expect("piped")).lines();
    let listening = lines.map_while(Result::ok).find(|line| line.contains("\"listening\"")).expect("it listens");
    // From here on the pipe is closed.
    let event: serde_json::Value = serde_json::from_str(&listening).expect("a JSON line");
    let address = event["fields"]["address"].as_str().expect("an address").to_owned();
    let client = http_client().build().expect("a client");
    let request = client.post(format!("http://{address}/remove?max_dim=64")).bearer_auth(KEY);
    let request = request.header("content-type", "image/jpeg").body(fs::read(photo("coffee.jpg")).unwrap());
    assert_eq!(request.send().await.expect("an answer").status(), 200);
    daemon.drain();
}

#[test]
fn a_batch_is_finished_and_failures_keep_their_exit_codes() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fill(&path("in"), 12);
    fs::write(path("in/broken.jpg"), b"\xff\xd8\xff").unwrap();
    let bulk = [url(&path("in")), url(&path("out"))];
    assert_eq!(code(backdrop().arg("bulk").args(bulk).arg("--report").arg(path("report.jsonl"))), Some(1));
    assert_eq!(tree(&path("out")).len(), 12);
    assert_eq!(rows_below(&path("report.jsonl"), &path("in")).len(), 13);

    let pictures = [path("in/set 0/0000.png"), path("in/broken.jpg"), path("in/set 1/0001.png")];
    assert_eq!(code(backdrop().arg("remove").args(pictures).arg("-o").arg(path("removed"))), Some(1));
    assert_eq!(tree(&path("removed")).len(), 2);
    assert_eq!(code(backdrop().args(["config", "--config", "/nowhere/backdrop.toml"])), Some(2));
}
