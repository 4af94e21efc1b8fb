//! Quota, billing and idempotency keys on the store, across restarts.

use backdrop::account::{Claim, IdempotencyKey, Payer, Plan, QuotaKind, Services};
use backdrop::store::{self, Day, KEY_DAYS_KEPT, RedbStore, UnixSeconds};
use std::path::Path;

use crate::store::support::bootstrapped;

const QUOTA: u64 = 50;

fn services(data_dir: &Path) -> Services {
    let store = RedbStore::open(&store::file_in(data_dir)).expect("the store opens");
    Services::load(store, QUOTA).expect("the store loads")
}

/// A data directory with the account `default`.
async fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    drop(bootstrapped(folder.path()).await);
    folder
}

fn used(services: &Services) -> u64 {
    services.billing.usage("default", Plan::Free, UnixSeconds::now()).used
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_200_concurrent_requests_exactly_50_are_billed_and_survive_a_restart() {
    let folder = folder().await;
    let running = services(folder.path());
    let request = |_| {
        let billing = running.billing.clone();
        tokio::spawn(async move {
            let Ok(reservation) = billing.reserve("default", Plan::Free, 1, UnixSeconds::now()) else { return false };
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
    let usage = restarted.billing.usage("default", Plan::Free, UnixSeconds::now());
    assert_eq!((usage.used, usage.quota, usage.microdollars), (QUOTA, Some(QUOTA), QUOTA * 5000));
    let refused = restarted.billing.reserve("default", Plan::Free, 1, UnixSeconds::now()).expect_err("used up");
    assert_eq!(refused.resets_at, usage.resets_at);
    assert!(usage.resets_at > UnixSeconds::now());
}

#[tokio::test]
async fn a_reservation_interrupted_by_a_restart_is_released() {
    let folder = folder().await;
    let running = services(folder.path());
    let interrupted = running.billing.reserve("default", Plan::Free, QUOTA, UnixSeconds::now()).expect("all of it");
    assert!(running.billing.reserve("default", Plan::Free, 1, UnixSeconds::now()).is_err());
    std::mem::forget(interrupted.bill(QUOTA, 0, None));
    // The store stays locked while it is open; a copy of the file is not.
    let copy = tempfile::tempdir().expect("a temporary folder");
    std::fs::copy(store::file_in(folder.path()), store::file_in(copy.path())).expect("the file is there");
    assert_eq!(used(&services(copy.path())), 0);
}

#[tokio::test]
async fn a_bill_and_its_idempotency_key_are_written_together() {
    let folder = folder().await;
    let key = IdempotencyKey::try_from("order-17").expect("a key");
    let now = UnixSeconds::now();
    let running = services(folder.path());
    let Claim::New(permit) = running.idempotency.claim("default", &key, [1; 32], now).await else {
        panic!("it was claimed before");
    };
    let reservation = running.billing.reserve("default", Plan::Free, 3, now).expect("enough");
    reservation.bill(2, 10_000, Some(permit)).await.expect("the store writes");
    drop(running);
    let restarted = services(folder.path());
    assert_eq!(used(&restarted), 2);
    assert!(matches!(restarted.idempotency.claim("default", &key, [1; 32], now).await, Claim::Replay(_)));
    assert!(matches!(restarted.idempotency.claim("default", &key, [2; 32], now).await, Claim::Conflict));
    let a_day_later = UnixSeconds(now.0 + store::REQUEST_SECONDS + 1);
    restarted.idempotency.drop_old(a_day_later).await.expect("the store writes");
    drop(restarted);
    let restarted = services(folder.path());
    assert!(matches!(restarted.idempotency.claim("default", &key, [2; 32], now).await, Claim::New(_)));
    assert_eq!(used(&restarted), 2, "the bill is kept");
}

#[tokio::test]
async fn a_bill_of_a_missing_account_fails() {
    let folder = folder().await;
    let services = services(folder.path());
    let reservation = services.billing.reserve("missing", Plan::Paid, 1, UnixSeconds::now()).expect("no bound");
    assert!(reservation.bill(1, 5000, None).await.is_err());
    assert_eq!(services.billing.usage("missing", Plan::Paid, UnixSeconds::now()).used, 0);
}

#[tokio::test]
async fn the_monthly_images_of_a_key_survive_a_restart() {
    let folder = folder().await;
    let now = UnixSeconds::now();
    let payer = Payer { account: "default", plan: Plan::Plus, key_id: Some("key_1"), images_per_month: Some(5) };
    let other = Payer { key_id: Some("key_2"), ..payer };
    let running = services(folder.path());
    for (payer, images) in [(payer, 2), (other, 4), (payer, 1)] {
        let reservation = running.billing.reserve_for(&payer, images, now).expect("enough");
        reservation.bill(images, 5000, None).await.expect("the store writes");
    }
    drop(running);
    let restarted = services(folder.path());
    assert_eq!([payer, other].map(|payer| restarted.billing.remaining(&payer, now)), [Some(2), Some(1)]);
    let refused = restarted.billing.reserve_for(&payer, 3, now).expect_err("2 are left");
    assert_eq!(refused.kind, QuotaKind::Key);
    assert!(restarted.billing.reserve_for(&payer, 2, now).is_ok());
}

#[tokio::test]
async fn usage_by_key_is_kept_for_400_days() {
    let folder = folder().await;
    let now = UnixSeconds::now();
    let payer = Payer { account: "default", plan: Plan::Plus, key_id: Some("key_1"), images_per_month: None };
    let services = services(folder.path());
    let today = Day::of(now);
    let days = [today.before(KEY_DAYS_KEPT + 1), today.before(KEY_DAYS_KEPT), today];
    for day in days {
        let reservation = services.billing.reserve_for(&payer, 1, day.starts()).expect("no bound");
        reservation.bill(1, 5000, None).await.expect("the store writes");
    }
    let kept = || {
        let rows = services.store.key_days("default", Day(0), Day(u32::MAX), 99).expect("the store reads");
        rows.into_iter().map(|(day, ..)| day).collect::<Vec<_>>()
    };
    assert_eq!(kept(), days);
    services.drop_old_key_days(now).await.expect("the store writes");
    assert_eq!(kept(), days[1..]);
}
