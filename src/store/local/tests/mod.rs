//! Tests of reservations, bills and quotas, against a plain sum and under concurrency.

pub(crate) mod memory_store;

use super::*;
use crate::store::{
    Allowance, BilledPictures, BillingError, Claim, ClaimGuard, CommitMode, MemoryStore, Payer, Plan, QuotaExhausted,
    Reservation, Store, UsageSummary,
};
use futures_util::FutureExt;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Barrier;

/// The last second of November 2026.
const NOVEMBER: UnixSeconds = UnixSeconds(1_796_083_199);
const DECEMBER: UnixSeconds = UnixSeconds(NOVEMBER.0 + 1);

/// A store, as bills use it.
#[derive(Clone)]
struct Billing(Store);

impl Billing {
    fn reserve(&self, account: &str, plan: Plan, images: u64, now: UnixSeconds) -> Result<Reservation, QuotaExhausted> {
        let allowance = &Allowance::default();
        self.reserve_for(&Payer { account, plan, key_id: None, images_per_month: None, allowance }, images, now)
    }

    fn reserve_for(&self, payer: &Payer<'_>, images: u64, now: UnixSeconds) -> Result<Reservation, QuotaExhausted> {
        self.0.reserve(payer, images, now)
    }

    fn usage(&self, account: &str, plan: Plan, now: UnixSeconds) -> UsageSummary {
        self.0.usage(account, plan, now).now_or_never().expect("it is in memory").expect("it reads")
    }

    fn local(&self) -> &LocalStore {
        let Store::File(local) = &self.0 else { panic!("no file") };
        local
    }

    fn remaining(&self, payer: &Payer<'_>, now: UnixSeconds) -> Option<u64> {
        let free = (payer.plan == Plan::Free).then(|| self.local().free_images_per_month());
        let quota = ImagesLeft { plan: free, key: payer.images_per_month };
        Allowance::from(left(&self.lock(), (payer.account, payer.key_id, Month::of(now)), quota)).remaining()
    }

    fn lock(&self) -> MutexGuard<'_, Counters> {
        self.local().counters()
    }
}

fn started(store: &MemoryStore, quota: u64, now: UnixSeconds) -> (Billing, Store) {
    let store = store.start(quota, now);
    (Billing(store.clone()), store)
}

fn billing(store: &MemoryStore, quota: u64) -> Billing {
    Billing(store.start(quota, NOVEMBER))
}

fn used(billing: &Billing, now: UnixSeconds) -> u64 {
    billing.usage("a", Plan::Free, now).used
}

/// Months of an account that are held in memory.
fn months(billing: &Billing, account: &str) -> usize {
    billing.lock().accounts.get(account).map_or(0, BTreeMap::len)
}

async fn claim_of(store: &Store, key: &str) -> Claim {
    store.claim("a", key, [7; 32], NOVEMBER, std::time::Duration::from_secs(60)).await.expect("it is in memory")
}

