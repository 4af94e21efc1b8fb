//! The store on PostgreSQL: the contract that redb fulfils too, lost connections, a stopped server.

use std::collections::BTreeSet;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use backdrop::store::{
    AccountModel, Bill, Change, ChangeError, Key, KeyChange, KeyHash, KeyUpdate, LookupBy, Month, OpenError,
    PRESETS_PER_ACCOUNT, Plan, PostgresServer, Request, Rows, StoreConfig, UnixSeconds,
};
use backdrop::telemetry::with_causes;
use proptest::test_runner::{Config, TestRunner};

use crate::store::backend::{Backend, ContractStore, Postgres, PostgresStore, Redb, export, import, rows_of};
use crate::store::support::{account, apply, apply_all, key, preset, wait_until};
use crate::store::{jobs, model};
use crate::support::postgres::PASSWORD;
use crate::support::tier::rounds;

/// Few, because each one makes two databases; `make kill-storm` and redb have many.
fn runner(cases: u32) -> TestRunner {
    TestRunner::new(Config { cases, max_shrink_iters: 20, failure_persistence: None, ..Config::default() })
}

#[test]
fn accounts_and_presets_agree_with_the_model() {
    let Some(first) = Postgres::create() else { return };
    runner(12).run(&model::steps(), |steps| model::run(&first.another(), steps)).expect("they agree");
}

#[test]
fn jobs_agree_with_the_model() {
    let Some(first) = Postgres::create() else { return };
    runner(12).run(&jobs::steps(), |steps| jobs::run(&first.another(), steps)).expect("they agree");
}

#[test]
fn jobs_whose_records_cannot_be_read_are_left_out_of_lists() {
    let Some(database) = Postgres::create() else { return };
    let store = database.open();
    apply(&store, account("acme")).expect("a new name");
    jobs::create_pairs(&store);
    for number in jobs::UNREADABLE {
        database.sql(&format!("UPDATE jobs SET record = decode('63', 'hex') WHERE id = '{}'", jobs::id(number)));
    }
    jobs::assert_left_out(&store);
}

#[test]
fn a_bill_whose_values_the_server_refuses_fails_alone() {
    let Some(database) = Postgres::create() else { return };
    let store = database.open();
    apply(&store, account("acme")).expect("a new name");
    let named = |name: &str| {
        let request = Request { fingerprint: [1; 32], images: 1, at: UnixSeconds(1), pictures: Vec::new() };
        let Change::Bill(plain) = bill(1) else { unreachable!("it is one") };
        Change::Bill(Bill { request: Some((name.to_owned(), request)), ..plain })
    };
    let changes =
        [named("one"), named("two"), named("\0"), named("three"), account("other"), named("\0"), named("four")];
    let outcomes = apply_all(&store, std::iter::once(bill(1)).chain(changes));
    let storage = outcomes.iter().filter(|outcome| matches!(outcome, Err(ChangeError::Storage(_)))).count();
    assert_eq!((outcomes.iter().filter(|outcome| outcome.is_err()).count(), storage), (2, 2), "{outcomes:?}");
    assert_eq!(billed(&store), 5);
    assert_eq!(database.sql("SELECT string_agg(key, ' ' ORDER BY key) FROM requests").trim(), "four one three two");
}

fn hash(number: u8) -> KeyHash {
    KeyHash([number; 32])
}

/// Every change of accounts and keys, allowed and refused.
fn changes_of_keys() -> Vec<Change> {
    let create = |number, key| Change::CreateKey { hash: hash(number), key };
    let rotate = |id: &str, from, to, keep_until| Change::Key {
        id: id.into(),
        change: KeyChange::Rotate { from: hash(from), to: hash(to), keep_until },
    };
    let set = |id: &str, expires_at, images_per_month, scopes| Change::Key {
        id: id.into(),
        change: KeyChange::Set(KeyUpdate { expires_at, images_per_month, scopes }),
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
        Change::Key { id: "key_3".into(), change: KeyChange::Revoke { at: UnixSeconds(8) } },
        Change::Key { id: "key_3".into(), change: KeyChange::Revoke { at: UnixSeconds(9) } },
        Change::Key { id: "key_9".into(), change: KeyChange::Revoke { at: UnixSeconds(9) } },
        set("key_3", None, None, None),
        rotate("key_3", 3, 7, None),
    ]
}

