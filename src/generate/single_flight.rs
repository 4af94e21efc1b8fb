//! Coalesces concurrent requests with equal keys into one computation ("single flight").

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::timeout_at;

/// Computations in progress, by key. Callers that arrive during one share its result, including a failure.
#[derive(Debug)]
pub(super) struct SingleFlight<K, T>(Mutex<HashMap<K, Weak<LatestResult<T>>>>);

/// The latest result for a key, locked while a computation runs.
type LatestResult<T> = AsyncMutex<Option<T>>;

impl<K, T> Default for SingleFlight<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Copy + Eq + Hash, T: Clone> SingleFlight<K, T> {
    /// The result of `work`, or of a running computation for `key`; `None` if that one lasts beyond `deadline`.
    ///
    /// A waiting caller computes again when the computing caller is dropped, or when the result is not `shareable` with
    /// it; callers do so in the order of their arrival. When no caller is left, the computation is dropped.
    pub(super) async fn run(
        &self,
        key: K,
        deadline: Instant,
        shareable: impl FnOnce(&T) -> bool,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let latest = self.latest(key);
        let mut latest = timeout_at(deadline.into(), latest.lock()).await.ok()?;
        if let Some(result) = latest.as_ref().filter(|result| shareable(result)) {
            return Some(result.clone());
        }
        let result = work.await;
        *latest = Some(result.clone());
        Some(result)
    }

    fn latest(&self, key: K) -> Arc<LatestResult<T>> {
        // Never held across an await; a poisoned map is still consistent.
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|_, latest| latest.strong_count() > 0);
        let existing = running.get(&key).and_then(Weak::upgrade);
        existing.unwrap_or_else(|| {
            let latest = Arc::default();
            running.insert(key, Arc::downgrade(&latest));
            latest
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::future::pending;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;
    use tokio::sync::Barrier;
    use tokio::task::yield_now;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(20)
    }

    #[tokio::test]
    async fn concurrent_calls_share_one_computation_and_later_calls_compute_again() {
        let (flights, computed) = (SingleFlight::default(), AtomicU32::new(0));
        let work = async || {
            for _ in 0..5 {
                yield_now().await;
            }
            computed.fetch_add(1, Ordering::SeqCst)
        };
        let (one, other, third) = tokio::join!(
            flights.run("a", soon(), |_| true, work()),
            flights.run("b", soon(), |_| true, work()),
            flights.run("a", soon(), |_| true, work())
        );
        assert_eq!((one, computed.load(Ordering::SeqCst)), (third, 2));
        assert_ne!(one, other);
        assert_eq!(flights.run("a", soon(), |_| true, work()).await, Some(2), "no computation was running any more");
        assert_eq!(flights.0.lock().unwrap().len(), 1, "finished entries are removed");
    }

    #[tokio::test]
    async fn a_waiting_caller_starts_over_when_the_running_one_is_dropped() {
        let (flights, begun) = (Arc::new(SingleFlight::default()), Arc::new(Barrier::new(2)));
        let first = tokio::spawn({
            let (flights, begun) = (flights.clone(), begun.clone());
            async move {
                flights
                    .run("a", soon(), |_| true, async {
                        begun.wait().await;
                        pending::<u32>().await
                    })
                    .await
            }
        });
        begun.wait().await;
        let second = tokio::spawn(async move { flights.run("a", soon(), |_| true, async { 7 }).await });
        yield_now().await;
        first.abort();
        assert_eq!(second.await.unwrap(), Some(7));
    }

    #[tokio::test]
    async fn a_caller_waits_until_its_own_deadline() {
        let flights = SingleFlight::default();
        let mut first = flights.run("a", soon(), |_| true, pending::<u32>()).boxed();
        assert!(first.as_mut().now_or_never().is_none());
        assert_eq!(flights.run("a", Instant::now(), |_| true, async { 7 }).await, None);
    }
}
