//! Bounds the memory of uploads and fetched files: in all, and per account by dynamic thresholds.
//!
//! Memory is taken as bytes arrive and not as they are announced, so that a slow client or origin holds no more than it has
//! sent. An account may hold at most twice what remains free: alone it gets two thirds of the memory, one of two accounts
//! two fifths, and some is always left for another one. These are the dynamic thresholds of
//! Choudhury and Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches", IEEE/ACM Transactions on
//! Networking 6(2), 1998, with α = 2. The threshold is never below one file.
//!
//! Fetches of an account are bounded too, because each may leave a lookup of its host name behind.

use crate::http::reply::error::{ApiError, ErrorCode};
use crate::source::{MemoryBudget, OutOfMemory};
use futures_util::future::BoxFuture;
use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// An account may hold this multiple of the free memory: the α of the thresholds.
const TIMES_FREE: usize = 2;

/// How long a fetch waits for memory.
const FETCH_WAIT: Duration = Duration::from_secs(5);

/// Fetches of an account at once; more of them wait. A name whose server does not answer occupies a lookup for up to three times
/// the 10 s of its fetch, and there are 128 for all accounts.
const MAX_FETCHES: usize = 32;

/// How long a fetch waits for its place: three of the longest fetches.
const PLACE_WAIT: Duration = Duration::from_secs(30);

/// The memory of all accounts. Clones share it.
#[derive(Clone, Debug)]
pub(in crate::http) struct UploadMemory(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    usage: Mutex<Usage>,
    /// Bytes of the largest file.
    max_file: usize,
    /// Notified when memory is returned.
    freed: Notify,
    /// The places of fetches by account, of those that fetch.
    fetches: Mutex<HashMap<Arc<str>, Weak<Semaphore>>>,
}

#[derive(Debug)]
struct Usage {
    free: usize,
    /// Bytes by account; accounts that hold none are removed.
    held: HashMap<Arc<str>, usize>,
}

/// The memory, accounted to one account. Clones share it.
#[derive(Clone, Debug)]
pub(in crate::http) struct AccountMemory {
    shared: Arc<Shared>,
    account: Arc<str>,
}

/// The memory of one upload or one fetch; returned on drop.
#[derive(Debug)]
pub(in crate::http) struct Share {
    memory: AccountMemory,
    bytes: AtomicUsize,
}

impl UploadMemory {
    /// `bytes` in all, for files of up to `max_file`.
    pub(in crate::http) fn new(bytes: usize, max_file: usize) -> Self {
        let usage = Mutex::new(Usage { free: bytes, held: HashMap::new() });
        Self(Arc::new(Shared { usage, max_file, freed: Notify::new(), fetches: Mutex::default() }))
    }

    pub(in crate::http) fn of(&self, account: &str) -> AccountMemory {
        AccountMemory { shared: Arc::clone(&self.0), account: account.into() }
    }
}

impl AccountMemory {
    /// An empty share.
    pub(in crate::http) fn share(&self) -> Share {
        Share { memory: self.clone(), bytes: AtomicUsize::new(0) }
    }

    /// Bytes of the largest file.
    pub(in crate::http) fn max_file(&self) -> usize {
        self.shared.max_file
    }

    /// A place among the account's fetches, which is held until it is dropped; waits for it for [`PLACE_WAIT`].
    pub(in crate::http) async fn fetch_place(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        let places = {
            let mut all = self.shared.fetches.lock().unwrap_or_else(PoisonError::into_inner);
            all.retain(|_, places| places.strong_count() > 0);
            all.get(&self.account).and_then(Weak::upgrade).unwrap_or_else(|| {
                let places = Arc::new(Semaphore::new(MAX_FETCHES));
                all.insert(Arc::clone(&self.account), Arc::downgrade(&places));
                places
            })
        };
        // Never closed.
        timeout(PLACE_WAIT, places.acquire_owned()).await.ok().and_then(Result::ok).ok_or_else(uploads_full_error)
    }

    /// Locked for a computation, never across an await.
    fn usage(&self) -> MutexGuard<'_, Usage> {
        self.shared.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Usage {
    /// Takes `bytes` for `account`, if they are free and within its threshold, which is at least `max_file`.
    fn take(&mut self, account: &Arc<str>, bytes: usize, max_file: usize) -> bool {
        let Some(free) = self.free.checked_sub(bytes) else { return false };
        let held = self.held.get(account).copied().unwrap_or_default() + bytes;
        if held > max_file.max(TIMES_FREE.saturating_mul(free)) {
            return false;
        }
        self.free = free;
        self.held.insert(Arc::clone(account), held);
        true
    }

    fn give_back(&mut self, account: &Arc<str>, bytes: usize) {
        self.free += bytes;
        if let Some(held) = self.held.get_mut(account) {
            *held = held.saturating_sub(bytes);
            if *held == 0 {
                self.held.remove(account);
            }
        }
    }
}

impl Share {
    /// Bytes of the largest file.
    pub(in crate::http) fn max_file(&self) -> usize {
        self.memory.max_file()
    }