#[test]
fn accounts_and_keys_are_the_same_in_both_stores_and_move_both_ways() {
    let Some(database) = Postgres::create() else { return };
    let file = Redb::new();
    let (in_file, in_database) = (file.open(), database.open());
    let outcomes = apply_all(&in_file, changes_of_keys());
    assert_eq!(apply_all(&in_database, changes_of_keys()), outcomes);
    assert!(outcomes.iter().filter(|outcome| outcome.is_err()).count() >= 10, "{outcomes:?}");
    let presets = (0..=PRESETS_PER_ACCOUNT).map(|n| Change::PutPreset {
        preset: preset("acme", &format!("preset_{n:04}"), &format!("name {n}")),
        replaces: false,
    });
    let saved = apply_all(&in_file, presets.clone());
    assert_eq!(saved.last(), Some(&Err(ChangeError::TooManyPresets("acme".into()))));
    assert_eq!(apply_all(&in_database, presets), saved);
    let huge = |images| {
        Change::Bill(Bill {
            account: "acme".into(),
            month: Month(202_601),
            images,
            microdollars: 1,
            request: None,
            by: None,
        })
    };
    let most = i64::MAX.unsigned_abs();
    for images in [most - 1, 5] {
        apply(&in_database, huge(images)).expect("it adds up");
        apply(&in_file, huge(if images == 5 { 1 } else { images })).expect("it adds up");
    }
    let now = UnixSeconds(1_767_225_600);
    assert_eq!(ContractStore::load_at(&in_database, now), ContractStore::load_at(&in_file, now), "sums saturate");

    let (from_database, from_file) = (in_database.exported().0, in_file.exported().0);
    assert_eq!(rows_of(&from_database), rows_of(&from_file));
    let named = BTreeSet::from(["with key".to_owned()]);
    let mut of_one = [Vec::new(), Vec::new()];
    export(&database.configured(), &mut of_one[0], &named).expect("it is there");
    in_file.export(&mut of_one[1], &named).expect("it is there");
    assert_eq!(rows_of(&of_one[0]), rows_of(&of_one[1]));
    assert!(rows_of(&of_one[0]).len() < rows_of(&from_file).len());
    let (to_database, to_file) = (database.another(), file.another());
    to_database.import(&from_file);
    to_file.import(&from_database);
    assert_eq!(rows_of(&to_database.open().exported().0), rows_of(&to_file.open().exported().0));
    // The server releases the lock when it has noticed the end of the connection.
    let mut error = String::new();
    wait_until(|| {
        error = import(&to_database.configured(), &from_file).expect_err("it has rows").to_string();
        !error.contains("in use")
    });
    assert!(error.contains("rows already"), "{error}");
    let cut_off = &from_file[..from_file.len() - 3];
    let empty = database.another();
    assert!(import(&empty.configured(), cut_off).is_err());
    assert_eq!(empty.open().load_at(UnixSeconds::now()), Rows::default(), "half an import is none");
}

fn bill(images: u64) -> Change {
    Change::Bill(Bill {
        account: "acme".into(),
        month: Month(202_601),
        images,
        microdollars: 0,
        request: None,
        by: None,
    })
}

fn billed(store: &PostgresStore) -> u64 {
    let rows = ContractStore::load_at(store, UnixSeconds(1_767_225_600));
    rows.usage.first().map_or(0, |(_, _, usage)| usage.images)
}

