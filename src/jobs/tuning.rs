//! Limits, intervals and clock of the job service that are not configurable (stall, grace, pause, heartbeat); tests
//! shorten them.

use std::sync::Arc;
use std::time::Duration;

use super::JobsConfig;
use super::disk_space::DiskLimits;

/// Returns the current time in milliseconds since 1970.
#[derive(Clone)]
pub(super) struct Clock(pub(super) Arc<dyn Fn() -> i64 + Send + Sync>);

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Clock").field(&self.0()).finish()
    }
}

#[derive(Clone, Debug)]
pub(super) struct Tuning {
    pub(super) parallel: usize,
    pub(super) max_queued_per_key: usize,
    pub(super) clock: Clock,
    /// A job without progress for this long fails.
    pub(super) stall: Duration,
    /// How long an aborted worker may take to end.
    pub(super) grace: Duration,
    /// How long to wait after the store failed.
    pub(super) pause: Duration,
    /// How often the leases of running jobs are renewed.
    pub(super) heartbeat: Duration,
    /// How often the queue of a store is read that other daemons use.
    pub(super) poll: Duration,
    /// How often the checkpoint of a running job is copied to the result store, on a store that several daemons use.
    pub(super) checkpoint_every: Duration,
    pub(super) space: DiskLimits,
}

impl Tuning {
    pub(super) fn of(config: &JobsConfig) -> Self {
        Self {
            parallel: config.parallel,
            max_queued_per_key: config.max_queued_per_key,
            clock: Clock(Arc::new(|| jiff::Timestamp::now().as_millisecond())),
            // A percent of the longest clip takes a minute or two on two cores.
            stall: Duration::from_secs(30 * 60),
            grace: Duration::from_secs(10),
            pause: Duration::from_secs(5),
            heartbeat: Duration::from_secs(2),
            poll: Duration::from_secs(1),
            checkpoint_every: Duration::from_secs(2),
            space: DiskLimits::of(config),
        }
    }
}
