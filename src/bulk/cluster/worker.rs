//! A worker: claims chunks of queued runs and processes them as a run on one machine does, until it is stopped.

use super::queued_tasks;
use crate::bulk::executor::{Executor, Work};
use crate::bulk::failure::{Code, Failure};
use crate::bulk::locations::Locations;
use crate::bulk::planner::{Action, Task};
use crate::bulk::processor::Processor;
use crate::bulk::progress::{Counters, Observer};
use crate::bulk::report_log::ReportLog;
use crate::bulk::report_reader::ReportError;
use crate::bulk::report_row::ReportRow;
use crate::bulk::run_error::RunError;
use crate::bulk::stop_signal::StopSignal;
use crate::store::{BULK_LEASE, BulkQueue, BulkRun, BulkRunState, ChunkClaim, OpenError};
use crate::telemetry::with_causes;
use futures_util::stream;
use std::collections::HashMap;
use std::future::ready;
use std::path::Path;
use std::pin::pin;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Pause before the queue is read again after it had no chunk, or the database was away.
const POLL: Duration = Duration::from_secs(1);

/// Several heartbeats may be lost before the lease ends.
const HEARTBEAT: Duration = BULK_LEASE.checked_div(7).expect("not zero");

/// Lost leases after which the rest of a chunk fails, so that one file cannot end all workers again and again.
const MOST_LOST: u64 = 5;

/// How long a worker leaves a run to others. Afterwards it may have other weights, or be the only worker.
const EXCLUSION: Duration = Duration::from_secs(5 * 60);

/// The report of a chunk, in a temporary folder.
const REPORT: &str = "report.jsonl";

/// Runs that are kept prepared.
const PREPARED_RUNS: usize = 8;

/// Runs that a daemon or a worker leaves to others for a time.
#[derive(Debug, Default)]
pub struct Exclusions(Vec<(String, Instant)>);

impl Exclusions {
    /// Excludes a run for five minutes.
    pub fn add(&mut self, run: String) {
        self.0.push((run, Instant::now()));
    }

    /// The runs that are excluded now.
    pub fn current(&mut self) -> Vec<String> {
        self.0.retain(|(_, since)| since.elapsed() < EXCLUSION);
        self.0.iter().map(|(run, _)| run.clone()).collect()
    }
}

/// Prepares the processing of runs.
pub trait Prepare {
    /// The per-picture work.
    type Processor: Processor;

    /// Opens the places of a run and prepares its per-picture work.
    ///
    /// # Errors
    /// Why this worker cannot process the run; it leaves the run to others.
    fn prepare(&self, run: &BulkRun) -> impl Future<Output = Result<PreparedRun<Self::Processor>, String>>;
}

/// A run that is prepared for its chunks.
#[derive(Debug)]
pub struct PreparedRun<P> {
    /// Source and destination.
    pub locations: Locations,
    /// Maximum size of a source in bytes.
    pub max_bytes: u64,
    /// The per-picture work.
    pub processor: P,
}

/// A worker and everything it needs.
#[derive(Debug)]
pub struct Worker<'a, P> {
    /// The queue.
    pub queue: &'a BulkQueue,
    /// Its name in the table of chunks.
    pub name: &'a str,
    /// Pictures processed concurrently; at least 1.
    pub jobs: usize,
    /// Prepares runs.
    pub prepare: &'a P,
    /// Ends the worker: pictures in progress are finished, and the rest of the chunk goes back to the queue.
    pub stop: &'a StopSignal,
}

