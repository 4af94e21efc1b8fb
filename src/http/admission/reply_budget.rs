//! Bounds the memory of finished pictures that are being sent: in all, and per account.
//!
//! A finished picture reserves its size before its reply begins, and holds it until the last piece has left the connection's
//! buffers or the reply is dropped. It is counted as a whole until then, because its buffer is freed as a whole.
//!
//! At the bound a picture waits, holding its slot of the engine, until the deadline of its request (503). Only a few
//! pictures of one account may wait; further requests of that account are refused (429), so that a caller that does not read
//! cannot fill the slots.

use crate::http::reply::error::{ApiError, ErrorCode};
use crate::telemetry::metrics;
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout_at;

/// Finished pictures of one account that may wait for memory.
const MAX_WAITING: usize = 4;

/// An account may hold the total divided by this.
const SHARES: usize = 2;

/// The memory of all replies. Clones share it.
#[derive(Clone, Debug)]
pub(in crate::http) struct ReplyBudget(Arc<Budget>);

#[derive(Debug)]
struct Budget {
    total: Arc<Semaphore>,
    total_bytes: usize,
    share_bytes: usize,
    /// The accounts that hold memory or wait for it.
    accounts: Mutex<HashMap<String, Weak<Account>>>,
}

/// The share of one account.
#[derive(Debug)]
struct Account {
    share: Arc<Semaphore>,
    waiting: AtomicUsize,
}

/// The memory of one reply, in the total and in its account's share.
#[derive(Debug)]
struct Room {
    bytes: usize,
    _share: OwnedSemaphorePermit,
    _total: OwnedSemaphorePermit,
    _account: Arc<Account>,
}

/// A finished picture with its memory.
struct Held {
    bytes: Bytes,
    _room: Room,
}

/// Counts a waiting picture while it exists.
struct Waiting<'a>(&'a Account);

impl ReplyBudget {
    pub(in crate::http) fn new(bytes: usize) -> Self {
        let total_bytes = bytes.min(Semaphore::MAX_PERMITS);
        Self(Arc::new(Budget {
            total: Arc::new(Semaphore::new(total_bytes)),
            total_bytes,
            share_bytes: total_bytes / SHARES,
            accounts: Mutex::default(),
        }))
    }

    /// 429 where the account has the most finished pictures waiting: another one would be processed in vain.
    pub(in crate::http) fn refuse_when_full(&self, account: &str) -> Result<(), ApiError> {
        let accounts = self.0.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = accounts.get(account).and_then(Weak::upgrade).map(|account| account.waiting());
        if waiting.is_some_and(|waiting| waiting >= MAX_WAITING) { Err(unread_replies_error()) } else { Ok(()) }
    }

    /// Reserves memory for `bytes`, which is freed when the last clone or slice of the returned bytes is dropped.
    ///
    /// A picture larger than the total reserves all of it, and so is sent alone. First come, first served within the account,
    /// then among all.
    pub(in crate::http) async fn hold(
        &self,
        account: &str,
        bytes: Bytes,
        deadline: Instant,
    ) -> Result<Bytes, ApiError> {
        let room = self.reserve(account, bytes.len(), deadline).await?;
        Ok(Bytes::from_owner(Held { bytes, _room: room }))
    }

    async fn reserve(&self, account: &str, bytes: usize, deadline: Instant) -> Result<Room, ApiError> {
        const NEVER: &str = "the semaphores are never closed";
        let budget = &*self.0;
        let account = budget.account(account);
        let (of_share, of_total) = (permits(bytes, budget.share_bytes), permits(bytes, budget.total_bytes));
        if let Ok(share) = account.share.clone().try_acquire_many_owned(of_share)
            && let Ok(total) = budget.total.clone().try_acquire_many_owned(of_total)
        {
            return Ok(Room::new(bytes, share, total, account));
        }
        let waiting = account.wait()?;
        let both = async {
            // The account's own bound first: replies that wait for it do not block those of other accounts.
            let share = account.share.clone().acquire_many_owned(of_share).await.expect(NEVER);
            let total = budget.total.clone().acquire_many_owned(of_total).await.expect(NEVER);
            (share, total)
        };
        let (share, total) = timeout_at(deadline.into(), both)
            .await
            .map_err(|_| ApiError::unavailable("earlier replies fill the memory for replies"))?;
        drop(waiting);
        Ok(Room::new(bytes, share, total, account))
    }
}

/// Permits for `bytes`, one each, of `all`.
fn permits(bytes: usize, all: usize) -> u32 {
    u32::try_from(bytes.min(all)).unwrap_or(u32::MAX)
}

