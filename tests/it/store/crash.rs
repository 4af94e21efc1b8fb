//! What was acknowledged survives `kill -9`.
//!
//! A second process writes keys, or bills and presets, eight at a time, and says on stderr what it was told; this one
//! kills it at a random moment, opens what is left, and compares.

use std::collections::{BTreeSet, HashMap};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use backdrop::account::{AccountName, ApiKey, Keys, Label, Mode};
use backdrop::store::{self, Change, Day, KeyDay, KeyUse, Month, Preset, RedbStore, Request, StateStore, UnixSeconds};
use rand::Rng;

use crate::store::support::{account, apply, child, child_input, open, preset};
use crate::support::tier::rounds;

const KEYS: usize = 1000;
const AT_A_TIME: usize = 8;

#[test]
#[ignore = "the process that the others in this file kill"]
fn writer() {
    let data_dir = child_input();
    if data_dir.is_empty() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let keys = open(Path::new(&data_dir));
        keys.bootstrap(None).await.expect("the store writes");
        say("ready");
        let mut writers = tokio::task::JoinSet::new();
        for _ in 0..AT_A_TIME {
            writers.spawn(write_keys(keys.clone(), KEYS / AT_A_TIME));
        }
        writers.join_all().await;
    });
}

async fn write_keys(keys: Keys, count: usize) {
    let account = AccountName::try_from("default").expect("a good name");
    for turn in 0..count {
        let created = keys.create(&account, Label::default(), Mode::Live).await.expect("the store writes");
        let id = &created.key.id;
        say(&format!("created {id} {}", created.secret.expose()));
        if turn.is_multiple_of(4) {
            say(&format!("revoking {id}"));
            keys.revoke(id).await.expect("the store writes");
            say(&format!("revoked {id}"));
        }
    }
}

/// One line, in one write: whole or not there when the process dies.
fn say(line: &str) {
    std::io::stderr().write_all(format!("{line}\n").as_bytes()).expect("the parent reads");
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Created,
    Revoking,
    Revoked,
}

/// What the writer was told, over all its lives.
#[derive(Default)]
struct Acknowledged {
    keys: HashMap<String, (ApiKey, Fate)>,
}

impl Acknowledged {
    fn note(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["created", id, token] => {
                self.keys.insert(id.into(), (ApiKey::parse(token).expect("a key"), Fate::Created));
            }
            ["revoking", id] => self.keys.get_mut(id).expect("created before").1 = Fate::Revoking,
            ["revoked", id] => self.keys.get_mut(id).expect("created before").1 = Fate::Revoked,
            _ => {}
        }
    }

    fn check(&self, keys: &Keys) {
        for (id, (secret, fate)) in &self.keys {
            let found = keys.authenticate(secret.expose());
            match fate {
                Fate::Created => assert_eq!(found.as_ref().map(|info| &info.key_id), Some(id), "lost after its reply"),
                Fate::Revoked => assert_eq!(found, None, "{id} works after its revocation"),
                Fate::Revoking => {}
            }
        }
    }
}

#[test]
fn every_acknowledged_key_and_revocation_survives_a_kill_during_1000_writes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut acknowledged = Acknowledged::default();
    let mut killed_at_work = 0;
    let kills = rounds(4, 40);
    for life in 1..=kills {
        let mut writer = child("store_crash::writer", folder.path().to_str().expect("a plain path"));
        let lines = rand::rng().random_range(1..KEYS);
        let moment = Duration::from_micros(rand::rng().random_range(0..5000));
        let mut said = BufReader::new(writer.stderr.take().expect("piped")).lines().map_while(Result::ok);
        for line in said.by_ref().take(lines) {
            acknowledged.note(&line);
        }
        std::thread::sleep(moment);
        writer.kill().expect("it is ours");
        killed_at_work += usize::from(!writer.wait().expect("it was killed").success());
        // What it said between the last line read and its end was acknowledged as well.
        said.for_each(|line| acknowledged.note(&line));

        let start = Instant::now();
        let keys = open(folder.path());
        println!("life {life}: {} keys acknowledged, reopened in {:?}", acknowledged.keys.len(), start.elapsed());
        acknowledged.check(&keys);
        // The bootstrap key is never said; of the others at most those under way are unacknowledged, in each life.
        let unacknowledged = keys.list(None).len() - 1 - acknowledged.keys.len();
        assert!(unacknowledged <= life * AT_A_TIME, "{unacknowledged} keys that nobody was told of");
    }
    assert!(killed_at_work > 0, "the writer was always done before the kill: nothing was tested");
    assert!(acknowledged.keys.len() > kills, "the writer never wrote: nothing was tested");
}

#[test]
fn a_store_whose_creation_was_killed_opens_at_the_next_start() {
    for _ in 0..rounds(6, 60) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut writer = child("store_crash::writer", folder.path().to_str().expect("a plain path"));
        std::thread::sleep(Duration::from_micros(rand::rng().random_range(0..40_000)));
        writer.kill().expect("it is ours");
        writer.wait().expect("it was killed");
        let keys = open(folder.path());
        // Account and first key come together or not at all.
        assert_eq!(keys.accounts().is_empty(), keys.list(None).is_empty());
    }
}