/// Bills one image after the other from some threads until `stop`; returns how many were acknowledged.
fn bill_until(store: &PostgresStore, stop: &AtomicBool, [acknowledged, unknown]: [&AtomicU64; 2]) {
    while !stop.load(Ordering::Relaxed) {
        match store.change(bill(1)) {
            Ok(_) => drop(acknowledged.fetch_add(1, Ordering::Relaxed)),
            // It did not happen.
            Err(ChangeError::Unavailable(_)) => std::thread::sleep(Duration::from_millis(5)),
            // Nothing tells whether it happened.
            Err(ChangeError::Interrupted(_)) => drop(unknown.fetch_add(1, Ordering::Relaxed)),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Waits until the count has grown by `more`.
fn wait_for_more(count: &AtomicU64, more: u64) {
    let from = count.load(Ordering::Relaxed);
    wait_until(|| count.load(Ordering::Relaxed) >= from + more);
}

/// Ends the clients also where the test fails.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Bills from some threads while `disturb` runs; every acknowledged bill is in the database, and no other but those whose answer was
/// lost.
fn disturbed(database: &Postgres, rounds: usize, disturb: impl Fn(usize)) {
    let store = database.open();
    apply(&store, account("acme")).expect("a new name");
    let (stop, acknowledged, unknown) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let stopping = StopOnDrop(&stop);
        let clients: Vec<_> =
            (0..4).map(|_| scope.spawn(|| bill_until(&store, &stop, [&acknowledged, &unknown]))).collect();
        for round in 0..rounds {
            wait_for_more(&acknowledged, 5 + round as u64 % 7);
            disturb(round);
        }
        wait_for_more(&acknowledged, 20);
        drop(stopping);
        clients.into_iter().for_each(|client| client.join().expect("no client failed"));
    });
    let [acknowledged, unknown] = [acknowledged, unknown].map(AtomicU64::into_inner);
    let billed = billed(&store);
    assert!((acknowledged..=acknowledged + unknown).contains(&billed), "{billed}: {acknowledged}, {unknown} unknown");
    // The last of all answers can be a cut connection's.
    wait_until(|| store.change(bill(0)).is_ok());
    assert!(store.store.fault().is_none());
}

#[test]
fn cut_connections_lose_no_bill_and_double_none() {
    let Some(database) = Postgres::create() else { return };
    disturbed(&database, rounds(30, 300), |_| database.server.cut_connections());
}

#[test]
fn a_crashed_server_loses_no_bill_and_doubles_none() {
    let Some(database) = Postgres::create() else { return };
    disturbed(&database, rounds(2, 20), |_| {
        database.server.crash();
        database.server.resume(&[]);
    });
}

#[test]
fn a_server_that_does_not_answer_fails_calls_in_time_and_is_used_again_when_it_does() {
    let Some(database) = Postgres::create() else { return };
    let store = database.open();
    apply(&store, account("acme")).expect("a new name");
    database.server.signal("STOP");
    let refused = apply(&store, bill(1)).expect_err("nothing answers");
    assert!(matches!(refused, ChangeError::Unavailable(_) | ChangeError::Interrupted(_)), "{refused}");
    assert!(store.store.fault().is_some());
    assert!(store.wait(store.store.preset("acme", "preset_1", LookupBy::Id)).is_err());
    database.server.signal("CONT");
    wait_until(|| store.wait(store.store.preset("acme", "preset_1", LookupBy::Id)).is_ok());
    assert!(store.store.fault().is_none());
    // The bill was sent, and the server has read it.
    let before = billed(&store);
    apply(&store, bill(2)).expect("it answers");
    assert_eq!(billed(&store), before + 2);
}

#[test]
fn an_address_that_does_not_answer_leads_to_the_next_one() {
    let Some(database) = Postgres::create() else { return };
    // As a machine that disappeared: the queue of connections is full, so further ones are neither accepted nor refused.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    rustix::net::listen(&silent, 0).expect("a shorter queue");
    let address = silent.local_addr().expect("it is bound");
    let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(300)).ok();
    let _queued: Vec<_> = std::iter::from_fn(connect).collect();
    let url = Some(database.url.replace("@", &format!("@{address},")).into());
    let server = PostgresServer::configured(&StoreConfig { url, ca_file: None }).expect("a valid URL");
    let store = PostgresStore::open(server.expect("one is configured")).expect("the second address answers");
    apply(&store, account("acme")).expect("a new name");
}

#[test]
fn tls_accepts_the_configured_authority_and_no_other() {
    let Some(database) = Postgres::create() else { return };
    let issued = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    database.server.install("server.crt", &issued.cert.pem());
    database.server.install("server.key", &issued.signing_key.serialize_pem());
    database.server.crash();
    database.server.resume(&["ssl=on"]);
    let url = format!("{}?sslmode=require", database.url.replace("127.0.0.1", "localhost"));
    let open = |ca_file| {
        let config = StoreConfig { url: Some(url.clone().into()), ca_file };
        PostgresStore::open(PostgresServer::configured(&config).expect("a valid URL").expect("one is configured"))
    };
    let unknown = with_causes(&open(None).expect_err("its authority is unknown"));
    assert!(unknown.contains("certificate") && !unknown.contains(PASSWORD), "{unknown}");
    let authority = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(authority.path(), issued.cert.pem()).expect("it is written");
    let store = open(Some(authority.path().to_owned())).expect("its authority is known");
    apply(&store, account("acme")).expect("a new name");
    assert!(database.sql("SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'backdrop'").contains('t'));
}

#[test]
fn no_error_shows_the_password() {
    let Some(database) = Postgres::create() else { return };
    let refused = |url: String| {
        let config = StoreConfig { url: Some(url.into()), ca_file: None };
        let server = PostgresServer::configured(&config).expect("a valid URL").expect("one is configured");
        let error: OpenError = PostgresStore::open(server).expect_err("it cannot be used");
        let error = with_causes(&error);
        assert!(!error.contains(PASSWORD) && error.contains("postgres://"), "{error}");
    };
    for (from, to) in [("/test_0", "/missing"), ("/postgres:", "/nobody:"), ("127.0.0.1", "host.invalid")] {
        refused(database.url.replace(from, to));
    }
    database.server.crash();
    refused(database.url.clone());
}
