//! Billing: reserves images against the monthly quotas of account and key, and bills what was made.
//!
//! A request reserves its images before any work, and bills each picture when it is made and before it is delivered; dropping the
//! [`Reservation`] releases what was not billed. A batch reserves all of its rows at once, so that it is refused as a whole, and bills them one by one. A key may have
//! a quota too; a request has to fit both.
//!
//! On the file a reservation is counted in memory, so that concurrent requests never exceed a quota. On a database it is only
//! compared with what was left at the admission of the request: the transaction of the bill checks the quotas, so that a picture
//! can be refused after its work.

use super::claim::{BilledPictures, ClaimGuard, Hold};
use super::quota::{Payer, QuotaExhausted, UsageSummary, plan_quota, require};
use super::{
    Allowance, Bill, Change, ChangeError, Day, ImagesLeft, Job, KeyUse, Month, OpenError, Plan, Rows, Store,
    UnixSeconds, Usage,
};

/// Images that a request may make. Releases them when it is dropped.
#[derive(Debug)]
#[must_use = "dropped, it releases its images"]
pub struct Reservation {
    store: Store,
    account: String,
    /// Public id of the key.
    key_id: Option<String>,
    month: Month,
    day: Day,
    images: u64,
    allowance: Allowance,
}

/// Whether a bill was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Billed {
    /// Now.
    Now,
    /// Another daemon billed the same request in the meantime: this one is a repetition, and costs nothing.
    Before,
}

