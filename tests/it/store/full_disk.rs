//! The store on a file system that really fills up: a small tmpfs in a mount namespace of its own.

#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use backdrop::store::{self, Change, ChangeError, Month, Preset, RedbStore, StateStore, UnixSeconds};

use crate::store::support::{account, apply, preset};

const RESERVE: u64 = 4 << 20;
const BILLS: u64 = 200;
const NOW: UnixSeconds = UnixSeconds(1_796_000_000);
const LONG: Duration = Duration::from_secs(60);
const CHILD: &str = "store_full_disk::on_a_small_disk";

/// What the child prints at its end.
const PASSED: &str = "the store outlived the full disk";

#[test]
fn bills_are_written_on_a_full_disk_and_the_store_outlives_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let script = r#"mount -t tmpfs -o size=24m tmpfs "$1" || exit 77; exec "$2" --ignored --exact --nocapture "$3""#;
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]).arg(folder.path());
    unshare.arg(std::env::current_exe().expect("this test binary")).arg(CHILD);
    let output = unshare.env("BACKDROP_TEST_SMALL_DISK", folder.path()).output();
    let Ok(output) = output else { return eprintln!("SKIPPED: there is no `unshare`") };
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.code() == Some(77) || error.contains("unshare failed") || error.contains("unshare:") {
        return eprintln!("SKIPPED: no file system can be mounted here: {error}");
    }
    assert!(output.status.success() && out.contains(PASSED), "{out}\n{error}");
}

fn bill() -> Change {
    Change::Bill { account: "a".into(), month: Month::of(NOW), images: 1, microdollars: 5, request: None, by: None }
}

fn billed(store: &RedbStore) -> u64 {
    store.load_at(NOW).expect("the store reads").usage.first().map_or(0, |(_, _, usage)| usage.images)
}

fn until_faulty(store: &RedbStore, is_faulty: bool) {
    let deadline = Instant::now() + LONG;
    while store.fault().is_some() != is_faulty {
        assert!(Instant::now() < deadline, "{:?}", store.fault());
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn fill(path: &Path) {
    let mut file = File::create(path).expect("a writable folder");
    loop {
        match file.write_all(&[1; 4096]) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::StorageFull => return,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
#[ignore = "the process that the other test of this file starts on a small disk"]
#[expect(clippy::disallowed_methods, reason = "no setting of the program")]
fn on_a_small_disk() {
    let Some(folder) = std::env::var_os("BACKDROP_TEST_SMALL_DISK") else { return };
    let folder = Path::new(&folder);
    let store = RedbStore::open_with_reserve(&store::file_in(folder), RESERVE).expect("a new store");
    apply(&store, account("a")).expect("there is room");
    let filler = folder.join("filler");
    fill(&filler);

    // What was allocated ahead is the store's.
    for _ in 0..BILLS {
        apply(&store, bill()).expect("there is room for bills");
    }
    assert_eq!((store.fault(), billed(&store)), (None, BILLS));
    // It is used up.
    let large = |number: usize| Preset {
        params: format!(r#"{{"text":"{}"}}"#, "x".repeat(64 << 10)),
        ..preset("a", &format!("preset_{number}"), &number.to_string())
    };
    let mut kept = 0;
    let refused = loop {
        match apply(&store, Change::PutPreset { preset: large(kept) }) {
            Ok(_) => kept += 1,
            Err(error) => break error,
        }
        assert!(kept < 1000, "the disk is never full");
    };
    assert!(matches!(refused, ChangeError::Unavailable(_)), "{refused}");
    assert_eq!(store.presets("a", None, 1000).expect("it reads").len(), kept);

    fs::remove_file(&filler).expect("it is there");
    until_faulty(&store, false);
    apply(&store, Change::PutPreset { preset: large(kept) }).expect("there is room again");
    apply(&store, bill()).expect("there is room again");
    assert_eq!((store.presets("a", None, 1000).expect("it reads").len(), billed(&store)), (kept + 1, BILLS + 1));
    drop(store);
    let store = RedbStore::open(&store::file_in(folder)).expect("it opens");
    assert_eq!((store.presets("a", None, 1000).expect("it reads").len(), billed(&store)), (kept + 1, BILLS + 1));
    assert!(store.check().expect("it reads").is_sound());
    println!("{PASSED}");
}
