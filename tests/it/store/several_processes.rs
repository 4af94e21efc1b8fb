//! Several processes on one PostgreSQL database: each follows the commits of the others, and no bill depends on a copy that lags
//! behind.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use backdrop::account::{Billed, BillingError, Claim, IdempotencyKey, Payer, Plan, QuotaKind, Services, WriteError};
use backdrop::store::{
    Bill, BillCheck, Change, ChangeError, Job, JobEnd, JobError, JobState, LeaseShare, Month, OpenError, PostgresStore,
    Rows, StateStore, UnixSeconds, Webhook,
};
use tokio::runtime::Runtime;

use crate::store::backend::{Backend, ContractStore, Postgres};
use crate::store::jobs;
use crate::store::support::{account, apply, apply_all, key, wait_until};

const QUOTA: u64 = 50;

/// Records what a store's followers get.
pub(crate) fn followed(store: &PostgresStore) -> Arc<Mutex<Vec<Rows>>> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    store.follow(Box::new(move |rows| sink.lock().expect("no panic").push(rows.clone())));
    seen
}

pub(crate) fn names(seen: &Mutex<Vec<Rows>>) -> Vec<String> {
    let seen = seen.lock().expect("no panic");
    seen.iter().flat_map(|rows| rows.accounts.iter().map(|account| account.name.clone())).collect()
}

fn services(database: &Postgres) -> Services {
    Services::load(database.open(), QUOTA).expect("it loads")
}

fn now() -> UnixSeconds {
    UnixSeconds::now()
}

#[test]
fn each_process_gets_the_commits_of_the_others_once_and_in_order() {
    let Some(database) = Postgres::create() else { return };
    let (one, other) = (database.open(), database.open());
    apply(&one, account("before")).expect("a new name");
    assert_eq!(other.load().expect("it reads").accounts.len(), 1);
    apply(&one, account("between")).expect("a new name");
    let (seen_by_one, seen_by_other) = (followed(&one), followed(&other));
    for number in 0..20 {
        // By turns, so that own and other commits alternate.
        let store = if number % 2 == 0 { &one } else { &other };
        apply(store, account(&number.to_string())).expect("a new name");
        if number == 10 {
            database.server.cut_connections();
            wait_until(|| apply(&one, account("after the cut")).is_ok());
        }
    }
    let numbers = |of: u32| (0..20).filter(move |number| number % 2 == of).map(|number| number.to_string());
    wait_until(|| names(&seen_by_one).len() >= 10 && names(&seen_by_other).len() >= 12);
    std::thread::sleep(Duration::from_millis(600));
    assert_eq!(names(&seen_by_one), numbers(1).collect::<Vec<_>>(), "no own commit, and none twice");
    let mut expected = vec!["between".to_owned()];
    expected.extend(numbers(0));
    expected.insert(7, "after the cut".into());
    assert_eq!(names(&seen_by_other), expected, "from what was loaded on");
    assert!(!one.is_superseded() && !other.is_superseded());
}

#[test]
fn a_process_that_missed_more_than_the_log_has_makes_no_change_any_more() {
    let Some(database) = Postgres::create() else { return };
    let (one, other) = (database.open(), database.open());
    apply(&one, account("acme")).expect("a new name");
    let seen = followed(&one);
    wait_until(|| apply(&other, key_of("key_1", 1)).is_ok());
    wait_until(|| !seen.lock().expect("no panic").is_empty());
    // As if the process had been cut off for longer than the log is kept.
    database.sql("UPDATE meta SET number = number + 5 WHERE name = 'commits'");
    apply(&other, key_of("key_2", 2)).expect("it is new");
    wait_until(|| one.is_superseded());
    assert!(matches!(apply(&one, account("late")), Err(ChangeError::Unavailable(_))));
}

fn key_of(id: &str, number: u8) -> Change {
    Change::CreateKey { hash: backdrop::store::KeyHash([number; 32]), key: key("acme", id) }
}

