//! `bulk --dry-run`: counts objects, prices them, and estimates the duration on this machine.

use super::pipeline_processor::PipelineProcessor;
use super::report_file::ReportFile;
use crate::account::price::in_dollars;
use crate::bulk::{Locations, ProcessError, Processor, ReportLog, RunOptions, dry_run, fetch};
use crate::cli::exit_code::{Failure, Outcome};
use crate::cli::stdout;
use futures_util::{StreamExt, stream};
use indicatif::{HumanBytes, HumanDuration};
use serde_json::json;
use std::time::{Duration, Instant};

/// Pictures per job that are processed, but not stored, to measure the time per picture.
const SAMPLE: usize = 3;

/// Runs the dry run and prints its results.
pub(super) async fn run(
    locations: &Locations,
    options: &RunOptions,
    report: &ReportFile,
    processor: &PipelineProcessor,
    (unit_price, show_price): (u64, bool),
    jobs: usize,
    json: bool,
) -> Result<Outcome, Failure> {
    // A copy, so that the report is not modified.
    let folder = tempfile::tempdir()?;
    let copy = folder.path().join("report.jsonl");
    let path = report.download().await?;
    if tokio::fs::try_exists(&path).await? {
        tokio::fs::copy(&path, &copy).await?;
    }
    let report = ReportLog::open(&copy, &options.parameters)?;
    let counts = dry_run(locations, options, &report, SAMPLE * jobs).await?;
    let (per_picture, basis) = match report.seconds_per_picture() {
        Some(seconds) => (Some(seconds), "from earlier runs"),
        None => (measure(locations, options, processor, &counts.sample, jobs).await?, "measured on a few"),
    };
    let seconds = per_picture.map(|each| each * counts.objects as f64);
    let price = unit_price.saturating_mul(counts.objects);
    let rejected: u64 = counts.rejected.values().sum();
    if json {
        stdout::print_json(&json!({
            "objects": counts.objects,
            "bytes": counts.bytes,
            "already_done": counts.done,
            "refused": counts.rejected,
            "passed_over": counts.ignored,
            "unit_price_usd": in_dollars(unit_price),
            "price_usd": in_dollars(price),
            "seconds_per_picture": per_picture,
            "seconds": seconds,
        }))?;
        return Ok(Outcome::Done);
    }
    stdout::print_line(&format!("{} pictures to process, {}", counts.objects, HumanBytes(counts.bytes)))?;
    for (count, what) in [
        (counts.done, "done already"),
        (rejected, "cannot be processed, according to their listing"),
        (counts.ignored, "excluded: not pictures, filtered out, or in another shard"),
    ] {
        if count > 0 {
            stdout::print_line(&format!("{count} {what}"))?;
        }
    }
    if show_price {
        stdout::print_line(&format!("${} at ${} each", in_dollars(price), in_dollars(unit_price)))?;
    }
    if let (Some(each), Some(seconds)) = (per_picture, seconds) {
        let duration = HumanDuration(Duration::from_secs_f64(seconds));
        stdout::print_line(&format!("about {duration} on this machine, {each:.2} s each ({basis})"))?;
    }
    Ok(Outcome::Done)
}

/// Seconds per picture of a sample with all jobs in use; `None` for an empty sample.
async fn measure(
    locations: &Locations,
    options: &RunOptions,
    processor: &PipelineProcessor,
    sample: &[object_store::ObjectMeta],
    jobs: usize,
) -> Result<Option<f64>, Failure> {
    if sample.is_empty() {
        return Ok(None);
    }
    let fatal = |error| match error {
        ProcessError::Fatal(why) => Some(why),
        ProcessError::Rejected(_) => None,
    };
    if let Err(error) = processor.ready().await {
        return Err(fatal(error).unwrap_or_default().into());
    }
    let started = Instant::now();
    let processed = stream::iter(sample).map(async |meta| {
        let Ok(fetched) = fetch(&*locations.source.store, meta, options.max_bytes).await else { return None };
        processor.process(fetched.bytes).await.err().and_then(fatal)
    });
    let mut processed = std::pin::pin!(processed.buffer_unordered(jobs));
    while let Some(outcome) = processed.next().await {
        if let Some(why) = outcome {
            return Err(why.into());
        }
    }
    Ok(Some(started.elapsed().as_secs_f64() / sample.len() as f64))
}
