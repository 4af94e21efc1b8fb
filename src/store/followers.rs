//! The callbacks that copy committed rows to memory.

use super::{Follower, Rows};
use std::sync::{PoisonError, RwLock};

/// What follows commits that were not answered to their callers.
#[derive(Default)]
pub(super) struct Followers(RwLock<Vec<Follower>>);

impl Followers {
    /// Adds a follower; whether it is the first.
    pub(super) fn add(&self, follower: Follower) -> bool {
        let mut callbacks = self.0.write().unwrap_or_else(PoisonError::into_inner);
        callbacks.push(follower);
        callbacks.len() == 1
    }

    pub(super) fn call(&self, rows: &Rows) {
        self.0.read().unwrap_or_else(PoisonError::into_inner).iter().for_each(|follower| follower(rows));
    }
}

impl std::fmt::Debug for Followers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Followers").finish_non_exhaustive()
    }
}
