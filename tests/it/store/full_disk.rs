//! The store on a full disk: a small tmpfs in a mount namespace of its own, for which Linux needs user namespaces.
//!
//! Where these are not permitted, the test fails unless `BACKDROP_TEST_SMALL_DISK=skip` is set.

#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use backdrop::store::{self, Change, ChangeError, Month, Preset, RedbStore, StateStore, UnixSeconds};

use crate::store::support::{account, apply, preset};
use crate::support::child_process::{child_command, child_input, spawn};
use crate::support::skipped;

const RESERVE: u64 = 4 << 20;
const BILLS: u64 = 200;
const NOW: UnixSeconds = UnixSeconds(1_796_000_000);
const LONG: Duration = Duration::from_secs(60);
const CHILD: &str = concat!(module_path!(), "::on_a_small_disk");

/// What the child prints at its end.
const PASSED: &str = "the store works again after the full disk";

#[test]
fn bills_are_written_on_a_full_disk_and_the_store_recovers() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let script = r#"mount -t tmpfs -o size=24m tmpfs "$1" || exit 77; shift; exec "$@""#;
    let test = child_command(CHILD);
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]).arg(folder.path());
    unshare.arg(test.get_program()).args(test.get_args());
    unshare.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output =
        spawn(&mut unshare, folder.path().to_str().expect("a plain path")).wait_with_output().expect("it ends");
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.code() == Some(77) || error.contains("unshare:") {
        #[expect(clippy::disallowed_methods, reason = "a switch of the tests, not a setting of the program")]
        let may_skip = std::env::var("BACKDROP_TEST_SMALL_DISK").is_ok_and(|value| value == "skip");
        assert!(may_skip, "no file system can be mounted; BACKDROP_TEST_SMALL_DISK=skip skips this test: {error}");
        return skipped::notice("no file system can be mounted, the full disk was NOT tested");
    }
    assert!(output.status.success() && out.contains(PASSED), "{out}\n{error}");
}

fn bill() -> Change {
    Change::Bill {
        account: "a".into(),
        month: Month::of(NOW),
        images: 1,
        microdollars: 5,
        request: None,
        by: None,
        check: None,
    }
}

fn billed(store: &RedbStore) -> u64 {
    store.load_at(NOW).expect("the store reads").usage.first().map_or(0, |(_, _, usage)| usage.images)
}

fn wait_for_fault(store: &RedbStore, is_faulty: bool) {
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
#[ignore = "run by bills_are_written_on_a_full_disk_and_the_store_recovers"]
fn on_a_small_disk() {
    let folder = child_input();
    let folder = Path::new(&folder);
    let store = RedbStore::open_with_reserve(&store::file_in(folder), RESERVE).expect("a new store");
    apply(&store, account("a")).expect("there is room");
    let filler = folder.join("filler");
    fill(&filler);

    // The reserve holds these.
    for _ in 0..BILLS {
        apply(&store, bill()).expect("there is room for bills");
    }
    assert_eq!((store.fault(), billed(&store)), (None, BILLS));
    // Until it is used up.
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
    wait_for_fault(&store, false);
    apply(&store, Change::PutPreset { preset: large(kept) }).expect("there is room again");
    apply(&store, bill()).expect("there is room again");
    assert_eq!((store.presets("a", None, 1000).expect("it reads").len(), billed(&store)), (kept + 1, BILLS + 1));
    drop(store);
    let store = RedbStore::open(&store::file_in(folder)).expect("it opens");
    assert_eq!((store.presets("a", None, 1000).expect("it reads").len(), billed(&store)), (kept + 1, BILLS + 1));
    assert!(store.check().expect("it reads").is_sound());
    println!("{PASSED}");
}
