//! Shows progress on standard error: a bar with rate and time left on a terminal, otherwise a line per item.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;

/// Most items that are shown as lines in place of a bar.
const FEW: usize = 10;

/// A bar of `length` items, when standard error is a terminal.
pub(super) fn terminal_bar(length: u64, template: &str) -> Option<ProgressBar> {
    std::io::stderr().is_terminal().then(|| {
        let style = ProgressStyle::with_template(template).expect("templates are constants");
        ProgressBar::new(length).with_style(style)
    })
}

/// Prints a line on standard error, above the bar if there is one.
pub(super) fn print_above(bar: Option<&ProgressBar>, line: &str) {
    match bar {
        Some(bar) => bar.suspend(|| print_stderr!("{line}")),
        None => print_stderr!("{line}"),
    }
}

/// Shows items as they finish.
#[derive(Debug)]
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    total: usize,
    finished: usize,
}

impl Progress {
    /// For `total` items.
    pub(super) fn new(total: usize) -> Self {
        let template = "{wide_bar} {pos}/{len}  {per_sec}  {eta} left";
        let bar = if total > FEW { terminal_bar(total as u64, template) } else { None };
        Self { bar, total, finished: 0 }
    }

    /// An item is finished: prints `line`, of an item with a bar only if it failed, and advances the bar.
    pub(super) fn finished(&mut self, line: &str, has_failed: bool) {
        self.finished += 1;
        match &self.bar {
            Some(bar) => {
                if has_failed {
                    print_above(Some(bar), line);
                }
                bar.inc(1);
            }
            None => print_stderr!("[{}/{}] {line}", self.finished, self.total),
        }
    }

    /// Removes the bar and prints the summary.
    pub(super) fn finish(self, summary: &str) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        print_stderr!("{summary}");
    }
}
