//! Executes planned objects concurrently, with bounded memory and workers: check, fetch, process, store, report.

use super::locations::Locations;
use super::planner::{Action, Task};
use super::processor::{ProcessError, Processor};
use super::progress::{Counters, ListingTotal, Observer};
use super::report_log::ReportLog;
use super::report_row::{ReportRow, StageTimes, Status, milliseconds, now};
use super::result_metadata::find_completed;
use super::run_error::RunError;
use super::stop_signal::StopSignal;
use super::summary::Summary;
use super::transfer::{fetch, store};
use futures_util::stream::{Stream, StreamExt};
use std::pin::pin;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Objects in flight in addition to those being processed: being checked, fetched, queued, or stored. Enough to hide a
/// latency of 100 ms behind work of 3 ms.
const PREFETCH: usize = 32;

/// Memory for sources, fetched or being fetched. At the bound no further download begins.
const SOURCE_KIB: u32 = 64 << 10;

/// Memory for results that wait to be stored. At the bound workers wait.
const RESULT_KIB: u32 = 128 << 10;

/// Interval of [`Observer::tick`].
const TICK: Duration = Duration::from_millis(200);

/// The locations, the processor and the bounds of an execution.
#[derive(Debug)]
pub(super) struct Work<'a, P> {
    pub(super) locations: &'a Locations,
    /// Maximum size of a source in bytes.
    pub(super) max_bytes: u64,
    /// Pictures processed concurrently; at least 1.
    pub(super) jobs: usize,
    pub(super) processor: &'a P,
    pub(super) report: &'a ReportLog,
    /// Ends the execution early: pictures in progress are finished, no other is started.
    pub(super) stop: &'a StopSignal,
}

/// The work, and the bounds that its concurrent tasks share.
pub(super) struct Executor<'a, P> {
    work: Work<'a, P>,
    workers: Semaphore,
    source_memory: Semaphore,
    result_memory: Semaphore,
    /// Set by `stop`, or after a fatal error.
    halt: StopSignal,
}

/// The outcome of one object.
enum Outcome {
    /// Its row is in the report.
    Reported { row: Box<ReportRow>, already_done: bool },
    /// The run stopped before its processing began.
    Cancelled,
    /// The run cannot continue.
    Fatal(RunError),
}

impl<'a, P: Processor> Executor<'a, P> {
    pub(super) fn new(work: Work<'a, P>) -> Self {
        Self {
            workers: Semaphore::new(work.jobs),
            source_memory: Semaphore::new(SOURCE_KIB as usize),
            result_memory: Semaphore::new(RESULT_KIB as usize),
            halt: StopSignal::default(),
            work,
        }
    }

    /// Waits until no further object is started.
    pub(super) async fn halted(&self) {
        self.halt.requested().await;
    }

    /// Executes `actions` to their end. `counting` resolves to their number, or `None` if they cannot be counted. Dropping the
    /// future cancels everything at once.
    pub(super) async fn execute(
        &self,
        actions: impl Stream<Item = object_store::Result<Action>>,
        counting: impl Future<Output = Option<ListingTotal>>,
        counters: &Counters,
        observer: &mut impl Observer,
    ) -> (Summary, Option<RunError>) {
        let started = Instant::now();
        let outcomes = actions.map(|action| self.handle(action)).buffer_unordered(self.work.jobs + PREFETCH);
        let mut outcomes = pin!(outcomes);
        let mut counting = pin!(counting);
        let mut is_counted = false;
        let mut ticks = tokio::time::interval(TICK);
        let mut summary = Summary::default();
        let mut fatal = None;
        let mut stopping = pin!(async {
            self.work.stop.requested().await;
            self.halt.request();
            std::future::pending::<()>().await;
        });
        loop {
            let outcome = tokio::select! {
                biased;
                () = &mut stopping => continue,
                outcome = outcomes.next() => outcome,
                counted = &mut counting, if !is_counted => {
                    is_counted = true;
                    if let Some(counted) = counted {
                        observer.total(counted);
                    }
                    continue;
                }
                _ = ticks.tick() => {
                    observer.tick(counters);
                    continue;
                }
            };
            match outcome {
                None => break,
                Some(Outcome::Reported { row, already_done }) => {
                    counters.count(&row, already_done);
                    summary.count_failure(&row);
                    if !already_done {
                        observer.finished(&row, counters);
                    }
                }
                Some(Outcome::Cancelled) => {}
                Some(Outcome::Fatal(error)) => {
                    // After a failed listing the objects that were listed before are processed.
                    if !matches!(error, RunError::Listing { .. }) {
                        self.halt.request();
                    }
                    fatal.get_or_insert(error);
                }
            }
        }
        summary.stopped = self.work.stop.is_requested();
        (summary.with_counts(counters, started.elapsed()), fatal)
    }

