//! Counters of a run in progress, and the observer that receives them.

use super::listing::ListingTotal;
use super::report_row::ReportRow;
use std::sync::atomic::{AtomicU64, Ordering};

/// Receives the progress of a run.
pub trait Observer {
    /// The number of objects of the run; called once, when they have been counted.
    fn total(&mut self, total: ListingTotal);

    /// An object has its report row.
    fn finished(&mut self, row: &ReportRow, counters: &Counters);

    /// Called at regular intervals.
    fn tick(&mut self, counters: &Counters);
}

/// Counts of a run in progress.
#[derive(Debug, Default)]
pub struct Counters {
    pub(super) skipped: AtomicU64,
    pub(super) ignored: AtomicU64,
    pub(super) done: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) bytes_in: AtomicU64,
    pub(super) bytes_out: AtomicU64,
}

impl Counters {
    /// Objects that were done before.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        get(&self.skipped)
    }

    /// Objects with a result.
    #[must_use]
    pub fn done(&self) -> u64 {
        get(&self.done)
    }

    /// Objects without a result.
    #[must_use]
    pub fn failed(&self) -> u64 {
        get(&self.failed)
    }

    /// Bytes read and written.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        get(&self.bytes_in) + get(&self.bytes_out)
    }
}

pub(super) fn add(counter: &AtomicU64, number: u64) {
    counter.fetch_add(number, Ordering::Relaxed);
}

pub(super) fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
