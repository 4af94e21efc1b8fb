//! Busy time of each stage of a clip's pipeline, accumulated across threads.

use super::StageTimes;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[derive(Default)]
pub(super) struct StageClock {
    pub(super) decode: BusyTime,
    pub(super) segment: BusyTime,
    pub(super) matte: BusyTime,
    pub(super) encode: BusyTime,
}

impl StageClock {
    /// The accumulated times, with the wall-clock time of the job.
    pub(super) fn times(&self, total: Duration) -> StageTimes {
        StageTimes {
            decode: self.decode.get(),
            segment: self.segment.get(),
            matte: self.matte.get(),
            encode: self.encode.get(),
            total,
        }
    }
}

/// An accumulated duration in nanoseconds.
#[derive(Default)]
pub(super) struct BusyTime(AtomicU64);

impl BusyTime {
    pub(super) fn add(&self, took: Duration) {
        self.0.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn get(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}
