//! The store on PostgreSQL: the contract that redb fulfils too, one owner at a time, lost connections, a stopped server.
//!
//! Ignored by default, because they need the server's programs: `make cluster-test` installs them and runs these.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use backdrop::store::{
    AccountModel, Change, ChangeError, Key, KeyHash, Month, OpenError, PRESETS_PER_ACCOUNT, Plan, PostgresStore, Rows,
    StateStore, UnixSeconds,
};
use proptest::test_runner::{Config, TestRunner};

use crate::store::backend::{Backend, ContractStore, Postgres, Redb, rows_of};
use crate::store::support::{account, apply, apply_all, key, preset};
use crate::store::{jobs, model};
use crate::support::postgres::name_of;
use crate::support::tier::rounds;

/// Few, because each one makes two databases; `make kill-storm` and redb have many.
fn runner(cases: u32) -> TestRunner {
    TestRunner::new(Config { cases, max_shrink_iters: 20, failure_persistence: None, ..Config::default() })
}

#[test]
#[ignore = "needs PostgreSQL: make cluster-test"]
fn accounts_and_presets_agree_with_the_model() {
    let first = Postgres::create();
    runner(12).run(&model::steps(), |steps| model::run(&first.another(), steps)).expect("they agree");
}

#[test]
#[ignore = "needs PostgreSQL: make cluster-test"]
fn jobs_agree_with_the_model() {
    let first = Postgres::create();
    runner(12).run(&jobs::steps(), |steps| jobs::run(&first.another(), steps)).expect("they agree");
}

fn hash(number: u8) -> KeyHash {
    KeyHash([number; 32])
}

/// Every change of accounts and keys, allowed and refused.
fn changes_of_keys() -> Vec<Change> {
    let create = |number, key| Change::CreateKey { hash: hash(number), key };
    let rotate = |id: &str, from, to, keep_until| Change::RotateKey {
        id: id.into(),
        from: hash(from),
        to: hash(to),
        keep_until,
    };
    let set = |id: &str, expires_at, images_per_month, scopes| Change::SetKey {
        id: id.into(),
        expires_at,
        images_per_month,
        scopes,
    };
    let Change::CreateAccount { account: with_key, .. } = account("with key") else { unreachable!("it is one") };
    vec![
        account("acme"),
        account("acme"),
        Change::CreateAccount { account: with_key.clone(), first_key: Some((hash(1), key("with key", "key_1"))) },
        Change::CreateAccount {
            account: backdrop::store::Account { name: "other".into(), ..with_key },
            first_key: Some((hash(1), key("other", "key_other"))),
        },
        create(2, key("acme", "key_2")),
        create(3, key("acme", "key_2")),
        create(2, key("acme", "key_3")),
        create(3, key("nobody", "key_3")),
        create(3, Key { test: true, scopes: vec!["remove".into()], ..key("acme", "key_3") }),
        Change::SetAccount {
            account: "acme".into(),
            plan: Some(Plan::Plus),
            generates: Some(true),
            model: Some(AccountModel::default()),
        },
        Change::SetAccount { account: "nobody".into(), plan: None, generates: None, model: None },
        rotate("key_2", 2, 4, Some(UnixSeconds(9))),
        rotate("key_2", 2, 5, None),
        rotate("key_2", 4, 3, None),
        rotate("key_9", 4, 6, None),
        set("key_3", Some(Some(UnixSeconds(7))), Some(Some(5)), Some(Vec::new())),
        set("key_9", None, None, None),
        Change::RevokeKey { id: "key_3".into(), at: UnixSeconds(8) },
        Change::RevokeKey { id: "key_3".into(), at: UnixSeconds(9) },
        Change::RevokeKey { id: "key_9".into(), at: UnixSeconds(9) },
        set("key_3", None, None, None),
        rotate("key_3", 3, 7, None),
        Change::TouchKeys {
            used: [("key_1", 5), ("key_1", 4), ("key_9", 3)].map(|(id, at)| (id.into(), UnixSeconds(at))).to_vec(),
        },
    ]
}

