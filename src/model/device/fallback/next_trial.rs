//! The time until a GPU that failed is tested again.

use std::time::{Duration, Instant};

/// When a GPU that failed is loaded and tested again.
#[derive(Clone, Copy, Debug)]
pub(super) struct NextTrial {
    /// From when `wait` counts.
    pub(super) since: Instant,
    wait: Duration,
    /// The wait after the first failure.
    first: Duration,
}

impl NextTrial {
    /// After `wait` from now.
    pub(super) fn after(wait: Duration) -> Self {
        Self { since: Instant::now(), wait, first: wait }
    }

    /// What is left of the wait.
    pub(super) fn left(&self) -> Duration {
        self.wait.saturating_sub(self.since.elapsed())
    }

    /// Begins the wait again, `longer` times as long.
    pub(super) fn postpone(&mut self, longer: u32) {
        self.since = Instant::now();
        self.wait = self.wait.saturating_mul(longer);
    }

    /// Makes the wait as long as the first one: the GPU works.
    pub(super) fn reset(&mut self) {
        self.wait = self.first;
    }
}
