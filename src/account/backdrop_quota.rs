//! Daily quota of generated backdrops, for all accounts together.
//!
//! As in billing, a request reserves before any work, and the store commits the count when it succeeds; dropping the
//! reservation releases it. Committed and reserved backdrops are counted under one lock, so that concurrent requests never
//! exceed the quota; on a store that other processes change, backdrops that are generated at the same moment elsewhere may.
//! The committed count survives a restart; reservations end with the process, as their requests do.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::store_write::{WriteError, write_change};
use crate::store::{Change, Day, GeneratedCount, Rows, StateStore, UnixSeconds};

/// The quota of the day. Clones share one counter.
#[derive(Clone, Debug)]
pub struct BackdropQuota(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    store: Arc<dyn StateStore>,
    counter: Mutex<Counter>,
}

#[derive(Debug)]
struct Counter {
    committed: GeneratedCount,
    /// On the same day.
    reserved: u32,
}

/// Reserves one backdrop. Releases it when it is dropped.
#[derive(Debug)]
#[must_use = "dropped, it releases its backdrop"]
pub struct BackdropReservation {
    quota: BackdropQuota,
    day: Day,
}

/// The backdrops of the day are used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the backdrops of today are used up; there are new ones from {resets_at}")]
pub struct BackdropQuotaExhausted {
    /// When the next day begins.
    pub resets_at: UnixSeconds,
}

impl BackdropQuota {
    /// With the count that the store has now.
    pub(super) fn new(store: Arc<dyn StateStore>, committed: GeneratedCount) -> Self {
        Self(Arc::new(Shared { store, counter: Mutex::new(Counter { committed, reserved: 0 }) }))
    }

    /// Reserves one of `max` backdrops on the day that `now` is in.
    ///
    /// # Errors
    /// When all are committed or reserved.
    pub fn reserve(&self, max: u32, now: UnixSeconds) -> Result<BackdropReservation, BackdropQuotaExhausted> {
        let mut counter = self.lock();
        // A clock that ran backwards must not reset the count of a day.
        let day = Day::of(now).max(counter.committed.day);
        if day > counter.committed.day {
            *counter = Counter { committed: GeneratedCount { day, count: 0 }, reserved: 0 };
        }
        if counter.committed.count.saturating_add(counter.reserved) >= max {
            return Err(BackdropQuotaExhausted { resets_at: day.ends() });
        }
        counter.reserved += 1;
        Ok(BackdropReservation { quota: self.clone(), day })
    }

    /// A copy that followed commits are written to.
    pub(super) fn downgrade(&self) -> BackdropQuotaCopy {
        BackdropQuotaCopy(Arc::downgrade(&self.0))
    }

    /// Copies the committed count.
    fn copy(&self, rows: &Rows) {
        if let Some(generated) = rows.generated {
            let mut counter = self.lock();
            if generated.day > counter.committed.day {
                counter.reserved = 0;
            }
            if generated.day >= counter.committed.day {
                counter.committed = generated;
            }
        }
    }

