//! The time of a failed GPU's next trial.

use std::time::{Duration, Instant};

/// The wait before a failed GPU is loaded and tested again.
#[derive(Clone, Copy, Debug)]
pub(super) struct NextTrial {
    /// Start of `wait`.
    pub(super) since: Instant,
    wait: Duration,
    /// The wait after the first failure.
    first: Duration,
}

impl NextTrial {
    /// The next trial is after `wait` from now.
    pub(super) fn after(wait: Duration) -> Self {
        Self { since: Instant::now(), wait, first: wait }
    }

    pub(super) fn left(&self) -> Duration {
        self.wait.saturating_sub(self.since.elapsed())
    }

    /// Restarts the wait, `longer` times as long.
    pub(super) fn postpone(&mut self, longer: u32) {
        self.since = Instant::now();
        self.wait = self.wait.saturating_mul(longer);
    }

    /// Resets the wait to its first length, because the GPU works.
    pub(super) fn reset(&mut self) {
        self.wait = self.first;
    }
}
