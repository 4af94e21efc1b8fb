//! Quota and billing.
//!
//! A request reserves its images before any work and bills what it made when it succeeds; what is not billed is
//! given back by dropping the [`Reservation`]. Quota is judged against what is billed and what is reserved together,
//! under one lock: however many requests run at once, never more images are made than the plan has.
//!
//! Billed is what the store has committed. The copy here is fed by its commits, so it is the same after a restart;
//! reservations are in memory only, because the requests that hold them end with the process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::requests::Permit;
use super::write::{WriteError, write};
use crate::store::{Change, Month, Plan, Rows, StateStore, UnixSeconds, Usage};

/// What every account used and has reserved. Clones share one state.
#[derive(Clone, Debug)]
pub struct Ledger(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    store: Arc<dyn StateStore>,
    free_images_per_month: u64,
    /// Of each account the current month, the one before, and whatever a request still holds.
    accounts: Mutex<HashMap<String, Vec<Tally>>>,
}

/// One account in one month.
#[derive(Clone, Copy, Debug)]
struct Tally {
    month: Month,
    billed: Usage,
    reserved: u64,
}

/// Images that a request may make. Gives them back when it is dropped.
#[derive(Debug)]
#[must_use = "dropped, it gives its images back"]
pub struct Reservation {
    ledger: Ledger,
    account: String,
    month: Month,
    images: u64,
}

/// The images of the month are used up, or what is left is not enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the free images of this month are used up; there are new ones from {resets_at}")]
pub struct QuotaExhausted {
    /// When the next month begins.
    pub resets_at: UnixSeconds,
}

/// Why a bill was not written. The reservation was given back.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// More images than were reserved: a mistake of the caller.
    #[error("{images} images are to be billed and {reserved} are reserved")]
    MoreThanReserved {
        /// To be billed.
        images: u64,
        /// Reserved.
        reserved: u64,
    },
    /// The store refused or failed.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Where an account stands in a month.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Images billed.
    pub used: u64,
    /// Images that the plan has; nothing where it has no such bound.
    pub quota: Option<u64>,
    /// Their price.
    pub microdollars: u64,
    /// When the next month begins.
    pub resets_at: UnixSeconds,
}

impl Ledger {
    /// With `usage` as the store has it now.
    pub(super) fn new(
        store: Arc<dyn StateStore>,
        usage: Vec<(String, Month, Usage)>,
        free_images_per_month: u64,
    ) -> Self {
        let mut accounts: HashMap<String, Vec<Tally>> = HashMap::new();
        for (account, month, billed) in usage {
            accounts.entry(account).or_default().push(Tally { month, billed, reserved: 0 });
        }
        Self(Arc::new(Shared { store, free_images_per_month, accounts: Mutex::new(accounts) }))
    }

    /// Reserves `images` of the month that `now` is in. Only the free plan has a bound; asking for none always
    /// succeeds.
    ///
    /// Sandbox keys use nothing: they reserve none, and only to have a request remembered.
    ///
    /// # Errors
    /// When the plan has not that many left, reservations of other requests counted.
    pub fn reserve(
        &self,
        account: &str,
        plan: Plan,
        images: u64,
        now: UnixSeconds,
    ) -> Result<Reservation, QuotaExhausted> {
        let month = Month::of(now);
        let mut accounts = self.lock();
        let tally = tally(&mut accounts, account, month);
        // None of the three comes near the end of its type, but a damaged store might.
        let after = tally.billed.images.saturating_add(tally.reserved).saturating_add(images);
        if images > 0 && self.quota(plan).is_some_and(|quota| after > quota) {
            return Err(QuotaExhausted { resets_at: month.ends() });
        }
        tally.reserved = tally.reserved.saturating_add(images);
        Ok(Reservation { ledger: self.clone(), account: account.to_owned(), month, images })
    }

    /// Holds images of a month again, for work that had reserved them before a restart. Asks for no quota: they were
    /// granted.
    pub fn hold(&self, account: &str, month: Month, images: u64) -> Reservation {
        let mut accounts = self.lock();
        let tally = tally(&mut accounts, account, month);
        tally.reserved = tally.reserved.saturating_add(images);
        Reservation { ledger: self.clone(), account: account.to_owned(), month, images }
    }

