//! Work that several ask for at the same time, done once.

use super::cache::CacheKey;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::OnceCell;

/// What is under way, by what it is for. Whoever comes while it is gets what comes of it, a failure too.
#[derive(Debug)]
pub(super) struct Flights<T>(Mutex<HashMap<CacheKey, Weak<OnceCell<T>>>>);

impl<T> Default for Flights<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> Flights<T> {
    /// What `work` comes to, or the work of somebody who was here before. When that one goes away in the middle, one of
    /// those who wait begins anew: work for which nobody waits is not gone on with.
    pub(super) async fn join(&self, key: CacheKey, work: impl Future<Output = T>) -> T {
        let cell = self.cell(key);
        cell.get_or_init(|| work).await.clone()
    }

    fn cell(&self, key: CacheKey) -> Arc<OnceCell<T>> {
        // Held for a look, never across an await; poison is no reason to stop.
        let mut flights = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        flights.retain(|_, cell| cell.strong_count() > 0);
        let known = flights.get(&key).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let cell = Arc::default();
            flights.insert(key, Arc::downgrade(&cell));
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

    fn key(text: &str) -> CacheKey {
        CacheKey::of([text])
    }

    #[tokio::test]
    async fn what_many_ask_for_at_once_is_done_once_and_later_again() {
        let (flights, worked) = (Flights::default(), AtomicU32::new(0));
        let work = async || {
            for _ in 0..5 {
                yield_now().await;
            }
            worked.fetch_add(1, Ordering::SeqCst)
        };
        let (one, other, third) = tokio::join!(
            flights.join(key("a"), work()),
            flights.join(key("b"), work()),
            flights.join(key("a"), work())
        );
        assert_eq!((one, worked.load(Ordering::SeqCst)), (third, 2));
        assert_ne!(one, other);
        assert_eq!(flights.join(key("a"), work()).await, 2, "nobody was at it any more");
        assert_eq!(flights.0.lock().unwrap().len(), 1, "what is over is forgotten");
    }

    #[tokio::test]
    async fn when_the_first_goes_away_another_one_goes_on() {
        let (flights, begun) = (Arc::new(Flights::default()), Arc::new(Barrier::new(2)));
        let first = tokio::spawn({
            let (flights, begun) = (flights.clone(), begun.clone());
            async move {
                flights
                    .join(key("a"), async {
                        begun.wait().await;
                        std::future::pending::<u32>().await
                    })
                    .await
            }
        });
        begun.wait().await;
        let second = tokio::spawn(async move { flights.join(key("a"), async { 7 }).await });
        yield_now().await;
        first.abort();
        assert_eq!(second.await.unwrap(), 7);
    }
}
