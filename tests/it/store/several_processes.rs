//! Several processes on one PostgreSQL database: what one has done holds at once for the others.

use std::time::{Duration, Instant};

use backdrop::store::{
    Admission, Allowance, Billed, BillingError, Change, ChangeError, Claim, Credential, ImagesLeft, Job, JobChange,
    JobEnd, JobError, JobHeartbeat, JobState, KeyChange, KeyHash, KeyUpdate, Month, OpenError, Payer, Plan, QuotaKind,
    RateKind, RateRule, Renewal, Store, UnixSeconds, Webhook,
};
use tokio::runtime::Runtime;

use crate::store::backend::{Backend, ContractStore, Postgres, import, runtime};
use crate::store::jobs;
use crate::store::support::{account, apply, key, wait_until};

const QUOTA: u64 = 50;

/// A process on the database.
fn process(runtime: &Runtime, database: &Postgres) -> Store {
    Store::Database(runtime.block_on(database.configured().open(QUOTA)).expect("it opens"))
}

fn now() -> UnixSeconds {
    UnixSeconds::now()
}

fn rule(limit: u32) -> RateRule {
    RateRule { kind: RateKind::Calls, limits: [limit; 3] }
}

async fn admit(store: &Store, hash: u8, limit: u32) -> Admission {
    store.admit(Credential::Key(KeyHash([hash; 32])), &rule(limit)).await.expect("it answers")
}

/// A database with the accounts `acme` (free) and `paid`, and the keys 1 and 2 of them, of which the second has 30 images a month.
fn with_keys() -> Option<(Postgres, Runtime)> {
    let database = Postgres::create()?;
    let store = database.open();
    for name in ["acme", "paid"] {
        apply(&store, account(name)).expect("a new name");
    }
    let plan = Some(Plan::Paid);
    apply(&store, Change::SetAccount { account: "paid".into(), plan, generates: None, model: None })
        .expect("it is there");
    let limited = backdrop::store::Key { images_per_month: Some(30), ..key("paid", "key_2") };
    for (number, key) in [(1, key("acme", "key_1")), (2, limited)] {
        apply(&store, Change::CreateKey { hash: KeyHash([number; 32]), key }).expect("it is new");
    }
    Some((database, runtime()))
}

#[test]
fn a_key_is_known_and_refused_everywhere_from_the_acknowledgement_on() {
    let Some((database, runtime)) = with_keys() else { return };
    let (one, other) = (process(&runtime, &database), process(&runtime, &database));
    runtime.block_on(async {
        let Admission::Admitted(admitted) = admit(&one, 1, 9).await else { panic!("it is active") };
        assert_eq!((admitted.account.name.as_str(), admitted.account.plan), ("acme", Plan::Free));
        assert_eq!(admitted.left, ImagesLeft { plan: Some(QUOTA), key: None });
        let Admission::Admitted(admitted) = admit(&other, 2, 9).await else { panic!("it is active") };
        assert_eq!(admitted.left, ImagesLeft { plan: None, key: Some(30) });
        assert!(matches!(admit(&other, 3, 9).await, Admission::Unknown));

        // The old secret stays valid for a while, the one before it does not.
        let rotate = |from: u8, to: u8, until: i64| Change::Key {
            id: "key_1".into(),
            change: KeyChange::Rotate {
                from: KeyHash([from; 32]),
                to: KeyHash([to; 32]),
                keep_until: Some(UnixSeconds(now().0 + until)),
            },
        };
        one.change(rotate(1, 4, 600)).await.expect("it is active");
        assert!(matches!(admit(&other, 1, 99).await, Admission::Admitted(_)));
        one.change(rotate(4, 5, -1)).await.expect("it is active");
        assert!(matches!(admit(&other, 1, 99).await, Admission::Unknown));
        assert!(matches!(admit(&other, 4, 99).await, Admission::Unknown), "its time is over");
        assert!(matches!(admit(&other, 5, 99).await, Admission::Admitted(_)));
        assert!(one.key("key_1").await.expect("it reads").expect("it is there").1.last_used_at.is_some());

        let expire = Change::Key {
            id: "key_2".into(),
            change: KeyChange::Set(KeyUpdate {
                expires_at: Some(Some(UnixSeconds(7))),
                images_per_month: None,
                scopes: None,
            }),
        };
        one.change(expire).await.expect("it is active");
        assert!(matches!(admit(&other, 2, 99).await, Admission::Expired(UnixSeconds(7))));
        one.change(Change::Key { id: "key_1".into(), change: KeyChange::Revoke { at: now() } })
            .await
            .expect("it is there");
        assert!(matches!(admit(&other, 5, 99).await, Admission::Unknown));
        let without_key = one.admit(Credential::Account("acme"), &rule(9)).await.expect("it answers");
        assert!(matches!(without_key, Admission::Admitted(admitted) if admitted.key.is_none()));
    });
}

