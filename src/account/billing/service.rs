//! Quota and billing.
//!
//! A request reserves its images before any work and bills what it made when it succeeds; what is not billed is
//! given back by dropping the [`Reservation`]. Quota is judged against what is billed and what is reserved together,
//! under one lock: however many requests run at once, never more images are made than the plan has.
//!
//! A key may have a bound of its own: its images are counted in the same way, by day as the store keeps them, and a
//! request has to keep both.
//!
//! Billed is what the store has committed. The copy here is fed by its commits, so it is the same after a restart;
//! reservations are in memory only, because the requests that hold them end with the process.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::requests::Permit;
use super::write::{WriteError, write};
use crate::store::{Change, Day, KeyDay, KeyUse, Month, Plan, Rows, StateStore, UnixSeconds, Usage};

/// What every account used and has reserved. Clones share one state.
#[derive(Clone, Debug)]
pub struct Ledger(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    store: Arc<dyn StateStore>,
    free_images_per_month: u64,
    tallies: Mutex<Tallies>,
}

#[derive(Debug, Default)]
struct Tallies {
    /// Of each account the current month, the one before, and whatever a request still holds.
    accounts: HashMap<String, Vec<Tally>>,
    /// Of each key, by its public id, that was used in the current month or the one before.
    keys: HashMap<String, KeyTally>,
}

/// One account in one month.
#[derive(Clone, Copy, Debug)]
struct Tally {
    month: Month,
    billed: Usage,
    reserved: u64,
}

/// One key.
#[derive(Debug, Default)]
struct KeyTally {
    /// Images by day, of the newest month and the one before.
    billed: BTreeMap<(Month, Day), u64>,
    reserved: BTreeMap<Month, u64>,
}

/// Whose images a request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payer<'a> {
    /// Name of the account.
    pub account: &'a str,
    /// The account's plan.
    pub plan: Plan,
    /// Public id of the key.
    pub key_id: Option<&'a str>,
    /// Images that the key may have made in a month; nothing where it has no bound of its own.
    pub images_per_month: Option<u64>,
}

/// What is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The images of the account's plan.
    Plan,
    /// The images of the key.
    Key,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plan => "the free images of this month",
            Self::Key => "the images that this API key has in a month",
        })
    }
}

/// Images that a request may make. Gives them back when it is dropped.
#[derive(Debug)]
#[must_use = "dropped, it gives its images back"]
pub struct Reservation {
    ledger: Ledger,
    account: String,
    /// Public id of the key.
    key_id: Option<String>,
    month: Month,
    day: Day,
    images: u64,
}

/// The images of the month are used up, or what is left is not enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{of} are used up; there are new ones from {resets_at}")]
pub struct QuotaExhausted {
    /// Which bound it is.
    pub of: Bound,
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
    /// With `usage` and `key_days` as the store has them now.
    pub(super) fn new(
        store: Arc<dyn StateStore>,
        usage: Vec<(String, Month, Usage)>,
        key_days: Vec<(String, Day, String, KeyDay)>,
        free_images_per_month: u64,
    ) -> Self {
        let mut tallies = Tallies::default();
        for (account, month, billed) in usage {
            tallies.accounts.entry(account).or_default().push(Tally { month, billed, reserved: 0 });
        }
        for (_, day, key_id, used) in key_days {
            tallies.keys.entry(key_id).or_default().record(day, used.images);
        }
        Self(Arc::new(Shared { store, free_images_per_month, tallies: Mutex::new(tallies) }))
    }

    /// As [`Self::reserve_for`], for work of no key.
    ///
    /// # Errors
    /// As [`Self::reserve_for`].
    pub fn reserve(
        &self,
        account: &str,
        plan: Plan,
        images: u64,
        now: UnixSeconds,
    ) -> Result<Reservation, QuotaExhausted> {
        self.reserve_for(&Payer { account, plan, key_id: None, images_per_month: None }, images, now)
    }

    /// Reserves `images` of the month that `now` is in. The free plan has a bound, and a key may have one; asking for none
    /// always succeeds.
    ///
    /// Sandbox keys use nothing: they reserve none, and only to have a request remembered.
    ///
    /// # Errors
    /// When the plan or the key has not that many left, reservations of other requests counted.
    pub fn reserve_for(&self, payer: &Payer<'_>, images: u64, now: UnixSeconds) -> Result<Reservation, QuotaExhausted> {
        let (month, day) = (Month::of(now), Day::of(now));
        let mut tallies = self.lock();
        let exceeded = images > 0 && payer.plan_left(self, &tallies, month).is_some_and(|left| images > left);
        let key_exceeded = images > 0 && payer.key_left(&tallies, month).is_some_and(|left| images > left);
        let exhausted = |of| QuotaExhausted { of, resets_at: month.ends() };
        if exceeded {
            return Err(exhausted(Bound::Plan));
        }
        if key_exceeded {
            return Err(exhausted(Bound::Key));
        }
        tallies.hold(payer.account, payer.key_id, month, images);
        Ok(self.reservation(payer.account, payer.key_id, month, day, images))
    }

