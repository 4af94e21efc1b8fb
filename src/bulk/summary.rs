//! Totals of a finished run.

use super::progress::{Counters, get};
use super::report_row::{ReportRow, Status};
use std::collections::BTreeMap;
use std::time::Duration;

/// Totals of a finished run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Objects processed in this run.
    pub done: u64,
    /// Objects without a result.
    pub failed: u64,
    /// Objects that were done before.
    pub skipped: u64,
    /// Listed objects that are excluded, or in another shard.
    pub ignored: u64,
    /// Bytes of the sources that were read.
    pub bytes_in: u64,
    /// Bytes of the results that were stored.
    pub bytes_out: u64,
    /// Failed objects by code.
    pub failures: BTreeMap<String, u64>,
    /// Duration of the run.
    pub elapsed: Duration,
    /// Whether it ended early by its stop signal.
    pub stopped: bool,
}

impl Summary {
    /// Whether the run found no picture: none was processed, and none was done before.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.done + self.failed + self.skipped == 0
    }

    /// Adds a row to the failures by code.
    pub(super) fn count_failure(&mut self, row: &ReportRow) {
        if row.status == Status::Failed {
            *self.failures.entry(row.code.clone().unwrap_or_default()).or_default() += 1;
        }
    }

    /// The same with the counts of a run.
    pub(super) fn with_counts(self, counters: &Counters, elapsed: Duration) -> Self {
        Self {
            done: counters.done(),
            failed: counters.failed(),
            skipped: counters.skipped(),
            ignored: get(&counters.ignored),
            bytes_in: get(&counters.bytes_in),
            bytes_out: get(&counters.bytes_out),
            elapsed,
            ..self
        }
    }
}
