//! The store on PostgreSQL: the contract that redb fulfils too, lost connections, a stopped server.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use backdrop::store::{
    AccountModel, Bill, BillCheck, Change, ChangeError, Day, ExportedAccounts, Key, KeyHash, KeyUse, LeaseRequest,
    LeaseShare, Month, PRESETS_PER_ACCOUNT, Plan, PostgresServer, PostgresStore, QuotaCheck, Request, Rows, StateStore,
    StoreConfig, UnixSeconds,
};
use backdrop::telemetry::with_causes;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use proptest::{collection, option};

use crate::store::backend::{Backend, ContractStore, Postgres, Redb, rows_of};
use crate::store::support::{LIMIT, account, apply, apply_all, key, preset, wait_until};
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

const JANUARY: Month = Month(202_601);

/// A change of a few accounts, keys and requests, with quotas that they soon reach; a few create an account. `leases` are those of
/// [`leased`].
fn checked_bill(has_leases: bool) -> impl Strategy<Value = Change> {
    let name = prop_oneof![4 => Just("acme"), 1 => Just("other"), 1 => Just("later")];
    let quota = prop_oneof![Just(None), (0..60_u64).prop_map(Some)];
    let (request, by) = (option::of((0..6_u8, 0..2_u8)), option::of((0..3_u8, 0..40_u32)));
    let share = option::of(0..4_u64);
    let bill = (name, 0..3_u64, request, by, (quota.clone(), quota), share);
    let bill = bill.prop_map(move |(name, images, request, by, quotas, share)| {
        let key = by.map(|(key, _)| key);
        let request = request.map(|(key, fingerprint)| {
            let request = Request { fingerprint: [fingerprint; 32], images, at: UnixSeconds(1), pictures: Vec::new() };
            (format!("order-{key}"), request)
        });
        // In the second request of a key it continues the first one, or is refused.
        let earlier = request.as_ref().filter(|_| images == 1).map(|(_, request)| (request.at, request.images));
        let by = by.map(|(key, day)| KeyUse {
            key_id: format!("key_{key}"),
            day: Day(Day::first_of(JANUARY).0 + day),
            milliseconds: 5,
        });
        let month = by.as_ref().map_or(JANUARY, |by| by.day.month());
        // A lease is used by bills of its account and month alone. One whose time is over is gone after a bill that was refused in a
        // transaction with others, and stays after one that was refused alone; only bills of another account or month would find
        // it, since they do not count it.
        let lease = key.zip(share).filter(|_| has_leases && name == "acme" && month == JANUARY);
        let lease = lease.map(|(key, images)| LeaseShare { id: key.into(), images });
        let quota = QuotaCheck { plan_images: quotas.0, key_images: quotas.1.filter(|_| by.is_some()) };
        let check = Some(BillCheck { quota, earlier, lease });
        Change::Bill(Bill { account: name.to_owned(), month, images, microdollars: images * 5000, request, by, check })
    });
    prop_oneof![30 => bill, 1 => Just(account("later"))]
}

/// Leases 0 to 2, of the keys of the same numbers.
fn leased() -> Change {
    let lease = |number: i64| LeaseRequest {
        id: number,
        is_new: true,
        account: "acme".into(),
        key_id: format!("key_{number}"),
        month: JANUARY,
        returned: 0,
        at_most: 10,
        quota: QuotaCheck::default(),
    };
    Change::LeaseImages { leases: (0..3).map(lease).collect() }
}

/// Submits all changes at once to a database, and one by one to another store, which has the same outcomes and rows.
fn agree_with(
    one_by_one: &impl ContractStore,
    together: &PostgresStore,
    changes: Vec<Change>,
) -> Result<(), TestCaseError> {
    let expected: Vec<_> = changes.iter().map(|change| apply(one_by_one, change.clone())).collect();
    prop_assert_eq!(apply_all(together, changes), expected);
    let now = UnixSeconds(1_767_225_600);
    prop_assert_eq!(ContractStore::load_at(together, now), ContractStore::load_at(one_by_one, now));
    Ok(())
}

