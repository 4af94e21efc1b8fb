//! Progress on standard error: a bar with rate and time left on a terminal, a line per item otherwise.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;

/// Up to this many items a line each says more than a bar.
const FEW: usize = 10;

/// Counts items as they are finished.
#[derive(Debug)]
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    total: usize,
    finished: usize,
}

impl Progress {
    /// Expects `total` items.
    pub(super) fn new(total: usize) -> Self {
        let bar = (total > FEW && std::io::stderr().is_terminal()).then(|| {
            let style = ProgressStyle::with_template("{wide_bar} {pos}/{len}  {per_sec}  {eta} left")
                .expect("the template is a constant");
            ProgressBar::new(total as u64).with_style(style)
        });
        Self { bar, total, finished: 0 }
    }

    /// One item is done; the bar moves, or `line` is printed.
    pub(super) fn done(&mut self, line: &str) {
        self.finished += 1;
        match &self.bar {
            Some(bar) => bar.inc(1),
            None => eprintln!("[{}/{}] {line}", self.finished, self.total),
        }
    }

    /// One item failed; `line` is printed in any case.
    pub(super) fn failed(&mut self, line: &str) {
        self.finished += 1;
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{line}")),
            None => eprintln!("[{}/{}] {line}", self.finished, self.total),
        }
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    /// Removes the bar and prints the sum.
    pub(super) fn finish(self, summary: &str) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        eprintln!("{summary}");
    }
}