    /// Takes `bytes` more; at the bound the upload is refused (429), because waiting would keep what it holds.
    pub(in crate::http) fn grow(&self, bytes: usize) -> Result<(), ApiError> {
        if self.try_grow(bytes) { Ok(()) } else { Err(uploads_full_error()) }
    }

    /// Takes `bytes` more, waiting for them for [`FETCH_WAIT`]: waiting requests may hold what others wait for.
    pub(in crate::http) async fn wait_for(&self, bytes: usize) -> Result<(), ApiError> {
        let grown = async {
            loop {
                let mut freed = pin!(self.memory.shared.freed.notified());
                // Before the attempt, so that memory returned after it is not missed.
                freed.as_mut().enable();
                if self.try_grow(bytes) {
                    return;
                }
                freed.await;
            }
        };
        timeout(FETCH_WAIT, grown).await.map_err(|_| uploads_full_error())
    }

    fn try_grow(&self, bytes: usize) -> bool {
        let taken = bytes == 0 || self.memory.usage().take(&self.memory.account, bytes, self.max_file());
        if taken {
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        taken
    }

    /// Returns all but `bytes`.
    pub(in crate::http) fn shrink_to(&mut self, bytes: usize) {
        let held = self.bytes.get_mut();
        let freed = held.saturating_sub(bytes);
        *held -= freed;
        if freed > 0 {
            self.memory.usage().give_back(&self.memory.account, freed);
            self.memory.shared.freed.notify_waiters();
        }
    }
}

impl MemoryBudget for Share {
    fn reserve(&self, bytes: usize) -> BoxFuture<'_, Result<(), OutOfMemory>> {
        Box::pin(async move { self.wait_for(bytes).await.map_err(|_| OutOfMemory) })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

/// 429 where the memory is used up.
pub(in crate::http) fn uploads_full_error() -> ApiError {
    let error = ApiError::new(ErrorCode::RateLimitExceeded, "too many uploads are under way");
    error.retry_after(Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    const MEGABYTE: usize = 1_000_000;

    fn memory_of(bytes: usize) -> UploadMemory {
        UploadMemory::new(bytes, 10 << 20)
    }

    /// The megabytes that `account` gets, one by one.
    fn fill(memory: &UploadMemory, account: &str) -> (usize, Share) {
        let share = memory.of(account).share();
        let got = (0..1000).take_while(|_| share.grow(MEGABYTE).is_ok()).count();
        (got, share)
    }

    #[tokio::test]
    async fn an_account_has_so_many_fetches_at_once_and_others_have_theirs() {
        let memory = memory_of(MEGABYTE);
        let place = |account| memory.of(account).fetch_place().now_or_never();
        let held: Vec<_> = (0..MAX_FETCHES).map(|_| place("a").expect("free").expect("in time")).collect();
        assert!(place("a").is_none());
        assert!(place("b").is_some());
        drop(held);
        assert!(place("a").is_some());
        assert!(place("b").is_some());
        assert_eq!(memory.0.fetches.lock().expect("no panic").len(), 1, "places without a fetch are dropped");
    }

    #[test]
    fn an_account_leaves_memory_for_others_and_gets_most_alone() {
        let memory = memory_of(240 * MEGABYTE);
        let (first, held) = fill(&memory, "a");
        assert_eq!(first, 160, "two thirds");
        let (second, _second) = fill(&memory, "b");
        let (third, _third) = fill(&memory, "c");
        assert_eq!((second, third), (53, 18));
        assert_eq!(fill(&memory, "a").0, 0, "another request of the same account is bound by the same threshold");
        drop(held);
        assert_eq!(fill(&memory, "b").0, 95, "two thirds of what the third leaves");
    }

    #[test]
    fn one_file_is_taken_while_there_is_memory() {
        let memory = memory_of(20 * MEGABYTE);
        let (first, _first) = fill(&memory, "a");
        assert_eq!(first, 13);
        assert_eq!(fill(&memory, "b").0, 7, "all that is left");
        let memory = UploadMemory::new(20 * MEGABYTE, 18 * MEGABYTE);
        assert_eq!(fill(&memory, "a").0, 18, "a larger file, where larger ones are allowed");
    }

    #[test]
    fn dropped_shares_are_returned_and_their_accounts_removed() {
        let memory = memory_of(30 * MEGABYTE);
        let mut share = memory.of("a").share();
        share.grow(10 * MEGABYTE).expect("it is free");
        share.shrink_to(MEGABYTE);
        share.shrink_to(5 * MEGABYTE);
        assert_eq!(memory.of("a").usage().free, 29 * MEGABYTE);
        drop(share);
        memory.of("b").share().grow(0).expect("nothing is always free");
        let usage = memory.of("a");
        let usage = usage.usage();
        assert_eq!((usage.free, usage.held.len()), (30 * MEGABYTE, 0));
    }

    #[tokio::test]
    async fn a_waiting_fetch_resumes_when_memory_is_returned() {
        let memory = memory_of(10 * MEGABYTE);
        let (_, held) = fill(&memory, "a");
        let share = memory.of("b").share();
        let mut waiting = pin!(share.wait_for(5 * MEGABYTE));
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(held);
        waiting.await.expect("it is free now");
    }
}
