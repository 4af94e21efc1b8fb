//! The summary of a bulk run, as text and as JSON.

use super::report_file::ReportFile;
use crate::bulk::{ReportTotals, Summary};
use serde_json::{Value, json};

/// The summary as text.
pub(super) fn summary_text(summary: &Summary) -> String {
    let seconds = summary.elapsed.as_secs_f64();
    let mut text = format!("{} done in {seconds:.1} s", summary.done);
    if summary.done > 0 {
        let bytes = (summary.bytes_in + summary.bytes_out) as f64;
        text += &format!(" ({:.1} images/s, {:.1} MB/s)", summary.done as f64 / seconds, bytes / 1e6 / seconds);
    }
    for (count, what) in [(summary.skipped, "already done"), (summary.failed, "failed")] {
        if count > 0 {
            text += &format!(", {count} {what}");
        }
    }
    if !summary.failures.is_empty() {
        let kinds: Vec<_> = summary.failures.iter().map(|(code, count)| format!("{count} {code}")).collect();
        text += &format!(" ({})", kinds.join(", "));
    }
    text
}

/// The summary as JSON.
pub(super) fn summary_json(summary: &Summary, totals: &ReportTotals, report: &ReportFile) -> Value {
    json!({
        "done": summary.done,
        "skipped": summary.skipped,
        "failed": summary.failed,
        "failures": summary.failures,
        "passed_over": summary.ignored,
        "bytes_in": summary.bytes_in,
        "bytes_out": summary.bytes_out,
        "seconds": summary.elapsed.as_secs_f64(),
        "stopped": summary.stopped,
        "report": { "path": report.to_string(), "done": totals.done, "failed": totals.failed },
    })
}