#[test]
fn the_rate_of_a_key_holds_for_all_processes_together_and_work_counts_beyond_it() {
    let Some((database, runtime)) = with_keys() else { return };
    let all = [process(&runtime, &database), process(&runtime, &database)];
    runtime.block_on(async {
        let mut allowed = 0;
        for turn in 0..12 {
            let Admission::Admitted(admitted) = admit(&all[turn % 2], 1, 8).await else { panic!("it is active") };
            allowed += u32::from(admitted.rate.allowed);
            assert_eq!(admitted.rate.remaining, 8_u32.saturating_sub(turn as u32 + 1));
            assert!((1..=61).contains(&admitted.rate.reset_seconds()));
        }
        assert_eq!(allowed, 8);
        // Another kind, and another key.
        let services = RateRule { kind: RateKind::Services, limits: [1; 3] };
        let service = all[0].admit(Credential::Key(KeyHash([1; 32])), &services).await.expect("it answers");
        assert!(matches!(service, Admission::Admitted(admitted) if admitted.rate.allowed));
        assert!(matches!(admit(&all[1], 2, 1).await, Admission::Admitted(admitted) if admitted.rate.allowed));
        all[0].count_work("key_2", 5).await.expect("it answers");
        let rate = all[1].rate("key_2", 9).await.expect("it answers");
        assert_eq!((rate.remaining, rate.allowed), (3, true));
        // A minute later they have left the window.
        database.sql("UPDATE rates SET second = second - 61");
        assert_eq!(all[1].rate("key_2", 9).await.expect("it answers").remaining, 9);
    });
}

/// Bills one image after the other until the quota is exhausted; returns how many were billed.
async fn bill_all(store: Store, hash: u8) -> u64 {
    let mut billed = 0;
    loop {
        let Admission::Admitted(admitted) = admit(&store, hash, u32::MAX).await else { panic!("it is active") };
        let (allowance, key) = (Allowance::from(admitted.left), admitted.key.expect("a key"));
        let payer = Payer {
            account: &admitted.account.name,
            plan: admitted.account.plan,
            key_id: Some(&key.id),
            images_per_month: key.images_per_month,
            allowance: &allowance,
        };
        let kind = if key.images_per_month.is_some() { QuotaKind::Key } else { QuotaKind::Plan };
        match store.reserve(&payer, 1, now()) {
            Ok(reservation) => match reservation.bill(1, 1, None).await {
                Ok(Billed::Now) => billed += 1,
                Err(BillingError::Exhausted(exhausted)) => {
                    assert_eq!(exhausted.kind, kind);
                    return billed;
                }
                other => panic!("{other:?}"),
            },
            Err(exhausted) => {
                assert_eq!(exhausted.kind, kind);
                return billed;
            }
        }
    }
}

