//! How a bulk run goes, on standard error: a bar on a terminal, now and then a line in a log.

use crate::bulk::{Row, Status, Tally, Total, Watch};
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Between two lines in a log.
const PAUSE: Duration = Duration::from_secs(10);

/// Failures that are told one by one; the report has them all.
const TOLD: u64 = 20;

/// Shows how a run goes.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    total: Option<Total>,
    /// Of the first picture, so that loading the network is no part of the rate.
    first: Option<Instant>,
    told: Instant,
}

impl Progress {
    pub(super) fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style =
                ProgressStyle::with_template("{wide_bar} {pos}/{len}  {msg}").expect("the template is constant");
            ProgressBar::new(0).with_style(style)
        });
        Self { bar, total: None, first: None, told: Instant::now() }
    }

    pub(super) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }

    fn show(&mut self, tally: &Tally) {
        let now = tally.done() + tally.failed();
        let seen = now + tally.skipped();
        let total = self.total.map(|Total { objects, limit }| {
            limit.map_or(objects, |limit| objects.min(limit.saturating_add(tally.skipped())))
        });
        let mut line = format!("{} failed", tally.failed());
        let seconds = self.first.map_or(0.0, |first| first.elapsed().as_secs_f64());
        if seconds > 1.0 {
            let rate = now as f64 / seconds;
            line = format!("{rate:.1} images/s, {:.1} MB/s, {line}", tally.bytes() as f64 / 1e6 / seconds);
            if let (Some(total), true) = (total, rate > 0.0) {
                let left = Duration::from_secs_f64(total.saturating_sub(seen) as f64 / rate);
                line = format!("{line}, {} left", HumanDuration(left));
            }
        }
        match &self.bar {
            Some(bar) => {
                bar.set_length(total.unwrap_or(seen).max(seen));
                bar.set_position(seen);
                bar.set_message(line);
            }
            None if self.told.elapsed() >= PAUSE => {
                self.told = Instant::now();
                let of = total.map(|total| format!(" of {total}")).unwrap_or_default();
                eprintln!("{seen}{of}: {line}");
            }
            None => {}
        }
    }
}

impl Watch for Progress {
    fn total(&mut self, total: Total) {
        self.total = Some(total);
    }

    fn finished(&mut self, row: &Row, tally: &Tally) {
        self.first.get_or_insert_with(Instant::now);
        if row.status == Status::Failed && tally.failed() <= TOLD {
            let mut line = row.line();
            if tally.failed() == TOLD {
                line += "\nFurther failures are in the report";
            }
            match &self.bar {
                Some(bar) => bar.suspend(|| eprintln!("{line}")),
                None => eprintln!("{line}"),
            }
        }
        self.show(tally);
    }

    fn tick(&mut self, tally: &Tally) {
        self.show(tally);
    }
}