    /// What is left of the month that `now` is in, reservations counted: the smaller of what the plan and the key have;
    /// nothing where neither has a bound.
    #[must_use]
    pub fn remaining(&self, payer: &Payer<'_>, now: UnixSeconds) -> Option<u64> {
        let (month, tallies) = (Month::of(now), self.lock());
        let (plan, key) = (payer.plan_left(self, &tallies, month), payer.key_left(&tallies, month));
        plan.into_iter().chain(key).min()
    }

    fn reservation(&self, account: &str, key_id: Option<&str>, month: Month, day: Day, images: u64) -> Reservation {
        let (account, key_id) = (account.to_owned(), key_id.map(str::to_owned));
        Reservation { ledger: self.clone(), account, key_id, month, day, images }
    }

    /// Holds images of a month again, for work that had reserved them before a restart. Asks for no quota: they were
    /// granted.
    pub fn hold(&self, account: &str, key_id: Option<&str>, month: Month, images: u64) -> Reservation {
        self.lock().hold(account, key_id, month, images);
        self.reservation(account, key_id, month, Day::first_of(month), images)
    }

    /// Where the account stands in the month that `now` is in.
    #[must_use]
    pub fn standing(&self, account: &str, plan: Plan, now: UnixSeconds) -> Standing {
        let month = Month::of(now);
        let Usage { images, microdollars } =
            self.lock().account(account, month).map(|tally| tally.billed).unwrap_or_default();
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
        let mut tallies = self.lock();
        let Tallies { accounts, keys } = &mut *tallies;
        for (account, month, billed) in &rows.usage {
            tally(accounts, account, *month).billed = *billed;
        }
        for (_, day, key_id, used) in &rows.key_days {
            keys.entry(key_id.clone()).or_default().record(*day, used.images);
        }
        let images = std::mem::take(&mut reservation.images);
        let tally = tally(accounts, &reservation.account, reservation.month);
        tally.reserved = tally.reserved.saturating_sub(images);
        if let Some(key) = reservation.key_id.as_ref().and_then(|id| keys.get_mut(id)) {
            key.release(reservation.month, images);
        }
        if let Some(tallies) = accounts.get_mut(&reservation.account) {
            let newest = tallies.iter().map(|tally| tally.month).fold(reservation.month, Month::max);
            forget_old(tallies, newest);
        }
    }

    /// Held for a few sums, never across an await. No sum panics, so poison is no reason to stop.
    fn lock(&self) -> MutexGuard<'_, Tallies> {
        self.0.tallies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Payer<'_> {
    /// What the plan has left, reservations counted. None of the numbers comes near the end of its type, but a damaged
    /// store might hold such a one.
    fn plan_left(&self, ledger: &Ledger, tallies: &Tallies, month: Month) -> Option<u64> {
        let taken = |tally: &Tally| tally.billed.images.saturating_add(tally.reserved);
        let taken = tallies.account(self.account, month).map_or(0, taken);
        ledger.quota(self.plan).map(|quota| quota.saturating_sub(taken))
    }

    /// What the key has left, reservations counted.
    fn key_left(&self, tallies: &Tallies, month: Month) -> Option<u64> {
        let taken = self.key_id.and_then(|id| tallies.keys.get(id)).map_or(0, |key| key.taken(month));
        self.images_per_month.map(|most| most.saturating_sub(taken))
    }
}

impl Tallies {
    fn account(&self, account: &str, month: Month) -> Option<&Tally> {
        self.accounts.get(account).and_then(|tallies| tallies.iter().find(|tally| tally.month == month))
    }

    fn hold(&mut self, account: &str, key_id: Option<&str>, month: Month, images: u64) {
        let tally = tally(&mut self.accounts, account, month);
        tally.reserved = tally.reserved.saturating_add(images);
        if let Some(id) = key_id
            && images > 0
        {
            let reserved = self.keys.entry(id.to_owned()).or_default().reserved.entry(month).or_default();
            *reserved = reserved.saturating_add(images);
        }
    }
}

impl KeyTally {
    /// Images of a month, billed and reserved.
    fn taken(&self, month: Month) -> u64 {
        let days = self.billed.range((month, Day(0))..=(month, Day(u32::MAX))).map(|(_, images)| *images);
        days.chain(self.reserved.get(&month).copied()).fold(0, u64::saturating_add)
    }

    /// Takes over what the store has of a day.
    fn record(&mut self, day: Day, images: u64) {
        self.billed.insert((day.month(), day), images);
        if let Some(newest) = self.billed.last_key_value().map(|((month, _), _)| *month) {
            self.billed.retain(|(month, _), _| *month >= newest.previous());
        }
    }