#[test]
fn bills_of_one_transaction_are_those_of_a_transaction_each() {
    let Some(first) = Postgres::create() else { return };
    let both = |in_database: &PostgresStore, other: &dyn StateStore| {
        for account in [account("acme"), account("other")] {
            apply(in_database, account.clone()).expect("a new name");
            apply(other, account).expect("a new name");
        }
    };
    let agree = |changes: Vec<Change>| {
        let (file, database) = (Redb::new(), first.another());
        let (in_file, together) = (file.open(), database.open());
        both(&together, &in_file);
        agree_with(&in_file, &together, changes)
    };
    runner(12).run(&collection::vec(checked_bill(false), 1..120), agree).expect("redb agrees");
    let agree = |changes: Vec<Change>| {
        let (database, other) = (first.another(), first.another());
        let (together, one_by_one) = (database.open(), other.open());
        both(&together, &one_by_one);
        let granted = apply(&together, leased()).expect("there are no quotas");
        prop_assert_eq!(granted, apply(&one_by_one, leased()).expect("there are no quotas"));
        // The time of one is over.
        let end = "UPDATE leases SET lease_until = now() - interval '1 s' WHERE id = 2";
        [&database, &other].into_iter().for_each(|database| drop(database.sql(end)));
        agree_with(&one_by_one, &together, changes)?;
        // A bill that is refused alone leaves those whose time is over.
        let left =
            |database: &Postgres| database.sql("SELECT id, images FROM leases WHERE lease_until > now() ORDER BY id");
        prop_assert_eq!(left(&database), left(&other));
        Ok(())
    };
    runner(12).run(&collection::vec(checked_bill(true), 1..120), agree).expect("a transaction each agrees");
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
    // All of them wait while the first transaction has another bill.
    let outcomes = apply_all(&store, std::iter::once(bill(1)).chain(changes));
    let is_refused: Vec<bool> = outcomes.iter().map(Result::is_err).collect();
    let storage = outcomes.iter().filter(|outcome| matches!(outcome, Err(ChangeError::Storage(_)))).count();
    // The refused ones are answered first.
    assert_eq!((is_refused.iter().filter(|refused| **refused).count(), storage), (2, 2), "{outcomes:?}");
    assert_eq!(billed(&store), 5);
    assert_eq!(database.sql("SELECT string_agg(key, ' ' ORDER BY key) FROM requests").trim(), "four one three two");
}

#[test]
fn a_change_forgets_the_same_requests_in_both_stores_up_to_its_limit() {
    let Some(database) = Postgres::create() else { return };
    let file = Redb::new();
    let billed = |at: i64| {
        let Change::Bill(plain) = bill(1) else { unreachable!("it is one") };
        let request = Request { fingerprint: [1; 32], images: 1, at: UnixSeconds(at), pictures: Vec::new() };
        Change::Bill(Bill { request: Some((format!("order-{at}"), request)), ..plain })
    };
    let forget = Change::ForgetRequests { before: UnixSeconds(4), at_most: 2 };
    let mut changes = vec![account("acme")];
    changes.extend((1..=4).map(billed));
    changes.extend(std::iter::repeat_n(forget, 3));
    let outcomes = apply_all(&file.open(), changes.clone());
    assert_eq!(apply_all(&database.open(), changes), outcomes);
    let forgotten: Vec<usize> = outcomes.iter().flatten().map(|rows| rows.forgotten_requests).collect();
    assert_eq!(forgotten, [0, 0, 0, 0, 0, 2, 1, 0]);
    assert_eq!(database.sql("SELECT key FROM requests").trim(), "order-4");
}

#[test]
fn one_clean_up_drops_all_old_commits_but_the_last() {
    let Some(database) = Postgres::create() else { return };
    drop(database.open());
    database.sql(
        "INSERT INTO commits (number, process, token, at, rows) \
         SELECT number, 1, 1, now() - interval '2 hours', '{}' FROM generate_series(1, 25000) AS number; \
         UPDATE meta SET number = 25000 WHERE name = 'commits'",
    );
    database.configured().clean_up().expect("it writes");
    assert_eq!(database.sql("SELECT number FROM commits").trim(), "25000");
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
fn accounts_and_keys_are_the_same_in_both_stores_and_move_both_ways() {
    let Some(database) = Postgres::create() else { return };
    let file = Redb::new();
    let (in_file, in_database) = (file.open(), database.open());
    let outcomes = apply_all(&in_file, changes_of_keys());
    assert_eq!(apply_all(&in_database, changes_of_keys()), outcomes);
    assert!(outcomes.iter().filter(|outcome| outcome.is_err()).count() >= 10, "{outcomes:?}");
    let presets = (0..=PRESETS_PER_ACCOUNT)
        .map(|n| Change::PutPreset { preset: preset("acme", &format!("preset_{n:04}"), &format!("name {n}")) });
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
            check: None,
        })
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
    let named = ExportedAccounts::Named(["with key".to_owned()].into());
    let mut of_one = [Vec::new(), Vec::new()];
    database.configured().export(&mut of_one[0], &named).expect("it is there");
    in_file.export(&mut of_one[1], &named).expect("it is there");
    assert_eq!(rows_of(&of_one[0]), rows_of(&of_one[1]));
    assert!(rows_of(&of_one[0]).len() < rows_of(&from_file).len());
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
fn the_uses_of_500_keys_in_one_change_are_all_stored_as_in_a_file() {
    let Some(database) = Postgres::create() else { return };
    let file = Redb::new();
    let (in_file, in_database) = (file.open(), database.open());
    let id = |number: u16| format!("key_{number}");
    let create = |number: u16| {
        let mut bytes = [0; 32];
        bytes[..2].copy_from_slice(&number.to_be_bytes());
        Change::CreateKey { hash: KeyHash(bytes), key: key("acme", &id(number)) }
    };
    let used = (0..500).map(|number| (id(number), UnixSeconds(i64::from(number)))).collect();
    let mut changes = vec![account("acme")];
    changes.extend((0..500).map(create));
    changes.push(Change::TouchKeys { used });
    let outcomes = apply_all(&in_file, changes.clone());
    assert!(outcomes.last().is_some_and(|last| last.as_ref().is_ok_and(|rows| rows.keys.len() == 500)));
    assert_eq!(apply_all(&in_database, changes), outcomes);
    let now = UnixSeconds(1_767_225_600);
    let stored = ContractStore::load_at(&in_database, now);
    assert!(stored.keys.iter().all(|(_, key)| key.last_used_at.is_some()));
    assert_eq!(stored, ContractStore::load_at(&in_file, now));
}