impl<P: Prepare> Worker<'_, P> {
    /// Claims and processes chunks until the stop signal.
    ///
    /// # Errors
    /// When no picture can be processed on this machine, or the database has another version's tables. While the
    /// database is away this waits.
    pub async fn run(&self) -> Result<(), RunError> {
        let mut prepared = HashMap::new();
        let mut excluded = Exclusions::default();
        let mut is_away = false;
        while !self.stop.is_requested() {
            // Not cancelled by the stop signal: a claim whose answer is dropped would wait for the end of its lease.
            let claim = match self.queue.claim(self.name, &excluded.current()).await {
                Ok(claim) => claim,
                Err(error @ OpenError::Io { .. }) => {
                    if !std::mem::replace(&mut is_away, true) {
                        tracing::warn!(error = with_causes(&error), "waiting for the database");
                    }
                    None
                }
                Err(error) => return Err(error.into()),
            };
            let Some(claim) = claim else {
                tokio::select! {
                    () = self.stop.requested() => {}
                    () = tokio::time::sleep(POLL) => {}
                }
                continue;
            };
            is_away = false;
            if prepared.len() >= PREPARED_RUNS && !prepared.contains_key(&claim.run) {
                prepared.clear();
            }
            if !prepared.contains_key(&claim.run) {
                match self.prepare_run(&claim).await? {
                    Ok(run) => drop(prepared.insert(claim.run.clone(), run)),
                    Err(reason) => {
                        tracing::warn!(run = claim.run, reason, "this worker leaves the run to others");
                        excluded.add(claim.run.clone());
                        self.give_back(&claim).await?;
                        continue;
                    }
                }
            }
            self.process(&claim, &prepared[&claim.run]).await?;
        }
        Ok(())
    }

    /// The run of a claim, or why this worker cannot process it.
    async fn prepare_run(&self, claim: &ChunkClaim) -> Result<Result<PreparedRun<P::Processor>, String>, RunError> {
        Ok(match self.until_back(|| self.queue.run(&claim.run)).await? {
            Some(run) => self.prepare.prepare(&run).await,
            None => Err("it was removed".to_owned()),
        })
    }

    /// Processes a chunk, renewing its lease; then ends the claim.
    async fn process(&self, claim: &ChunkClaim, run: &PreparedRun<P::Processor>) -> Result<(), RunError> {
        let (folder, report) = match report_of(claim).await {
            Ok(opened) => opened,
            Err(error) => {
                self.give_back(claim).await?;
                return Err(error.into());
            }
        };
        let path = folder.path().join(REPORT);
        let tasks = queued_tasks::decode(&claim.tasks)?;
        let objects = tasks.len() as u64;
        let is_done = |task: &Task| report.previous_runs().contains(task.row.fingerprint());
        let tasks: Vec<Task> = tasks.into_iter().filter(|task| !is_done(task)).collect();
        tracing::info!(
            run = claim.run,
            chunk = claim.number,
            attempt = claim.attempt,
            objects = tasks.len(),
            "claimed"
        );
        let before = objects - tasks.len() as u64;
        let action = |task: Task| match claim.lost {
            0..MOST_LOST => Action::Process(Box::new(task)),
            MOST_LOST.. => Action::Reject(Box::new(given_up(task.row))),
        };
        let actions = stream::iter(tasks.into_iter().map(|task| Ok(action(task))));
        let (stop, counters) = (StopSignal::default(), Counters::default());
        let executor = Executor::new(Work {
            locations: &run.locations,
            max_bytes: run.max_bytes,
            jobs: self.jobs,
            processor: &run.processor,
            report: &report,
            stop: &stop,
        });
        let mut silent = Silent;
        let mut execution = pin!(executor.execute(actions, ready(None), &counters, &mut silent));
        let mut heartbeats = pin!(self.send_heartbeats(claim, &path, &stop));
        let mut is_held = true;
        let (summary, fatal) = loop {
            tokio::select! {
                executed = &mut execution => break executed,
                () = &mut heartbeats, if is_held => {
                    is_held = false;
                    stop.request();
                }
                () = self.stop.requested(), if !stop.is_requested() => stop.request(),
            }
        };
        let is_done = fatal.is_none() && before + summary.done + summary.failed + summary.skipped == objects;
        let is_ended = self.end(claim, &whole_lines(&path).await?, is_done).await?;
        tracing::info!(
            run = claim.run,
            chunk = claim.number,
            attempt = claim.attempt,
            done = summary.done,
            failed = summary.failed,
            skipped = summary.skipped,
            is_done,
            "{}",
            if is_ended { "ended" } else { "ended too late: another worker has the chunk, or the run was removed" }
        );
        fatal.map_or(Ok(()), Err)
    }

    /// Renews the lease and stores the rows so far at intervals. Requests `stop` when the run is paused or cancelled; pictures in
    /// progress need the lease until they are finished. Returns when the run was removed or another worker has the chunk.
    async fn send_heartbeats(&self, claim: &ChunkClaim, report: &Path, stop: &StopSignal) {
        loop {
            tokio::time::sleep(HEARTBEAT).await;
            let Ok(rows) = whole_lines(report).await else { continue };
            match self.queue.heartbeat(claim, &rows).await {
                Ok(Some(BulkRunState::Running)) => {}
                Ok(Some(BulkRunState::Paused | BulkRunState::Cancelled)) => stop.request(),
                Ok(None) => return,
                // The work continues. Another worker claims the chunk if the lease has ended.
                Err(error) => tracing::warn!(error = with_causes(&error), "a heartbeat failed"),
            }
        }
    }

    /// Ends a claim with its earlier rows.
    async fn give_back(&self, claim: &ChunkClaim) -> Result<(), RunError> {
        self.end(claim, &claim.report, false).await.map(drop)
    }

    /// Ends a claim; false when it was lost before.
    async fn end(&self, claim: &ChunkClaim, report: &[u8], is_done: bool) -> Result<bool, RunError> {
        self.until_back(|| self.queue.end(claim, report, is_done)).await
    }

    /// Calls the queue for a claim, and waits for the database unless the worker is stopped.
    async fn until_back<T, F: Future<Output = Result<T, OpenError>>>(
        &self,
        call: impl Fn() -> F,
    ) -> Result<T, RunError> {
        loop {
            match call().await {
                Err(error @ OpenError::Io { .. }) if !self.stop.is_requested() => {
                    tracing::warn!(error = with_causes(&error), "waiting for the database");
                    tokio::time::sleep(POLL).await;
                }
                outcome => return Ok(outcome?),
            }
        }
    }
}

