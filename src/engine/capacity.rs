//! How many pictures an engine takes, for those who share it out.

use super::config::EngineConfig;

/// How many pictures an engine takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// In flight: those that wait and those in work.
    pub in_flight: usize,
    /// In work: with more of them no worker and no batch would be fuller.
    pub in_work: usize,
}

impl Capacity {
    /// Without a limit.
    pub const UNBOUNDED: Self = Self { in_flight: usize::MAX, in_work: usize::MAX };

    /// Of an engine with this configuration: while each worker and each place of a batch has a picture, as many wait.
    pub(super) fn of(config: &EngineConfig) -> Self {
        Self { in_flight: config.max_requests_in_flight, in_work: 2 * (config.workers() + config.max_batch) }
    }
}
