//! Counters of a run in progress, and the observer that receives them.

use super::report_row::{ReportRow, Status};
use std::sync::atomic::{AtomicU64, Ordering};

/// The size of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListingTotal {
    /// Objects that match the filter and the shard, done or not.
    pub objects: u64,
    /// The run's limit on objects to process.
    pub limit: Option<u64>,
}

/// Receives the progress of a run; by default ignores it.
pub trait Observer {
    /// Called once, when the objects of the run have been counted.
    fn total(&mut self, _: ListingTotal) {}

    /// Called for each object that gets its report row.
    fn finished(&mut self, _: &ReportRow, _: &Counters) {}

    /// Called at regular intervals.
    fn tick(&mut self, _: &Counters) {}

    /// Takes the reason for which a run does not advance, in a sentence.
    fn notice(&mut self, _: &str) {}
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

    /// Counts a row; `already_done` if its result existed before.
    pub(super) fn count(&self, row: &ReportRow, already_done: bool) {
        match row.status {
            Status::Done if already_done => add(&self.skipped, 1),
            Status::Done => {
                add(&self.done, 1);
                add(&self.bytes_in, row.source_bytes);
                add(&self.bytes_out, row.output_bytes.unwrap_or_default());
            }
            Status::Failed => add(&self.failed, 1),
        }
    }

    /// A copy for display, with at least `finished` objects: those without a row are counted as done.
    pub(super) fn with_finished(&self, finished: u64) -> Self {
        let copy = |counter: &AtomicU64| AtomicU64::new(get(counter));
        let shown = Self {
            skipped: copy(&self.skipped),
            ignored: copy(&self.ignored),
            done: copy(&self.done),
            failed: copy(&self.failed),
            bytes_in: copy(&self.bytes_in),
            bytes_out: copy(&self.bytes_out),
        };
        add(&shown.done, finished.saturating_sub(self.done() + self.failed() + self.skipped()));
        shown
    }
}

pub(super) fn add(counter: &AtomicU64, number: u64) {
    counter.fetch_add(number, Ordering::Relaxed);
}

pub(super) fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
