//! The billing service: reserves, bills and releases images; counters in memory, bills in the store.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::counters::Counters;
use super::leased_bill::{CoveredBill, Deferred, HeldShare, SharedClaim};
use super::leases::{Holder, Leases};
use super::quota::{Payer, QuotaExhausted, QuotaKind, UsageSummary};
use crate::account::idempotency::ClaimGuard;
use crate::account::store_write::{WriteError, write_change};
use crate::store::{
    Bill, BillCheck, Change, ChangeError, Day, KeyDay, KeyUse, LeaseRequest, Month, Plan, QuotaCheck, Rows, StateStore,
    UnixSeconds, Usage,
};

/// How often leases are checked.
const LEASES_EVERY: Duration = Duration::from_secs(1);

/// Leases in one change, which must not delay the bills of others.
const LEASES_PER_CHANGE: usize = 16;

/// What every account used and has reserved. Clones share one state.
#[derive(Clone, Debug)]
pub struct Billing(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    store: Arc<dyn StateStore>,
    free_images_per_month: u64,
    counters: Mutex<Counters>,
    leases: Arc<Mutex<Leases>>,
    deferred: Deferred,
}

/// Images that a request may make. Releases them when it is dropped.
#[derive(Debug)]
#[must_use = "dropped, it releases its images"]
pub struct Reservation {
    billing: Billing,
    account: String,
    /// Public id of the key.
    key_id: Option<String>,
    month: Month,
    day: Day,
    images: u64,
    /// The quotas that it was checked against.
    quota: QuotaCheck,
}

/// Whether a bill was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Billed {
    /// Now.
    Now,
    /// Another process billed the same request in the meantime: this one is a repetition, and costs nothing.
    Before,
}