/// One image each, under a key of its own; and a preset in between, overwritten once, some deleted again.
#[test]
#[ignore = "the process that the others in this file kill"]
fn biller() {
    let input = child_input();
    let Some((data_dir, life)) = input.split_once('\n') else { return };
    let store = RedbStore::open(&store::file_in(Path::new(data_dir))).expect("the store opens");
    // There from the second life on.
    drop(apply(&store, account("acme")));
    say("ready");
    std::thread::scope(|threads| {
        for thread in 0..AT_A_TIME {
            let store = &store;
            // Until it is killed.
            threads.spawn(move || {
                let mut turn = 0;
                loop {
                    bill(store, &format!("{life}-{thread}-{turn}"), turn);
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
    // Not the present month: the count must not begin anew when the test runs at midnight.
    let month = Month::of(at).previous();
    let request = Some((name.into(), request));
    let by = KeyUse { key_id: format!("key_{}", turn % 3), day: Day::first_of(month), milliseconds: 0 };
    let change = Change::Bill { account, month, images: 1, microdollars: 5000, request, by: Some(by) };
    apply(store, change).expect("the store writes");
    say(&format!("billed {name}"));
    if turn.is_multiple_of(4) {
        for edition in ["1", "2"] {
            let preset = Preset { params: format!(r#"{{"edition":{edition}}}"#), ..preset("acme", name, name) };
            say(&format!("putting {name} {edition}"));
            // An account has room for so many of them only.
            if apply(store, Change::PutPreset { preset }).is_ok() {
                say(&format!("put {name} {edition}"));
            }
        }
    }
    if turn.is_multiple_of(8) {
        say(&format!("deleting {name}"));
        if apply(store, Change::DeletePreset { account: "acme".into(), id: name.into() }).is_ok() {
            say(&format!("deleted {name}"));
        }
    }
}

/// What the biller was told, over all its lives.
#[derive(Default)]
struct Billed {
    requests: BTreeSet<String>,
    /// The edition of each preset that must be there; `None` where a change was under way.
    presets: HashMap<String, Option<String>>,
    deleted: BTreeSet<String>,
}

impl Billed {
    fn note(&mut self, line: &str) {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["billed", name] => assert!(self.requests.insert(name.into()), "{name} was told twice"),
            ["putting", name, _] | ["deleting", name] => drop(self.presets.insert(name.into(), None)),
            ["put", name, edition] => drop(self.presets.insert(name.into(), Some(edition.into()))),
            ["deleted", name] => drop(self.deleted.insert(name.into())),
            _ => {}
        }
    }

    fn check(&self, store: &RedbStore, lives: usize) {
        let rows = store.load().expect("the store loads");
        let stored: BTreeSet<String> = rows.requests.iter().map(|(_, key, _)| key.clone()).collect();
        assert_eq!(stored.len(), rows.requests.len(), "a request is there twice");
        assert!(self.requests.is_subset(&stored), "lost: {:?}", self.requests.difference(&stored));
        // At most those under way are unacknowledged, in each life.
        assert!(stored.len() - self.requests.len() <= lives * AT_A_TIME);
        // Count and requests were written together: no image is lost, and none counts twice.
        let count: u64 = rows.usage.iter().map(|(_, _, usage)| usage.images).sum();
        let price: u64 = rows.usage.iter().map(|(_, _, usage)| usage.microdollars).sum();
        assert_eq!((count, price), (stored.len() as u64, 5000 * stored.len() as u64));
        let by_key = |sum: u64, (_, _, _, used): &(String, Day, String, KeyDay)| sum + used.images;
        assert_eq!(rows.key_days.iter().fold(0, by_key), count, "by key and day it is as much");
        for (name, edition) in self.presets.iter().filter_map(|(name, edition)| Some((name, edition.as_ref()?))) {
            let found = store.preset("acme", name).expect("the store reads").unwrap_or_else(|| panic!("lost: {name}"));
            assert_eq!(found.params, format!(r#"{{"edition":{edition}}}"#), "{name}");
            assert_eq!(store.preset_named("acme", name).expect("the store reads"), Some(found), "{name}");
        }
        for name in &self.deleted {
            assert_eq!(store.preset("acme", name).expect("the store reads"), None, "{name} is back");
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
    for life in 1..=kills {
        let input = format!("{}\n{life}", folder.path().to_str().expect("a plain path"));
        let mut biller = child("store_crash::biller", &input);
        let lines = rand::rng().random_range(1..300);
        let moment = Duration::from_micros(rand::rng().random_range(0..5000));
        let mut said = BufReader::new(biller.stderr.take().expect("piped")).lines().map_while(Result::ok);
        said.by_ref().take(lines).for_each(|line| billed.note(&line));
        std::thread::sleep(moment);
        biller.kill().expect("it is ours");
        assert!(!biller.wait().expect("it was killed").success(), "it never ends by itself");
        said.for_each(|line| billed.note(&line));
        let store = RedbStore::open(&store::file_in(folder.path())).expect("the store opens");
        billed.check(&store, life);
    }
    println!("{} bills, {} presets, {} deleted", billed.requests.len(), billed.presets.len(), billed.deleted.len());
    assert!(billed.requests.len() > kills && !billed.presets.is_empty(), "nothing was tested");
}
