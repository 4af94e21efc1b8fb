//! The end of a bulk run: its complete report, and its summary as text and as JSON.

use super::report_file::ReportFile;
use crate::bulk::{ReportLog, ReportTotals, Summary};
use crate::cli::exit_code::{Failure, Outcome};
use crate::cli::stdout;
use serde_json::{Value, json};

/// Completes the report, and prints the summary.
pub(super) async fn finish_run(
    summary: &Summary,
    report: ReportLog,
    report_file: &ReportFile,
    json: bool,
) -> Result<Outcome, Failure> {
    let totals = complete_report(report, report_file).await?;
    print_stderr!("{}", summary_text(summary));
    if json {
        stdout::print_json(&summary_json(summary, &totals, report_file))?;
    }
    Ok(Outcome::of(summary.stopped || summary.failed > 0))
}

/// Merges the report to one row per object, and uploads it where it is an object.
pub(super) async fn complete_report(report: ReportLog, report_file: &ReportFile) -> Result<ReportTotals, Failure> {
    let totals = tokio::task::spawn_blocking(move || report.finish()).await??;
    report_file.close().await?;
    Ok(totals)
}

/// The summary as text.
fn summary_text(summary: &Summary) -> String {
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
