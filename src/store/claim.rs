//! `Idempotency-Key`: claims a key for a request, so that a repeated request is not billed again.
//!
//! The first request with a key gets a [`ClaimGuard`]. Each bill of the request remembers its pictures for 24 hours, in the same
//! transaction. Dropping the guard ends the claim. The same request sent meanwhile, also to another daemon on the database,
//! waits for that. Results are not stored: a repeated request is computed again, without a bill.
//!
//! The bytes behind an address are known only after fetching. Requests are remembered picture by picture, so that changed
//! bytes behind the same address are not computed again without a bill, and a failed picture of a batch may be billed
//! later: such a request gets a guard again.

use std::sync::Arc;
use std::time::Duration;

use super::local::MemoryClaim;
use super::postgres::RowClaim;
use super::{ChangeError, OpenError, Request, Store, UnixSeconds};

/// The pictures of a request by position: SHA-256 of what was fetched, for those that were billed.
pub type BilledPictures = Arc<[Option<[u8; 32]>]>;

/// The pause between two attempts to claim a key that another request holds in the database.
const RETRY: Duration = Duration::from_millis(150);

/// The outcome of claiming a key.
#[derive(Debug)]
pub enum Claim {
    /// The first request with the key, or one with unbilled pictures: bill them with the guard, and drop it.
    New(ClaimGuard),
    /// A repetition, with all pictures billed: answer it without a bill.
    Replay(BilledPictures),
    /// The key belongs to another request.
    Conflict,
}

/// The exclusive right to bill under a key, until it is dropped. A claim in a database also ends after the time that
/// [`Store::claim`] was given, because its daemon can die: the transaction of a bill refuses what another claim has billed.
#[derive(Debug)]
#[must_use = "dropped, it frees the key"]
pub struct ClaimGuard {
    key: String,
    fingerprint: [u8; 32],
    at: UnixSeconds,
    /// What is billed under the key.
    earlier: Option<Request>,
    /// Whether the outcome of a bill is unknown, so that `earlier` may lack its picture.
    pub(super) is_uncertain: bool,
    pub(super) hold: Arc<Hold>,
}

/// What keeps others from billing under the key.
#[derive(Debug)]
pub(super) enum Hold {
    Memory { _claim: MemoryClaim },
    Row(RowClaim),
}

impl Store {
    /// Claims a key of an account for a request of at most `lasts`. While the same request is in progress this waits for its
    /// end; put a time limit on it. `fingerprint` is the SHA-256 of the request, with the fields of its preset.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub async fn claim(
        &self,
        account: &str,
        key: &str,
        fingerprint: [u8; 32],
        now: UnixSeconds,
        lasts: Duration,
    ) -> Result<Claim, OpenError> {
        match self {
            Self::File(local) => local.claim(account, key, fingerprint, now).await,
            Self::Database(database) => loop {
                if let Some(claim) = database.claim(account, key, fingerprint, now, lasts).await? {
                    return Ok(claim);
                }
                tokio::time::sleep(RETRY).await;
            },
        }
    }
}

impl Claim {
    /// The outcome of an attempt to claim `key`, under which `billed` was billed before. `hold` is the claim; without one another
    /// claim holds the key, of another request if `is_other`. `None` where that claim has to end first.
    pub(super) fn of_attempt(
        key: &str,
        fingerprint: [u8; 32],
        at: UnixSeconds,
        billed: Option<Request>,
        hold: Option<Hold>,
        is_other: bool,
    ) -> Option<Self> {
        match (billed, hold) {
            (Some(billed), _) if billed.fingerprint != fingerprint => Some(Self::Conflict),
            (Some(billed), _) if billed.pictures.iter().all(Option::is_some) => {
                Some(Self::Replay(billed.pictures.into()))
            }
            (earlier, Some(hold)) => {
                let (key, hold) = (key.to_owned(), Arc::new(hold));
                Some(Self::New(ClaimGuard { key, fingerprint, at, earlier, is_uncertain: false, hold }))
            }
            (None, None) if is_other => Some(Self::Conflict),
            // This request runs elsewhere. If a part of it is billed, the claim may be of another request, which ends at once.
            (_, None) => None,
        }
    }
}

impl ClaimGuard {
    /// The pictures that are billed under the key.
    #[must_use]
    pub fn pictures(&self) -> BilledPictures {
        self.earlier.as_ref().map(|earlier| earlier.pictures.as_slice().into()).unwrap_or_default()
    }

    /// The key, and the record to store when `images` more are billed and `pictures` are all that is billed then.
    pub(super) fn request(&self, images: u64, pictures: &BilledPictures) -> (String, Request) {
        let before = self.earlier.as_ref().map_or(0, |earlier| earlier.images);
        let (fingerprint, at, pictures) = (self.fingerprint, self.at, pictures.to_vec());
        (self.key.clone(), Request { fingerprint, images: before.saturating_add(images), at, pictures })
    }

    /// To be called with the outcome of each bill: the record, where it is stored.
    pub(super) fn billed(&mut self, request: Request, outcome: &Result<(), ChangeError>) {
        match outcome {
            Ok(()) => self.earlier = Some(request),
            Err(ChangeError::Interrupted(_) | ChangeError::Storage(_) | ChangeError::Closed) => {
                self.is_uncertain = true
            }
            Err(_) => {}
        }
    }
}