fn unread_replies_error() -> ApiError {
    let error = ApiError::new(ErrorCode::RateLimitExceeded, "earlier replies to this account were not read yet");
    error.retry_after(Duration::from_secs(1))
}

impl Budget {
    fn account(&self, name: &str) -> Arc<Account> {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(account) = accounts.get(name).and_then(Weak::upgrade) {
            return account;
        }
        // The table is bounded by the accounts that hold memory or wait.
        accounts.retain(|_, account| account.strong_count() > 0);
        let share = Arc::new(Semaphore::new(self.share_bytes));
        let account = Arc::new(Account { share, waiting: AtomicUsize::new(0) });
        accounts.insert(name.to_owned(), Arc::downgrade(&account));
        account
    }
}

impl Account {
    fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    fn wait(&self) -> Result<Waiting<'_>, ApiError> {
        let one_more = |waiting| (waiting < MAX_WAITING).then_some(waiting + 1);
        let counted = self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        counted.map(|_| Waiting(self)).map_err(|_| unread_replies_error())
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Room {
    fn new(bytes: usize, share: OwnedSemaphorePermit, total: OwnedSemaphorePermit, account: Arc<Account>) -> Self {
        metrics::reply_bytes_taken(bytes);
        Self { bytes, _share: share, _total: total, _account: account }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        metrics::reply_bytes_returned(self.bytes);
    }
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::join_all;
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    fn picture(bytes: usize) -> Bytes {
        vec![7; bytes].into()
    }

    #[tokio::test]
    async fn memory_is_freed_with_the_last_slice() {
        let budget = ReplyBudget::new(100);
        let mut held = budget.hold("a", picture(40), soon()).await.expect("room");
        assert_eq!((held.len(), budget.0.total.available_permits()), (40, 60));
        let mut waiting = pin!(budget.hold("a", picture(40), soon()));
        assert!(poll_once(waiting.as_mut()).is_pending(), "80 of 100 are more than one account's share");
        let last = held.split_off(39);
        drop(held);
        assert!(poll_once(waiting.as_mut()).is_pending(), "a slice keeps the whole buffer");
        drop(last);
        assert!(poll_once(waiting.as_mut()).is_ready());
        assert!(budget.0.accounts.lock().expect("no panic").len() == 1);
    }

    #[tokio::test]
    async fn an_account_that_does_not_read_leaves_memory_for_others() {
        let budget = ReplyBudget::new(100);
        let _unread = budget.hold("a", picture(50), soon()).await.expect("room");
        let mut first = pin!(budget.hold("a", picture(1), soon()));
        assert!(poll_once(first.as_mut()).is_pending());
        budget.refuse_when_full("a").expect("one may wait");
        {
            let mut more: Vec<_> = (1..MAX_WAITING).map(|_| Box::pin(budget.hold("a", picture(1), soon()))).collect();
            assert!(more.iter_mut().all(|one| poll_once(one.as_mut()).is_pending()));
            let refused = [budget.refuse_when_full("a"), budget.hold("a", picture(1), soon()).await.map(|_| ())];
            assert!(refused.into_iter().all(|one| one.is_err_and(|error| error.code == ErrorCode::RateLimitExceeded)));
            let others = join_all((0..5).map(|_| budget.hold("b", picture(10), soon()))).await;
            assert!(others.iter().all(Result::is_ok));
            assert_eq!(budget.0.total.available_permits(), 0);
        }
        budget.refuse_when_full("a").expect("those that left wait no longer");
    }

    #[tokio::test]
    async fn the_total_bounds_all_accounts_and_waiting_ends_at_the_deadline() {
        let budget = ReplyBudget::new(100);
        let held = join_all(["a", "b"].map(|account| budget.hold(account, picture(50), soon()))).await;
        let late = budget.hold("c", picture(1), Instant::now()).await;
        assert!(late.is_err_and(|error| error.code == ErrorCode::Unavailable));
        let mut waiting = pin!(budget.hold("c", picture(50), soon()));
        assert!(poll_once(waiting.as_mut()).is_pending());
        drop(held);
        let Poll::Ready(Ok(_half)) = poll_once(waiting.as_mut()) else { panic!("there is room for it") };
        assert_eq!(budget.0.total.available_permits(), 50, "the ready one still holds the other half");
    }

    #[tokio::test]
    async fn a_reply_larger_than_the_total_is_sent_alone() {
        let budget = ReplyBudget::new(100);
        let small = budget.hold("a", picture(1), soon()).await.expect("room");
        let mut huge = pin!(budget.hold("b", picture(1000), soon()));
        assert!(poll_once(huge.as_mut()).is_pending());
        drop(small);
        assert!(matches!(poll_once(huge.as_mut()), Poll::Ready(Ok(bytes)) if bytes.len() == 1000));
    }
}