#[test]
fn a_revoked_key_is_refused_by_the_other_process() {
    let Some(database) = Postgres::create() else { return };
    let (one, other) = (services(&database), services(&database));
    let runtime = Runtime::new().expect("a runtime");
    let created = runtime.block_on(one.keys.bootstrap(None)).expect("it writes").expect("the store was empty");
    assert!(runtime.block_on(other.keys.bootstrap(None)).expect("it writes").is_none());
    let token = created.secret.expose();
    wait_until(|| other.keys.authenticate(token).is_some());
    runtime.block_on(one.keys.revoke(&created.key.id)).expect("it writes");
    wait_until(|| other.keys.authenticate(token).is_none());
}

/// Bills one image after the other until the quota is exhausted; returns how many were billed.
async fn bill_all(services: Services, payer: Payer<'static>) -> u64 {
    let mut billed = 0;
    loop {
        match services.billing.reserve_for(&payer, 1, now()) {
            Ok(reservation) => match reservation.bill(1, 1, None).await {
                Ok(Billed::Now) => billed += 1,
                Err(BillingError::Exhausted(exhausted)) => {
                    let of_key = payer.images_per_month.is_some();
                    assert_eq!(exhausted.kind, if of_key { QuotaKind::Key } else { QuotaKind::Plan });
                    return billed;
                }
                other => panic!("{other:?}"),
            },
            Err(_) => return billed,
        }
    }
}

#[test]
fn no_quota_is_exceeded_by_several_processes() {
    let Some(database) = Postgres::create() else { return };
    let all = [services(&database), services(&database), services(&database)];
    let runtime = Runtime::new().expect("a runtime");
    let store = database.open();
    apply(&store, account("acme")).expect("a new name");
    apply(&store, account("paid")).expect("a new name");
    let plan = Payer { account: "acme", plan: Plan::Free, key_id: Some("key_1"), images_per_month: None };
    let of_key = Payer { account: "paid", plan: Plan::Paid, key_id: Some("key_2"), images_per_month: Some(30) };
    for (payer, quota) in [(plan, QUOTA), (of_key, 30)] {
        let clients: Vec<_> = (0..12).map(|n| runtime.spawn(bill_all(all[n % 3].clone(), payer))).collect();
        let billed: u64 = clients.into_iter().map(|client| runtime.block_on(client).expect("no panic")).sum();
        assert_eq!(billed, quota);
    }
    assert_eq!(database.sql("SELECT sum(images) FROM usage").trim(), "80");
    // What a job reserves elsewhere counts too.
    apply(&store, account("clips")).expect("a new name");
    let job =
        Job { account: "clips".into(), reserved: QUOTA - 1, month: backdrop::store::Month::of(now()), ..jobs::job(1) };
    apply(&store, Change::CreateJob { job: Box::new(job), at_most: 9, check: None }).expect("it is new");
    let clips = Payer { account: "clips", plan: Plan::Free, key_id: None, images_per_month: None };
    assert_eq!(runtime.block_on(bill_all(all[0].clone(), clips)), 1);
}

#[test]
fn a_request_that_runs_in_two_processes_is_billed_once() {
    let Some(database) = Postgres::create() else { return };
    let (one, other) = (services(&database), services(&database));
    let runtime = Runtime::new().expect("a runtime");
    apply(&database.open(), account("acme")).expect("a new name");
    let name: IdempotencyKey = "order-1".try_into().expect("a valid key");
    let claim = |services: &Services, fingerprint| {
        let claimed = services.idempotency.claim("acme", &name, [fingerprint; 32], now());
        match runtime.block_on(claimed) {
            Claim::New(guard) => guard.with_pictures(vec![Some([7; 32])].into()),
            claimed @ (Claim::Replay(_) | Claim::Conflict) => panic!("{claimed:?}"),
        }
    };
    let bill = |services: &Services, guard| {
        let reservation = services.billing.reserve("acme", Plan::Free, 1, now()).expect("room");
        runtime.block_on(reservation.bill(1, 5, Some(guard)))
    };
    let third = services(&database);
    let (first, again, different) = (claim(&one, 1), claim(&other, 1), claim(&third, 2));
    assert_eq!(bill(&one, first).expect("it writes"), Billed::Now);
    assert_eq!(bill(&other, again).expect("it is a repetition"), Billed::Before);
    assert!(matches!(bill(&third, different), Err(BillingError::Conflict)));
    assert_eq!(database.sql("SELECT sum(images) FROM usage").trim(), "1");
    let replayed = || {
        let claimed = other.idempotency.claim("acme", &name, [1; 32], now());
        matches!(runtime.block_on(claimed), Claim::Replay(_))
    };
    wait_until(replayed);
    assert!(other.billing.usage("acme", Plan::Free, now()).used == 1, "its counters followed");
}

