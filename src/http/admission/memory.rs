//! The memory of accounts: bytes of uploads, fetched files and finished pictures that are being sent. A clip, which is written to disk as
//! it arrives, counts as one file of the largest size.
//!
//! Half of the bound is for uploads and fetched files, half for finished pictures: a batch that waits for the memory of its replies
//! holds its uploads, and would wait for itself. Accounts share each half ([`FairSemaphore::shared`]).
//!
//! A file takes memory as its bytes arrive and not as they are announced, so that a slow client or origin holds no more than it has sent.
//! The memory is returned when the file's last clone is dropped. At the bound an upload is refused (429), because waiting would keep
//! what it holds; a fetch waits for a moment.
//!
//! A finished picture takes its size before its reply begins, and holds it until the last piece has left the connection's buffers or the
//! reply is dropped. At the bound it waits, before all uploads, until the deadline of its request (503). Only a few pictures of one
//! account may wait; further requests of that account are refused (429).
//!
//! Fetches of an account are bounded too, because each may leave a lookup of its host name behind.

use crate::engine::{FairSemaphore, Permit, Tenant};
use crate::http::reply::{ApiError, ErrorCode, Result};
use crate::source::{MemoryBudget, OutOfMemory};
use crate::telemetry::metrics;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{timeout, timeout_at};

/// How long a fetch waits for memory.
const FETCH_WAIT: Duration = Duration::from_secs(5);

/// Fetches of an account at once; more of them wait. A name whose server does not answer occupies a lookup for up to three times
/// the 10 s of its fetch, and there are 128 for all accounts.
const MAX_FETCHES: usize = 32;

/// How long a fetch waits for its place: three of the longest fetches.
const PLACE_WAIT: Duration = Duration::from_secs(30);

/// Finished pictures of one account that may wait for memory.
const MAX_WAITING: usize = 4;

/// The memory of all accounts. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Memory(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Bytes of uploads and fetched files.
    uploads: FairSemaphore,
    /// Bytes of finished pictures.
    replies: FairSemaphore,
    /// The units of `replies`.
    max_reply: usize,
    /// Bytes of the largest file.
    max_file: usize,
    /// The accounts that are in use.
    accounts: Mutex<HashMap<String, Weak<Account>>>,
}

#[derive(Debug)]
struct Account {
    tenant: Tenant,
    fetches: Arc<Semaphore>,
    /// Places of finished pictures that wait for memory.
    waiting: Semaphore,
}

/// The memory of one account. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct AccountMemory {
    shared: Arc<Shared>,
    account: Arc<Account>,
}

/// The memory of a file that is arriving; returned on drop.
#[derive(Debug)]
pub(crate) struct Share {
    memory: AccountMemory,
    held: Mutex<Permit>,
}

/// A file with its memory.
struct Held {
    bytes: Bytes,
    _permit: Permit,
    /// Called with the number of bytes on drop.
    returned: fn(usize),
}

impl Memory {
    /// `bytes` in all, for files of up to `max_file`: as much is each account's share, however many there are.
    pub(crate) fn new(bytes: usize, max_file: usize) -> Self {
        let half = bytes / 2;
        let uploads = FairSemaphore::shared((bytes - half).max(max_file), max_file);
        let replies = FairSemaphore::shared(half, max_file);
        Self(Arc::new(Shared { uploads, replies, max_reply: half, max_file, accounts: Mutex::default() }))
    }

    pub(crate) fn of(&self, account: &str) -> AccountMemory {
        let mut accounts = self.0.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        let known = accounts.get(account).and_then(Weak::upgrade);
        let account = known.unwrap_or_else(|| {
            accounts.retain(|_, account| account.strong_count() > 0);
            let new = Arc::new(Account {
                tenant: Tenant::of(account),
                fetches: Arc::new(Semaphore::new(MAX_FETCHES)),
                waiting: Semaphore::new(MAX_WAITING),
            });
            accounts.insert(account.to_owned(), Arc::downgrade(&new));
            new
        });
        AccountMemory { shared: Arc::clone(&self.0), account }
    }
}

impl AccountMemory {
    /// An empty share.
    pub(crate) fn share(&self) -> Share {
        let none = self.shared.uploads.try_acquire(self.account.tenant, 0).expect("nothing is always free");
        Share { memory: self.clone(), held: Mutex::new(none) }
    }

    /// Bytes of the largest file.
    pub(crate) fn max_file(&self) -> usize {
        self.shared.max_file
    }

    /// A place among the account's fetches, which is held until it is dropped; waits for it for [`PLACE_WAIT`].
    pub(crate) async fn fetch_place(&self) -> Result<OwnedSemaphorePermit> {
        let place = Arc::clone(&self.account.fetches).acquire_owned();
        // Never closed.
        timeout(PLACE_WAIT, place).await.ok().and_then(Result::ok).ok_or_else(uploads_full_error)
    }

