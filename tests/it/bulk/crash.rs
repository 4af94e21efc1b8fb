//! `backdrop bulk` is resumed after kills and after signals, with the same results.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use backdrop::source::StorageLocation;
use rand::Rng;

use crate::bulk::support::{assert_exit, bulk, fill, rows, tree, url, without_times};
use crate::support::command::backdrop;
use crate::support::tier::rounds;

const PICTURES: u32 = 900;

/// Stops a test that hangs.
const LONG: Duration = Duration::from_secs(300);

struct Folders {
    folder: tempfile::TempDir,
}

impl Folders {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fill(&folder.path().join("in"), PICTURES);
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn start(&self) -> Child {
        let mut command: Command = backdrop();
        command.arg("bulk").args([url(&self.path("in")), url(&self.path("out"))]);
        command.arg("--report").arg(self.path("report.jsonl"));
        command.stderr(Stdio::null()).spawn().unwrap()
    }

    fn finish(&self) {
        assert_exit(&bulk(&self.path("in"), &self.path("out"), &self.path("report.jsonl"), &[]), 0);
    }

    /// Checks results and report against those of an uninterrupted run.
    fn assert_same_as_uninterrupted(&self) {
        assert_exit(&bulk(&self.path("in"), &self.path("uninterrupted"), &self.path("uninterrupted.jsonl"), &[]), 0);
        let (out, uninterrupted) = (tree(&self.path("out")), tree(&self.path("uninterrupted")));
        assert_eq!(out.keys().collect::<Vec<_>>(), uninterrupted.keys().collect::<Vec<_>>());
        assert!(out == uninterrupted, "the results differ");
        let prefix = StorageLocation::open(&url(&self.path("in")), false).unwrap().address_prefix();
        let read = |name| without_times(rows(&self.path(name), &prefix));
        assert_eq!(read("report.jsonl"), read("uninterrupted.jsonl"));
        assert_eq!(fs::read_dir(self.folder.path()).unwrap().count(), 7, "other files were left");
    }
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}

/// Waits until the file has so many bytes; false if the process ended earlier.
fn wait_for_length(child: &mut Child, path: &Path, bytes: u64) -> bool {
    let began = Instant::now();
    while length(path) < bytes {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        assert!(began.elapsed() < LONG, "the report has stopped growing");
        std::thread::sleep(Duration::from_micros(200));
    }
    true
}

#[test]
fn a_run_killed_repeatedly_has_the_results_of_an_uninterrupted_one() {
    let folders = Folders::new();
    let report = folders.path("report.jsonl");
    let mut random = rand::rng();
    let mut killed_in_progress = 0;
    let kills = rounds(10, 60);
    for kill in 0..kills {
        let mut child = folders.start();
        if kill % 10 == 9 {
            // During start-up.
            std::thread::sleep(Duration::from_millis(random.random_range(0..400)));
        } else {
            // Within a row or between two.
            let bytes = length(&report) + random.random_range(1..12_000);
            killed_in_progress += usize::from(wait_for_length(&mut child, &report, bytes));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(killed_in_progress > kills / 2, "the run finished after {killed_in_progress} kills");
    folders.finish();
    folders.assert_same_as_uninterrupted();
}

#[cfg(unix)]
#[test]
fn a_signal_finishes_the_pictures_in_progress_and_ends_the_run() {
    use rustix::process::{Pid, Signal, kill_process};

    let folders = Folders::new();
    let report = folders.path("report.jsonl");
    let signal = |child: &Child, signal| kill_process(Pid::from_child(child), signal).unwrap();
    for kind in [Signal::INT, Signal::TERM] {
        let mut command: Command = backdrop();
        command.arg("bulk").args([url(&folders.path("in")), url(&folders.path("out"))]);
        let mut child = command.arg("--report").arg(&report).stderr(Stdio::piped()).spawn().unwrap();
        assert!(wait_for_length(&mut child, &report, length(&report) + 1));
        signal(&child, kind);
        let output = child.wait_with_output().unwrap();
        assert_exit(&output, 1);
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(printed.contains("run the same command again"), "{printed}");
        // The report has exactly the existing results.
        let prefix = StorageLocation::open(&url(&folders.path("in")), false).unwrap().address_prefix();
        let rows = rows(&report, &prefix);
        assert_eq!(tree(&folders.path("out")).into_keys().collect::<Vec<_>>(), rows.into_keys().collect::<Vec<_>>());
        assert!(length(&folders.path("report.csv")) > 0);
    }
    folders.finish();
    folders.assert_same_as_uninterrupted();
}