/// Bills one image.
fn bill_one(runtime: &Runtime, services: &Services, payer: &Payer<'_>) -> Result<Billed, BillingError> {
    let reserved = services.billing.reserve_for(payer, 1, now());
    runtime.block_on(reserved.map_err(BillingError::from)?.bill(1, 1, None))
}

/// Bills one image and leases others.
fn lease(runtime: &Runtime, services: &Services, payer: &Payer<'_>) {
    bill_one(runtime, services, payer).expect("it writes");
    runtime.block_on(services.billing.renew_leases());
    assert!(services.billing.has_leases());
}

#[test]
fn leased_images_are_withheld_from_others_until_the_lease_ends() {
    let Some(database) = Postgres::create() else { return };
    let runtime = Runtime::new().expect("a runtime");
    let payer = |account| Payer { account, plan: Plan::Free, key_id: Some("key_1"), images_per_month: None };
    let images = |table: &str, account: &str| {
        let count = database.sql(&format!("SELECT coalesce(sum(images), 0) FROM {table} WHERE account = '{account}'"));
        count.trim().parse::<u64>().expect("a number")
    };
    // What the holder bills itself afterwards, and what the other one does once the lease has ended.
    for (name, returned) in [("acme", false), ("gone", true)] {
        let (one, other) = (services(&database), services(&database));
        apply(&database.open(), account(name)).expect("a new name");
        lease(&runtime, &one, &payer(name));
        assert_eq!(images("leases", name), 4, "a tenth of 49");
        let bill_all = || {
            let mut billed = 0;
            loop {
                match bill_one(&runtime, &other, &payer(name)) {
                    Ok(_) => billed += 1,
                    Err(error) => return (billed, error),
                }
            }
        };
        let (billed, error) = bill_all();
        assert_eq!(billed, QUOTA - 1 - 4);
        let is_temporary = matches!(error, BillingError::Write(WriteError::Change(ChangeError::Unavailable(_))));
        assert!(is_temporary, "the quota is not exhausted: {error}");
        let exhausted = if returned {
            database.sql("UPDATE leases SET lease_until = now() - interval '1 s'");
            let (billed, error) = bill_all();
            assert_eq!(billed, 4);
            error
        } else {
            for _ in 0..4 {
                bill_one(&runtime, &one, &payer(name)).expect("its lease has room");
            }
            bill_one(&runtime, &one, &payer(name)).expect_err("the quota is exhausted")
        };
        assert!(matches!(exhausted, BillingError::Exhausted(_)), "{exhausted}");
        assert_eq!((images("usage", name), images("leases", name)), (QUOTA, 0));
    }
}

