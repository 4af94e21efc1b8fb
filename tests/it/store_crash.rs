//! What was acknowledged survives `kill -9`.
//!
//! A second process writes keys, eight at a time, and says on stderr what it was told; this one kills it at a random
//! moment, opens what is left, and compares.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use backdrop::account::{AccountName, ApiKey, Keys, Label, Mode};
use rand::Rng;

use crate::store_support::{child, child_input, open};

const KEYS: usize = 1000;
const AT_A_TIME: usize = 8;
const KILLS: usize = 8;
const KILLS_WHILE_CREATING: usize = 12;

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
        if turn % 4 == 0 {
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
    for life in 1..=KILLS {
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
    assert!(acknowledged.keys.len() > KILLS, "the writer never wrote: nothing was tested");
}

#[test]
fn a_store_whose_creation_was_killed_opens_at_the_next_start() {
    for _ in 0..KILLS_WHILE_CREATING {
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
