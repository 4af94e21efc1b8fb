//! `backdrop watch`: files as they appear, changes, failures, the end by a signal.

use crate::support::command::{backdrop, photo};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};

struct Watch {
    child: Child,
    results: BufReader<ChildStdout>,
    messages: BufReader<ChildStderr>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Watch {
    /// Starts a watch of `root/in` into `root/in/out` and waits until it watches.
    fn start(root: &Path) -> Self {
        Self::start_with(root, "max_dim=64")
    }

    fn start_with(root: &Path, field: &str) -> Self {
        let (input, output) = (root.join("in"), root.join("in/out"));
        fs::create_dir_all(&input).unwrap();
        let mut child = backdrop()
            .arg("watch")
            .args([&input, &output])
            .args(["--json", "--set", "format=webp", "--set", field])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut messages = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("Watching") {
            assert_ne!(messages.read_line(&mut line).unwrap(), 0, "{line}");
        }
        let results = BufReader::new(child.stdout.take().unwrap());
        Self { child, results, messages }
    }

    /// The next outcome: status, input and error.
    fn next(&mut self) -> (String, PathBuf, String) {
        let mut line = String::new();
        self.results.read_line(&mut line).unwrap();
        let entry: serde_json::Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("no outcome: {line:?}"));
        let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        (text("status"), text("input").into(), text("error"))
    }

    /// Sends SIGINT; returns the rest of the messages and the exit code.
    fn end(mut self) -> (String, Option<i32>) {
        assert!(Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().unwrap().success());
        let mut messages = String::new();
        self.messages.read_to_string(&mut messages).unwrap();
        (messages, self.child.wait().unwrap().code())
    }
}

fn is_webp(path: &Path) -> bool {
    fs::read(path).unwrap().get(8..12) == Some(b"WEBP")
}

#[test]
fn pictures_are_processed_as_they_appear_and_once() {
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str| root.path().join("in").join(path);
    fs::create_dir_all(at("old")).unwrap();
    fs::copy(photo("coffee.jpg"), at("old/cup.jpg")).unwrap();
    let mut watch = Watch::start(root.path());
    assert_eq!(watch.next().1, at("old/cup.jpg").canonicalize().unwrap());
    assert!(is_webp(&at("out/old/cup.webp")));

    // Written in two pieces: it is not complete before it is closed.
    let bytes = fs::read(photo("chelsea.png")).unwrap();
    let mut slow = fs::File::create(at("cat.png")).unwrap();
    slow.write_all(&bytes[..bytes.len() / 2]).unwrap();
    // Moved into place, in a folder that is moved too.
    let elsewhere = root.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::copy(photo("coffee.jpg"), elsewhere.join("moved.jpg")).unwrap();
    fs::rename(&elsewhere, at("new")).unwrap();
    let (status, input, error) = watch.next();
    assert_eq!((status.as_str(), input.file_name().unwrap().to_str()), ("done", Some("moved.jpg")), "{error}");
    slow.write_all(&bytes[bytes.len() / 2..]).unwrap();
    drop(slow);
    let (status, input, error) = watch.next();
    assert_eq!((status.as_str(), input.file_name().unwrap().to_str()), ("done", Some("cat.png")), "{error}");
    assert!(is_webp(&at("out/cat.webp")) && is_webp(&at("out/new/moved.webp")));

    // A broken file fails alone; replaced by a whole one it is processed.
    fs::write(at("late.jpg"), b"\xff\xd8\xff\xe0 not a picture").unwrap();
    let (status, input, error) = watch.next();
    assert_eq!((status.as_str(), input.file_name().unwrap().to_str()), ("failed", Some("late.jpg")));
    assert!(!error.is_empty() && !at("out/late.webp").exists());
    fs::copy(photo("coffee.jpg"), at("late.jpg")).unwrap();
    // An attempt at the broken one may still come in between.
    while watch.next().0 != "done" {}
    assert!(is_webp(&at("out/late.webp")));

    fs::copy(photo("coffee.jpg"), at("cat.jpg")).unwrap();
    let (status, _, error) = watch.next();
    assert!(status == "failed" && error.contains("cat.png"), "{error}");
    let (messages, code) = watch.end();
    assert_eq!(code, Some(1), "{messages}");
    assert!(
        messages.contains("4 done, 0 already done, 1 failed") && messages.contains("cat.jpg: its result"),
        "{messages}"
    );
    let parts =
        |path: &Path| fs::read_dir(path).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_file()).count();
    assert_eq!(parts(&at("out")), 3, "two results and the parameters; no temporary files");

    // A later run continues: what is done is skipped.
    fs::remove_file(at("cat.jpg")).unwrap();
    fs::copy(photo("coffee.jpg"), at("zebra.jpg")).unwrap();
    let mut watch = Watch::start(root.path());
    assert_eq!(watch.next().1.file_name().unwrap(), "zebra.jpg");
    let (messages, code) = watch.end();
    assert_eq!(code, Some(0), "{messages}");
    assert!(messages.contains("1 done, 4 already done, 0 failed"), "{messages}");

    // With other parameters it makes the results again.
    let mut watch = Watch::start_with(root.path(), "max_dim=32");
    assert!((0..5).all(|_| watch.next().0 == "done"));
    let (messages, _) = watch.end();
    assert!(messages.contains("5 done, 0 already done, 0 failed"), "{messages}");
}

#[test]
fn results_in_the_watched_folder_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let output = backdrop().arg("watch").args([root.path(), root.path()]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("another folder"));
}
