//! Counters of a run in progress, and the observer that receives them.

use super::listing::ListingTotal;
use super::report_row::{ReportRow, Status};
use std::sync::atomic::{AtomicU64, Ordering};

/// Receives the progress of a run.
pub trait Observer {
    /// The number of objects of the run; called once, when they have been counted.
    fn total(&mut self, total: ListingTotal);

    /// An object has its report row.
    fn finished(&mut self, row: &ReportRow, counters: &Counters);

    /// Called at regular intervals.
    fn tick(&mut self, counters: &Counters);
    /// What keeps a run from advancing, in a sentence.
    fn notice(&mut self, text: &str);
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

    /// Counts a row; `already_done` where its result was found, not made.
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

    /// For display: of `finished` objects those that are not counted yet are counted as done.
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