#[test]
fn no_quota_is_exceeded_by_several_processes() {
    let Some((database, runtime)) = with_keys() else { return };
    let all = [(); 3].map(|()| process(&runtime, &database));
    for (hash, quota) in [(1, QUOTA), (2, 30)] {
        let clients: Vec<_> = (0..12).map(|n| runtime.spawn(bill_all(all[n % 3].clone(), hash))).collect();
        let billed: u64 = clients.into_iter().map(|client| runtime.block_on(client).expect("no panic")).sum();
        assert_eq!(billed, quota);
    }
    assert_eq!(database.sql("SELECT sum(images) FROM usage").trim(), "80");
    // What a job reserves counts too, and is checked in the same way.
    let store = database.open();
    apply(&store, account("clips")).expect("a new name");
    apply(&store, Change::CreateKey { hash: KeyHash([9; 32]), key: key("clips", "key_9") }).expect("it is new");
    let job = |number, reserved| Job {
        account: "clips".into(),
        key_id: "key_9".into(),
        reserved,
        month: Month::of(now()),
        ..jobs::job(number)
    };
    let create = |job| runtime.block_on(all[1].change(Change::CreateJob { job: Box::new(job), at_most: 9 }));
    create(job(1, QUOTA - 1)).expect("it is new");
    let refused = create(job(2, 2));
    assert!(matches!(refused, Err(ChangeError::QuotaExceeded(QuotaKind::Plan))), "{refused:?}");
    assert_eq!(runtime.block_on(bill_all(all[0].clone(), 9)), 1);
    create(job(3, 0)).expect("a sandbox key reserves nothing");
}

/// Reserves and bills one image under a claim.
async fn bill(store: &Store, claim: Claim) -> Result<Billed, BillingError> {
    let Claim::New(mut guard) = claim else { panic!("{claim:?}") };
    let allowance = &Allowance::default();
    let payer = Payer { account: "acme", plan: Plan::Free, key_id: Some("key_1"), images_per_month: None, allowance };
    let reservation = store.reserve(&payer, 1, now()).expect("nothing is known of a quota");
    reservation.bill(1, 5, Some((&mut guard, vec![Some([7; 32])].into()))).await
}

async fn claim(store: &Store, fingerprint: u8, lasts: Duration) -> Claim {
    store.claim("acme", "order-1", [fingerprint; 32], now(), lasts).await.expect("it answers")
}

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn the_same_request_waits_for_its_end_in_the_other_process_and_is_billed_once() {
    let Some((database, runtime)) = with_keys() else { return };
    let (one, other) = (process(&runtime, &database), process(&runtime, &database));
    runtime.block_on(async {
        let first = claim(&one, 1, MINUTE).await;
        assert!(matches!(claim(&other, 2, MINUTE).await, Claim::Conflict), "another request");
        let waiting = tokio::spawn({
            let other = other.clone();
            async move { claim(&other, 1, MINUTE).await }
        });
        tokio::time::sleep(Duration::from_millis(400)).await;
        assert!(!waiting.is_finished());
        assert_eq!(bill(&one, first).await.expect("it writes"), Billed::Now);
        assert!(matches!(waiting.await.expect("no panic"), Claim::Replay(_)));
        assert!(matches!(claim(&other, 2, MINUTE).await, Claim::Conflict));
        assert_eq!(other.usage("acme", Plan::Free, now()).await.expect("it reads").used, 1);
    });
    assert_eq!(database.sql("SELECT sum(images) FROM usage").trim(), "1");
}

#[test]
fn a_repetition_is_answered_as_one_while_a_wrong_request_holds_its_key() {
    let Some((database, runtime)) = with_keys() else { return };
    let store = process(&runtime, &database);
    runtime.block_on(async {
        bill(&store, claim(&store, 1, MINUTE).await).await.expect("it writes");
        // As another daemon has it until it has compared the fingerprints.
        let held = "INSERT INTO claims VALUES ('acme', 'order-1', decode(repeat('02', 32), 'hex'), 1, 'infinity')";
        database.sql(held);
        assert!(matches!(claim(&store, 1, MINUTE).await, Claim::Replay(_)));
        assert!(matches!(claim(&store, 2, MINUTE).await, Claim::Conflict));
    });
}

