//! An idle store gives space back, and nothing of it gets lost.

use std::path::Path;
use std::time::{Duration, Instant};

use backdrop::store::{self, Change, Preset, RedbStore, StateStore};
use tempfile::TempDir;

use crate::store_support::{account, apply, apply_all, preset};

const PRESETS: usize = 900;
/// Of so many one is kept, so that the pages that stay lie all over the file.
const KEPT_OF: usize = 30;
const LARGE: u64 = 8 << 20;

fn number(number: usize) -> Preset {
    let params = format!(r#"{{"text":"{}"}}"#, "x".repeat(16_000));
    Preset { params, ..preset("acme", &format!("preset_{number:05}"), &format!("name {number}")) }
}

fn kept() -> Vec<Preset> {
    (0..PRESETS).step_by(KEPT_OF).map(number).collect()
}

/// A store that once was large, and has little left in it.
pub(crate) fn hollow_store() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = RedbStore::open(&store::file_in(folder.path())).expect("a new store");
    apply(&store, account("acme")).expect("a new name");
    for changes in (0..PRESETS).collect::<Vec<_>>().chunks(100) {
        let results = apply_all(&store, changes.iter().map(|&at| Change::PutPreset { preset: number(at) }));
        assert!(results.iter().all(Result::is_ok));
    }
    let gone = (0..PRESETS).filter(|at| at % KEPT_OF != 0).map(|at| number(at).id);
    let results = apply_all(&store, gone.map(|id| Change::DeletePreset { account: "acme".into(), id }));
    assert!(results.iter().all(Result::is_ok));
    drop(store);
    folder
}

fn length(folder: &Path) -> u64 {
    std::fs::metadata(store::file_in(folder)).expect("the store is there").len()
}

/// All that [`hollow_store`] left.
pub(crate) fn assert_whole(store: &RedbStore) {
    assert_eq!(store.presets("acme", None, PRESETS).expect("the store reads"), kept());
    let report = store.check().expect("the store reads");
    assert!(report.is_sound(), "{:?}", report.findings);
}

#[test]
fn an_idle_store_shrinks_to_what_is_in_it_and_a_busy_one_does_not() {
    let folder = hollow_store();
    let before = length(folder.path());
    assert!(before > LARGE, "{before} bytes: there is nothing to shrink");

    // Closing and opening is not enough.
    drop(RedbStore::open(&store::file_in(folder.path())).expect("it was closed"));
    assert!(length(folder.path()) > LARGE);

    let idle = Duration::from_millis(20);
    let store = RedbStore::open_idling(&store::file_in(folder.path()), idle).expect("it was closed");
    let deadline = Instant::now() + Duration::from_secs(60);
    while length(folder.path()) > before / 4 {
        assert!(Instant::now() < deadline, "still {} of {before} bytes", length(folder.path()));
        std::thread::sleep(idle);
    }
    assert_whole(&store);
    // It works on.
    apply(&store, Change::PutPreset { preset: number(1) }).expect("the disk writes");
    drop(store);
    let again = RedbStore::open(&store::file_in(folder.path())).expect("it was closed");
    assert_eq!(again.preset("acme", &number(1).id).expect("the store reads"), Some(number(1)));
}