/// Why a bill was not written, as far as is known: see [`Reservation::bill`].
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
    /// Other requests were billed the last images of the month in the meantime.
    #[error(transparent)]
    Exhausted(#[from] QuotaExhausted),
    /// Another request was billed under the same `Idempotency-Key` in the meantime.
    #[error("another request with this `Idempotency-Key` was billed in the meantime")]
    Conflict,
    /// A part of the same request was billed in the meantime, or an earlier bill has an unknown outcome: it may be sent again.
    #[error("a part of this request was billed in the meantime; send it again with the same `Idempotency-Key`")]
    Repeated,
    /// The store refused or failed.
    #[error(transparent)]
    Write(#[from] ChangeError),
}

impl Store {
    /// Reserves `images` of the month that `now` is in; on a database only requires that so many are left, as each bill does
    /// again. The free plan has a quota, and a key may have one; a reservation of 0 always succeeds.
    ///
    /// Sandbox keys reserve 0, only to have a request remembered.
    ///
    /// # Errors
    /// When the plan or the key has fewer left.
    pub fn reserve(&self, payer: &Payer<'_>, images: u64, now: UnixSeconds) -> Result<Reservation, QuotaExhausted> {
        let (month, day) = (Month::of(now), Day::of(now));
        let of = (payer.account, payer.key_id, month);
        let is_reserved = match self {
            Self::File(local) => {
                let quota = ImagesLeft { plan: self.quota(payer.plan), key: payer.images_per_month };
                local.reserve(of, images, quota)
            }
            Self::Database(_) => require(payer.allowance.left(), images),
        };
        is_reserved.map_err(|kind| QuotaExhausted { kind, resets_at: month.ends() })?;
        payer.allowance.take(images);
        let (account, key_id) = (payer.account.to_owned(), payer.key_id.map(str::to_owned));
        Ok(Reservation { store: self.clone(), account, key_id, month, day, images, allowance: payer.allowance.clone() })
    }

    /// Adds a queued job, and takes the images for it that `reservation` holds.
    ///
    /// # Errors
    /// As [`Self::change`]; also when the images are not left any more, or the key has `at_most` unfinished jobs.
    pub(crate) async fn create_job(
        &self,
        job: Job,
        at_most: usize,
        reservation: &mut Option<Reservation>,
    ) -> Result<(), ChangeError> {
        match self {
            Self::File(local) => local.create_job(&job, at_most).await?,
            Self::Database(database) => {
                database.change(Change::CreateJob { job: Box::new(job), at_most }).await?;
            }
        }
        // The images are the job's from here on.
        if let Some(reservation) = reservation.take() {
            reservation.keep();
        }
        Ok(())
    }

    /// What an account used in the month that `now` is in.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn usage(&self, account: &str, plan: Plan, now: UnixSeconds) -> Result<UsageSummary, OpenError> {
        let month = Month::of(now);
        let Usage { images, microdollars } = match self {
            Self::File(local) => local.billed(account, month),
            Self::Database(database) => database.usage(account, month).await?,
        };
        Ok(UsageSummary { used: images, quota: self.quota(plan), microdollars, resets_at: month.ends() })
    }

    /// The plan's quota of images in a month; `None` for no quota.
    fn quota(&self, plan: Plan) -> Option<u64> {
        let free_images_per_month = match self {
            Self::File(local) => local.free_images_per_month(),
            Self::Database(database) => database.free_images_per_month(),
        };
        plan_quota(plan, free_images_per_month)
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

    /// Takes `images` of the reserved ones, at most what is left, into a reservation that can be billed alone.
    pub fn split(&mut self, images: u64) -> Self {
        let images = images.min(self.images);
        self.images -= images;
        Self {
            store: self.store.clone(),
            account: self.account.clone(),
            key_id: self.key_id.clone(),
            month: self.month,
            day: self.day,
            images,
            allowance: self.allowance.clone(),
        }
    }

    /// Leaves the images reserved: a job has them from now on.
    fn keep(mut self) {
        self.images = 0;
    }

    /// Refuses work whose bill is known to fail.
    ///
    /// # Errors
    /// Why the store cannot write.
    pub fn require_billable(&self) -> Result<(), ChangeError> {
        self.store.fault().map_or(Ok(()), |reason| Err(ChangeError::Unavailable(reason)))
    }

    /// Bills `images` of the reserved ones and their price to the month of the reservation, and releases the rest. It is
    /// durable when this returns. With a claim its `Idempotency-Key` is remembered in the same transaction, with all pictures
    /// that are billed then.
    ///
    /// Once polled the bill is in progress and is not lost when this is dropped.
    ///
    /// # Errors
    /// When it could not be written: nothing is billed, the images are released. After [`ChangeError::Interrupted`],
    /// [`ChangeError::Storage`] and [`ChangeError::Closed`] it may be billed, and further bills with the claim are refused
    /// ([`BillingError::Repeated`]); after `Storage` images and claim are held until the file shows the outcome.
    pub async fn bill(
        mut self,
        images: u64,
        microdollars: u64,
        mut claim: Option<(&mut ClaimGuard, BilledPictures)>,
    ) -> Result<Billed, BillingError> {
        let reserved = self.images;
        if images > reserved {
            return Err(BillingError::MoreThanReserved { images, reserved });
        }
        if claim.as_ref().is_some_and(|(claim, _)| claim.is_uncertain) {
            return Err(BillingError::Repeated);
        }
        let request = claim.as_ref().map(|(claim, pictures)| claim.request(images, pictures));
        let own = request.as_ref().map(|(_, request)| request.clone());
        let bill = Bill {
            account: self.account.clone(),
            month: self.month,
            images,
            microdollars,
            request,
            by: self.key_id.clone().map(|key_id| KeyUse { key_id, day: self.day, milliseconds: 0 }),
        };
        let resets_at = self.month.ends();
        let store = self.store.clone();
        // Held until the outcome is known, also where the caller is gone.
        let hold = claim.as_ref().map(|(claim, _)| claim.hold.clone());
        let written = match store {
            Store::File(local) => {
                let committed = move |rows: &Rows| {
                    self.finalize(rows, images);
                    drop(hold);
                };
                local.write(Change::Bill(bill), committed).await.map(drop)
            }
            Store::Database(database) => {
                let writing = async move {
                    let claim =
                        hold.as_deref().and_then(|hold| if let Hold::Row(claim) = hold { Some(claim) } else { None });
                    let written = database.bill(&bill, claim).await;
                    if written.is_ok() {
                        self.finalize(&Rows::default(), images);
                    }
                    written
                };
                tokio::spawn(writing).await.unwrap_or(Err(ChangeError::Closed))
            }
        };
        if let (Some((claim, _)), Some(own)) = (&mut claim, &own) {
            claim.billed(own.clone(), &written);
        }
        match written {
            Ok(()) => Ok(Billed::Now),
            Err(ChangeError::QuotaExceeded(kind)) => Err(QuotaExhausted { kind, resets_at }.into()),
            Err(ChangeError::RequestBilled(billed)) => match own {
                Some(own) if own.fingerprint != billed.fingerprint => Err(BillingError::Conflict),
                // A repetition, which is not billed again.
                Some(own) if is_billed(&own.pictures, &billed.pictures) => Ok(Billed::Before),
                Some(_) | None => Err(BillingError::Repeated),
            },
            Err(error) => Err(error.into()),
        }
    }

    /// Ends the reservation: copies what a bill of `images` wrote and releases the rest.
    fn finalize(&mut self, rows: &Rows, images: u64) {
        let reserved = std::mem::take(&mut self.images);
        self.allowance.give_back(reserved.saturating_sub(images));
        if let Store::File(local) = &self.store {
            local.finalize(rows, (&self.account, self.key_id.as_deref(), self.month), reserved);
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
            self.finalize(&Rows::default(), 0);
        }
    }
}