    /// The share of a clip that is uploaded or fetched, until it is dropped; 429 if there is no room.
    pub(crate) fn clip(&self) -> Result<Share> {
        let share = self.share();
        share.grow(self.max_file())?;
        Ok(share)
    }

    /// 429 if [`MAX_WAITING`] finished pictures of the account wait: another one would be processed in vain.
    pub(crate) fn refuse_when_unread(&self) -> Result<()> {
        if self.account.waiting.available_permits() == 0 { Err(unread_replies_error()) } else { Ok(()) }
    }

    /// Takes the memory of a finished picture, which is returned when the last clone or slice of the returned bytes is dropped.
    ///
    /// A picture larger than the account's share waits until the account holds nothing else.
    pub(crate) async fn hold(&self, bytes: Bytes, deadline: Instant) -> Result<Bytes> {
        let (semaphore, tenant) = (&self.shared.replies, self.account.tenant);
        let units = bytes.len().min(self.shared.max_reply);
        let permit = match semaphore.try_acquire(tenant, units) {
            Some(permit) => permit,
            None => {
                let _waiting = self.account.waiting.try_acquire().map_err(|_| unread_replies_error())?;
                let waited = timeout_at(deadline.into(), semaphore.acquire(tenant, units)).await;
                waited.map_err(|_| ApiError::unavailable("earlier replies fill the memory for replies"))?
            }
        };
        metrics::reply_bytes_taken(bytes.len());
        Ok(Bytes::from_owner(Held { bytes, _permit: permit, returned: metrics::reply_bytes_returned }))
    }
}

impl Share {
    /// Bytes of the largest file.
    pub(crate) fn max_file(&self) -> usize {
        self.memory.max_file()
    }

    /// Takes `bytes` more, or refuses (429).
    pub(crate) fn grow(&self, bytes: usize) -> Result<()> {
        let more = self.memory.shared.uploads.try_acquire(self.memory.account.tenant, bytes);
        more.map(|more| self.add(more)).ok_or_else(uploads_full_error)
    }

    /// Takes `bytes` more, waiting for them for [`FETCH_WAIT`]: waiting requests may hold what others wait for.
    pub(crate) async fn wait_for(&self, bytes: usize) -> Result<()> {
        let more = self.memory.shared.uploads.acquire(self.memory.account.tenant, bytes);
        timeout(FETCH_WAIT, more).await.map(|more| self.add(more)).map_err(|_| uploads_full_error())
    }

    fn add(&self, more: Permit) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).add(more);
    }

    /// The file with its memory, which is returned when the last clone or slice of the returned bytes is dropped. Memory beyond the file
    /// is returned at once.
    pub(crate) fn hold(self, bytes: impl Into<Bytes>) -> Bytes {
        let bytes: Bytes = bytes.into();
        let mut permit = self.held.into_inner().unwrap_or_else(PoisonError::into_inner);
        permit.shrink_to(bytes.len());
        Bytes::from_owner(Held { bytes, _permit: permit, returned: |_| () })
    }
}

impl MemoryBudget for Share {
    fn reserve(&self, bytes: usize) -> BoxFuture<'_, Result<(), OutOfMemory>> {
        Box::pin(async move { self.wait_for(bytes).await.map_err(|_| OutOfMemory) })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        (self.returned)(self.bytes.len());
    }
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// 429: the memory is used up.
pub(crate) fn uploads_full_error() -> ApiError {
    let error = ApiError::new(ErrorCode::RateLimitExceeded, "too many uploads are under way");
    error.retry_after(Duration::from_secs(1))
}

