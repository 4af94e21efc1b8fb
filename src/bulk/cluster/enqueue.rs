//! Lists the objects of a run and queues those to process in chunks.
//!
//! A listing that was interrupted begins anew and leaves out the objects that are queued already. Their results stay reserved:
//! an object that appeared meanwhile may precede the one whose result it would have.

use super::queued_tasks;
use crate::bulk::hash::{Hash, hash};
use crate::bulk::locations::Locations;
use crate::bulk::options::RunOptions;
use crate::bulk::planner::{Action, Planner, Task};
use crate::bulk::report_log::ReportLog;
use crate::bulk::report_reader::ReportReader;
use crate::bulk::report_row::ReportRow;
use crate::bulk::run_error::RunError;
use crate::bulk::stop_signal::StopSignal;
use crate::store::{BulkQueue, BulkRun, BulkRunState, BulkStatus, NewChunk, OpenError};
use futures_util::{StreamExt, TryStreamExt};
use std::collections::HashSet;
use std::path::Path;
use std::pin::pin;

/// Objects in a chunk. Small enough that the machines end a run together, and that the report of a chunk is sent as a whole
/// with every heartbeat; large enough that claiming takes no time.
const CHUNK_OBJECTS: usize = 100;

/// Chunks that are read at once when a listing begins anew.
const PAGE: u16 = 50;

/// What a listing found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Enqueued {
    /// Objects in the queue, with those that cannot be processed.
    pub objects: u64,
    /// Objects that an earlier run finished.
    pub skipped: u64,
    /// Objects that are excluded.
    pub ignored: u64,
    /// Whether the listing came to its end.
    pub is_complete: bool,
}

impl From<&BulkStatus> for Enqueued {
    /// Of a run that is not to be listed any more.
    fn from(run: &BulkStatus) -> Self {
        Self { objects: run.objects, skipped: run.skipped, ignored: run.ignored, is_complete: true }
    }
}

/// The state of a run that is not to be listed any more: all its objects are queued, or it was cancelled.
///
/// # Errors
/// When the database cannot be used.
pub async fn listed(queue: &BulkQueue, id: &str) -> Result<Option<BulkStatus>, OpenError> {
    let known = queue.status(Some(id)).await?.pop();
    Ok(known.filter(|run| run.is_listed || run.state == BulkRunState::Cancelled))
}

/// Begins `run`, or resumes its listing, until every object is queued or `stop` is requested.
///
/// # Errors
/// When the source cannot be listed, the database cannot be used, or the run was cancelled or is listed by another command
/// meanwhile.
pub async fn enqueue(
    queue: &BulkQueue,
    run: &BulkRun,
    locations: &Locations,
    options: &RunOptions,
    report: &ReportLog,
    stop: &StopSignal,
) -> Result<Enqueued, RunError> {
    let lister = rand::random();
    queue.begin(run, lister).await?;
    // From here on no other command adds chunks.
    let mut chunks = Chunks { queue, run: &run.id, lister, next: 0 };
    let mut planner = Planner::new(locations, options, report.previous_runs());
    let queued_before = chunks.read_existing(&mut planner).await?;
    let mut enqueued = Enqueued { objects: queued_before.len() as u64, ..Enqueued::default() };
    let (mut tasks, mut rejected) = (Vec::new(), Vec::new());
    let listing = locations.source.store.list(Some(&locations.source.prefix));
    let mut listing = pin!(listing.take_until(stop.requested()));
    let place = || locations.source.address_prefix();
    while let Some(meta) = listing.try_next().await.map_err(|error| RunError::Listing { place: place(), error })? {
        let is_new = |row: &ReportRow| !queued_before.contains(&hash(&[&row.source]));
        match planner.classify(meta) {
            Action::Ignore => enqueued.ignored += 1,
            Action::AlreadyDone => enqueued.skipped += 1,
            Action::LimitReached => break,
            Action::Reject(row) if is_new(&row) => rejected.push(*row),
            Action::Process(task) if is_new(&task.row) => tasks.push(*task),
            Action::Reject(_) | Action::Process(_) => continue,
        }
        if tasks.len() == CHUNK_OBJECTS {
            enqueued.objects += chunks.add_tasks(&std::mem::take(&mut tasks)).await?;
        }
        if rejected.len() == CHUNK_OBJECTS {
            enqueued.objects += chunks.add_rejected(&std::mem::take(&mut rejected)).await?;
        }
    }
    enqueued.objects += chunks.add_tasks(&tasks).await? + chunks.add_rejected(&rejected).await?;
    if !stop.is_requested() {
        if !queue.end_listing(&run.id, lister, enqueued.skipped, enqueued.ignored).await? {
            return Err(RunError::Superseded(run.id.clone()));
        }
        enqueued.is_complete = true;
    }
    Ok(enqueued)
}

/// Adds chunks to a run.
struct Chunks<'a> {
    queue: &'a BulkQueue,
    run: &'a str,
    lister: i64,
    next: i64,
}

impl Chunks<'_> {
    /// Hashes of the sources that are in chunks, whose tasks `planner` counts.
    async fn read_existing(&mut self, planner: &mut Planner<'_>) -> Result<HashSet<Hash>, RunError> {
        let mut sources = HashSet::new();
        loop {
            let chunks = self.queue.chunks(self.run, self.next, PAGE).await?;
            let Some(last) = chunks.last() else { return Ok(sources) };
            self.next = last.number + 1;
            for NewChunk { tasks, report, .. } in &chunks {
                match tasks.as_deref() {
                    Some(tasks) => {
                        for task in queued_tasks::decode(tasks)? {
                            planner.add_planned(&task.row);
                            sources.insert(hash(&[&task.row.source]));
                        }
                    }
                    None => {
                        let mut rows = ReportReader::new(Path::new("the queue"), report.as_slice());
                        while let Some(row) = rows.next()? {
                            sources.insert(hash(&[&row.source]));
                        }
                    }
                }
            }
        }
    }

    async fn add_tasks(&mut self, tasks: &[Task]) -> Result<u64, RunError> {
        self.add(tasks.len(), Some(queued_tasks::encode(tasks)), Vec::new()).await
    }

    /// Objects that need no worker: their rows are complete.
    async fn add_rejected(&mut self, rows: &[ReportRow]) -> Result<u64, RunError> {
        self.add(rows.len(), None, rows.iter().flat_map(ReportRow::json_line).collect()).await
    }

    /// The number of added objects.
    async fn add(&mut self, objects: usize, tasks: Option<String>, report: Vec<u8>) -> Result<u64, RunError> {
        if objects == 0 {
            return Ok(0);
        }
        let chunk = NewChunk { number: self.next, objects: u32::try_from(objects).unwrap_or(u32::MAX), tasks, report };
        self.next += 1;
        if self.queue.add_chunk(self.run, self.lister, &chunk).await? {
            Ok(objects as u64)
        } else {
            Err(RunError::Superseded(self.run.to_owned()))
        }
    }
}
