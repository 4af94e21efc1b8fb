//! The store on a full disk.

#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;

use backdrop::store::{self, Bill, Change, ChangeError, Month, Preset, RedbStore, StateStore, UnixSeconds};

use crate::store::backend::{ContractStore, FileStore};
use crate::store::support::{account, apply, preset, wait_until};
use crate::support::child_process::child_input;
use crate::support::small_disk;

const NOW: UnixSeconds = UnixSeconds(1_796_000_000);
const CHILD: &str = concat!(module_path!(), "::on_a_small_disk");

/// What the child prints at its end.
const PASSED: &str = "the store works again after the full disk";

#[test]
fn the_store_recovers_from_a_full_disk_with_what_it_acknowledged() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(output) = small_disk::run(CHILD, 24, folder.path()) else { return };
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains(PASSED), "{out}\n{error}");
}

fn bill() -> Change {
    Change::Bill(Bill {
        account: "a".into(),
        month: Month::of(NOW),
        images: 1,
        microdollars: 5,
        request: None,
        by: None,
    })
}

fn presets(store: &FileStore) -> usize {
    store.wait(store.store().presets("a", None, 1000)).expect("it reads").len()
}

fn billed(store: &RedbStore) -> u64 {
    store.load_at(NOW).expect("the store reads").usage.first().map_or(0, |(_, _, usage)| usage.images)
}

#[test]
#[ignore = "run by the_store_recovers_from_a_full_disk_with_what_it_acknowledged"]
fn on_a_small_disk() {
    let folder = child_input();
    let folder = Path::new(&folder);
    let file = store::file_in(folder);
    let store = FileStore::new(RedbStore::open(&file).expect("a new store"));
    apply(&store, account("a")).expect("there is room");
    apply(&store, bill()).expect("there is room");
    let filler = folder.join("filler");
    small_disk::fill(&filler);

    let large = |number: usize| Preset {
        params: format!(r#"{{"text":"{}"}}"#, "x".repeat(64 << 10)),
        ..preset("a", &format!("preset_{number}"), &number.to_string())
    };
    let mut kept = 0;
    let refused = loop {
        match apply(&store, Change::PutPreset { preset: large(kept), replaces: false }) {
            Ok(_) => kept += 1,
            Err(error) => break error,
        }
        assert!(kept < 1000, "the disk is never full");
    };
    assert!(matches!(refused, ChangeError::Unavailable(_)), "{refused}");
    let unbilled = apply(&store, bill()).expect_err("the disk is full");
    assert!(matches!(unbilled, ChangeError::Unavailable(_)), "{unbilled}");
    assert_eq!((presets(&store), billed(&store)), (kept, 1));

    fs::remove_file(&filler).expect("it is there");
    wait_until(|| store.fault().is_none());
    apply(&store, Change::PutPreset { preset: large(kept), replaces: false }).expect("there is room again");
    apply(&store, bill()).expect("there is room again");
    assert_eq!((presets(&store), billed(&store)), (kept + 1, 2));
    drop(store);
    let store = FileStore::new(RedbStore::open(&store::file_in(folder)).expect("it opens"));
    assert_eq!((presets(&store), billed(&store)), (kept + 1, 2));
    assert!(store.check().expect("it reads").is_sound());
    println!("{PASSED}");
}
