//! `--dry-run`: how many objects, what they would cost at the service's prices, and how long they would take here.

use super::report::ReportFile;
use super::work::Pipeline;
use crate::account::price::in_dollars;
use crate::bulk::{Ledger, Order, Places, Unworked, Work, fetch, survey};
use crate::cli::exit::{Failure, Outcome};
use crate::cli::print;
use futures_util::{StreamExt, stream};
use indicatif::{HumanBytes, HumanDuration};
use serde_json::json;
use std::time::{Duration, Instant};

/// Pictures for each job that are made, and not stored, to see how long one takes.
const SAMPLE: usize = 3;

/// Looks, and tells.
pub(super) async fn run(
    places: &Places,
    order: &Order,
    report: &ReportFile,
    pipeline: &Pipeline,
    unit_price: u64,
    jobs: usize,
    json: bool,
) -> Result<Outcome, Failure> {
    // A file of its own: nothing is begun here.
    let folder = tempfile::tempdir()?;
    let copy = folder.path().join("report.jsonl");
    let path = report.there().await?;
    if tokio::fs::try_exists(&path).await? {
        tokio::fs::copy(&path, &copy).await?;
    }
    let ledger = Ledger::open(&copy, &order.parameters)?;
    let survey = survey(places, order, &ledger, SAMPLE * jobs).await?;
    let (per_picture, basis) = match ledger.seconds_per_picture() {
        Some(seconds) => (Some(seconds), "from earlier runs"),
        None => (measured(places, order, pipeline, &survey.sample, jobs).await?, "measured on a few"),
    };
    let seconds = per_picture.map(|each| each * survey.objects as f64);
    let price = unit_price.saturating_mul(survey.objects);
    let refused: u64 = survey.refused.values().sum();
    if json {
        print::json(&json!({
            "objects": survey.objects,
            "bytes": survey.bytes,
            "already_done": survey.done,
            "refused": survey.refused,
            "passed_over": survey.passed,
            "unit_price_usd": in_dollars(unit_price),
            "price_usd": in_dollars(price),
            "seconds_per_picture": per_picture,
            "seconds": seconds,
        }))?;
        return Ok(Outcome::Done);
    }
    print::line(&format!("{} pictures to do, {}", survey.objects, HumanBytes(survey.bytes)))?;
    for (count, what) in [
        (survey.done, "done already"),
        (refused, "cannot be done, told by their listing"),
        (survey.passed, "passed over: no pictures, not asked for, or another machine's"),
    ] {
        if count > 0 {
            print::line(&format!("{count} {what}"))?;
        }
    }
    print::line(&format!("${} at ${} each", in_dollars(price), in_dollars(unit_price)))?;
    if let (Some(each), Some(seconds)) = (per_picture, seconds) {
        let told = HumanDuration(Duration::from_secs_f64(seconds));
        print::line(&format!("about {told} on this machine, {each:.2} s each ({basis})"))?;
    }
    Ok(Outcome::Done)
}

/// Seconds for each picture of a sample with all jobs at work; nothing where there is none.
async fn measured(
    places: &Places,
    order: &Order,
    pipeline: &Pipeline,
    sample: &[object_store::ObjectMeta],
    jobs: usize,
) -> Result<Option<f64>, Failure> {
    if sample.is_empty() {
        return Ok(None);
    }
    let broken = |error| match error {
        Unworked::Broken(why) => Some(why),
        Unworked::Refused(_) => None,
    };
    if let Err(error) = pipeline.ready().await {
        return Err(broken(error).unwrap_or_default().into());
    }
    let began = Instant::now();
    let made = stream::iter(sample).map(async |meta| {
        let Ok(fetched) = fetch(&*places.from.store, meta, order.max_bytes).await else { return None };
        pipeline.work(fetched.bytes).await.err().and_then(broken)
    });
    let mut made = std::pin::pin!(made.buffer_unordered(jobs));
    while let Some(outcome) = made.next().await {
        if let Some(why) = outcome {
            return Err(why.into());
        }
    }
    Ok(Some(began.elapsed().as_secs_f64() / sample.len() as f64))
}