    async fn handle(&self, action: object_store::Result<Action>) -> Outcome {
        let task = match action {
            Ok(Action::Process(task)) => *task,
            Ok(Action::Reject(row)) => return self.report(*row, false).await,
            Ok(Action::Ignore | Action::AlreadyDone | Action::LimitReached) => return Outcome::Cancelled,
            Err(error) => {
                let place = self.work.locations.source.address_prefix();
                return Outcome::Fatal(RunError::Listing { place, error });
            }
        };
        let Task { meta, output, mut row } = task;
        let Locations { source, destination, .. } = self.work.locations;
        let size = kib(meta.size, SOURCE_KIB);
        // Safe to drop at any point.
        let prepare = async {
            if destination.has_attributes
                && let Some(row) = find_completed(destination, &output, &row).await
            {
                return Err(Some(row));
            }
            let Ok(memory) = self.source_memory.acquire_many(size).await else { return Err(None) };
            let began = Instant::now();
            let fetched = fetch(&*source.store, &meta, self.work.max_bytes).await;
            let took = milliseconds(began.elapsed());
            let Ok(worker) = self.workers.acquire().await else { return Err(None) };
            Ok((fetched, took, memory, worker))
        };
        let prepared = tokio::select! {
            biased;
            () = self.halted() => return Outcome::Cancelled,
            prepared = prepare => prepared,
        };
        let (fetched, download, memory, worker) = match prepared {
            Ok(prepared) => prepared,
            Err(Some(row)) => return self.report(row, true).await,
            Err(None) => return Outcome::Cancelled,
        };
        let fetched = match fetched {
            Ok(fetched) => fetched,
            Err(failure) => {
                drop((memory, worker));
                return self.report(row.failed(failure), false).await;
            }
        };
        row.source_etag = fetched.version;
        row.source_bytes = fetched.bytes.len() as u64;
        let result = match self.work.processor.process(fetched.bytes).await {
            Ok(result) => result,
            Err(ProcessError::Rejected(failure)) => {
                drop((memory, worker));
                return self.report(row.failed(failure), false).await;
            }
            Err(ProcessError::Fatal(why)) => return Outcome::Fatal(RunError::Fatal(why)),
        };
        drop(memory);
        let Ok(memory) = self.result_memory.acquire_many(kib(result.bytes.len() as u64, RESULT_KIB)).await else {
            return Outcome::Cancelled;
        };
        drop(worker);
        let began = Instant::now();
        let stored = store(destination, &output, &result, &row).await;
        let row = match stored {
            Err(failure) => row.failed(failure),
            Ok(()) => ReportRow {
                status: Status::Done,
                output_bytes: Some(result.bytes.len() as u64),
                width: Some(result.width),
                height: Some(result.height),
                uncertainty: result.uncertainty,
                milliseconds: Some(StageTimes { download, upload: milliseconds(began.elapsed()), ..result.stages }),
                finished_at: now(),
                ..row
            },
        };
        drop((result, memory));
        self.report(row, false).await
    }

    async fn report(&self, row: ReportRow, already_done: bool) -> Outcome {
        match self.work.report.append(&row).await {
            Ok(()) => Outcome::Reported { row: Box::new(row), already_done },
            Err(error) => Outcome::Fatal(error.into()),
        }
    }
}

/// Size in KiB, between 1 and `max`.
fn kib(bytes: u64, max: u32) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(max).clamp(1, max)
}
