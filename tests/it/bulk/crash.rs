//! `backdrop bulk` is killed, or asked to stop, and begun again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use backdrop::source::StorageLocation;
use rand::Rng;

use crate::bulk::support::{bulk, ended, fill, rows, tree, url, without_times};
use crate::support::command::backdrop;
use crate::support::tier::rounds;

const PICTURES: u32 = 900;

/// Nothing here takes so long.
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
        ended(&bulk(&self.path("in"), &self.path("out"), &self.path("report.jsonl"), &[]), 0);
    }

    fn is_as_undisturbed(&self) {
        ended(&bulk(&self.path("in"), &self.path("calm"), &self.path("calm.jsonl"), &[]), 0);
        let (out, calm) = (tree(&self.path("out")), tree(&self.path("calm")));
        assert_eq!(out.keys().collect::<Vec<_>>(), calm.keys().collect::<Vec<_>>());
        assert!(out == calm, "the results differ");
        let prefix = StorageLocation::open(&url(&self.path("in")), false).unwrap().address_prefix();
        let read = |name| without_times(rows(&self.path(name), &prefix));
        assert_eq!(read("report.jsonl"), read("calm.jsonl"));
        assert_eq!(fs::read_dir(self.folder.path()).unwrap().count(), 7, "something was left behind");
    }
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}

/// Waits until the file has so many bytes; false when the process ended before.
fn grown(child: &mut Child, path: &Path, bytes: u64) -> bool {
    let began = Instant::now();
    while length(path) < bytes {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        assert!(began.elapsed() < LONG, "the report does not grow");
        std::thread::sleep(Duration::from_micros(200));
    }
    true
}

#[test]
fn a_run_that_was_killed_again_and_again_ends_as_one_that_was_not() {
    let folders = Folders::new();
    let report = folders.path("report.jsonl");
    let mut random = rand::rng();
    let mut in_the_middle = 0;
    let kills = rounds(10, 60);
    for kill in 0..kills {
        let mut child = folders.start();
        if kill % 10 == 9 {
            // While it starts.
            std::thread::sleep(Duration::from_millis(random.random_range(0..400)));
        } else {
            // Somewhere in a row, or between two.
            let bytes = length(&report) + random.random_range(1..12_000);
            in_the_middle += usize::from(grown(&mut child, &report, bytes));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(in_the_middle > kills / 2, "it was done after {in_the_middle} kills");
    folders.finish();
    folders.is_as_undisturbed();
}

#[cfg(unix)]
#[test]
fn a_signal_drains_and_a_second_one_ends() {
    use rustix::process::{Pid, Signal, kill_process};

    let folders = Folders::new();
    let report = folders.path("report.jsonl");
    let signal = |child: &Child, signal| kill_process(Pid::from_child(child), signal).unwrap();
    for kind in [Signal::INT, Signal::TERM] {
        let mut command: Command = backdrop();
        command.arg("bulk").args([url(&folders.path("in")), url(&folders.path("out"))]);
        let mut child = command.arg("--report").arg(&report).stderr(Stdio::piped()).spawn().unwrap();
        assert!(grown(&mut child, &report, length(&report) + 1));
        signal(&child, kind);
        let output = child.wait_with_output().unwrap();
        ended(&output, 1);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(told.contains("run the same command again"), "{told}");
        // Every result that is there is in the report, and the other way round.
        let prefix = StorageLocation::open(&url(&folders.path("in")), false).unwrap().address_prefix();
        let rows = rows(&report, &prefix);
        assert_eq!(tree(&folders.path("out")).into_keys().collect::<Vec<_>>(), rows.into_keys().collect::<Vec<_>>());
        assert!(length(&folders.path("report.csv")) > 0);
    }
    folders.finish();
    folders.is_as_undisturbed();
}