async fn claim(store: &Store, key: &str) -> ClaimGuard {
    match claim_of(store, key).await {
        Claim::New(claim) => claim,
        other @ (Claim::Replay(_) | Claim::Conflict) => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_200_concurrent_requests_exactly_the_plans_quota_succeeds() {
    let store = MemoryStore::default();
    let billing = billing(&store, 50);
    let all_reserved = Arc::new(Barrier::new(200));
    let request = |number: u64| {
        let (billing, all_reserved) = (billing.clone(), Arc::clone(&all_reserved));
        tokio::spawn(async move {
            let reservation = billing.reserve("a", Plan::Free, 1, NOVEMBER);
            all_reserved.wait().await;
            let Ok(reservation) = reservation else { return false };
            // Some fail and release their images.
            if !number.is_multiple_of(5) {
                reservation.bill(1, 0, None).await.expect("the store writes");
            }
            true
        })
    };
    let tasks: Vec<_> = (0..200).map(request).collect();
    let mut succeeded = 0;
    for task in tasks {
        succeeded += u64::from(task.await.expect("no panic"));
    }
    assert_eq!(succeeded, 50);
    let billed = used(&billing, NOVEMBER);
    assert_eq!(store.usage("a"), [(Month(202_611), Usage { images: billed, microdollars: 0 })]);
    let mut rest = Vec::new();
    while let Ok(reservation) = billing.reserve("a", Plan::Free, 1, NOVEMBER) {
        rest.push(reservation);
    }
    assert_eq!(billed + rest.len() as u64, 50, "failed requests released theirs");
}

#[tokio::test]
async fn a_bill_waits_for_a_slow_disk_and_its_outcome_counts_after_an_error_of_a_disk_that_was_away() {
    let store = MemoryStore::default();
    let (billing, keys) = started(&store, 5, NOVEMBER);
    let mut guard = claim(&keys, "k").await;
    let mut batch = billing.reserve("a", Plan::Free, 2, NOVEMBER).expect("enough");
    let row = batch.split(1);
    let pictures = |pictures: [Option<[u8; 32]>; 2]| BilledPictures::from(pictures);
    let first = pictures([Some([1; 32]), None]);
    store.set_mode(CommitMode::Held);
    let written = first.clone();
    let bill = tokio::spawn(async move { (row.bill(1, 0, Some((&mut guard, written))).await, guard) });
    tokio::time::sleep(3 * OUTCOME_TIMEOUT).await;
    assert!(!bill.is_finished(), "the disk is only slow");
    store.set_away(true);
    let (outcome, mut guard) = bill.await.expect("no panic");
    let error = outcome.expect_err("its outcome is not known");
    assert!(matches!(error, BillingError::Write(ChangeError::Storage(_))), "{error}");
    assert!(billing.reserve("a", Plan::Free, 4, NOVEMBER).is_err(), "its image is held, because it may be billed");
    store.set_away(false);
    store.set_mode(CommitMode::Immediate);
    store.release();
    assert_eq!((used(&billing, NOVEMBER), store.requests()), (1, 1));
    let refused = batch.bill(1, 0, Some((&mut guard, pictures([None, Some([2; 32])])))).await;
    assert!(matches!(refused, Err(BillingError::Repeated)), "its record would lack the first picture: {refused:?}");
    drop(guard);
    let mut guard = claim(&keys, "k").await;
    assert_eq!(guard.pictures(), first, "the same request continues");
    let rest = billing.reserve("a", Plan::Free, 4, NOVEMBER).expect("the refused image is released");
    let both = pictures([Some([1; 32]), Some([2; 32])]);
    rest.bill(1, 0, Some((&mut guard, both))).await.expect("it writes");
    drop(guard);
    assert_eq!((used(&billing, NOVEMBER), store.requests()), (2, 1));
    assert!(matches!(claim_of(&keys, "k").await, Claim::Replay(_)), "a repetition costs nothing");
}

#[tokio::test]
async fn a_batch_beyond_the_remaining_quota_is_refused_as_a_whole() {
    let billing = billing(&MemoryStore::default(), 10);
    billing.reserve("a", Plan::Free, 4, NOVEMBER).expect("enough").bill(4, 0, None).await.expect("it writes");
    let refused = billing.reserve("a", Plan::Free, 7, NOVEMBER).expect_err("6 are left");
    assert_eq!(refused, QuotaExhausted { kind: QuotaKind::Plan, resets_at: DECEMBER });
    let mut batch = billing.reserve("a", Plan::Free, 6, NOVEMBER).expect("6 are left");
    assert!(billing.reserve("a", Plan::Free, 1, NOVEMBER).is_err());
    assert!(billing.reserve("b", Plan::Free, 10, NOVEMBER).is_ok(), "another account has its own");
    for images in [1, 1] {
        batch.split(images).bill(images, 0, None).await.expect("it writes");
    }
    assert!(billing.reserve("a", Plan::Free, 1, NOVEMBER).is_err(), "the other four are reserved");
    drop(batch);
    assert_eq!(used(&billing, NOVEMBER), 6);
    assert!(billing.reserve("a", Plan::Free, 4, NOVEMBER).is_ok(), "the unbilled rest of the batch is released");
    assert!(billing.reserve("a", Plan::Free, u64::MAX, NOVEMBER).is_err());
}

#[tokio::test]
async fn a_paid_plan_has_no_quota_and_is_counted() {
    let billing = billing(&MemoryStore::default(), 50);
    for plan in [Plan::Paid, Plan::Plus] {
        billing.reserve("a", plan, 100, NOVEMBER).expect("no bound").bill(100, 500_000, None).await.expect("writes");
    }
    let usage = billing.usage("a", Plan::Plus, NOVEMBER);
    assert_eq!(usage, UsageSummary { used: 200, quota: None, microdollars: 1_000_000, resets_at: DECEMBER });
    assert!(billing.reserve("a", Plan::Free, 1, NOVEMBER).is_err(), "put back on the free plan");
    assert!(billing.reserve("a", Plan::Free, 0, NOVEMBER).is_ok(), "a reservation of 0 always succeeds");
    assert_eq!(billing.usage("a", Plan::Free, NOVEMBER).quota, Some(50));
}

#[tokio::test]
async fn a_new_month_starts_at_zero_and_a_bill_belongs_to_the_month_of_its_reservation() {
    let store = MemoryStore::default();
    let billing = billing(&store, 2);
    let late = billing.reserve("a", Plan::Free, 2, NOVEMBER).expect("enough");
    let early = billing.reserve("a", Plan::Free, 2, DECEMBER).expect("a new month");
    late.bill(2, 0, None).await.expect("it writes");
    assert_eq!([used(&billing, NOVEMBER), used(&billing, DECEMBER)], [2, 0]);
    drop(early);
    let (after_restart, _) = started(&store, 2, DECEMBER);
    assert_eq!([used(&after_restart, NOVEMBER), used(&after_restart, DECEMBER)], [2, 0]);
    assert!(after_restart.reserve("a", Plan::Free, 2, DECEMBER).is_ok());
}

#[tokio::test]
async fn an_account_keeps_four_months_in_memory() {
    let store = MemoryStore::default();
    let billing = billing(&store, 10);
    let held = billing.reserve("a", Plan::Free, 1, NOVEMBER).expect("enough");
    let mut now = DECEMBER;
    for _ in 0..24 {
        billing.reserve("a", Plan::Free, 1, now).expect("enough").bill(1, 0, None).await.expect("it writes");
        now = Month::of(now).ends();
    }
    held.bill(1, 0, None).await.expect("it writes");
    assert_eq!(months(&billing, "a"), 4);
    assert_eq!(used(&billing, NOVEMBER), 1, "a month with an open reservation is kept");
    drop(billing.reserve("a", Plan::Free, 1, now).expect("a new month"));
    assert_eq!(months(&billing, "a"), 4);
    assert_eq!(used(&billing, NOVEMBER), 0, "it had none any more");
    assert_eq!(store.usage("a")[0], (Month(202_611), Usage { images: 1, microdollars: 0 }));
}

#[tokio::test]
async fn a_clock_that_was_months_ahead_gives_no_images_back() {
    let store = MemoryStore::default();
    let billing = billing(&store, 2);
    let reserve = |now| billing.reserve_for(&payer("k1", Some(2)), 1, now);
    reserve(NOVEMBER).expect("enough").bill(1, 0, None).await.expect("it writes");
    let ahead = Month::of(Month::of(DECEMBER).ends()).ends();
    drop(reserve(ahead).expect("a new month"));
    reserve(ahead).expect("a new month").bill(1, 0, None).await.expect("it writes");
    reserve(NOVEMBER).expect("one is left").bill(1, 0, None).await.expect("it writes");
    assert_eq!(used(&billing, NOVEMBER), 2);
    assert!(reserve(NOVEMBER).is_err());
}

#[tokio::test]
async fn a_clock_that_was_years_ahead_leaves_the_quotas_of_plan_and_key_as_they_are_also_after_a_restart() {
    let store = MemoryStore::default();
    let running = billing(&store, 4);
    let key = payer("k1", Some(3));
    let bill = async |now| {
        let reservation = running.reserve_for(&key, 1, now).expect("there is room");
        reservation.bill(1, 0, None).await.expect("it writes");
    };
    // The first seconds of January and February 2030.
    let ahead = [1_893_456_000, 1_896_134_400].map(UnixSeconds);
    // On two days of November: a bill copies the sum of its day only.
    for now in [UnixSeconds(NOVEMBER.0 - 86_400), ahead[0], ahead[1], NOVEMBER, ahead[1]] {
        bill(now).await;
    }
    for billing in [running, Billing(store.start(4, NOVEMBER))] {
        assert_eq!((used(&billing, NOVEMBER), billing.remaining(&key, NOVEMBER)), (2, Some(1)));
    }
}

#[tokio::test]
async fn what_cannot_be_billed_is_released() {
    let store = MemoryStore::default();
    let billing = billing(&store, 1);
    store.set_mode(CommitMode::Busy);
    let reservation = billing.reserve("a", Plan::Free, 1, NOVEMBER).expect("one");
    let failed = reservation.bill(1, 0, None).await.expect_err("busy");
    assert!(matches!(failed, BillingError::Write(_)), "{failed}");
    let reservation = billing.reserve("a", Plan::Free, 1, NOVEMBER).expect("released");
    let failed = reservation.bill(2, 0, None).await.expect_err("too many");
    assert!(matches!(failed, BillingError::MoreThanReserved { images: 2, reserved: 1 }), "{failed}");
    store.set_mode(CommitMode::Held);
    let reservation = billing.reserve("a", Plan::Free, 1, NOVEMBER).expect("released");
    let bill = tokio::spawn(reservation.bill(1, 0, None));
    tokio::task::yield_now().await;
    store.drop_held();
    let failed = bill.await.expect("no panic").expect_err("the store is gone");
    assert!(matches!(failed, BillingError::Write(ChangeError::Closed)), "{failed}");
    assert!(billing.reserve("a", Plan::Free, 1, NOVEMBER).is_ok(), "released");
    assert_eq!(store.usage("a"), []);
}

#[tokio::test]
async fn a_bill_in_progress_is_written_after_its_caller_is_gone() {
    let store = MemoryStore::default();
    let (billing, idempotency) = started(&store, 1, NOVEMBER);
    store.set_mode(CommitMode::Held);
    let mut guard = claim(&idempotency, "k").await;
    let reservation = billing.reserve("a", Plan::Free, 1, NOVEMBER).expect("one");
    let mut bill = Box::pin(reservation.bill(1, 5, Some((&mut guard, BilledPictures::default()))));
    assert!(bill.as_mut().now_or_never().is_none(), "it waits for the disk");
    drop(bill);
    drop(guard);
    assert!(billing.reserve("a", Plan::Free, 1, NOVEMBER).is_err(), "still reserved");
    store.release();
    assert_eq!(used(&billing, NOVEMBER), 1);
    assert!(billing.reserve("a", Plan::Free, 1, NOVEMBER).is_err(), "billed");
    assert!(matches!(claim_of(&idempotency, "k").await, Claim::Replay(_)));
}

#[tokio::test]
async fn a_bill_that_was_never_polled_releases_its_images() {
    let billing = billing(&MemoryStore::default(), 1);
    drop(billing.reserve("a", Plan::Free, 1, NOVEMBER).expect("one").bill(1, 0, None));
    assert!(billing.reserve("a", Plan::Free, 1, NOVEMBER).is_ok());
}

fn payer(key_id: &str, images_per_month: Option<u64>) -> Payer<'_> {
    let allowance = Box::leak(Box::default());
    Payer { account: "a", plan: Plan::Free, key_id: Some(key_id), images_per_month, allowance }
}

#[tokio::test]
async fn a_request_has_to_fit_the_keys_quota_and_the_plans() {
    let store = MemoryStore::default();
    let billing = billing(&store, 10);
    let (narrow, wide, other) = (payer("k1", Some(3)), payer("k1", Some(99)), payer("k2", None));
    // Payer, images, the exhausted quota, and what `narrow`, `wide` and `other` have left afterwards.
    let steps = [
        (narrow, 2, None, [1, 8, 8]),
        (narrow, 2, Some(QuotaKind::Key), [1, 8, 8]),
        (narrow, 0, None, [1, 8, 8]),
        (other, 7, None, [1, 1, 1]),
        (wide, 2, Some(QuotaKind::Plan), [1, 1, 1]),
        (narrow, 1, None, [0, 0, 0]),
    ];
    for (payer, images, refused, left) in steps {
        let reserved = billing.reserve_for(&payer, images, NOVEMBER);
        assert_eq!(reserved.as_ref().err().map(|error| error.kind), refused, "{payer:?} {images}");
        if let Ok(reservation) = reserved {
            let during = billing.remaining(&payer, NOVEMBER);
            reservation.bill(images, 0, None).await.expect("it writes");
            assert_eq!(billing.remaining(&payer, NOVEMBER), during, "billed in place of reserved");
        }
        let remaining = [narrow, wide, other].map(|payer| billing.remaining(&payer, NOVEMBER));
        assert_eq!(remaining, left.map(Some), "{payer:?} {images}");
    }
    assert_eq!(billing.remaining(&narrow, DECEMBER), Some(3), "a new month");
    let paid = |bound| Payer { plan: Plan::Paid, ..payer("k1", bound) };
    assert_eq!(billing.remaining(&paid(None), NOVEMBER), None);
    let (after_restart, _) = started(&store, 10, NOVEMBER);
    assert_eq!(after_restart.remaining(&paid(Some(5)), NOVEMBER), Some(2), "the store has the usage by key");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_100_concurrent_requests_exactly_the_keys_quota_succeeds() {
    let store = MemoryStore::default();
    let billing = billing(&store, 1000);
    let all_reserved = Arc::new(Barrier::new(100));
    let request = |_| {
        let (billing, all_reserved) = (billing.clone(), Arc::clone(&all_reserved));
        tokio::spawn(async move {
            let reservation = billing.reserve_for(&payer("k1", Some(7)), 1, NOVEMBER);
            all_reserved.wait().await;
            let Ok(reservation) = reservation else { return 0_u64 };
            reservation.bill(1, 0, None).await.expect("the store writes");
            1
        })
    };
    let tasks: Vec<_> = (0..100).map(request).collect();
    let mut succeeded = 0;
    for task in tasks {
        succeeded += task.await.expect("no panic");
    }
    assert_eq!(succeeded, 7);
}

const ACCOUNTS: [&str; 2] = ["a", "b"];
const QUOTA: u64 = 10;

#[derive(Clone, Debug)]
enum Step {
    Reserve { account: usize, free: bool, images: u64 },
    Drop(prop::sample::Index),
    Bill(prop::sample::Index, u64, CommitMode),
    Advance(i64),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let mode = prop_oneof![4 => Just(CommitMode::Immediate), 1 => Just(CommitMode::Busy)];
    prop_oneof![
        6 => (0..2_usize, prop::bool::weighted(0.8), 0..6_u64)
            .prop_map(|(account, free, images)| Step::Reserve { account, free, images }),
        2 => any::<prop::sample::Index>().prop_map(Step::Drop),
        4 => (any::<prop::sample::Index>(), 0..6_u64, mode)
            .prop_map(|(which, images, mode)| Step::Bill(which, images, mode)),
        1 => (0..20 * 86_400_i64).prop_map(Step::Advance),
        1 => Just(Step::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn billing_agrees_with_a_plain_sum(steps in prop::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(run(steps))?;
    }
}

async fn run(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let store = MemoryStore::default();
    let mut billing = billing(&store, QUOTA);
    let mut now = NOVEMBER;
    // Billed images and microdollars, and what is held: account, month, images.
    let mut billed: BTreeMap<(&str, Month), (u64, u64)> = BTreeMap::new();
    let mut held: Vec<(&str, Month, Reservation)> = Vec::new();
    for step in steps {
        match step {
            Step::Reserve { account, free, images } => {
                let (account, month) = (ACCOUNTS[account], Month::of(now));
                let plan = if free { Plan::Free } else { Plan::Paid };
                let reserved: u64 = held
                    .iter()
                    .filter(|(name, of, _)| (*name, *of) == (account, month))
                    .map(|(.., reservation)| reservation.images())
                    .sum();
                let taken = billed.get(&(account, month)).map_or(0, |sums| sums.0) + reserved;
                let expected = !free || images == 0 || taken + images <= QUOTA;
                let reservation = billing.reserve(account, plan, images, now);
                prop_assert_eq!(reservation.is_ok(), expected);
                held.extend(reservation.ok().map(|reservation| (account, month, reservation)));
            }
            Step::Drop(_) | Step::Bill(..) if held.is_empty() => {}
            Step::Drop(which) => drop(held.swap_remove(which.index(held.len()))),
            Step::Bill(which, images, mode) => {
                let (account, month, reservation) = held.swap_remove(which.index(held.len()));
                let fits = images <= reservation.images();
                store.set_mode(mode);
                let outcome = reservation.bill(images, images * 5000, None).await;
                store.set_mode(CommitMode::Immediate);
                prop_assert_eq!(outcome.is_ok(), fits && mode == CommitMode::Immediate);
                if outcome.is_ok() {
                    let sums = billed.entry((account, month)).or_default();
                    *sums = (sums.0 + images, sums.1 + images * 5000);
                }
            }
            Step::Advance(seconds) => now = UnixSeconds(now.0 + seconds),
            Step::Restart => {
                held.clear();
                billing = Billing(store.start(QUOTA, now));
            }
        }
        for account in ACCOUNTS {
            let usage = billing.usage(account, Plan::Free, now);
            let sums = billed.get(&(account, Month::of(now))).copied().unwrap_or_default();
            prop_assert_eq!((usage.used, usage.microdollars), sums);
            prop_assert!(months(&billing, account) <= 4 + held.len());
        }
    }
    for account in ACCOUNTS {
        let stored: Vec<_> = store.usage(account);
        let expected: Vec<_> = billed
            .iter()
            .filter(|((name, _), _)| *name == account)
            .map(|((_, month), (images, microdollars))| {
                (*month, Usage { images: *images, microdollars: *microdollars })
            })
            .collect();
        prop_assert_eq!(stored, expected);
    }
    Ok(())
}
