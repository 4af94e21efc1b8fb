//! Quota, billing and idempotency keys on the store, across restarts.

use backdrop::store::{
    self, Allowance, BilledPictures, Claim, Day, KEY_DAYS_KEPT, Payer, Plan, QuotaExhausted, QuotaKind, RedbStore,
    Reservation, Store, UnixSeconds, UsageSummary,
};
use futures_util::FutureExt;
use std::path::Path;
use std::time::Duration;

use crate::store::support::bootstrapped;

const QUOTA: u64 = 50;

fn services(data_dir: &Path) -> Store {
    let store = RedbStore::open(&store::file_in(data_dir)).expect("the store opens");
    Store::file(store, QUOTA).expect("the store loads")
}

/// A data directory with the account `default`.
async fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    drop(bootstrapped(folder.path()).await);
    folder
}

fn usage(store: &Store, account: &str) -> UsageSummary {
    let usage = store.usage(account, Plan::Free, UnixSeconds::now()).now_or_never();
    usage.expect("it is in memory").expect("it reads")
}

fn used(store: &Store) -> u64 {
    usage(store, "default").used
}

fn reserve(store: &Store, account: &str, plan: Plan, images: u64) -> Result<Reservation, QuotaExhausted> {
    let allowance = &Allowance::default();
    let payer = Payer { account, plan, key_id: None, images_per_month: None, allowance };
    store.reserve(&payer, images, UnixSeconds::now())
}

async fn claim(store: &Store, fingerprint: u8, now: UnixSeconds) -> Claim {
    let claimed = store.claim("default", "order-17", [fingerprint; 32], now, Duration::from_secs(60));
    claimed.await.expect("it is in memory")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_200_concurrent_requests_exactly_50_are_billed_and_survive_a_restart() {
    let folder = folder().await;
    let running = services(folder.path());
    let request = |_| {
        let billing = running.clone();
        tokio::spawn(async move {
            let Ok(reservation) = reserve(&billing, "default", Plan::Free, 1) else { return false };
            reservation.bill(1, 5000, None).await.expect("the store writes");
            true
        })
    };
    let tasks: Vec<_> = (0..200).map(request).collect();
    let mut billed = 0;
    for task in tasks {
        billed += u64::from(task.await.expect("no panic"));
    }
    assert_eq!((billed, used(&running)), (QUOTA, QUOTA));
    drop(running);
    let restarted = services(folder.path());
    let usage = usage(&restarted, "default");
    assert_eq!((usage.used, usage.quota, usage.microdollars), (QUOTA, Some(QUOTA), QUOTA * 5000));
    let refused = reserve(&restarted, "default", Plan::Free, 1).expect_err("used up");
    assert_eq!(refused.resets_at, usage.resets_at);
    assert!(usage.resets_at > UnixSeconds::now());
}

#[tokio::test]
async fn a_reservation_interrupted_by_a_restart_is_released() {
    let folder = folder().await;
    let running = services(folder.path());
    let interrupted = reserve(&running, "default", Plan::Free, QUOTA).expect("all of it");
    assert!(reserve(&running, "default", Plan::Free, 1).is_err());
    std::mem::forget(interrupted.bill(QUOTA, 0, None));
    // The store stays locked while it is open; a copy of the file is not.
    let copy = tempfile::tempdir().expect("a temporary folder");
    std::fs::copy(store::file_in(folder.path()), store::file_in(copy.path())).expect("the file is there");
    assert_eq!(used(&services(copy.path())), 0);
}

#[tokio::test]
async fn a_bill_and_its_idempotency_key_are_written_together() {
    let folder = folder().await;
    let now = UnixSeconds::now();
    let running = services(folder.path());
    let Claim::New(mut guard) = claim(&running, 1, now).await else {
        panic!("it was claimed before");
    };
    let reservation = reserve(&running, "default", Plan::Free, 3).expect("enough");
    reservation.bill(2, 10_000, Some((&mut guard, BilledPictures::default()))).await.expect("the store writes");
    drop((running, guard));
    let restarted = services(folder.path());
    assert_eq!(used(&restarted), 2);
    assert!(matches!(claim(&restarted, 1, now).await, Claim::Replay(_)));
    assert!(matches!(claim(&restarted, 2, now).await, Claim::Conflict));
    let a_day_later = UnixSeconds(now.0 + store::REQUEST_SECONDS + 1);
    assert!(matches!(claim(&restarted, 2, a_day_later).await, Claim::New(_)));
    assert_eq!(used(&restarted), 2, "the bill is kept");
}

#[tokio::test]
async fn a_bill_of_a_missing_account_fails() {
    let folder = folder().await;
    let services = services(folder.path());
    let reservation = reserve(&services, "missing", Plan::Paid, 1).expect("no bound");
    assert!(reservation.bill(1, 5000, None).await.is_err());
    assert_eq!(usage(&services, "missing").used, 0);
}

#[tokio::test]
async fn the_monthly_images_of_a_key_survive_a_restart() {
    let folder = folder().await;
    let now = UnixSeconds::now();
    let (account, plan, allowance) = ("default", Plan::Plus, &Allowance::default());
    let payer = Payer { account, plan, key_id: Some("key_1"), images_per_month: Some(5), allowance };
    let other = Payer { key_id: Some("key_2"), ..payer };
    let running = services(folder.path());
    for (payer, images) in [(payer, 2), (other, 4), (payer, 1)] {
        let reservation = running.reserve(&payer, images, now).expect("enough");
        reservation.bill(images, 5000, None).await.expect("the store writes");
    }
    drop(running);
    let restarted = services(folder.path());
    assert!(restarted.reserve(&Payer { key_id: Some("key_2"), ..payer }, 2, now).is_err(), "1 is left");
    let refused = restarted.reserve(&payer, 3, now).expect_err("2 are left");
    assert_eq!(refused.kind, QuotaKind::Key);
    assert!(restarted.reserve(&payer, 2, now).is_ok());
}

#[tokio::test]
async fn usage_by_key_is_kept_for_400_days() {
    let folder = folder().await;
    let now = UnixSeconds::now();
    let (account, plan, allowance) = ("default", Plan::Plus, &Allowance::default());
    let payer = Payer { account, plan, key_id: Some("key_1"), images_per_month: None, allowance };
    let services = services(folder.path());
    let today = Day::of(now);
    let days = [today.before(KEY_DAYS_KEPT + 1), today.before(KEY_DAYS_KEPT), today];
    for day in days {
        let reservation = services.reserve(&payer, 1, day.starts()).expect("no bound");
        reservation.bill(1, 5000, None).await.expect("the store writes");
    }
    let kept = async || {
        let rows = services.key_days("default", (Day(0), Day(u32::MAX)), 99).await.expect("the store reads");
        rows.into_iter().map(|(day, ..)| day).collect::<Vec<_>>()
    };
    assert_eq!(kept().await, days);
    let change = store::Change::ForgetKeyDays { before: today.before(KEY_DAYS_KEPT) };
    services.change(change).await.expect("the store writes");
    assert_eq!(kept().await, days[1..]);
}