#[test]
fn a_dropped_claim_frees_its_key_and_one_whose_time_is_over_cannot_be_billed_after_another() {
    let Some((database, runtime)) = with_keys() else { return };
    let (one, other) = (process(&runtime, &database), process(&runtime, &database));
    runtime.block_on(async {
        drop(claim(&one, 1, MINUTE).await);
        let began = Instant::now();
        while matches!(claim(&other, 2, MINUTE).await, Claim::Conflict) {
            assert!(began.elapsed() < MINUTE, "it was dropped");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // Released by the drop of that one.
        wait_until(|| database.sql("SELECT count(*) FROM claims").trim() == "0");
        // As if the daemons had been away for longer than the requests may take.
        let end = || drop(database.sql("UPDATE claims SET ends_at = now() - interval '1 s'"));
        let lost = claim(&one, 1, MINUTE).await;
        end();
        let second = claim(&other, 1, MINUTE).await;
        end();
        let different = claim(&other, 3, MINUTE).await;
        assert_eq!(bill(&other, second).await.expect("it writes"), Billed::Now);
        assert_eq!(bill(&one, lost).await.expect("it is a repetition"), Billed::Before);
        assert!(matches!(bill(&other, different).await, Err(BillingError::Conflict)));
    });
    assert_eq!(database.sql("SELECT sum(images) FROM usage").trim(), "1");
}

#[test]
fn the_cap_of_generated_backdrops_is_one_for_all_processes() {
    let Some((database, runtime)) = with_keys() else { return };
    let (one, other) = (process(&runtime, &database), process(&runtime, &database));
    runtime.block_on(async {
        let taken = one.take_backdrop(2, now()).await.expect("it is the first");
        other.take_backdrop(2, now()).await.expect("it is the second").keep();
        assert!(one.take_backdrop(2, now()).await.is_err());
        drop(taken);
        let began = Instant::now();
        while other.take_backdrop(2, now()).await.map(backdrop::store::BackdropReservation::keep).is_err() {
            assert!(began.elapsed() < MINUTE, "it was given back");
        }
        assert!(one.take_backdrop(2, now()).await.is_err());
    });
}

#[test]
fn a_job_is_claimed_once_and_by_another_process_after_its_lease() {
    let Some((database, runtime)) = with_keys() else { return };
    let (one, other) = (process(&runtime, &database), process(&runtime, &database));
    let store = database.open();
    // Accounts take turns.
    for (number, account) in [(1, "acme"), (2, "acme"), (3, "paid")] {
        let job = Job { account: account.into(), ..jobs::job(number) };
        apply(&store, Change::CreateJob { job: Box::new(job), at_most: 9 }).expect("it is new");
    }
    let heartbeat = |claimed: &backdrop::store::ClaimedJob, progress| JobHeartbeat {
        id: claimed.job.id.clone(),
        attempt: claimed.attempt,
        progress,
    };
    let error = || JobError { code: "x".into(), message: "x".into() };
    runtime.block_on(async {
        let at = UnixSeconds(5);
        let claim = async |store: &Store| store.claim_job(at, &[]).await.expect("it answers");
        let (first, second) = (claim(&one).await.expect("a job"), claim(&other).await.expect("a job"));
        assert_eq!([&first.job.id, &second.job.id], [&jobs::id(1), &jobs::id(3)]);
        assert_eq!((first.job.state, first.job.updated_at), (JobState::Processing, at));
        let third = claim(&one).await.expect("a job");
        assert!(claim(&other).await.is_none());
        // A renewal shows everywhere how far it is.
        let renewed = one.renew_jobs(&[heartbeat(&first, 40)]).await.expect("it answers");
        assert_eq!(renewed, [Renewal::Kept]);
        assert_eq!(other.job(&first.job.id).await.expect("it reads").expect("it is there").progress, 40);
        // Any process cancels it; the next renewal of its claim reports that.
        let cancelled = JobEnd::Failed { error: error(), progress: 50 };
        let cancel = JobChange::Finish { at, expires_at: UnixSeconds(9), end: cancelled };
        other.change_job(&second.job.id, None, cancel).await.expect("it is unfinished");
        assert_eq!(other.renew_jobs(&[heartbeat(&second, 60)]).await.expect("it answers")[0], Renewal::Ended);

        database.sql("UPDATE jobs SET lease_until = now() - interval '1 s' WHERE state = 'processing'");
        let again = claim(&other).await.expect("its lease has ended");
        assert_eq!((&again.job.id, again.attempt, again.job.progress), (&first.job.id, 2, 40));
        assert_eq!(one.renew_jobs(&[heartbeat(&first, 50)]).await.expect("it answers")[0], Renewal::Lost);
        let finish = async |store: &Store, claimed: &backdrop::store::ClaimedJob| {
            let end = JobEnd::Failed { error: error(), progress: 1 };
            let change = JobChange::Finish { at, expires_at: UnixSeconds(9), end };
            store.change_job(&claimed.job.id, Some(claimed.attempt), change).await
        };
        let release = async |claimed: &backdrop::store::ClaimedJob, progress| {
            one.change_job(&claimed.job.id, Some(claimed.attempt), JobChange::Requeue { progress, at }).await
        };
        let refused = finish(&one, &first).await;
        assert!(matches!(refused, Err(ChangeError::JobElsewhere(_))), "{refused:?}");
        let refused = release(&first, 70).await;
        assert!(matches!(refused, Err(ChangeError::JobElsewhere(_))), "{refused:?}");
        finish(&other, &again).await.expect("it has the newest claim");
        // One that was not claimed meanwhile can still be given back, and is queued at once.
        let released = release(&third, 30).await.expect("no other has it");
        assert_eq!((released.state, released.progress), (JobState::Queued, 30));
        assert_eq!(claim(&other).await.expect("it waits").attempt, 2);
    });
}

#[test]
fn a_due_webhook_is_of_one_process() {
    let Some((database, runtime)) = with_keys() else { return };
    let (one, other) = (process(&runtime, &database), process(&runtime, &database));
    let store = database.open();
    let hook = Webhook { url: "https://example.com/hook".into(), base: String::new(), attempts: 0, next_at: None };
    let job = Job { webhook: Some(hook), ..jobs::job(1) };
    apply(&store, Change::CreateJob { job: Box::new(job), at_most: 9 }).expect("it is new");
    let end = JobEnd::Failed { error: JobError { code: "x".into(), message: "x".into() }, progress: 0 };
    let finish = Change::Job {
        id: jobs::id(1),
        attempt: None,
        change: JobChange::Finish { at: UnixSeconds(4), expires_at: UnixSeconds(9), end },
    };
    apply(&store, finish).expect("it is unfinished");
    runtime.block_on(async {
        let due = async |store: &Store, at| store.webhook_jobs(UnixSeconds(at), 9).await.expect("it reads").len();
        assert_eq!(due(&one, 3).await, 0, "not yet");
        assert_eq!((due(&one, 4).await, due(&other, 5).await), (1, 0));
        assert_eq!(due(&other, 4 + 120).await, 1, "the first one has not recorded an attempt");
        other
            .change(Change::Job { id: jobs::id(1), attempt: None, change: JobChange::NoteWebhook { next_at: None } })
            .await
            .expect("it is finished");
        assert_eq!(due(&one, 999).await, 0);
    });
}

#[test]
fn an_import_needs_a_database_that_no_other_process_uses() {
    let Some(database) = Postgres::create() else { return };
    let (one, other) = (database.open(), database.open());
    apply(&one, account("acme")).expect("a new name");
    assert_eq!(ContractStore::load_at(&other, now()).accounts.len(), 1);
    let refused = import(&database.configured(), b"").expect_err("it is in use");
    assert!(refused.to_string().contains("in use"), "{refused}");
    assert!(one.exported().1.accounts == 1, "an export needs nothing");
    let secret = |store: &crate::store::backend::PostgresStore, own| {
        let Store::Database(database) = &store.store else { panic!("it is one") };
        runtime().block_on(database.shared_secret(own)).expect("it is stored")
    };
    // Each connection belongs to the runtime that made it.
    drop((one, other));
    let first = secret(&database.open(), [1; 32]);
    assert_eq!(secret(&database.open(), [2; 32]), first, "the first daemon's secret is everyone's");
    database.sql("UPDATE meta SET number = 99 WHERE name IN ('schema', 'oldest_compatible')");
    let error = runtime().block_on(database.configured().open(QUOTA)).expect_err("it is newer");
    assert!(matches!(error, OpenError::Newer { found: 99, .. }), "{error}");
}

/// The schema before this one, with rows as its daemons left them.
const SCHEMA_5: &str = concat!(
    include_str!("../../../src/store/postgres/migrations/1.sql"),
    include_str!("../../../src/store/postgres/migrations/2.sql"),
    include_str!("../../../src/store/postgres/migrations/3.sql"),
    include_str!("../../../src/store/postgres/migrations/4.sql"),
    include_str!("../../../src/store/postgres/migrations/5.sql"),
);

#[test]
fn tables_of_the_version_before_are_upgraded_in_one_step_once_none_of_its_daemons_runs() {
    let Some((new, runtime)) = with_keys() else { return };
    let store = new.open();
    let job = Job { reserved: 5, month: Month::of(now()), ..jobs::job(1) };
    apply(&store, Change::CreateJob { job: Box::new(job), at_most: 9 }).expect("it is new");
    apply(&store, Change::Job { id: jobs::id(1), attempt: None, change: JobChange::Start { at: now() } })
        .expect("it waits");
    let rows = |table: &str, columns: &str| {
        let text = format!("SELECT string_agg(format('(%s)', concat_ws(',', {columns})), ',') FROM {table}");
        new.sql(&text).trim().to_owned()
    };
    let quoted = |column: &str| format!("quote_nullable({column})");
    let accounts = rows("accounts", &[quoted("name"), quoted("record")].join(","));
    let keys = rows("keys", &[quoted("id"), quoted("hash"), quoted("record")].join(","));
    let jobs_of = ["id", "key_id", "account", "state", "place", "record", "month", "reserved"];
    let old_jobs = rows("jobs", &jobs_of.map(quoted).join(","));

    let old = new.another();
    old.sql(SCHEMA_5);
    old.sql("INSERT INTO meta VALUES ('schema', 5), ('oldest_compatible', 5)");
    old.sql(&format!(
        "INSERT INTO accounts VALUES {accounts}; INSERT INTO keys VALUES {keys}; INSERT INTO daemons VALUES (1, now()); \
         INSERT INTO jobs ({}) VALUES {old_jobs}; UPDATE jobs SET owner = 1",
        jobs_of.join(", ")
    ));
    // As a daemon of that version holds it.
    let daemon = old.sleeping_session("SELECT pg_advisory_lock_shared(x'62647270'::int, 2)");
    let refused = runtime.block_on(old.configured().open(QUOTA)).expect_err("an older daemon uses it");
    assert!(matches!(refused, OpenError::Locked { .. }), "{refused}");
    drop(daemon);
    wait_until(|| runtime.block_on(old.configured().open(QUOTA)).is_ok());
    let upgraded = process(&runtime, &old);
    runtime.block_on(async {
        let Admission::Admitted(admitted) = admit(&upgraded, 1, 9).await else { panic!("its key is active") };
        assert_eq!(admitted.left.plan, Some(QUOTA - 5), "the job has reserved five");
        let Admission::Admitted(admitted) = admit(&upgraded, 2, 9).await else { panic!("its key is active") };
        assert_eq!((admitted.account.plan, admitted.left.key), (Plan::Paid, Some(30)));
        let claimed = upgraded.claim_job(now(), &[]).await.expect("it answers").expect("its daemon is gone");
        assert_eq!(claimed.job.id, jobs::id(1));
    });
}
