//! Daily quota of generated backdrops, for all accounts together.
//!
//! A request takes a backdrop of the day before any work, and gives it back if no backdrop was generated. Both are changes of the
//! store, so that the quota is never exceeded, also by several daemons; a process that dies in between keeps what it took.

use super::{Change, ChangeError, Day, Store, UnixSeconds};
use crate::telemetry::with_causes;

/// A backdrop of the day's quota. Dropped, it is given back.
#[derive(Debug)]
#[must_use = "dropped, it gives its backdrop back"]
pub struct BackdropReservation {
    store: Store,
    day: Day,
    is_kept: bool,
}

impl Store {
    /// Takes one of `at_most` backdrops of the day that `now` is in.
    ///
    /// # Errors
    /// [`ChangeError::GeneratedEnough`] when all are taken; others when the store cannot write.
    pub async fn take_backdrop(&self, at_most: u32, now: UnixSeconds) -> Result<BackdropReservation, ChangeError> {
        let (store, day) = (self.clone(), Day::of(now));
        // A task, so that a caller who leaves during the change drops a reservation that returns the backdrop.
        let taken = tokio::spawn(async move {
            store.change(Change::CountGenerated { day, at_most }).await?;
            Ok(BackdropReservation { store, day, is_kept: false })
        });
        taken.await.expect("the change does not panic, and nothing aborts it")
    }
}

impl BackdropReservation {
    /// Keeps the backdrop: it was generated.
    pub fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for BackdropReservation {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        let (store, change) = (self.store.clone(), Change::ReturnGenerated { day: self.day });
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if let Err(error) = store.change(change).await {
                    tracing::warn!(error = with_causes(&error), "a backdrop that was not generated stays counted");
                }
            });
        }
    }
}
