//! `backdrop bulk` is resumed after kills and after signals, with the same results.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rand::Rng;

use crate::bulk::support::{Folders, assert_exit, bulk, tree, without_times};
use crate::support::tier::rounds;

const PICTURES: u32 = 900;

/// Stops a test that hangs.
const LONG: Duration = Duration::from_secs(300);

/// Runs it to its end, and checks results and report against those of an uninterrupted run.
fn finish_and_compare(folders: &Folders) {
    assert_exit(&folders.run(&[]), 0);
    let report = folders.path("uninterrupted.jsonl");
    assert_exit(&bulk(&folders.path("in"), &folders.path("uninterrupted"), &report, &[]), 0);
    let (out, uninterrupted) = (tree(&folders.path("out")), tree(&folders.path("uninterrupted")));
    assert_eq!(out.keys().collect::<Vec<_>>(), uninterrupted.keys().collect::<Vec<_>>());
    assert!(out == uninterrupted, "the results differ");
    assert_eq!(without_times(folders.rows("report.jsonl")), without_times(folders.rows("uninterrupted.jsonl")));
    assert_eq!(fs::read_dir(folders.folder.path()).unwrap().count(), 7, "other files were left");
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
    let folders = Folders::new(PICTURES);
    let report = folders.path("report.jsonl");
    let mut random = rand::rng();
    let mut killed_in_progress = 0;
    let kills = rounds(10, 60);
    for kill in 0..kills {
        let mut child = folders.command().stderr(Stdio::null()).spawn().unwrap();
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
    finish_and_compare(&folders);
}

#[cfg(unix)]
#[test]
fn a_signal_finishes_the_pictures_in_progress_and_ends_the_run() {
    use rustix::process::{Pid, Signal, kill_process};

    let folders = Folders::new(PICTURES);
    let report = folders.path("report.jsonl");
    let signal = |child: &Child, signal| kill_process(Pid::from_child(child), signal).unwrap();
    for kind in [Signal::INT, Signal::TERM] {
        let mut child = folders.command().stderr(Stdio::piped()).spawn().unwrap();
        assert!(wait_for_length(&mut child, &report, length(&report) + 1));
        signal(&child, kind);
        let output = child.wait_with_output().unwrap();
        assert_exit(&output, 1);
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(printed.contains("run the same command again"), "{printed}");
        // The report has exactly the existing results.
        assert_eq!(folders.outputs(), folders.rows("report.jsonl").into_keys().collect::<Vec<_>>());
        assert!(length(&folders.path("report.csv")) > 0);
    }
    finish_and_compare(&folders);
}
