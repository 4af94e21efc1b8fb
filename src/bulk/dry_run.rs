//! Counts what a run would do and picks a sample of its objects, without processing any.

use super::hash::{Hash, hash};
use super::locations::Locations;
use super::options::RunOptions;
use super::planner::{Action, Planner};
use super::report_log::ReportLog;
use super::run_error::RunError;
use futures_util::TryStreamExt;
use object_store::ObjectMeta;
use std::collections::BTreeMap;

/// The counts of a run that processes nothing.
#[derive(Clone, Debug, Default)]
pub struct DryRun {
    /// Objects that would be processed.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects that are done according to the report.
    pub done: u64,
    /// Objects that would be rejected without reading, by code.
    pub rejected: BTreeMap<String, u64>,
    /// Listed objects that are excluded, or in another shard.
    pub ignored: u64,
    /// A deterministic, evenly spread sample of the objects that would be processed.
    pub sample: Vec<ObjectMeta>,
}

/// Classifies everything that a run would list, and picks a sample of `sample` objects: those with the lowest hashes.
///
/// # Errors
/// When the source cannot be listed.
pub async fn dry_run(
    locations: &Locations,
    options: &RunOptions,
    report: &ReportLog,
    sample: usize,
) -> Result<DryRun, RunError> {
    let mut listing = locations.source.store.list(Some(&locations.source.prefix));
    let mut planner = Planner::new(locations, options, report.previous_runs());
    let mut counts = DryRun::default();
    let mut lowest: BTreeMap<Hash, ObjectMeta> = BTreeMap::new();
    let failed = |error| RunError::Listing { place: locations.source.address_prefix(), error };
    while let Some(meta) = listing.try_next().await.map_err(failed)? {
        match planner.classify(meta) {
            Action::Ignore => counts.ignored += 1,
            Action::AlreadyDone => counts.done += 1,
            Action::Reject(row) => *counts.rejected.entry(row.code.unwrap_or_default()).or_default() += 1,
            Action::LimitReached => break,
            Action::Process(task) => {
                counts.objects += 1;
                counts.bytes += task.meta.size;
                lowest.insert(hash(&[task.meta.location.as_ref()]), task.meta);
                if lowest.len() > sample {
                    lowest.pop_last();
                }
            }
        }
    }
    counts.sample = lowest.into_values().collect();
    Ok(counts)
}
