//! Coalesces concurrent requests for the same key into one computation ("single flight").

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::OnceCell;

/// Computations in progress, by key. Callers that arrive while one runs share its result, a failure too.
#[derive(Debug)]
pub(super) struct SingleFlight<K, T>(Mutex<HashMap<K, Weak<OnceCell<T>>>>);

impl<K, T> Default for SingleFlight<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Copy + Eq + Hash, T: Clone> SingleFlight<K, T> {
    /// The result of `work`, or of a computation for `key` that already runs. When the caller that runs it is dropped, a
    /// waiting caller starts over; without any waiting caller the computation is dropped.
    pub(super) async fn run(&self, key: K, work: impl Future<Output = T>) -> T {
        let cell = self.cell(key);
        cell.get_or_init(|| work).await.clone()
    }

    fn cell(&self, key: K) -> Arc<OnceCell<T>> {
        // Never held across an await; a poisoned map is still consistent.
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|_, cell| cell.strong_count() > 0);
        let existing = running.get(&key).and_then(Weak::upgrade);
        existing.unwrap_or_else(|| {
            let cell = Arc::default();
            running.insert(key, Arc::downgrade(&cell));
            cell
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use tokio::sync::Barrier;
    use tokio::task::yield_now;

    #[tokio::test]
    async fn concurrent_calls_share_one_computation_and_later_calls_compute_again() {
        let (flights, computed) = (SingleFlight::default(), AtomicU32::new(0));
        let work = async || {
            for _ in 0..5 {
                yield_now().await;
            }
            computed.fetch_add(1, Ordering::SeqCst)
        };
        let (one, other, third) =
            tokio::join!(flights.run("a", work()), flights.run("b", work()), flights.run("a", work()));
        assert_eq!((one, computed.load(Ordering::SeqCst)), (third, 2));
        assert_ne!(one, other);
        assert_eq!(flights.run("a", work()).await, 2, "no computation was running any more");
        assert_eq!(flights.0.lock().unwrap().len(), 1, "finished entries are removed");
    }

    #[tokio::test]
    async fn a_waiting_caller_starts_over_when_the_running_one_is_dropped() {
        let (flights, begun) = (Arc::new(SingleFlight::default()), Arc::new(Barrier::new(2)));
        let first = tokio::spawn({
            let (flights, begun) = (flights.clone(), begun.clone());
            async move {
                flights
                    .run("a", async {
                        begun.wait().await;
                        std::future::pending::<u32>().await
                    })
                    .await
            }
        });
        begun.wait().await;
        let second = tokio::spawn(async move { flights.run("a", async { 7 }).await });
        yield_now().await;
        first.abort();
        assert_eq!(second.await.unwrap(), 7);
    }
}
