//! Bills with leased images: what a bill holds of a lease, and bills that are acknowledged before they are committed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::time::timeout_at;

use super::leases::{Holder, Leases};
use crate::account::idempotency::ClaimGuard;
use crate::account::store_write::{WriteError, submit_change};
use crate::store::{Change, ChangeError, LeaseShare, Rows, StateStore};
use crate::telemetry::metrics;

/// How long a covered bill waits for its commit before it is acknowledged. As long as other processes may delay a commit of a
/// database that works.
const PATIENCE: Duration = Duration::from_secs(5);

/// Images of a lease that a bill holds. Dropped, they go back to the lease.
#[derive(Debug)]
pub(super) struct HeldShare {
    pub(super) leases: Arc<Mutex<Leases>>,
    pub(super) holder: Holder,
    pub(super) share: LeaseShare,
    /// Until when the bill may be acknowledged by it.
    pub(super) until: Instant,
}

impl HeldShare {
    /// Takes out what the bill was charged.
    pub(super) fn committed(&mut self, rows: &Rows) {
        let own = rows.leases.iter().filter(|change| change.id == self.share.id);
        let spent = own.map(|change| change.spent).fold(0, u64::saturating_add);
        self.share.images = self.share.images.saturating_sub(spent);
    }
}

impl Drop for HeldShare {
    fn drop(&mut self) {
        lock(&self.leases).give_back(&self.holder, self.share);
    }
}

/// The claim of a bill, for what comes first: its commit, or that it is acknowledged.
#[derive(Clone, Debug)]
pub(super) struct SharedClaim(Arc<Mutex<Option<ClaimGuard>>>);

impl SharedClaim {
    pub(super) fn new(claim: Option<ClaimGuard>) -> Self {
        Self(Arc::new(Mutex::new(claim)))
    }

    /// Remembers its `Idempotency-Key` as billed, unless that is done.
    pub(super) fn billed(&self, images: u64) {
        let claim = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(claim) = claim {
            claim.billed(images);
        }
    }
}

/// How many bills are not committed that are acknowledged or whose callers are gone. Clones are the same count.
#[derive(Clone, Debug, Default)]
pub(super) struct Deferred(Arc<AtomicUsize>);

impl Deferred {
    pub(super) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    fn add(&self) -> DeferredBill {
        self.0.fetch_add(1, Ordering::SeqCst);
        metrics::bill_deferred(1.0);
        DeferredBill(self.clone())
    }
}

/// One of [`Deferred`] until it is dropped.
#[derive(Debug)]
struct DeferredBill(Deferred);

impl Drop for DeferredBill {
    fn drop(&mut self) {
        let Self(Deferred(count)) = self;
        count.fetch_sub(1, Ordering::SeqCst);
        metrics::bill_deferred(-1.0);
    }
}

/// A bill whose images are all leased.
#[derive(Debug)]
pub(super) struct CoveredBill {
    pub(super) change: Change,
    pub(super) images: u64,
    pub(super) claim: SharedClaim,
    /// The end of the lease.
    pub(super) until: Instant,
    pub(super) deferred: Deferred,
}

impl CoveredBill {
    /// Submits the bill. Returns when it is committed or refused; where that takes long, when the lease covers it: the store
    /// keeps it until the database is back. `committed` is called with the written rows, also after this has returned.
    ///
    /// Once polled the bill is in progress and is not lost when this is dropped: the same request sent again waits for its
    /// outcome. A bill that is refused after it was acknowledged is not written, with a line in the log.
    pub(super) async fn write(
        self,
        store: &dyn StateStore,
        committed: impl FnOnce(&Rows) + Send + 'static,
    ) -> Result<(), WriteError> {
        let Self { change, images, claim, until, deferred } = self;
        let waiting = Waiting { progress: Arc::default(), images, claim, deferred };
        let progress = Arc::clone(&waiting.progress);
        let mut answer = submit_change(store, change, committed, move |result| {
            let before = std::mem::replace(&mut *lock(&progress), Progress::Ended);
            match before {
                Progress::Waiting | Progress::Ended => {}
                Progress::Acknowledged(deferred) => {
                    drop(deferred);
                    report(result);
                }
                Progress::Abandoned(deferred) => drop(deferred),
            }
        });
        // While the database is away there is nothing to wait for but an immediate refusal.
        let patience = if store.fault().is_some() { Duration::ZERO } else { PATIENCE };
        let deadline = until.min(Instant::now() + patience);
        let answered = match timeout_at(deadline.into(), &mut answer).await {
            Ok(answered) => answered,
            Err(_) if waiting.acknowledge() => return Ok(()),
            // It ended at this moment.
            Err(_) => answer.await,
        };
        answered.map_err(|_| WriteError::Closed)?.map(drop).map_err(WriteError::from)
    }
}

/// Shared by caller and callback, so that a bill is counted no longer than the store keeps its callback.
#[derive(Debug, Default)]
enum Progress {
    #[default]
    Waiting,
    Acknowledged(DeferredBill),
    /// The caller is gone without an answer.
    Abandoned(DeferredBill),
    Ended,
}

/// A caller that waits for its bill. Dropped, it counts one that is still in progress as deferred.
struct Waiting {
    progress: Arc<Mutex<Progress>>,
    images: u64,
    claim: SharedClaim,
    deferred: Deferred,
}