#[test]
fn a_daemon_that_starts_again_has_no_lease_of_its_earlier_process() {
    let Some(database) = Postgres::create() else { return };
    let runtime = Runtime::new().expect("a runtime");
    let folders = [tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder")];
    let start = |number: usize| {
        let store = daemon(&database, folders[number].path()).expect("it opens");
        Services::load(store, QUOTA).expect("it loads")
    };
    let (one, other) = (start(0), start(1));
    apply(&*one.store, account("acme")).expect("a new name");
    let payer = Payer { account: "acme", plan: Plan::Free, key_id: Some("key_1"), images_per_month: None };
    lease(&runtime, &one, &payer);
    lease(&runtime, &other, &payer);
    let leases = || database.sql("SELECT images FROM leases ORDER BY images");
    assert_eq!(leases().split_whitespace().collect::<Vec<_>>(), ["4", "4"]);
    drop(one);
    let again = start(0);
    assert_eq!(leases().trim(), "4", "of the other daemon only");
    assert!(!again.billing.has_leases());
}

#[test]
fn all_leases_together_leave_most_of_a_quota_and_those_of_a_daemon_that_ends_return() {
    let Some(database) = Postgres::create() else { return };
    let runtime = Runtime::new().expect("a runtime");
    apply(&database.open(), account("acme")).expect("a new name");
    let payer = Payer { account: "acme", plan: Plan::Free, key_id: Some("key_1"), images_per_month: None };
    let daemons = [(); 3].map(|()| services(&database));
    daemons.iter().for_each(|services| lease(&runtime, services, &payer));
    let leases = || database.sql("SELECT images FROM leases ORDER BY images DESC").replace('\n', " ");
    assert_eq!(leases().trim(), "4 4 3");
    let late = services(&database);
    bill_one(&runtime, &late, &payer).expect("there is room");
    runtime.block_on(late.billing.renew_leases());
    assert!(!late.billing.has_leases(), "a quarter of what is left is leased");
    runtime.block_on(daemons[0].billing.end_leases());
    assert_eq!(leases().trim(), "4 3");
    assert!(!daemons[0].billing.has_leases());
}

/// Makes the server refuse the bills of an account, or of all, with an error of this code.
fn refuse_bills(database: &Postgres, account: Option<&str>, code: &str) {
    let condition = account.map_or_else(String::new, |name| format!("WHEN (NEW.account = '{name}')"));
    database.sql(&format!(
        "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = '{code}'; END $$; \
         DROP TRIGGER IF EXISTS refuse ON usage; \
         CREATE TRIGGER refuse BEFORE INSERT ON usage FOR EACH ROW {condition} EXECUTE FUNCTION refuse()"
    ));
}

#[test]
fn acknowledged_bills_outlast_a_full_disk_and_are_given_up_only_for_their_own_values() {
    let Some(database) = Postgres::create() else { return };
    let runtime = Runtime::new().expect("a runtime");
    let services = services(&database);
    let payers = ["acme", "invalid"].map(|account| Payer {
        account,
        plan: Plan::Plus,
        key_id: Some(account),
        images_per_month: None,
    });
    for payer in &payers {
        apply(&database.open(), account(payer.account)).expect("a new name");
        lease(&runtime, &services, payer);
    }
    assert_eq!(database.sql("SELECT count(*) FROM leases").trim(), "0", "without a quota a lease has no row");
    // As with a full disk: the server takes connections.
    refuse_bills(&database, None, "53100");
    let bill = async |payer: &Payer<'_>| {
        let reservation = services.billing.reserve_for(payer, 1, now()).expect("no quota");
        reservation.bill(1, 1, None).await
    };
    let (one, other) = runtime.block_on(async { tokio::join!(bill(&payers[0]), bill(&payers[1])) });
    assert_eq!((one.expect("it is leased"), other.expect("it is leased")), (Billed::Now, Billed::Now));
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(services.billing.deferred_bills(), 2);
    refuse_bills(&database, Some("invalid"), "22003");
    assert_eq!(runtime.block_on(services.billing.finish_deferred(Duration::from_secs(60))), 0);
    let billed = |name| database.sql(&format!("SELECT sum(images) FROM usage WHERE account = '{name}'"));
    assert_eq!([billed("acme").trim(), billed("invalid").trim()], ["2", "1"], "one before, and one afterwards");
    bill_one(&runtime, &services, &payers[0]).expect("the server takes it");
}

#[test]
fn many_deferred_bills_are_committed_in_several_transactions() {
    const BILLS: usize = 600;
    let Some(database) = Postgres::create() else { return };
    let store = database.open();
    apply(&store, account("acme")).expect("a new name");
    let commits = || database.sql("SELECT number FROM meta WHERE name = 'commits'").trim().parse::<usize>();
    let before = commits().expect("a number");
    database.server.crash();
    wait_until(|| store.fault().is_some());
    let bill = |_| {
        Change::Bill(Bill {
            account: "acme".into(),
            month: Month::of(now()),
            images: 1,
            microdollars: 0,
            request: None,
            by: None,
            check: Some(BillCheck { lease: Some(LeaseShare { id: 1, images: 1 }), ..BillCheck::default() }),
        })
    };
    let results = std::thread::scope(|scope| {
        let results = scope.spawn(|| apply_all(&store, (0..BILLS).map(bill)));
        std::thread::sleep(Duration::from_secs(1));
        assert!(!results.is_finished(), "they wait");
        database.server.resume(&[]);
        results.join().expect("no panic")
    });
    let used = |rows: Rows| rows.usage.first().map(|(_, _, usage)| usage.images);
    let sums: Vec<_> = results.into_iter().map(|result| used(result.expect("it is deferred"))).collect();
    assert_eq!(sums, (1..=BILLS as u64).map(Some).collect::<Vec<_>>());
    assert!(commits().expect("a number") >= before + 3, "256 changes in one");
}

