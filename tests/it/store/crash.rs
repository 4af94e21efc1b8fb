//! Acknowledged changes of the store survive `kill -9`.
//!
//! A child process writes bills and presets, eight at a time, and prints each acknowledgement to stderr; the parent kills it at a
//! random moment, opens the store, and compares. `src/store` loses power at every sync.

use std::collections::{BTreeSet, HashMap};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::time::Duration;

use backdrop::store::{
    self, Bill, Change, Day, KeyDay, KeyUse, Month, Preset, RedbStore, Request, StateStore, UnixSeconds,
};
use rand::Rng;

use crate::store::support::{account, apply, preset};
use crate::support::child_process::{child, child_input};
use crate::support::tier::rounds;

const CONCURRENT: usize = 8;

/// One line in one write: printed whole or not at all when the process is killed.
fn print_line(line: &str) {
    std::io::stderr().write_all(format!("{line}\n").as_bytes()).expect("the parent reads");
}

#[test]
fn a_store_whose_creation_was_interrupted_opens_at_the_next_start() {
    for _ in 0..rounds(6, 60) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let input = format!("{}\n0", folder.path().to_str().expect("a plain path"));
        let mut biller = child(concat!(module_path!(), "::biller"), &input);
        std::thread::sleep(Duration::from_micros(rand::rng().random_range(0..40_000)));
        biller.kill().expect("it is ours");
        biller.wait().expect("it was killed");
        let store = RedbStore::open(&store::file_in(folder.path())).expect("the store opens");
        assert!(store.check().expect("the store reads").is_sound());
    }
}

/// Bills of one image, each under another `Idempotency-Key`; and a preset in between, overwritten once, some deleted again.
#[test]
#[ignore = "run by the other tests of this file"]
fn biller() {
    let input = child_input();
    let (data_dir, run) = input.split_once('\n').expect("two lines");
    let store = RedbStore::open(&store::file_in(Path::new(data_dir))).expect("the store opens");
    // Exists from the second run on.
    drop(apply(&store, account("acme")));
    print_line("ready");
    std::thread::scope(|threads| {
        for thread in 0..CONCURRENT {
            let store = &store;
            // Until it is killed.
            threads.spawn(move || {
                let mut turn = 0;
                loop {
                    bill(store, &format!("{run}-{thread}-{turn}"), turn);
                    turn += 1;
                }
            });
        }
    });
}

fn bill(store: &RedbStore, name: &str, turn: usize) {
    let at = UnixSeconds::now();
    let request = Request { fingerprint: [7; 32], images: 1, at, pictures: vec![Some([8; 32])] };
    let account = String::from("acme");
    // Not the present month: the count must not restart when the test runs at midnight.
    let month = Month::of(at).previous();
    let request = Some((name.into(), request));
    let by = KeyUse { key_id: format!("key_{}", turn % 3), day: Day::first_of(month), milliseconds: 0 };
    let change = Change::Bill(Bill { account, month, images: 1, microdollars: 5000, request, by: Some(by) });
    apply(store, change).expect("the store writes");
    print_line(&format!("billed {name}"));
    if turn.is_multiple_of(4) {
        for edition in ["1", "2"] {
            let preset = Preset { params: format!(r#"{{"edition":{edition}}}"#), ..preset("acme", name, name) };
            print_line(&format!("putting {name} {edition}"));
            // Refused beyond the limit of presets of an account.
            if apply(store, Change::PutPreset { preset }).is_ok() {
                print_line(&format!("put {name} {edition}"));
            }
        }
    }
    if turn.is_multiple_of(8) {
        print_line(&format!("deleting {name}"));
        if apply(store, Change::DeletePreset { account: "acme".into(), id: name.into() }).is_ok() {
            print_line(&format!("deleted {name}"));
        }
    }
}

/// The acknowledgements that the billers printed.
#[derive(Default)]
struct Billed {
    requests: BTreeSet<String>,
    /// The edition of each preset that must exist; `None` where a change was in progress.
    presets: HashMap<String, Option<String>>,
    deleted: BTreeSet<String>,
}

impl Billed {
    fn record(&mut self, line: &str) {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["billed", name] => assert!(self.requests.insert(name.into()), "{name} was acknowledged twice"),
            ["putting", name, _] | ["deleting", name] => drop(self.presets.insert(name.into(), None)),
            ["put", name, edition] => drop(self.presets.insert(name.into(), Some(edition.into()))),
            ["deleted", name] => drop(self.deleted.insert(name.into())),
            _ => {}
        }
    }

    fn check(&self, store: &RedbStore, runs: usize) {
        let rows = store.load().expect("the store loads");
        let stored: BTreeSet<String> = rows.requests.iter().map(|(_, key, _)| key.clone()).collect();
        assert_eq!(stored.len(), rows.requests.len(), "a request is stored twice");
        assert!(self.requests.is_subset(&stored), "lost: {:?}", self.requests.difference(&stored));
        // At most those in progress are unacknowledged, in each run.
        assert!(stored.len() - self.requests.len() <= runs * CONCURRENT);
        // Count and requests are written together: no image is lost or counted twice.
        let count: u64 = rows.usage.iter().map(|(_, _, usage)| usage.images).sum();
        let price: u64 = rows.usage.iter().map(|(_, _, usage)| usage.microdollars).sum();
        assert_eq!((count, price), (stored.len() as u64, 5000 * stored.len() as u64));
        let by_key = |sum: u64, (_, _, _, used): &(String, Day, String, KeyDay)| sum + used.images;
        assert_eq!(rows.key_days.iter().fold(0, by_key), count, "the sum by key and day");
        for (name, edition) in self.presets.iter().filter_map(|(name, edition)| Some((name, edition.as_ref()?))) {
            let found = store.preset("acme", name).expect("the store reads").unwrap_or_else(|| panic!("lost: {name}"));
            assert_eq!(found.params, format!(r#"{{"edition":{edition}}}"#), "{name}");
            assert_eq!(store.preset_named("acme", name).expect("the store reads"), Some(found), "{name}");
        }
        for name in &self.deleted {
            assert_eq!(store.preset("acme", name).expect("the store reads"), None, "{name} still exists");
        }
        let report = store.check().expect("the store reads");
        assert!(report.is_sound(), "{:?}", report.findings);
    }
}

#[test]
fn no_acknowledged_bill_or_preset_is_lost_or_doubled_by_a_kill() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut billed = Billed::default();
    let kills = rounds(8, 120);
    for run in 1..=kills {
        let input = format!("{}\n{run}", folder.path().to_str().expect("a plain path"));
        let mut biller = child(concat!(module_path!(), "::biller"), &input);
        let lines = rand::rng().random_range(1..300);
        let moment = Duration::from_micros(rand::rng().random_range(0..5000));
        let mut printed = BufReader::new(biller.stderr.take().expect("piped")).lines().map_while(Result::ok);
        printed.by_ref().take(lines).for_each(|line| billed.record(&line));
        std::thread::sleep(moment);
        biller.kill().expect("it is ours");
        assert!(!biller.wait().expect("it was killed").success(), "it never ends by itself");
        printed.for_each(|line| billed.record(&line));
        let store = RedbStore::open(&store::file_in(folder.path())).expect("the store opens");
        billed.check(&store, run);
    }
    println!("{} bills, {} presets, {} deleted", billed.requests.len(), billed.presets.len(), billed.deleted.len());
    assert!(billed.requests.len() > kills && !billed.presets.is_empty(), "nothing was tested");
}