/// Why a bill was not written. The reservation was released.
#[derive(Debug, thiserror::Error)]
pub enum BillingError {
    /// More images than were reserved: a mistake of the caller.
    #[error("{images} images are to be billed and {reserved} are reserved")]
    MoreThanReserved {
        /// To be billed.
        images: u64,
        /// Reserved.
        reserved: u64,
    },
    /// Another process billed the last images of the month in the meantime.
    #[error(transparent)]
    Exhausted(#[from] QuotaExhausted),
    /// Another process billed another request under the same `Idempotency-Key` in the meantime.
    #[error("another request with this `Idempotency-Key` was billed in the meantime")]
    Conflict,
    /// Another process billed a part of the same request in the meantime: it may be sent again.
    #[error("a part of this request was billed in the meantime; send it again with the same `Idempotency-Key`")]
    Repeated,
    /// The store refused or failed.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl Billing {
    /// With `usage` and `key_days` as the store has them now.
    pub(in crate::account) fn new(
        store: Arc<dyn StateStore>,
        usage: Vec<(String, Month, Usage)>,
        key_days: Vec<(String, Day, String, KeyDay)>,
        free_images_per_month: u64,
    ) -> Self {
        let counters = Mutex::new(Counters::load(usage, key_days));
        let (leases, deferred) = (Arc::default(), Deferred::default());
        Self(Arc::new(Shared { store, free_images_per_month, counters, leases, deferred }))
    }

    /// As [`Self::reserve_for`], for work without a key.
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

    /// Reserves `images` of the month that `now` is in. The free plan has a quota, and a key may have one; a reservation
    /// of 0 always succeeds.
    ///
    /// Sandbox keys reserve 0, only to have a request remembered.
    ///
    /// # Errors
    /// When the plan or the key has fewer left, reservations of other requests counted.
    pub fn reserve_for(&self, payer: &Payer<'_>, images: u64, now: UnixSeconds) -> Result<Reservation, QuotaExhausted> {
        let (month, day) = (Month::of(now), Day::of(now));
        let mut counters = self.lock();
        let quota = self.quotas(payer);
        let (plan_left, key_left) = left(quota, &counters, payer.account, payer.key_id, month);
        for (left, kind) in [(plan_left, QuotaKind::Plan), (key_left, QuotaKind::Key)] {
            if images > 0 && left.is_some_and(|left| images > left) {
                return Err(QuotaExhausted { kind, resets_at: month.ends() });
            }
        }
        counters.reserve(payer.account, payer.key_id, month, images);
        Ok(self.reservation(payer.account, payer.key_id, (month, day), images, quota))
    }

    /// Reserves images of a month without a quota check, for work whose reservation was granted earlier: before a
    /// restart, or before a change that failed.
    pub fn reserve_unchecked(&self, account: &str, key_id: Option<&str>, month: Month, images: u64) -> Reservation {
        self.lock().reserve(account, key_id, month, images);
        self.reservation(account, key_id, (month, Day::first_of(month)), images, QuotaCheck::default())
    }

    /// Images left in the month that `now` is in, reservations counted: the smaller of the plan's and the key's; `None`
    /// where neither has a quota.
    #[must_use]
    pub fn remaining(&self, payer: &Payer<'_>, now: UnixSeconds) -> Option<u64> {
        let (plan, key) = left(self.quotas(payer), &self.lock(), payer.account, payer.key_id, Month::of(now));
        plan.into_iter().chain(key).min()
    }

    /// What the account used in the month that `now` is in.
    #[must_use]
    pub fn usage(&self, account: &str, plan: Plan, now: UnixSeconds) -> UsageSummary {
        let month = Month::of(now);
        let Usage { images, microdollars } = self.lock().billed(account, month);
        UsageSummary { used: images, quota: self.quota(plan), microdollars, resets_at: month.ends() }
    }

    fn quota(&self, plan: Plan) -> Option<u64> {
        match plan {
            Plan::Free => Some(self.0.free_images_per_month),
            Plan::Paid | Plan::Plus => None,
        }
    }

    fn quotas(&self, payer: &Payer<'_>) -> QuotaCheck {
        QuotaCheck { plan_images: self.quota(payer.plan), key_images: payer.images_per_month }
    }

    /// Leases images for the keys in use, and gives back those of the others, every second until it is dropped. Ends at once
    /// on a store of one process.
    pub async fn run_leases(&self) {
        while self.0.store.is_shared() {
            tokio::time::sleep(LEASES_EVERY).await;
            self.renew_leases().await;
        }
    }

    /// One turn of [`Self::run_leases`]. A failure leaves the leases as they are: the next turn retries.
    pub async fn renew_leases(&self) {
        if self.0.store.fault().is_some() {
            return;
        }
        let requests = {
            let counters = self.lock();
            self.lock_leases().requests(Instant::now(), |Holder { account, key_id, month }, quota| {
                let (plan, key) = left(quota, &counters, account, Some(key_id), *month);
                plan.into_iter().chain(key).min()
            })
        };
        self.send_leases(&requests).await;
    }

    /// Gives all leases back, before the process ends. What bills hold of them returns when they end.
    pub async fn end_leases(&self) {
        if self.0.store.fault().is_none() {
            let requests = self.lock_leases().end();
            self.send_leases(&requests).await;
        }
    }

    async fn send_leases(&self, requests: &[LeaseRequest]) {
        for leases in requests.chunks(LEASES_PER_CHANGE) {
            let (billing, requested, sent) = (self.clone(), leases.to_vec(), Instant::now());
            let committed = move |rows: &Rows| {
                let mut leases = billing.lock_leases();
                requested.iter().for_each(|request| leases.granted(request, &rows.leases, sent));
            };
            let change = Change::LeaseImages { leases: leases.to_vec() };
            let Err(error) = write_change(&*self.0.store, change, committed).await else { continue };
            let mut held = self.lock_leases();
            match error {
                WriteError::Change(ChangeError::Unavailable(_) | ChangeError::Busy) => {
                    leases.iter().for_each(|request| held.refused(request));
                }
                WriteError::Change(_) | WriteError::Closed => {
                    tracing::warn!(%error, "images could not be leased");
                    leases.iter().for_each(|request| held.give_up(request));
                }
            }
        }
    }

    /// How many bills are not committed that were acknowledged by leases, or whose callers are gone.
    #[must_use]
    pub fn deferred_bills(&self) -> usize {
        self.0.deferred.count()
    }

    /// Waits until there are no [deferred bills](Self::deferred_bills), at most for `limit`; returns how many are left. They are
    /// lost with the process.
    pub async fn finish_deferred(&self, limit: Duration) -> usize {
        let until = Instant::now() + limit;
        loop {
            let left = self.deferred_bills();
            if left == 0 || until <= Instant::now() || self.0.store.is_superseded() {
                return left;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Whether a lease covers bills at present, also while the store cannot write.
    #[must_use]
    pub fn has_leases(&self) -> bool {
        !self.0.store.is_superseded() && self.lock_leases().has_images(Instant::now())
    }

    fn reservation(
        &self,
        account: &str,
        key_id: Option<&str>,
        (month, day): (Month, Day),
        images: u64,
        quota: QuotaCheck,
    ) -> Reservation {
        let (account, key_id) = (account.to_owned(), key_id.map(str::to_owned));
        Reservation { billing: self.clone(), account, key_id, month, day, images, quota }
    }

    /// A copy that followed commits are written to.
    pub(in crate::account) fn downgrade(&self) -> BillingCopy {
        BillingCopy(Arc::downgrade(&self.0))
    }

    /// Ends a reservation: copies what a bill wrote and releases the images, under one lock, so that no image is counted
    /// twice or not at all.
    fn finalize(&self, reservation: &mut Reservation, rows: &Rows) {
        let images = std::mem::take(&mut reservation.images);
        let Reservation { account, key_id, month, .. } = reservation;
        self.lock().finalize(rows, account, key_id.as_deref(), *month, images);
    }

    /// Held for a few sums, never across an await, and taken after the counters. As there poison is no reason to stop.
    fn lock_leases(&self) -> MutexGuard<'_, Leases> {
        self.0.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Held for a few sums, never across an await. No sum panics, so poison is no reason to stop.
    pub(super) fn lock(&self) -> MutexGuard<'_, Counters> {
        self.0.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What plan and key have left of their quotas, reservations counted; `None` for no quota.
fn left(
    quota: QuotaCheck,
    counters: &Counters,
    account: &str,
    key_id: Option<&str>,
    month: Month,
) -> (Option<u64>, Option<u64>) {
    let plan = quota.plan_images.map(|quota| quota.saturating_sub(counters.account_total(account, month)));
    let key_total = key_id.map_or(0, |id| counters.key_total(id, month));
    (plan, quota.key_images.map(|quota| quota.saturating_sub(key_total)))
}

/// The counters, as long as their service lives.
#[derive(Debug)]
pub(in crate::account) struct BillingCopy(Weak<Shared>);

impl BillingCopy {
    /// Copies the usage of a followed commit.
    pub(in crate::account) fn copy(&self, rows: &Rows) {
        if let Some(shared) = self.0.upgrade() {
            Billing(shared).lock().copy(rows);
        }
    }
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

    /// The quotas to check again when a change is committed that uses the images; `None` on a store of one process, where
    /// the check of the reservation is exact.
    #[must_use]
    pub fn quota_check(&self) -> Option<QuotaCheck> {
        self.billing.0.store.is_shared().then_some(self.quota)
    }

    /// Submits a change that ends the work, and may bill its account in the same transaction; the reservation is
    /// released. The change is durable when this returns.
    ///
    /// Once polled the change is in progress and is not lost when this is dropped.
    ///
    /// # Errors
    /// When the change did not happen: nothing is billed.
    pub async fn end(mut self, change: Change) -> Result<Rows, WriteError> {
        let billing = self.billing.clone();
        let committed = move |rows: &Rows| self.billing.clone().finalize(&mut self, rows);
        write_change(&*billing.0.store, change, committed).await
    }

    /// Whether a bill of all reserved images is not known to fail, for work that is answered before its bill.
    ///
    /// # Errors
    /// Why the store cannot write, where no lease covers the images.
    pub fn require_billable(&self) -> Result<(), WriteError> {
        let Some(reason) = self.billing.0.store.fault() else { return Ok(()) };
        let is_covered = self
            .lease_holder()
            .is_some_and(|holder| self.billing.lock_leases().has_images_of(&holder, self.images, Instant::now()));
        if is_covered { Ok(()) } else { Err(ChangeError::Unavailable(reason).into()) }
    }

    /// Who leases images for this reservation; `None` where no lease can pay.
    fn lease_holder(&self) -> Option<Holder> {
        let store = &self.billing.0.store;
        if !store.is_shared() || store.is_superseded() {
            return None;
        }
        Some(Holder { account: self.account.clone(), key_id: self.key_id.clone()?, month: self.month })
    }

    /// Takes what the key has leased for a bill of `images`.
    fn lease_share(&self, images: u64) -> Option<HeldShare> {
        let holder = self.lease_holder().filter(|_| images > 0)?;
        let billing = self.billing.clone();
        let taken = billing.lock_leases().take(holder.clone(), images, self.quota, Instant::now());
        let leases = &billing.0.leases;
        taken.map(|(share, until)| HeldShare { leases: Arc::clone(leases), holder, share, until })
    }

    /// Bills `images` of the reserved ones and their price to the month of the reservation, and releases the rest. It is
    /// durable when this returns, or a lease covers it and the database is away or slow. With a claim its
    /// `Idempotency-Key` is remembered in the same transaction; requests that wait for the key continue when this ends,
    /// with or without success.
    ///
    /// Once polled the bill is in progress and is not lost when this is dropped.
    ///
    /// # Errors
    /// When it could not be written: nothing is billed, the images and the claim are released.
    pub async fn bill(
        mut self,
        images: u64,
        microdollars: u64,
        claim: Option<ClaimGuard>,
    ) -> Result<Billed, BillingError> {
        let reserved = self.images;
        if images > reserved {
            return Err(BillingError::MoreThanReserved { images, reserved });
        }
        let request = claim.as_ref().map(|claim| claim.request(images));
        let earlier = claim.as_ref().and_then(ClaimGuard::earlier);
        let mut held = self.lease_share(images);
        let lease = held.as_ref().map(|held| held.share);
        let covered_until = held.as_ref().filter(|held| held.share.images >= images).map(|held| held.until);
        let check = self.quota_check().map(|quota| BillCheck { quota, earlier, lease });
        // Only a check can find another request.
        let own = check.and_then(|_| request.as_ref().map(|(_, request)| request.clone()));
        let change = Change::Bill(Bill {
            account: self.account.clone(),
            month: self.month,
            images,
            microdollars,
            request,
            by: self.key_id.clone().map(|key_id| KeyUse { key_id, day: self.day, milliseconds: 0 }),
            check,
        });
        let (billing, resets_at, claim) = (self.billing.clone(), self.month.ends(), SharedClaim::new(claim));
        let committed = {
            let claim = claim.clone();
            move |rows: &Rows| {
                self.billing.clone().finalize(&mut self, rows);
                if let Some(held) = &mut held {
                    held.committed(rows);
                }
                claim.billed(images);
            }
        };
        let store = &*billing.0.store;
        let written = match covered_until {
            Some(until) => {
                let deferred = billing.0.deferred.clone();
                CoveredBill { change, images, claim, until, deferred }.write(store, committed).await
            }
            None => write_change(store, change, committed).await.map(drop),
        };
        match written {
            Ok(()) => Ok(Billed::Now),
            Err(WriteError::Change(ChangeError::QuotaExceeded { of_key })) => {
                Err(QuotaExhausted::refused(of_key, resets_at).into())
            }
            Err(WriteError::Change(ChangeError::RequestBilled(billed))) => match own {
                Some(own) if own.fingerprint != billed.fingerprint => Err(BillingError::Conflict),
                // A repetition, which is not billed again.
                Some(own) if is_billed(&own.pictures, &billed.pictures) => Ok(Billed::Before),
                Some(_) | None => Err(BillingError::Repeated),
            },
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether all pictures of a request that are to be billed were billed, with the same bytes.
fn is_billed(pictures: &[Option<[u8; 32]>], billed: &[Option<[u8; 32]>]) -> bool {
    let at = |number: usize| billed.get(number).copied().flatten();
    pictures.iter().enumerate().all(|(number, picture)| picture.is_none() || *picture == at(number))
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.images > 0 {
            self.billing.clone().finalize(self, &Rows::default());
        }
    }
}
