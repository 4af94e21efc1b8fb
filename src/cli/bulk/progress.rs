//! Shows the progress of a bulk run on standard error: a bar on a terminal, otherwise a line every ten seconds.

use crate::bulk::{Counters, ListingTotal, Observer, Rate, ReportRow, Status};
use crate::cli::progress::{print_above, terminal_bar};
use indicatif::{HumanDuration, ProgressBar};
use std::time::{Duration, Instant};

/// Interval between two lines without a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Failures that are printed one by one; the report has all.
const MAX_PRINTED_FAILURES: u64 = 20;

/// Shows the progress of a run.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    total: Option<ListingTotal>,
    rate: Rate,
    last_line: Instant,
}

impl Progress {
    pub(super) fn new() -> Self {
        let bar = terminal_bar(0, "{wide_bar} {pos}/{len}  {msg}");
        Self { bar, total: None, rate: Rate::default(), last_line: Instant::now() }
    }

    pub(super) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }

    fn show(&mut self, counters: &Counters) {
        let processed = counters.done() + counters.failed();
        let completed = processed + counters.skipped();
        let total = self.total.map(|ListingTotal { objects, limit }| {
            limit.map_or(objects, |limit| objects.min(limit.saturating_add(counters.skipped())))
        });
        let mut line = format!("{} failed", counters.failed());
        self.rate.update(processed);
        if let (Some(rate), Some(seconds)) = (self.rate.per_second(), self.rate.seconds()) {
            line = format!("{rate:.1} images/s, {:.1} MB/s, {line}", counters.bytes() as f64 / 1e6 / seconds);
            if let Some(left) = total.and_then(|total| self.rate.time_for(total.saturating_sub(completed))) {
                line = format!("{line}, {} left", HumanDuration(left));
            }
        }
        match &self.bar {
            Some(bar) => {
                bar.set_length(total.unwrap_or(completed).max(completed));
                bar.set_position(completed);
                bar.set_message(line);
            }
            None if self.last_line.elapsed() >= LINE_INTERVAL => {
                self.last_line = Instant::now();
                let of = total.map(|total| format!(" of {total}")).unwrap_or_default();
                print_stderr!("{completed}{of}: {line}");
            }
            None => {}
        }
    }
}

impl Observer for Progress {
    fn total(&mut self, total: ListingTotal) {
        self.total = Some(total);
    }

    fn finished(&mut self, row: &ReportRow, counters: &Counters) {
        if row.status == Status::Failed && counters.failed() <= MAX_PRINTED_FAILURES {
            let mut line = row.line();
            if counters.failed() == MAX_PRINTED_FAILURES {
                line += "\nFurther failures are in the report";
            }
            print_above(self.bar.as_ref(), &line);
        }
        self.show(counters);
    }

    fn tick(&mut self, counters: &Counters) {
        self.show(counters);
    }

    fn notice(&mut self, text: &str) {
        print_above(self.bar.as_ref(), text);
    }
}