#[test]
fn leased_images_are_billed_once_the_database_is_back() {
    let Some(database) = Postgres::create() else { return };
    let runtime = Runtime::new().expect("a runtime");
    let (one, other, cold) = (services(&database), services(&database), services(&database));
    apply(&database.open(), account("acme")).expect("a new name");
    let payer = Payer { account: "acme", plan: Plan::Plus, key_id: Some("key_1"), images_per_month: Some(1000) };
    lease(&runtime, &one, &payer);
    lease(&runtime, &other, &payer);
    // A server that is gone, and one that stands still.
    for (round, is_gone) in [true, false].into_iter().enumerate() {
        for services in [&one, &other] {
            wait_until(|| services.store.fault().is_none());
            runtime.block_on(services.billing.renew_leases());
        }
        let name: IdempotencyKey = format!("order-{round}").as_str().try_into().expect("a valid key");
        let bill_order = |services: &Services| {
            let claimed = runtime.block_on(services.idempotency.claim("acme", &name, [1; 32], now()));
            let guard = match claimed {
                Claim::New(guard) => guard.with_pictures(vec![Some([7; 32])].into()),
                claimed @ (Claim::Replay(_) | Claim::Conflict) => panic!("{claimed:?}"),
            };
            let reservation = services.billing.reserve_for(&payer, 1, now()).expect("room");
            runtime.block_on(reservation.bill(1, 5, Some(guard)))
        };
        if is_gone {
            database.server.crash();
        } else {
            database.server.signal("STOP");
        }
        let start = Instant::now();
        assert_eq!(bill_order(&one).expect("its lease has room"), Billed::Now);
        assert_eq!(bill_order(&other).expect("its lease has room"), Billed::Now);
        assert_eq!(bill_one(&runtime, &one, &payer).expect("its lease has room"), Billed::Now);
        assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
        let require_billable = |services: &Services, images| {
            services.billing.reserve_for(&payer, images, now()).expect("room").require_billable()
        };
        let replayed = runtime.block_on(one.idempotency.claim("acme", &name, [1; 32], now()));
        assert!(matches!(replayed, Claim::Replay(_)), "{replayed:?}");
        if is_gone {
            // A server that stands still is noticed later.
            wait_until(|| one.store.fault().is_some());
            require_billable(&one, 1).expect("its lease has room");
            let refused = bill_one(&runtime, &cold, &payer).expect_err("it has no lease");
            assert!(matches!(refused, BillingError::Write(_)), "{refused}");
            for (services, images) in [(&cold, 1), (&one, 200)] {
                wait_until(|| services.store.fault().is_some());
                let unbillable = require_billable(services, images).expect_err("no lease covers them");
                assert!(matches!(unbillable, WriteError::Change(ChangeError::Unavailable(_))), "{unbillable}");
            }
            database.server.resume(&[]);
        } else {
            database.server.signal("CONT");
        }
        for services in [&one, &other] {
            assert_eq!(runtime.block_on(services.billing.finish_deferred(Duration::from_secs(120))), 0);
        }
        // Before the outages, and in each of them.
        let billed = 2 + 2 * (round + 1);
        assert_eq!(database.sql("SELECT sum(images) FROM usage").trim(), billed.to_string());
        assert_eq!(database.sql("SELECT count(*) FROM requests").trim(), (round + 1).to_string());
        wait_until(|| other.billing.usage("acme", Plan::Plus, now()).used == billed as u64);
        wait_until(|| one.billing.usage("acme", Plan::Plus, now()).used == billed as u64);
        wait_until(|| cold.store.fault().is_none());
    }
}

