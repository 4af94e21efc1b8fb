//! How many backdrops may be made in a day, by all accounts together.
//!
//! As in the ledger, a request takes its place before any work and keeps it by what the store commits when it succeeds;
//! a place that is dropped is free again. Places that are kept and places that are taken are judged together, under one
//! lock: however many requests run at once, never more backdrops are made than the day has. What is kept survives a
//! restart; places that were only taken end with the process, as their requests do.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::write::{WriteError, write};
use crate::store::{Change, Day, Generated, Rows, StateStore, UnixSeconds};

/// The count of the day. Clones share it.
#[derive(Clone, Debug)]
pub struct Daily(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    store: Arc<dyn StateStore>,
    tally: Mutex<Tally>,
}

#[derive(Debug)]
struct Tally {
    kept: Generated,
    /// Of the same day.
    taken: u32,
}

/// Room for one backdrop. Gives it back when it is dropped.
#[derive(Debug)]
#[must_use = "dropped, it gives its place back"]
pub struct Place {
    daily: Daily,
    day: Day,
}

/// The backdrops of the day are used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the backdrops of today are used up; there are new ones from {resets_at}")]
pub struct DayExhausted {
    /// When the next day begins.
    pub resets_at: UnixSeconds,
}

impl Daily {
    /// With what the store has now.
    pub(super) fn new(store: Arc<dyn StateStore>, kept: Generated) -> Self {
        Self(Arc::new(Shared { store, tally: Mutex::new(Tally { kept, taken: 0 }) }))
    }

    /// Takes a place of the day that `now` is in, of which there are `most`.
    ///
    /// # Errors
    /// When all are kept or taken.
    pub fn take(&self, most: u32, now: UnixSeconds) -> Result<Place, DayExhausted> {
        let mut tally = self.lock();
        // A clock that ran backwards must not give a day its places again.
        let day = Day::of(now).max(tally.kept.day);
        if day > tally.kept.day {
            *tally = Tally { kept: Generated { day, count: 0 }, taken: 0 };
        }
        if tally.kept.count.saturating_add(tally.taken) >= most {
            return Err(DayExhausted { resets_at: day.ends() });
        }
        tally.taken += 1;
        Ok(Place { daily: self.clone(), day })
    }

    /// Held for a few sums, never across an await. No sum panics, so poison is no reason to stop.
    fn lock(&self) -> MutexGuard<'_, Tally> {
        self.0.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Counts the backdrop for good. Durable when it returns; once polled it is under way, and not lost when this is
    /// dropped.
    ///
    /// # Errors
    /// When it could not be written: the place is given back.
    pub async fn keep(self) -> Result<(), WriteError> {
        let daily = self.daily.clone();
        let change = Change::CountGenerated { day: self.day };
        let committed = move |rows: &Rows| {
            if let Some(generated) = rows.generated {
                let mut tally = self.daily.lock();
                if generated.day >= tally.kept.day {
                    tally.kept = generated;
                }
            }
            // Its place goes with the closure, after it is counted: nobody finds room in between.
            drop(self);
        };
        write(&*daily.0.store, change, committed).await.map(|_| ())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut tally = self.daily.lock();
        // Of a day that is over nothing is taken any more.
        if tally.kept.day == self.day {
            tally.taken = tally.taken.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::memory_store::{MemoryStore, Mood};

    /// Noon of some day.
    const NOON: UnixSeconds = UnixSeconds(20_000 * 86_400 + 43_200);
    const TOMORROW: UnixSeconds = UnixSeconds(NOON.0 + 86_400);

    fn daily(store: &MemoryStore) -> Daily {
        store.start_daily()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn of_200_requests_at_once_exactly_as_many_get_through_as_the_day_has() {
        let store = MemoryStore::default();
        let daily = daily(&store);
        let request = |number: u32| {
            let daily = daily.clone();
            tokio::spawn(async move {
                let Ok(place) = daily.take(50, NOON) else { return 0 };
                tokio::task::yield_now().await;
                // Some fail; theirs are free again.
                if number.is_multiple_of(5) {
                    return 0;
                }
                place.keep().await.expect("the store writes");
                1
            })
        };
        let tasks: Vec<_> = (0..200).map(request).collect();
        let mut kept = 0;
        for task in tasks {
            kept += task.await.expect("no panic");
        }
        assert!(kept <= 50, "{kept}");
        let mut rest = Vec::new();
        while let Ok(place) = daily.take(50, NOON) {
            rest.push(place);
        }
        assert_eq!(kept + rest.len(), 50, "what failed was given back");
    }

    #[tokio::test]
    async fn what_was_kept_is_known_after_a_restart_and_what_was_taken_is_free() {
        let store = MemoryStore::default();
        let running = daily(&store);
        running.take(3, NOON).expect("room").keep().await.expect("it writes");
        let cut_off = running.take(3, NOON).expect("room");
        let restarted = daily(&store);
        let places = [restarted.take(3, NOON), restarted.take(3, NOON), restarted.take(3, NOON)];
        assert_eq!(places.iter().filter(|place| place.is_ok()).count(), 2);
        assert_eq!(places[2].as_ref().expect_err("full").resets_at, Day::of(NOON).ends());
        drop(cut_off);
    }

    #[tokio::test]
    async fn the_next_day_has_all_its_places_and_nothing_of_the_one_before_comes_back_to_it() {
        let store = MemoryStore::default();
        let daily = daily(&store);
        let late = daily.take(1, NOON).expect("room");
        assert!(daily.take(1, NOON).is_err());
        let today = daily.take(1, TOMORROW).expect("another day");
        drop(late);
        assert!(daily.take(1, TOMORROW).is_err(), "a place of yesterday is none of today");
        // The clock runs backwards: the day stays.
        assert_eq!(daily.take(1, NOON).expect_err("full").resets_at, Day::of(TOMORROW).ends());
        today.keep().await.expect("it writes");
        assert!(daily.take(1, TOMORROW).is_err());
        let slow = daily.take(2, TOMORROW).expect("room for a second");
        let after = UnixSeconds(TOMORROW.0 + 86_400);
        daily.take(1, after).expect("a third day").keep().await.expect("it writes");
        slow.keep().await.expect("it writes");
        assert!(daily.take(2, after).is_ok(), "the second day's is not counted on the third");
    }

    #[tokio::test]
    async fn a_place_that_could_not_be_written_is_free_again() {
        let store = MemoryStore::default();
        let daily = daily(&store);
        let place = daily.take(1, NOON).expect("room");
        store.set(Mood::Busy);
        assert!(place.keep().await.is_err());
        store.set(Mood::Willing);
        assert!(daily.take(1, NOON).is_ok());
        assert!(daily.take(0, NOON).is_err(), "no places, no work");
    }
}