fn unread_replies_error() -> ApiError {
    let error = ApiError::new(ErrorCode::RateLimitExceeded, "earlier replies to this account were not read yet");
    error.retry_after(Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    const MEGABYTE: usize = 1_000_000;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    fn memory_of(bytes: usize) -> Memory {
        Memory::new(bytes, 10 * MEGABYTE)
    }

    fn picture(bytes: usize) -> Bytes {
        vec![7; bytes].into()
    }

    /// The megabytes that `account` gets, one by one.
    fn fill(memory: &Memory, account: &str) -> (usize, Share) {
        let share = memory.of(account).share();
        let got = (0..1000).take_while(|_| share.grow(MEGABYTE).is_ok()).count();
        (got, share)
    }

    #[tokio::test]
    async fn an_account_has_so_many_fetches_at_once_and_others_have_theirs() {
        let memory = memory_of(MEGABYTE);
        let (one, other) = (memory.of("a"), memory.of("b"));
        let held: Vec<_> =
            (0..MAX_FETCHES).map(|_| one.fetch_place().now_or_never().expect("free").expect("in time")).collect();
        assert!(memory.of("a").fetch_place().now_or_never().is_none());
        assert!(other.fetch_place().now_or_never().is_some());
        drop(held);
        assert!(one.fetch_place().now_or_never().is_some());
        drop((one, other));
        let _used = memory.of("c");
        assert_eq!(memory.0.accounts.lock().expect("no panic").len(), 1, "accounts that are not in use are dropped");
    }

    #[test]
    fn an_account_alone_leaves_a_third_of_the_uploads() {
        let memory = memory_of(240 * MEGABYTE);
        let (first, held) = fill(&memory, "a");
        assert_eq!(first, 80, "of 120, twice the rest");
        let (second, _second) = fill(&memory, "b");
        assert_eq!(second, 40, "what is left");
        assert_eq!(fill(&memory, "a").0, 0, "another request of the account has the same share");
        drop(held);
        assert_eq!(fill(&memory, "b").0, 40, "alone again");
        assert_eq!(fill(&memory, "c").0, 53, "half of seven eighths");
    }

    #[test]
    fn clips_of_one_account_leave_room_for_those_of_others() {
        let memory = memory_of(240 * MEGABYTE);
        let clip = |account| memory.of(account).clip();
        let held: Vec<_> = std::iter::from_fn(|| clip("a").ok()).collect();
        assert_eq!(held.len(), 8);
        let other = clip("b");
        assert!(other.is_ok() && clip("c").is_ok() && clip("a").is_err());
        drop(held);
        assert!(clip("a").is_ok());
    }

    #[test]
    fn one_file_is_taken_while_there_is_memory() {
        let memory = Memory::new(40 * MEGABYTE, 18 * MEGABYTE);
        assert_eq!(fill(&memory, "a").0, 18, "a large file, where such are allowed");
        let shares: Vec<_> = (0..8).map(|other| memory.of(&other.to_string()).share()).collect();
        shares.iter().for_each(|share| share.grow(1).expect("free"));
        assert_eq!(fill(&memory, "a").0, 18, "however many accounts there are");
    }

    #[tokio::test]
    async fn a_waiting_fetch_resumes_when_memory_is_returned() {
        let memory = memory_of(10 * MEGABYTE);
        let (_, held) = fill(&memory, "a");
        let share = memory.of("b").share();
        let mut waiting = share.wait_for(5 * MEGABYTE).boxed();
        assert!(waiting.as_mut().now_or_never().is_none());
        let file = held.hold(picture(5 * MEGABYTE));
        waiting.await.expect("it is free now");
        assert!(memory.of("c").share().grow(1).is_err(), "the file and the fetch hold all of it");
        drop(file);
        memory.of("c").share().grow(5 * MEGABYTE).expect("returned with the file");
    }

    #[tokio::test]
    async fn memory_of_a_reply_is_returned_with_its_last_slice() {
        let memory = Memory::new(160, 0);
        let account = memory.of("a");
        let mut held = account.hold(picture(40), soon()).await.expect("room");
        assert_eq!((held.len(), memory.0.replies.free()), (40, 40));
        let mut waiting = account.hold(picture(40), soon()).boxed();
        assert!(waiting.as_mut().now_or_never().is_none(), "80 of 80 are more than one account's share");
        let last = held.split_off(39);
        drop(held);
        assert!(waiting.as_mut().now_or_never().is_none(), "a slice keeps the whole buffer");
        drop(last);
        assert!(waiting.as_mut().now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_reply_waits_until_its_deadline_and_delays_no_upload() {
        let memory = Memory::new(160, 0);
        let (one, other) = (memory.of("a"), memory.of("b"));
        let held = one.hold(picture(70), soon()).await.expect("room");
        let late = other.hold(picture(11), Instant::now()).await;
        assert!(late.is_err_and(|error| error.code == ErrorCode::Unavailable));
        let mut waiting = other.hold(picture(11), soon()).boxed();
        assert!(waiting.as_mut().now_or_never().is_none());
        memory.of("c").share().grow(1).expect("uploads have their half");
        drop(held);
        waiting.await.expect("room");
    }

    #[tokio::test]
    async fn a_reply_larger_than_the_total_is_sent_alone() {
        let memory = Memory::new(80, 0);
        let (one, other) = (memory.of("a"), memory.of("b"));
        let small = one.hold(picture(1), soon()).await.expect("room");
        let mut huge = other.hold(picture(1000), soon()).boxed();
        assert!(huge.as_mut().now_or_never().is_none());
        drop(small);
        assert_eq!(huge.await.expect("nothing else is held").len(), 1000);
    }
}
