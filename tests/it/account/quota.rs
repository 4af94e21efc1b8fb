//! Quota, billing and idempotency keys on the store, across restarts.

use backdrop::store::{
    self, Allowance, BilledPictures, Claim, Day, KEY_DAYS_KEPT, Payer, Plan, QuotaExhausted, QuotaKind, RedbStore,
    Reservation, Store, UnixSeconds,
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

/// Images and millionths of a dollar of the account `default`.
fn used(store: &Store) -> (u64, u64) {
    let usage = store.usage("default", Plan::Free, UnixSeconds::now()).now_or_never();
    let usage = usage.expect("it is in memory").expect("it reads");
    (usage.used, usage.microdollars)
}

fn reserve(store: &Store, images: u64) -> Result<Reservation, QuotaExhausted> {
    let (plan, allowance) = (Plan::Free, &Allowance::default());
    let payer = Payer { account: "default", plan, key_id: None, images_per_month: None, allowance };
    store.reserve(&payer, images, UnixSeconds::now())
}

async fn claim(store: &Store, fingerprint: u8, now: UnixSeconds) -> Claim {
    let claimed = store.claim("default", "order-17", [fingerprint; 32], now, Duration::from_secs(60));
    claimed.await.expect("it is in memory")
}

#[tokio::test]
async fn a_reservation_interrupted_by_a_restart_is_released() {
    let folder = folder().await;
    let running = services(folder.path());
    let interrupted = reserve(&running, QUOTA).expect("all of it");
    assert!(reserve(&running, 1).is_err());
    std::mem::forget(interrupted.bill(QUOTA, 0, None));
    // The store stays locked while it is open; a copy of the file is not.
    let copy = tempfile::tempdir().expect("a temporary folder");
    std::fs::copy(store::file_in(folder.path()), store::file_in(copy.path())).expect("the file is there");
    assert_eq!(used(&services(copy.path())), (0, 0));
}

#[tokio::test]
async fn a_bill_and_its_idempotency_key_are_written_together() {
    let folder = folder().await;
    let now = UnixSeconds::now();
    let running = services(folder.path());
    let Claim::New(mut guard) = claim(&running, 1, now).await else {
        panic!("it was claimed before");
    };
    let reservation = reserve(&running, 3).expect("enough");
    reservation.bill(2, 10_000, Some((&mut guard, BilledPictures::default()))).await.expect("the store writes");
    drop((running, guard));
    let restarted = services(folder.path());
    assert_eq!(used(&restarted), (2, 10_000));
    assert!(matches!(claim(&restarted, 1, now).await, Claim::Replay(_)));
    assert!(matches!(claim(&restarted, 2, now).await, Claim::Conflict));
    let a_day_later = UnixSeconds(now.0 + store::REQUEST_SECONDS + 1);
    assert!(matches!(claim(&restarted, 2, a_day_later).await, Claim::New(_)));
    assert_eq!(used(&restarted), (2, 10_000), "the bill is kept");
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