#[test]
fn calls_count_against_the_limit_of_all_processes() {
    let Some(database) = Postgres::create() else { return };
    let (one, other) = (services(&database), services(&database));
    let runtime = Runtime::new().expect("a runtime");
    let exchanging = [one.clone(), other.clone()];
    for services in exchanging {
        runtime.spawn(async move { services.exchange_calls().await });
    }
    // Calls are published in their order, so that a later one shows that the others are known.
    let until_known = |key| {
        let mut own = 0;
        wait_until(|| {
            own += 1;
            one.rate_limits.calls.check(key, u32::MAX, Instant::now());
            other.rate_limits.calls.check(key, u32::MAX, Instant::now()).remaining < u32::MAX - own
        });
    };
    until_known("first");
    for _ in 0..5 {
        assert!(one.rate_limits.calls.check("key_1", 8, Instant::now()).allowed);
    }
    until_known("last");
    assert!(!other.rate_limits.calls.check("key_1", 5, Instant::now()).allowed, "five calls of a limit of five");
    assert!(other.rate_limits.calls.check("key_1", 6, Instant::now()).allowed);
    assert!(one.rate_limits.calls.check("key_3", 1, Instant::now()).allowed, "keys do not share a limit");
}

/// A store of the daemon of a data directory.
fn daemon(database: &Postgres, folder: &std::path::Path) -> Result<PostgresStore, OpenError> {
    database.configured().for_daemon(folder).expect("a folder").open()
}