fn bill(images: u64) -> Change {
    Change::Bill(Bill {
        account: "acme".into(),
        month: Month(202_601),
        images,
        microdollars: 0,
        request: None,
        by: None,
        check: None,
    })
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
        match outcomes.recv_timeout(LIMIT).expect("every change is answered") {
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
    wait_until(|| count.load(Ordering::Relaxed) >= from + more);
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
fn a_store_whose_database_lost_acknowledged_commits_makes_no_change_any_more() {
    let Some(database) = Postgres::create() else { return };
    let store = database.open();
    apply(&store, account("acme")).expect("a new name");
    apply(&store, bill(1)).expect("the account is there");
    // As a standby that was promoted before the last commit reached it.
    database.sql("UPDATE meta SET number = number - 1 WHERE name = 'commits'; DELETE FROM usage");
    database.server.cut_connections();
    wait_until(|| store.is_superseded());
    assert!(apply(&store, bill(1)).is_err());
    assert!(store.fault().is_some_and(|reason| reason.contains("acknowledged")));
    assert_eq!(billed(&database.open()), 0);
}

#[test]
fn a_server_that_does_not_answer_refuses_changes_and_reads_and_is_used_again_when_it_does() {
    let Some(database) = Postgres::create() else { return };
    let store = database.open();
    apply(&store, account("acme")).expect("a new name");
    database.server.signal("STOP");
    wait_until(|| store.fault().is_some());
    let refused = apply(&store, bill(1)).expect_err("nothing answers");
    assert!(matches!(refused, ChangeError::Unavailable(_)), "{refused}");
    assert!(store.preset("acme", "preset_1").is_err());
    database.server.signal("CONT");
    wait_until(|| store.fault().is_none());
    apply(&store, bill(2)).expect("it answers");
    assert_eq!(billed(&store), 2);
}

#[test]
fn a_server_that_stops_during_a_change_does_not_keep_its_client_waiting_for_ever() {
    let Some(database) = Postgres::create() else { return };
    let store = database.open();
    apply(&store, account("acme")).expect("a new name");
    database.server.signal("STOP");
    // Before the idle connection is tested: the change itself meets the silence.
    let refused = apply(&store, bill(1)).expect_err("nothing answers");
    assert!(matches!(refused, ChangeError::Unavailable(_)), "{refused}");
    database.server.signal("CONT");
    wait_until(|| store.fault().is_none());
    assert_eq!(billed(&store), 0, "a refused change did not happen");
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
        let config = StoreConfig { url: Some(url.clone()), ca_file };
        PostgresServer::configured(&config).expect("a valid URL").expect("one is configured").open()
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
        let config = StoreConfig { url: Some(url), ca_file: None };
        let server = PostgresServer::configured(&config).expect("a valid URL").expect("one is configured");
        let error = with_causes(&server.open().expect_err("it cannot be used"));
        assert!(!error.contains(PASSWORD) && error.contains("postgres://"), "{error}");
    };
    for (from, to) in [("/test_0", "/missing"), ("/postgres:", "/nobody:"), ("127.0.0.1", "host.invalid")] {
        refused(database.url.replace(from, to));
    }
    database.server.crash();
    refused(database.url.clone());
}