#[test]
#[ignore = "needs PostgreSQL: make cluster-test"]
fn accounts_and_keys_are_the_same_in_both_stores_and_move_both_ways() {
    let (file, database) = (Redb::create(), Postgres::create());
    let (in_file, in_database) = (file.open(), database.open());
    let outcomes = apply_all(&in_file, changes_of_keys());
    assert_eq!(apply_all(&in_database, changes_of_keys()), outcomes);
    assert!(outcomes.iter().filter(|outcome| outcome.is_err()).count() >= 10, "{outcomes:?}");
    let presets = (0..=PRESETS_PER_ACCOUNT)
        .map(|n| Change::PutPreset { preset: preset("acme", &format!("preset_{n:04}"), &format!("name {n}")) });
    let saved = apply_all(&in_file, presets.clone());
    assert_eq!(saved.last(), Some(&Err(ChangeError::TooManyPresets("acme".into()))));
    assert_eq!(apply_all(&in_database, presets), saved);
    let huge = |images| Change::Bill {
        account: "acme".into(),
        month: Month(202_601),
        images,
        microdollars: 1,
        request: None,
        by: None,
    };
    let most = i64::MAX.unsigned_abs();
    for images in [most - 1, 5] {
        apply(&in_database, huge(images)).expect("it adds up");
        apply(&in_file, huge(if images == 5 { 1 } else { images })).expect("it adds up");
    }
    let now = UnixSeconds(1_767_225_600);
    assert_eq!(ContractStore::load_at(&in_database, now), ContractStore::load_at(&in_file, now), "sums saturate");

    let (from_database, from_file) = (database.export(&in_database).0, file.export(&in_file).0);
    assert_eq!(rows_of(&from_database), rows_of(&from_file));
    let (to_database, to_file) = (database.another(), file.another());
    to_database.import(&from_file);
    to_file.import(&from_database);
    assert_eq!(rows_of(&to_database.export(&to_database.open()).0), rows_of(&to_file.export(&to_file.open()).0));
    let error = to_database.configured().import(from_file.as_slice()).expect_err("it has rows").to_string();
    assert!(error.contains("rows already"), "{error}");
    let cut_off = &from_file[..from_file.len() - 3];
    let empty = database.another();
    assert!(empty.configured().import(cut_off).is_err());
    assert_eq!(empty.open().load().expect("it reads"), Rows::default(), "half an import is none");
}

#[test]
#[ignore = "needs PostgreSQL: make cluster-test"]
fn one_process_at_a_time_owns_a_database() {
    let database = Postgres::create();
    let owner = database.open();
    apply(&owner, account("acme")).expect("a new name");
    let refused = database.configured().open().expect_err("it is in use");
    assert!(matches!(refused, OpenError::Locked { .. }), "{refused}");
    let refused = database.configured().import(&b""[..]).expect_err("it is in use");
    assert!(refused.to_string().contains("in use"), "{refused}");
    assert_eq!(database.another().open().load().expect("it reads").accounts.len(), 0, "another database is free");
    assert!(database.export(&owner).1.accounts == 1, "an export needs no ownership");
    let secret = owner.shared_secret([1; 32]).expect("it is stored");
    drop(owner);
    let next = database.open();
    assert_eq!(next.load().expect("it reads").accounts.len(), 1);
    assert_eq!(next.shared_secret([2; 32]).expect("it is stored"), secret, "the first daemon's secret is everyone's");
    let newer = "UPDATE meta SET number = 99 WHERE name = 'schema'";
    database.server.client(name_of(&database.url)).batch_execute(newer).expect("it is written");
    drop(next);
    let error = database.configured().open().expect_err("it is newer");
    assert!(matches!(error, OpenError::Newer { found: 99, .. }), "{error}");
}

fn bill(images: u64) -> Change {
    Change::Bill { account: "acme".into(), month: Month(202_601), images, microdollars: 0, request: None, by: None }
}

fn billed(store: &PostgresStore) -> u64 {
    let rows = ContractStore::load_at(store, UnixSeconds(1_767_225_600));
    rows.usage.first().map_or(0, |(_, _, usage)| usage.images)
}