#[test]
fn a_job_belongs_to_its_daemon_until_the_lease_has_ended() {
    let Some(database) = Postgres::create() else { return };
    let folders = [tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder")];
    let one = daemon(&database, folders[0].path()).expect("it opens");
    let other = daemon(&database, folders[1].path()).expect("it opens");
    let again = daemon(&database, folders[0].path()).expect_err("its directory is in use");
    assert!(matches!(again, OpenError::Locked { .. }), "{again}");
    apply(&one, account("acme")).expect("a new name");
    let create = |number| Change::CreateJob { job: Box::new(jobs::job(number)), at_most: 9, check: None };
    apply(&one, create(1)).expect("it is new");
    apply(&one, create(2)).expect("it is new");
    let start = |number: u8| Change::StartJob { id: jobs::id(number), at: UnixSeconds(2) };
    apply(&one, start(1)).expect("it is queued");
    let error = || JobError { code: "x".into(), message: "x".into() };
    let finish =
        |number, end| Change::FinishJob { id: jobs::id(number), at: UnixSeconds(4), expires_at: UnixSeconds(9), end };
    // A finished one, whose webhook and deletion are due.
    let hook = Webhook { url: "https://example.com/hook".into(), base: String::new(), attempts: 0, next_at: None };
    let job = Job { webhook: Some(hook), ..jobs::job(3) };
    apply(&one, Change::CreateJob { job: Box::new(job), at_most: 9, check: None }).expect("it is new");
    apply(&one, finish(3, JobEnd::Cancelled { error: error(), progress: 0 })).expect("it is not finished");
    let due = |store: &PostgresStore| {
        let (hooks, expiring) = (store.webhook_jobs(9).expect("it reads"), store.expiring_jobs(9).expect("it reads"));
        [hooks, expiring].map(|jobs| jobs.into_iter().map(|(_, job)| job.id).collect::<Vec<_>>())
    };
    let of_third = [vec![jobs::id(3)], vec![jobs::id(3)]];
    assert_eq!((due(&one), due(&other)), (of_third.clone(), Default::default()));
    assert_eq!((one.waiting_jobs(9).expect("it reads").len(), other.waiting_jobs(9).expect("it reads").len()), (2, 0));
    assert!(other.job(&jobs::id(1)).expect("it reads").is_some(), "every daemon shows it");
    assert_eq!(apply(&other, start(2)), Err(ChangeError::JobElsewhere(jobs::id(2))));
    let orphans = || database.sql("SELECT count(*) FROM orphaned_jobs").trim().to_owned();
    assert_eq!(orphans(), "0");
    let adopt = || Change::AdoptJobs { at: UnixSeconds(3) };
    assert_eq!(apply(&other, adopt()).expect("it writes").jobs, Vec::new());

    database.sql("UPDATE daemons SET lease_until = now() - interval '1 s'");
    // A living daemon renews it soon.
    wait_until(|| orphans() == "0");
    drop(one);
    database.sql("UPDATE daemons SET lease_until = now() - interval '1 s' WHERE id IN (SELECT owner FROM jobs)");
    assert_eq!(orphans(), "3");
    wait_until(|| other.has_orphaned_jobs().expect("it reads"));
    let adopted = apply(&other, adopt()).expect("it writes").jobs;
    assert_eq!(adopted.iter().map(|job| job.state).collect::<Vec<_>>(), [JobState::Queued; 2]);
    assert_eq!(other.waiting_jobs(9).expect("it reads").len(), 2);
    let back = daemon(&database, folders[0].path()).expect("it opens");
    assert_eq!(back.waiting_jobs(9).expect("it reads").len(), 0);
    assert_eq!((due(&other), due(&back)), (of_third, Default::default()));
    let failed = apply(&back, finish(1, JobEnd::Failed { error: error(), progress: 1 }));
    assert_eq!(failed, Err(ChangeError::JobElsewhere(jobs::id(1))));
    apply(&back, finish(1, JobEnd::Cancelled { error: error(), progress: 1 })).expect("every daemon may cancel");
}

#[test]
fn a_job_whose_record_cannot_be_read_is_adopted_with_the_others() {
    let Some(database) = Postgres::create() else { return };
    let folders = [tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder")];
    let one = daemon(&database, folders[0].path()).expect("it opens");
    let other = daemon(&database, folders[1].path()).expect("it opens");
    apply(&one, account("acme")).expect("a new name");
    for number in [1, 2] {
        let create = Change::CreateJob { job: Box::new(jobs::job(number)), at_most: 9, check: None };
        apply(&one, create).expect("it is new");
    }
    drop(one);
    database.sql(&format!("UPDATE jobs SET record = decode('63', 'hex') WHERE id = '{}'", jobs::id(1)));
    database.sql("UPDATE daemons SET lease_until = now() - interval '1 s' WHERE id IN (SELECT owner FROM jobs)");
    let adopted = apply(&other, Change::AdoptJobs { at: UnixSeconds(3) }).expect("it writes").jobs;
    assert_eq!(adopted.into_iter().map(|job| job.id).collect::<Vec<_>>(), [jobs::id(2)]);
    assert_eq!(database.sql("SELECT count(*) FROM orphaned_jobs").trim(), "0");
    assert_eq!(database.sql("SELECT count(*) FROM jobs WHERE record = decode('63', 'hex')").trim(), "1");
}

#[test]
fn an_import_needs_a_database_that_no_other_process_uses() {
    let Some(database) = Postgres::create() else { return };
    let (one, other) = (database.open(), database.open());
    apply(&one, account("acme")).expect("a new name");
    assert_eq!(ContractStore::load_at(&other, now()).accounts.len(), 1);
    let refused = database.configured().import(&b""[..]).expect_err("it is in use");
    assert!(refused.to_string().contains("in use"), "{refused}");
    assert!(database.export(&one).1.accounts == 1, "an export needs nothing");
    let secret = one.shared_secret([1; 32]).expect("it is stored");
    assert_eq!(other.shared_secret([2; 32]).expect("it is stored"), secret, "the first daemon's secret is everyone's");
    drop((one, other));
    database.sql("UPDATE meta SET number = 99 WHERE name IN ('schema', 'oldest_compatible')");
    let error = database.configured().open().expect_err("it is newer");
    assert!(matches!(error, OpenError::Newer { found: 99, .. }), "{error}");
}

#[test]
fn tables_of_an_older_version_are_upgraded_once_no_process_uses_them() {
    let Some(database) = Postgres::create() else { return };
    drop(database.open());
    // As version 2 left them: an old daemon holds the lock that this version shares.
    database.sql(
        "DROP VIEW orphaned_jobs, waiting_bulk_runs; DROP TABLE commits, daemons, calls, bulk_jobs, leases; \
         ALTER TABLE bulk_runs DROP COLUMN skipped, DROP COLUMN ignored; DROP INDEX jobs_by_owner, jobs_reserved; \
         ALTER TABLE jobs DROP COLUMN owner, DROP COLUMN month, DROP COLUMN reserved; \
         UPDATE meta SET number = 2 WHERE name = 'schema'",
    );
    let old = database.sleeping_session("SELECT pg_advisory_lock(x'62647270'::int, 2)");
    let refused = database.configured().open().expect_err("an older version uses it");
    assert!(matches!(refused, OpenError::Locked { .. }), "{refused}");
    drop(old);
    wait_until(|| database.configured().open().is_ok());
}