impl Waiting {
    /// Acknowledges the bill; false where it has ended, or was acknowledged before.
    fn acknowledge(&self) -> bool {
        let mut progress = lock(&self.progress);
        let is_waiting = matches!(*progress, Progress::Waiting);
        if is_waiting {
            *progress = Progress::Acknowledged(self.deferred.add());
            self.claim.billed(self.images);
        }
        is_waiting
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut progress = lock(&self.progress);
        if let Progress::Waiting = *progress {
            // Not billed yet: the store may refuse it. The callback has the claim too.
            *progress = Progress::Abandoned(self.deferred.add());
        }
    }
}

/// Held for a few statements. A panic leaves a whole value, so poison is no reason to stop.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Logs why a bill that was acknowledged is not written.
fn report(result: &Result<Rows, ChangeError>) {
    match result {
        Ok(_) => {}
        Err(ChangeError::RequestBilled(_)) => {
            tracing::info!("a deferred bill is dropped: its Idempotency-Key was billed by another daemon");
        }
        Err(error) => tracing::error!(%error, "a picture that was answered while the database was away stays unbilled"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::memory_store::{CommitMode, MemoryStore};
    use crate::account::{Claim, IdempotencyKey, IdempotencyKeys};
    use crate::store::{Bill, Month, UnixSeconds};
    use futures_util::FutureExt;

    const NOW: UnixSeconds = UnixSeconds(1_796_083_199);

    async fn claimed(keys: &IdempotencyKeys) -> Claim {
        let key = IdempotencyKey::try_from("k").expect("a key");
        keys.claim("a", &key, [7; 32], NOW).await
    }

    /// Bills one image under a key, with a lease that ends soon.
    async fn write(store: &MemoryStore, keys: &IdempotencyKeys, deferred: &Deferred) -> Result<(), WriteError> {
        let Claim::New(guard) = claimed(keys).await else { panic!("the key is free") };
        let change = Change::Bill(Bill {
            account: "a".into(),
            month: Month(202_611),
            images: 1,
            microdollars: 0,
            request: Some(guard.request(1)),
            by: None,
            check: None,
        });
        let claim = SharedClaim::new(Some(guard));
        let committed = {
            let claim = claim.clone();
            move |_: &Rows| claim.billed(1)
        };
        let until = Instant::now() + Duration::from_millis(20);
        let bill = CoveredBill { change, images: 1, claim, until, deferred: deferred.clone() };
        bill.write(store, committed).await
    }

    fn billed(store: &MemoryStore) -> u64 {
        store.usage("a").iter().map(|(_, usage)| usage.images).sum()
    }

    #[tokio::test]
    async fn a_bill_is_acknowledged_before_its_commit_when_that_takes_long() {
        let (store, deferred) = (MemoryStore::default(), Deferred::default());
        let (_, keys, _) = store.start(1, NOW);
        store.set_mode(CommitMode::Held);
        write(&store, &keys, &deferred).await.expect("the lease covers it");
        assert_eq!((billed(&store), deferred.count()), (0, 1));
        assert!(matches!(claimed(&keys).await, Claim::Replay(_)), "sent again it is a repetition");
        store.release();
        assert_eq!((billed(&store), deferred.count()), (1, 0));
        assert!(matches!(claimed(&keys).await, Claim::Replay(_)));
    }

    #[tokio::test]
    async fn the_bill_of_a_caller_that_is_gone_keeps_its_key_until_it_is_written_or_given_up() {
        for is_written in [true, false] {
            let (store, deferred) = (MemoryStore::default(), Deferred::default());
            let (_, keys, _) = store.start(1, NOW);
            store.set_mode(CommitMode::Held);
            assert!(write(&store, &keys, &deferred).now_or_never().is_none(), "it waits for the disk");
            assert_eq!((billed(&store), deferred.count()), (0, 1));
            assert!(claimed(&keys).now_or_never().is_none(), "sent again it waits");
            if is_written {
                store.release();
                assert!(matches!(claimed(&keys).await, Claim::Replay(_)), "sent again it is a repetition");
            } else {
                store.drop_held();
                assert!(matches!(claimed(&keys).await, Claim::New(_)), "the key is free again");
            }
            assert_eq!((billed(&store), deferred.count()), (u64::from(is_written), 0));
        }
    }

    #[tokio::test]
    async fn an_acknowledged_bill_is_counted_no_longer_than_the_store_has_it() {
        let (store, deferred) = (MemoryStore::default(), Deferred::default());
        let (_, keys, _) = store.start(1, NOW);
        store.set_mode(CommitMode::Held);
        write(&store, &keys, &deferred).await.expect("the lease covers it");
        assert_eq!(deferred.count(), 1);
        store.drop_held();
        assert_eq!(deferred.count(), 0);
    }

    #[tokio::test]
    async fn a_bill_that_is_refused_at_once_is_not_acknowledged() {
        let (store, deferred) = (MemoryStore::default(), Deferred::default());
        let (_, keys, _) = store.start(1, NOW);
        store.set_mode(CommitMode::Busy);
        assert!(write(&store, &keys, &deferred).await.is_err());
        assert_eq!((billed(&store), deferred.count()), (0, 0));
        assert!(matches!(claimed(&keys).await, Claim::New(_)), "the key is free again");
        store.set_mode(CommitMode::Immediate);
        write(&store, &keys, &deferred).await.expect("the store writes");
        assert_eq!((billed(&store), deferred.count()), (1, 0));
    }
}