    /// Held for a few sums, never across an await. No sum panics, so poison is no reason to stop.
    fn lock(&self) -> MutexGuard<'_, Counter> {
        self.0.counter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BackdropReservation {
    /// Commits the backdrop to the count. Durable when it returns; once polled it is in progress, and not lost when this is
    /// dropped.
    ///
    /// # Errors
    /// When it could not be written: the backdrop is released.
    pub async fn commit(self) -> Result<(), WriteError> {
        let quota = self.quota.clone();
        let change = Change::CountGenerated { day: self.day };
        let committed = move |rows: &Rows| {
            self.quota.copy(rows);
            // Released after it is counted, so that no other request takes the last backdrop in between.
            drop(self);
        };
        write_change(&*quota.0.store, change, committed).await.map(|_| ())
    }
}

/// The counter, as long as its service lives.
#[derive(Debug)]
pub(super) struct BackdropQuotaCopy(Weak<Shared>);

impl BackdropQuotaCopy {
    /// Copies the count of a followed commit.
    pub(super) fn copy(&self, rows: &Rows) {
        if let Some(shared) = self.0.upgrade() {
            BackdropQuota(shared).copy(rows);
        }
    }
}

impl Drop for BackdropReservation {
    fn drop(&mut self) {
        let mut counter = self.quota.lock();
        // A new day starts without reservations.
        if counter.committed.day == self.day {
            counter.reserved = counter.reserved.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::memory_store::{CommitMode, MemoryStore};

    /// Noon of some day.
    const NOON: UnixSeconds = UnixSeconds(20_000 * 86_400 + 43_200);
    const TOMORROW: UnixSeconds = UnixSeconds(NOON.0 + 86_400);

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn of_200_concurrent_requests_exactly_the_daily_quota_succeeds() {
        let store = MemoryStore::default();
        let quota = store.start_backdrop_quota();
        let request = |number: u32| {
            let quota = quota.clone();
            tokio::spawn(async move {
                let Ok(reservation) = quota.reserve(50, NOON) else { return 0 };
                tokio::task::yield_now().await;
                // Some fail and release their backdrop.
                if number.is_multiple_of(5) {
                    return 0;
                }
                reservation.commit().await.expect("the store writes");
                1
            })
        };
        let tasks: Vec<_> = (0..200).map(request).collect();
        let mut committed = 0;
        for task in tasks {
            committed += task.await.expect("no panic");
        }
        assert!(committed <= 50, "{committed}");
        let mut rest = Vec::new();
        while let Ok(reservation) = quota.reserve(50, NOON) {
            rest.push(reservation);
        }
        assert_eq!(committed + rest.len(), 50, "failed requests released theirs");
    }

    #[tokio::test]
    async fn a_restart_keeps_the_committed_count_and_releases_reservations() {
        let store = MemoryStore::default();
        let running = store.start_backdrop_quota();
        running.reserve(3, NOON).expect("room").commit().await.expect("it writes");
        let cut_off = running.reserve(3, NOON).expect("room");
        let restarted = store.start_backdrop_quota();
        let reservations = [restarted.reserve(3, NOON), restarted.reserve(3, NOON), restarted.reserve(3, NOON)];
        assert_eq!(reservations.iter().filter(|reservation| reservation.is_ok()).count(), 2);
        assert_eq!(reservations[2].as_ref().expect_err("full").resets_at, Day::of(NOON).ends());
        drop(cut_off);
    }

    #[tokio::test]
    async fn the_next_day_has_its_full_quota_whatever_ends_on_it() {
        let store = MemoryStore::default();
        let quota = store.start_backdrop_quota();
        let late = quota.reserve(1, NOON).expect("room");
        assert!(quota.reserve(1, NOON).is_err());
        let today = quota.reserve(1, TOMORROW).expect("another day");
        drop(late);
        assert!(quota.reserve(1, TOMORROW).is_err(), "a reservation of yesterday does not free one of today");
        // The clock runs backwards: the day stays.
        assert_eq!(quota.reserve(1, NOON).expect_err("full").resets_at, Day::of(TOMORROW).ends());
        today.commit().await.expect("it writes");
        assert!(quota.reserve(1, TOMORROW).is_err());
        let slow = quota.reserve(2, TOMORROW).expect("room for a second");
        let after = UnixSeconds(TOMORROW.0 + 86_400);
        quota.reserve(1, after).expect("a third day").commit().await.expect("it writes");
        slow.commit().await.expect("it writes");
        assert!(quota.reserve(2, after).is_ok(), "the second day's backdrop is not counted on the third");
    }

    #[tokio::test]
    async fn a_reservation_that_could_not_be_committed_is_released() {
        let store = MemoryStore::default();
        let quota = store.start_backdrop_quota();
        let reservation = quota.reserve(1, NOON).expect("room");
        store.set_mode(CommitMode::Busy);
        assert!(reservation.commit().await.is_err());
        store.set_mode(CommitMode::Immediate);
        assert!(quota.reserve(1, NOON).is_ok());
        assert!(quota.reserve(0, NOON).is_err(), "a quota of 0 allows nothing");
    }
}