    /// Where the account stands in the month that `now` is in.
    #[must_use]
    pub fn standing(&self, account: &str, plan: Plan, now: UnixSeconds) -> Standing {
        let month = Month::of(now);
        let accounts = self.lock();
        let tally = accounts.get(account).and_then(|tallies| tallies.iter().find(|tally| tally.month == month));
        let Usage { images, microdollars } = tally.map(|tally| tally.billed).unwrap_or_default();
        Standing { used: images, quota: self.quota(plan), microdollars, resets_at: month.ends() }
    }

    fn quota(&self, plan: Plan) -> Option<u64> {
        match plan {
            Plan::Free => Some(self.0.free_images_per_month),
            Plan::Paid | Plan::Plus => None,
        }
    }

    /// Ends a reservation: takes over what a bill wrote, and gives the images back, in one step for those who count.
    fn settle(&self, reservation: &mut Reservation, rows: &Rows) {
        let mut accounts = self.lock();
        for (account, month, billed) in &rows.usage {
            tally(&mut accounts, account, *month).billed = *billed;
        }
        let tally = tally(&mut accounts, &reservation.account, reservation.month);
        tally.reserved = tally.reserved.saturating_sub(std::mem::take(&mut reservation.images));
        if let Some(tallies) = accounts.get_mut(&reservation.account) {
            let newest = tallies.iter().map(|tally| tally.month).fold(reservation.month, Month::max);
            forget_old(tallies, newest);
        }
    }

    /// Held for a few sums, never across an await. No sum panics, so poison is no reason to stop.
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<Tally>>> {
        self.0.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tally of an account in a month.
fn tally<'a>(accounts: &'a mut HashMap<String, Vec<Tally>>, account: &str, month: Month) -> &'a mut Tally {
    if !accounts.contains_key(account) {
        accounts.insert(account.to_owned(), Vec::new());
    }
    let tallies = accounts.get_mut(account).expect("it was inserted if it was not there");
    if !tallies.iter().any(|tally| tally.month == month) {
        tallies.push(Tally { month, billed: Usage::default(), reserved: 0 });
        forget_old(tallies, month);
    }
    tallies.iter_mut().find(|tally| tally.month == month).expect("it was pushed if it was not there")
}

/// Drops the months that nobody asks for any more: an account has two, `asked`, and those that requests hold.
fn forget_old(tallies: &mut Vec<Tally>, asked: Month) {
    let newest = tallies.iter().map(|tally| tally.month).fold(asked, Month::max);
    tallies.retain(|tally| tally.month >= newest.previous() || tally.month == asked || tally.reserved > 0);
}

impl Reservation {
    /// How many images may be billed.
    #[must_use]
    pub const fn images(&self) -> u64 {
        self.images
    }

    /// The month that is billed.
    #[must_use]
    pub const fn month(&self) -> Month {
        self.month
    }

    /// Makes a change that ends the work, and may bill its account in the transaction that says so; everything is given
    /// back. It is durable when this returns.
    ///
    /// Once polled the change is under way and is not lost when this is dropped.
    ///
    /// # Errors
    /// When the change did not happen: nothing is billed, and all is given back.
    pub async fn end(mut self, change: Change) -> Result<Rows, WriteError> {
        let ledger = self.ledger.clone();
        let committed = move |rows: &Rows| self.ledger.clone().settle(&mut self, rows);
        write(&*ledger.0.store, change, committed).await
    }

