//! Compaction of an idle store shrinks its file and loses nothing, also during concurrent access.

use std::path::Path;
use std::time::Duration;

use backdrop::store::{self, Change, LookupBy, Preset, RedbStore};
use rand::Rng;
use tempfile::TempDir;

use crate::store::support::{account, apply, apply_all, preset, wait_until};

const PRESETS: usize = 900;
/// One of so many is kept, so that the kept pages are spread over the file.
const KEPT_OF: usize = 30;
const LARGE: u64 = 8 << 20;

fn number(number: usize) -> Preset {
    let params = format!(r#"{{"text":"{}"}}"#, "x".repeat(16_000));
    Preset { params, ..preset("acme", &format!("preset_{number:05}"), &format!("name {number}")) }
}

fn kept() -> Vec<Preset> {
    (0..PRESETS).step_by(KEPT_OF).map(number).collect()
}

/// A store of which most rows were deleted.
fn sparse_store() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = RedbStore::open(&store::file_in(folder.path())).expect("a new store");
    apply(&store, account("acme")).expect("a new name");
    for changes in (0..PRESETS).collect::<Vec<_>>().chunks(100) {
        let results = apply_all(&store, changes.iter().map(|&at| Change::PutPreset { preset: number(at) }));
        assert!(results.iter().all(Result::is_ok));
    }
    let deleted = (0..PRESETS).filter(|at| at % KEPT_OF != 0).map(|at| number(at).id);
    let results = apply_all(&store, deleted.map(|id| Change::DeletePreset { account: "acme".into(), id }));
    assert!(results.iter().all(Result::is_ok));
    drop(store);
    folder
}

fn length(folder: &Path) -> u64 {
    std::fs::metadata(store::file_in(folder)).expect("the store is there").len()
}

/// All rows of [`sparse_store`] are there.
fn assert_whole(store: &RedbStore) {
    assert_eq!(store.presets("acme", None, PRESETS).expect("the store reads"), kept());
    let report = store.check().expect("the store reads");
    assert!(report.is_sound(), "{:?}", report.findings);
}

#[test]
fn an_idle_store_is_compacted() {
    let folder = sparse_store();
    let before = length(folder.path());
    assert!(before > LARGE, "{before} bytes: there is nothing to shrink");

    // Not by closing and opening alone.
    drop(RedbStore::open(&store::file_in(folder.path())).expect("it was closed"));
    assert!(length(folder.path()) > LARGE);

    let idle = Duration::from_millis(20);
    let store = RedbStore::open_with_idle(&store::file_in(folder.path()), idle).expect("it was closed");
    wait_until(|| length(folder.path()) <= before / 4);
    assert_whole(&store);
    // It remains usable.
    apply(&store, Change::PutPreset { preset: number(1) }).expect("the disk writes");
    drop(store);
    let again = RedbStore::open(&store::file_in(folder.path())).expect("it was closed");
    assert_eq!(again.preset("acme", &number(1).id, LookupBy::Id).expect("the store reads"), Some(number(1)));
}

#[test]
fn concurrent_writers_and_readers_lose_nothing_to_compaction() {
    const WRITERS: usize = 3;
    const TURNS: usize = 60;
    let folder = sparse_store();
    let before = length(folder.path());
    let store =
        RedbStore::open_with_idle(&store::file_in(folder.path()), Duration::from_millis(1)).expect("it was closed");
    std::thread::scope(|threads| {
        for writer in 0..WRITERS {
            let store = &store;
            threads.spawn(move || {
                for turn in 0..TURNS {
                    // Long enough for the store to think that missing comes any more, sometimes.
                    std::thread::sleep(Duration::from_micros(rand::rng().random_range(0..4000)));
                    let name = format!("writer_{writer}_{turn:03}");
                    let preset = Preset { params: number(turn).params, ..preset("acme", &name, &name) };
                    apply(store, Change::PutPreset { preset: preset.clone() }).expect("the disk writes");
                    assert_eq!(store.preset("acme", &name, LookupBy::Id).expect("the store reads"), Some(preset));
                    if turn % 2 == 0 {
                        apply(store, Change::DeletePreset { account: "acme".into(), id: name }).expect("it is there");
                    }
                }
            });
        }
    });
    // Without a compaction nothing was tested.
    wait_until(|| length(folder.path()) < before);
    let found = store.presets("acme", None, PRESETS).expect("the store reads");
    let written = found.iter().filter(|preset| preset.id.starts_with("writer_"));
    assert_eq!(written.count(), WRITERS * TURNS / 2);
    assert!(found.iter().filter(|preset| preset.id.starts_with("preset_")).eq(&kept()));
    let report = store.check().expect("the store reads");
    assert!(report.is_sound(), "{:?}", report.findings);
}
