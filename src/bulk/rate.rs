//! The rate of a run since its first objects were finished, and the time left at that rate.

use std::time::{Duration, Instant};

/// Objects per second since the first ones were finished. Loading the network and objects that were finished before the run was followed
/// do not count.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rate {
    first: Option<(Instant, u64)>,
    newest: u64,
}

impl Rate {
    /// Takes the number of processed objects so far.
    pub fn update(&mut self, processed: u64) {
        self.newest = processed;
        if self.first.is_none() && processed > 0 {
            self.first = Some((Instant::now(), processed));
        }
    }

    /// Measured seconds; `None` if they are too few for a rate.
    #[must_use]
    pub fn seconds(&self) -> Option<f64> {
        self.first.map(|(at, _)| at.elapsed().as_secs_f64()).filter(|seconds| *seconds > 1.0)
    }

    /// Objects per second.
    #[must_use]
    pub fn per_second(&self) -> Option<f64> {
        let (_, before) = self.first?;
        Some(self.newest.saturating_sub(before) as f64 / self.seconds()?)
    }

    /// The time that so many objects take.
    #[must_use]
    pub fn time_for(&self, objects: u64) -> Option<Duration> {
        let rate = self.per_second().filter(|rate| *rate > 0.0)?;
        Duration::try_from_secs_f64(objects as f64 / rate).ok()
    }
}