/// The row of an object that is given up.
fn given_up(row: ReportRow) -> ReportRow {
    let why = format!("{MOST_LOST} workers ended without an answer while they processed its chunk");
    row.failed(Failure::new(Code::InternalError, why))
}

/// The report of a chunk so far, in a new folder.
async fn report_of(claim: &ChunkClaim) -> Result<(TempDir, ReportLog), ReportError> {
    let folder = tempfile::tempdir().map_err(ReportError::io(Path::new("a temporary folder")))?;
    let path = folder.path().join(REPORT);
    tokio::fs::write(&path, &claim.report).await.map_err(ReportError::io(&path))?;
    let report = match ReportLog::open(&path, "") {
        // A damaged report of an earlier attempt must not end the workers one after the other.
        Err(error @ ReportError::NotAReport { .. }) => {
            tracing::error!(
                run = claim.run,
                chunk = claim.number,
                error = with_causes(&error),
                "the chunk begins anew"
            );
            tokio::fs::write(&path, b"").await.map_err(ReportError::io(&path))?;
            ReportLog::open(&path, "")?
        }
        opened => opened?,
    };
    Ok((folder, report))
}

/// The complete lines of a report that is being written.
async fn whole_lines(report: &Path) -> Result<Vec<u8>, RunError> {
    let mut bytes = tokio::fs::read(report).await.map_err(ReportError::io(report))?;
    bytes.truncate(bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1));
    Ok(bytes)
}

/// Ignores the progress of a chunk: the command that follows the run shows it.
struct Silent;

impl Observer for Silent {}