    /// Bills `images` of the reserved ones and their price to the month of the reservation, and gives the rest back. It
    /// is durable when this returns. With a permit its `Idempotency-Key` is remembered in the same transaction; whoever
    /// waits for the key goes on when this ends, whichever way.
    ///
    /// Once polled the bill is under way and is not lost when this is dropped.
    ///
    /// # Errors
    /// When it could not be written: nothing is billed, all is given back, and the permit is gone.
    pub async fn bill(mut self, images: u64, microdollars: u64, permit: Option<Permit>) -> Result<(), LedgerError> {
        let reserved = self.images;
        if images > reserved {
            return Err(LedgerError::MoreThanReserved { images, reserved });
        }
        let change = Change::Bill {
            account: self.account.clone(),
            month: self.month,
            images,
            microdollars,
            request: permit.as_ref().map(|permit| permit.request(images)),
        };
        let ledger = self.ledger.clone();
        let committed = move |rows: &Rows| {
            self.ledger.clone().settle(&mut self, rows);
            if let Some(permit) = permit {
                permit.billed(images);
            }
        };
        write(&*ledger.0.store, change, committed).await?;
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.images > 0 {
            self.ledger.clone().settle(self, &Rows::default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::memory_store::{MemoryStore, Mood};
    use crate::account::{Begin, IdempotencyKey, Requests};
    use futures_util::FutureExt;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use tokio::sync::Barrier;

    /// The last second of November 2026.
    const NOVEMBER: UnixSeconds = UnixSeconds(1_796_083_199);
    const DECEMBER: UnixSeconds = UnixSeconds(NOVEMBER.0 + 1);

    fn ledger(store: &MemoryStore, quota: u64) -> Ledger {
        store.start(quota, NOVEMBER).0
    }

    fn used(ledger: &Ledger, now: UnixSeconds) -> u64 {
        ledger.standing("a", Plan::Free, now).used
    }

    async fn permit(requests: &Requests, key: &str) -> Permit {
        let key = IdempotencyKey::try_from(key).expect("a key");
        match requests.begin("a", &key, [7; 32], NOVEMBER).await {
            Begin::First(permit) => permit,
            other @ (Begin::Repeat(_) | Begin::Conflict) => panic!("{other:?}"),
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn of_200_requests_at_once_exactly_as_many_get_through_as_the_plan_has() {
        let store = MemoryStore::default();
        let ledger = ledger(&store, 50);
        let all_asked = Arc::new(Barrier::new(200));
        let request = |number: u64| {
            let (ledger, all_asked) = (ledger.clone(), Arc::clone(&all_asked));
            tokio::spawn(async move {
                let reservation = ledger.reserve("a", Plan::Free, 1, NOVEMBER);
                all_asked.wait().await;
                let Ok(reservation) = reservation else { return false };
                // Some fail; theirs are free again.
                if !number.is_multiple_of(5) {
                    reservation.bill(1, 0, None).await.expect("the store writes");
                }
                true
            })
        };
        let tasks: Vec<_> = (0..200).map(request).collect();
        let mut through = 0;
        for task in tasks {
            through += u64::from(task.await.expect("no panic"));
        }
        assert_eq!(through, 50);
        let billed = used(&ledger, NOVEMBER);
        assert_eq!(store.usage("a"), [(Month(202_611), Usage { images: billed, microdollars: 0 })]);
        let mut rest = Vec::new();
        while let Ok(reservation) = ledger.reserve("a", Plan::Free, 1, NOVEMBER) {
            rest.push(reservation);
        }
        assert_eq!(billed + rest.len() as u64, 50, "what failed was given back");
    }

    #[tokio::test]
    async fn a_batch_that_needs_more_than_is_left_is_refused_as_a_whole() {
        let ledger = ledger(&MemoryStore::default(), 10);
        ledger.reserve("a", Plan::Free, 4, NOVEMBER).expect("enough").bill(4, 0, None).await.expect("it writes");
        let refused = ledger.reserve("a", Plan::Free, 7, NOVEMBER).expect_err("6 are left");
        assert_eq!(refused, QuotaExhausted { resets_at: DECEMBER });
        let batch = ledger.reserve("a", Plan::Free, 6, NOVEMBER).expect("6 are left");
        assert!(ledger.reserve("a", Plan::Free, 1, NOVEMBER).is_err());
        assert!(ledger.reserve("b", Plan::Free, 10, NOVEMBER).is_ok(), "another account has its own");
        batch.bill(2, 0, None).await.expect("it writes");
        assert_eq!(used(&ledger, NOVEMBER), 6);
        assert!(ledger.reserve("a", Plan::Free, 4, NOVEMBER).is_ok(), "what the batch did not bill is free again");
        assert!(ledger.reserve("a", Plan::Free, u64::MAX, NOVEMBER).is_err());
    }

    #[tokio::test]
    async fn a_paid_plan_has_no_bound_and_is_counted_all_the_same() {
        let ledger = ledger(&MemoryStore::default(), 50);
        for plan in [Plan::Paid, Plan::Plus] {
            ledger.reserve("a", plan, 100, NOVEMBER).expect("no bound").bill(100, 500_000, None).await.expect("writes");
        }
        let standing = ledger.standing("a", Plan::Plus, NOVEMBER);
        assert_eq!(standing, Standing { used: 200, quota: None, microdollars: 1_000_000, resets_at: DECEMBER });
        assert!(ledger.reserve("a", Plan::Free, 1, NOVEMBER).is_err(), "put back on the free plan");
        assert!(ledger.reserve("a", Plan::Free, 0, NOVEMBER).is_ok(), "nothing is never too much");
        assert_eq!(ledger.standing("a", Plan::Free, NOVEMBER).quota, Some(50));
    }

    #[tokio::test]
    async fn a_new_month_begins_with_nothing_and_a_bill_belongs_to_the_month_of_its_reservation() {
        let store = MemoryStore::default();
        let ledger = ledger(&store, 2);
        let late = ledger.reserve("a", Plan::Free, 2, NOVEMBER).expect("enough");
        let early = ledger.reserve("a", Plan::Free, 2, DECEMBER).expect("a new month");
        late.bill(2, 0, None).await.expect("it writes");
        assert_eq!([used(&ledger, NOVEMBER), used(&ledger, DECEMBER)], [2, 0]);
        drop(early);
        let (after_restart, ..) = store.start(2, DECEMBER);
        assert_eq!([used(&after_restart, NOVEMBER), used(&after_restart, DECEMBER)], [2, 0]);
        assert!(after_restart.reserve("a", Plan::Free, 2, DECEMBER).is_ok());
    }

    #[tokio::test]
    async fn an_account_takes_room_for_two_months() {
        let store = MemoryStore::default();
        let ledger = ledger(&store, 10);
        let held = ledger.reserve("a", Plan::Free, 1, NOVEMBER).expect("enough");
        let mut now = DECEMBER;
        for _ in 0..24 {
            ledger.reserve("a", Plan::Free, 1, now).expect("enough").bill(1, 0, None).await.expect("it writes");
            now = Month::of(now).ends();
        }
        assert_eq!(ledger.lock()["a"].len(), 3, "two, and the one that a request still holds");
        held.bill(1, 0, None).await.expect("it writes");
        assert_eq!(ledger.lock()["a"].len(), 2);
        assert_eq!(store.usage("a")[0], (Month(202_611), Usage { images: 1, microdollars: 0 }));
    }

    #[tokio::test]
    async fn what_is_held_again_counts_and_ends_with_the_change_that_bills_it() {
        let store = MemoryStore::default();
        let ledger = ledger(&store, 10);
        // More than the plan has: it was granted before, under another plan.
        let held = ledger.hold("a", Month(202_611), 12);
        assert_eq!((held.images(), held.month()), (12, Month(202_611)));
        assert!(ledger.reserve("a", Plan::Free, 1, NOVEMBER).is_err());
        let bill =
            Change::Bill { account: "a".into(), month: Month(202_611), images: 3, microdollars: 7, request: None };
        held.end(bill.clone()).await.expect("the store writes");
        assert_eq!(used(&ledger, NOVEMBER), 3);
        drop(ledger.hold("a", Month(202_611), 7));
        assert!(ledger.reserve("a", Plan::Free, 7, NOVEMBER).is_ok(), "the rest is given back");
        // A change that does not happen bills nothing and gives all back.
        store.set(Mood::Busy);
        assert!(ledger.hold("a", Month(202_611), 7).end(bill).await.is_err());
        assert_eq!(used(&ledger, NOVEMBER), 3);
        assert!(ledger.reserve("a", Plan::Free, 7, NOVEMBER).is_ok());
    }

    #[tokio::test]
    async fn what_cannot_be_billed_is_given_back() {
        let store = MemoryStore::default();
        let ledger = ledger(&store, 1);
        store.set(Mood::Busy);
        let reservation = ledger.reserve("a", Plan::Free, 1, NOVEMBER).expect("one");
        let failed = reservation.bill(1, 0, None).await.expect_err("busy");
        assert!(matches!(failed, LedgerError::Write(WriteError::Change(_))), "{failed}");
        let reservation = ledger.reserve("a", Plan::Free, 1, NOVEMBER).expect("given back");
        let failed = reservation.bill(2, 0, None).await.expect_err("too many");
        assert!(matches!(failed, LedgerError::MoreThanReserved { images: 2, reserved: 1 }), "{failed}");
        store.set(Mood::Slow);
        let reservation = ledger.reserve("a", Plan::Free, 1, NOVEMBER).expect("given back");
        let bill = tokio::spawn(reservation.bill(1, 0, None));
        tokio::task::yield_now().await;
        store.lose();
        let failed = bill.await.expect("no panic").expect_err("the store is gone");
        assert!(matches!(failed, LedgerError::Write(WriteError::Closed)), "{failed}");
        assert!(ledger.reserve("a", Plan::Free, 1, NOVEMBER).is_ok(), "given back");
        assert_eq!(store.usage("a"), []);
    }

    #[tokio::test]
    async fn a_bill_under_way_is_written_though_its_caller_went_away() {
        let store = MemoryStore::default();
        let (ledger, requests, _) = store.start(1, NOVEMBER);
        store.set(Mood::Slow);
        let permit = permit(&requests, "k").await;
        let mut bill = Box::pin(ledger.reserve("a", Plan::Free, 1, NOVEMBER).expect("one").bill(1, 5, Some(permit)));
        assert!(bill.as_mut().now_or_never().is_none(), "it waits for the disk");
        drop(bill);
        assert!(ledger.reserve("a", Plan::Free, 1, NOVEMBER).is_err(), "still reserved");
        store.release();
        assert_eq!(used(&ledger, NOVEMBER), 1);
        assert!(ledger.reserve("a", Plan::Free, 1, NOVEMBER).is_err(), "billed");
        let key = IdempotencyKey::try_from("k").expect("a key");
        assert!(matches!(requests.begin("a", &key, [7; 32], NOVEMBER).await, Begin::Repeat(_)));
    }

    #[tokio::test]
    async fn a_bill_that_was_never_begun_gives_back() {
        let ledger = ledger(&MemoryStore::default(), 1);
        drop(ledger.reserve("a", Plan::Free, 1, NOVEMBER).expect("one").bill(1, 0, None));
        assert!(ledger.reserve("a", Plan::Free, 1, NOVEMBER).is_ok());
    }

    const ACCOUNTS: [&str; 2] = ["a", "b"];
    const QUOTA: u64 = 10;

    #[derive(Clone, Debug)]
    enum Step {
        Reserve { account: usize, free: bool, images: u64 },
        Drop(prop::sample::Index),
        Bill(prop::sample::Index, u64, Mood),
        Advance(i64),
        Restart,
    }

    fn step() -> impl Strategy<Value = Step> {
        let mood = prop_oneof![4 => Just(Mood::Willing), 1 => Just(Mood::Busy)];
        prop_oneof![
            6 => (0..2_usize, prop::bool::weighted(0.8), 0..6_u64)
                .prop_map(|(account, free, images)| Step::Reserve { account, free, images }),
            2 => any::<prop::sample::Index>().prop_map(Step::Drop),
            4 => (any::<prop::sample::Index>(), 0..6_u64, mood)
                .prop_map(|(which, images, mood)| Step::Bill(which, images, mood)),
            1 => (0..20 * 86_400_i64).prop_map(Step::Advance),
            1 => Just(Step::Restart),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_ledger_agrees_with_a_plain_sum(steps in prop::collection::vec(step(), 1..60)) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
            runtime.block_on(run(steps))?;
        }
    }

    async fn run(steps: Vec<Step>) -> Result<(), TestCaseError> {
        let store = MemoryStore::default();
        let mut ledger = ledger(&store, QUOTA);
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
                    let reservation = ledger.reserve(account, plan, images, now);
                    prop_assert_eq!(reservation.is_ok(), expected);
                    held.extend(reservation.ok().map(|reservation| (account, month, reservation)));
                }
                Step::Drop(_) | Step::Bill(..) if held.is_empty() => {}
                Step::Drop(which) => drop(held.swap_remove(which.index(held.len()))),
                Step::Bill(which, images, mood) => {
                    let (account, month, reservation) = held.swap_remove(which.index(held.len()));
                    let fits = images <= reservation.images();
                    store.set(mood);
                    let outcome = reservation.bill(images, images * 5000, None).await;
                    store.set(Mood::Willing);
                    prop_assert_eq!(outcome.is_ok(), fits && mood == Mood::Willing);
                    if outcome.is_ok() {
                        let sums = billed.entry((account, month)).or_default();
                        *sums = (sums.0 + images, sums.1 + images * 5000);
                    }
                }
                Step::Advance(seconds) => now = UnixSeconds(now.0 + seconds),
                Step::Restart => {
                    held.clear();
                    ledger = store.start(QUOTA, now).0;
                }
            }
            for account in ACCOUNTS {
                let standing = ledger.standing(account, Plan::Free, now);
                let sums = billed.get(&(account, Month::of(now))).copied().unwrap_or_default();
                prop_assert_eq!((standing.used, standing.microdollars), sums);
                prop_assert!(ledger.lock().get(account).is_none_or(|tallies| tallies.len() <= 2 + held.len()));
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
}