    fn release(&mut self, month: Month, images: u64) {
        if let Some(reserved) = self.reserved.get_mut(&month) {
            *reserved = reserved.saturating_sub(images);
            if *reserved == 0 {
                self.reserved.remove(&month);
            }
        }
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
            by: self.key_id.clone().map(|key_id| KeyUse { key_id, day: self.day, milliseconds: 0 }),
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
        assert_eq!(refused, QuotaExhausted { of: Bound::Plan, resets_at: DECEMBER });
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
        assert_eq!(ledger.lock().accounts["a"].len(), 3, "two, and the one that a request still holds");
        held.bill(1, 0, None).await.expect("it writes");
        assert_eq!(ledger.lock().accounts["a"].len(), 2);
        assert_eq!(store.usage("a")[0], (Month(202_611), Usage { images: 1, microdollars: 0 }));
    }

    #[tokio::test]
    async fn what_is_held_again_counts_and_ends_with_the_change_that_bills_it() {
        let store = MemoryStore::default();
        let ledger = ledger(&store, 10);
        // More than the plan has: it was granted before, under another plan.
        let held = ledger.hold("a", None, Month(202_611), 12);
        assert_eq!((held.images(), held.month()), (12, Month(202_611)));
        assert!(ledger.reserve("a", Plan::Free, 1, NOVEMBER).is_err());
        let bill = Change::Bill {
            account: "a".into(),
            month: Month(202_611),
            images: 3,
            microdollars: 7,
            request: None,
            by: None,
        };
        held.end(bill.clone()).await.expect("the store writes");
        assert_eq!(used(&ledger, NOVEMBER), 3);
        drop(ledger.hold("a", None, Month(202_611), 7));
        assert!(ledger.reserve("a", Plan::Free, 7, NOVEMBER).is_ok(), "the rest is given back");
        // A change that does not happen bills nothing and gives all back.
        store.set(Mood::Busy);
        assert!(ledger.hold("a", None, Month(202_611), 7).end(bill).await.is_err());
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

    fn payer(key_id: &str, images_per_month: Option<u64>) -> Payer<'_> {
        Payer { account: "a", plan: Plan::Free, key_id: Some(key_id), images_per_month }
    }

    #[tokio::test]
    async fn a_keys_own_bound_and_its_plans_hold_both() {
        let store = MemoryStore::default();
        let ledger = ledger(&store, 10);
        let (narrow, wide, other) = (payer("k1", Some(3)), payer("k1", Some(99)), payer("k2", None));
        // Who asks, for how many, what is refused, and what is left for `narrow`, `wide` and `other` after that.
        let steps = [
            (narrow, 2, None, [1, 8, 8]),
            (narrow, 2, Some(Bound::Key), [1, 8, 8]),
            (narrow, 0, None, [1, 8, 8]),
            (other, 7, None, [1, 1, 1]),
            (wide, 2, Some(Bound::Plan), [1, 1, 1]),
            (narrow, 1, None, [0, 0, 0]),
        ];
        for (payer, images, refused, left) in steps {
            let reserved = ledger.reserve_for(&payer, images, NOVEMBER);
            assert_eq!(reserved.as_ref().err().map(|error| error.of), refused, "{payer:?} {images}");
            if let Ok(reservation) = reserved {
                let during = ledger.remaining(&payer, NOVEMBER);
                reservation.bill(images, 0, None).await.expect("it writes");
                assert_eq!(ledger.remaining(&payer, NOVEMBER), during, "billed in place of reserved");
            }
            let told = [narrow, wide, other].map(|payer| ledger.remaining(&payer, NOVEMBER));
            assert_eq!(told, left.map(Some), "{payer:?} {images}");
        }
        assert_eq!(ledger.remaining(&narrow, DECEMBER), Some(3), "a new month");
        let paid = |bound| Payer { plan: Plan::Paid, ..payer("k1", bound) };
        assert_eq!(ledger.remaining(&paid(None), NOVEMBER), None);
        let (after_restart, ..) = store.start(10, NOVEMBER);
        assert_eq!(after_restart.remaining(&paid(Some(5)), NOVEMBER), Some(2), "the store has it by key");
        let held = after_restart.hold("a", Some("k1"), Month(202_611), 2);
        assert_eq!(after_restart.remaining(&paid(Some(5)), NOVEMBER), Some(0));
        drop(held);
        assert_eq!(after_restart.remaining(&paid(Some(5)), NOVEMBER), Some(2));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn of_100_requests_at_once_exactly_as_many_get_through_as_the_key_has() {
        let store = MemoryStore::default();
        let ledger = ledger(&store, 1000);
        let all_asked = Arc::new(Barrier::new(100));
        let request = |_| {
            let (ledger, all_asked) = (ledger.clone(), Arc::clone(&all_asked));
            tokio::spawn(async move {
                let reservation = ledger.reserve_for(&payer("k1", Some(7)), 1, NOVEMBER);
                all_asked.wait().await;
                let Ok(reservation) = reservation else { return 0_u64 };
                reservation.bill(1, 0, None).await.expect("the store writes");
                1
            })
        };
        let tasks: Vec<_> = (0..100).map(request).collect();
        let mut through = 0;
        for task in tasks {
            through += task.await.expect("no panic");
        }
        assert_eq!(through, 7);
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
                prop_assert!(ledger.lock().accounts.get(account).is_none_or(|tallies| tallies.len() <= 2 + held.len()));
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