/// Bills one image after the other from some threads until `stop`; returns how many were acknowledged.
fn bill_until(store: &PostgresStore, stop: &AtomicBool, acknowledged: &AtomicU64) {
    while !stop.load(Ordering::Relaxed) {
        let (outcome, outcomes) = mpsc::channel();
        store.submit(bill(1), Box::new(move |result| outcome.send(result).expect("the receiver is open")));
        match outcomes.recv().expect("every change is answered") {
            Ok(_) => drop(acknowledged.fetch_add(1, Ordering::Relaxed)),
            // It did not happen.
            Err(ChangeError::Unavailable(_)) => std::thread::sleep(Duration::from_millis(5)),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Waits until the count has grown by `more`.
fn wait_for_more(count: &AtomicU64, more: u64) {
    let from = count.load(Ordering::Relaxed);
    let start = Instant::now();
    while count.load(Ordering::Relaxed) < from + more {
        assert!(start.elapsed() < Duration::from_secs(120), "nothing is acknowledged any more");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Ends the clients also where the test fails.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Bills from some threads while `disturb` runs; every acknowledged bill is in the database, and no other.
fn disturbed(database: &Postgres, rounds: usize, disturb: impl Fn(usize)) {
    let store = database.open();
    apply(&store, account("acme")).expect("a new name");
    let (stop, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let stopping = StopOnDrop(&stop);
        let clients: Vec<_> = (0..4).map(|_| scope.spawn(|| bill_until(&store, &stop, &acknowledged))).collect();
        for round in 0..rounds {
            wait_for_more(&acknowledged, 5 + round as u64 % 7);
            disturb(round);
        }
        wait_for_more(&acknowledged, 20);
        drop(stopping);
        clients.into_iter().for_each(|client| client.join().expect("no client failed"));
    });
    assert_eq!(billed(&store), acknowledged.load(Ordering::Relaxed));
    assert!(!store.is_superseded() && store.fault().is_none());
}

#[test]
#[ignore = "needs PostgreSQL: make cluster-test"]
fn cut_connections_lose_no_bill_and_double_none() {
    let database = Postgres::create();
    disturbed(&database, rounds(30, 300), |_| {
        let mut client = database.server.client("postgres");
        let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'backdrop'";
        client.batch_execute(cut).expect("they end");
    });
}

#[test]
#[ignore = "needs PostgreSQL: make cluster-test"]
fn a_crashed_server_loses_no_bill_and_doubles_none() {
    let database = Postgres::create();
    disturbed(&database, rounds(3, 20), |_| {
        database.server.stop();
        database.server.resume();
    });
}

#[test]
#[ignore = "needs PostgreSQL: make cluster-test"]
fn a_store_whose_database_another_process_used_makes_no_change_any_more() {
    let database = Postgres::create();
    let store = database.open();
    apply(&store, account("acme")).expect("a new name");
    let mut other = database.server.client(name_of(&database.url));
    // Waits for the lock, gets it when the owner's connection is cut, and leaves as another daemon would.
    let taker = std::thread::spawn(move || {
        other.batch_execute("SELECT pg_advisory_lock(x'62647270'::int, 2)").expect("the owner is cut");
        other.batch_execute("UPDATE meta SET number = number + 1 WHERE name = 'owner'").expect("it is written");
    });
    let mut admin = database.server.client("postgres");
    let start = Instant::now();
    while !store.is_superseded() {
        assert!(start.elapsed() < Duration::from_secs(60), "the store does not notice");
        let waits = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
        if admin.query_opt(waits, &[]).expect("it reads").is_some() {
            let cut = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted";
            admin.batch_execute(cut).expect("the owner ends");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    taker.join().expect("it took the lock");
    let refused = apply(&store, bill(1)).expect_err("it is not the owner");
    assert!(matches!(&refused, ChangeError::Unavailable(reason) if reason.contains("another process")), "{refused}");
    assert!(store.fault().is_some());
    assert_eq!(billed(&database.open()), 0);
}
