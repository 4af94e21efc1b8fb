//! A bulk run: lists, fetches, processes, stores and reports objects concurrently, with bounded memory and workers.

use super::listing::count_objects;
use super::locations::Locations;
use super::options::RunOptions;
use super::planner::{Action, Planner, Task};
use super::processor::{ProcessError, Processor};
use super::progress::{Counters, Observer, add, get};
use super::report_log::ReportLog;
use super::report_row::{ReportRow, StageTimes, Status, milliseconds, now};
use super::result_metadata::find_completed;
use super::run_error::RunError;
use super::stop_signal::StopSignal;
use super::transfer::{fetch, store};
use futures_util::stream::StreamExt;
use std::collections::BTreeMap;
use std::future::ready;
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

/// Totals of a finished run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Objects processed in this run.
    pub done: u64,
    /// Objects without a result.
    pub failed: u64,
    /// Objects that were done before.
    pub skipped: u64,
    /// Listed objects that are excluded, or in another shard.
    pub ignored: u64,
    /// Bytes of the sources that were read.
    pub bytes_in: u64,
    /// Bytes of the results that were stored.
    pub bytes_out: u64,
    /// Failed objects by code.
    pub failures: BTreeMap<String, u64>,
    /// Duration of the run.
    pub elapsed: Duration,
    /// Whether it ended early by its stop signal.
    pub stopped: bool,
}

/// A run and everything it needs.
#[derive(Debug)]
pub struct Run<'a, P> {
    /// Source and destination.
    pub locations: &'a Locations,
    /// Filter, naming and limits.
    pub options: &'a RunOptions,
    /// Pictures processed concurrently; at least 1.
    pub jobs: usize,
    /// The per-picture work.
    pub processor: &'a P,
    /// The report.
    pub report: &'a ReportLog,
    /// Ends the run early: pictures in progress are finished, no other is started.
    pub stop: &'a StopSignal,
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

/// Shared state of a run's concurrent tasks.
struct Context<'a, P> {
    run: &'a Run<'a, P>,
    workers: Semaphore,
    source_memory: Semaphore,
    result_memory: Semaphore,
    /// Set by `run.stop`, or after a fatal error.
    halt: StopSignal,
}

impl<P: Processor> Run<'_, P> {
    /// Runs to the end. Dropping the future cancels everything at once.
    pub async fn run(&self, observer: &mut impl Observer) -> (Summary, Option<RunError>) {
        let started = Instant::now();
        let counters = Counters::default();
        let context = Context {
            run: self,
            workers: Semaphore::new(self.jobs),
            source_memory: Semaphore::new(SOURCE_KIB as usize),
            result_memory: Semaphore::new(RESULT_KIB as usize),
            halt: StopSignal::default(),
        };
        let source = &self.locations.source;
        let mut planner = Planner::new(self.locations, self.options, self.report.previous_runs());
        let listing = source.store.list(Some(&source.prefix)).take_until(context.halt.requested());
        let outcomes = listing
            .map(|listed| {
                let action = listed.map(|meta| planner.classify(meta));
                match &action {
                    Ok(Action::Ignore) => add(&counters.ignored, 1),
                    Ok(Action::AlreadyDone) => add(&counters.skipped, 1),
                    Ok(Action::Reject(_) | Action::Process(_) | Action::LimitReached) | Err(_) => {}
                }
                action
            })
            .take_while(|action| ready(!matches!(action, Ok(Action::LimitReached))))
            .filter(|action| ready(!matches!(action, Ok(Action::Ignore | Action::AlreadyDone))))
            .map(|action| context.execute(action))
            .buffer_unordered(self.jobs + PREFETCH);
        let mut outcomes = pin!(outcomes);
        let mut counting = pin!(count_objects(self.locations, self.options));
        let mut is_counted = false;
        let mut ticks = tokio::time::interval(TICK);
        let mut summary = Summary::default();
        let mut fatal = None;
        let mut stopping = pin!(async {
            self.stop.requested().await;
            context.halt.request();
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
                    observer.tick(&counters);
                    continue;
                }
            };
            match outcome {
                None => break,
                Some(Outcome::Reported { row, already_done }) => {
                    match row.status {
                        Status::Done if already_done => add(&counters.skipped, 1),
                        Status::Done => {
                            add(&counters.done, 1);
                            add(&counters.bytes_in, row.source_bytes);
                            add(&counters.bytes_out, row.output_bytes.unwrap_or_default());
                        }
                        Status::Failed => {
                            add(&counters.failed, 1);
                            *summary.failures.entry(row.code.clone().unwrap_or_default()).or_default() += 1;
                        }
                    }
                    if !already_done {
                        observer.finished(&row, &counters);
                    }
                }
                Some(Outcome::Cancelled) => {}
                Some(Outcome::Fatal(error)) => {
                    // A failed listing ends by itself, and the objects listed before are valid.
                    if !matches!(error, RunError::Listing { .. }) {
                        context.halt.request();
                    }
                    fatal.get_or_insert(error);
                }
            }
        }
        summary.done = counters.done();
        summary.failed = counters.failed();
        summary.skipped = counters.skipped();
        summary.ignored = get(&counters.ignored);
        summary.bytes_in = get(&counters.bytes_in);
        summary.bytes_out = get(&counters.bytes_out);
        summary.elapsed = started.elapsed();
        summary.stopped = self.stop.is_requested();
        (summary, fatal)
    }
}

impl<P: Processor> Context<'_, P> {
    async fn execute(&self, action: object_store::Result<Action>) -> Outcome {
        let task = match action {
            Ok(Action::Process(task)) => *task,
            Ok(Action::Reject(row)) => return self.report(*row, false).await,
            Ok(Action::Ignore | Action::AlreadyDone | Action::LimitReached) => return Outcome::Cancelled,
            Err(error) => {
                let place = self.run.locations.source.address_prefix();
                return Outcome::Fatal(RunError::Listing { place, error });
            }
        };
        let Task { meta, output, mut row } = task;
        let Locations { source, destination, .. } = self.run.locations;
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
            let fetched = fetch(&*source.store, &meta, self.run.options.max_bytes).await;
            let took = milliseconds(began.elapsed());
            let Ok(worker) = self.workers.acquire().await else { return Err(None) };
            Ok((fetched, took, memory, worker))
        };
        let prepared = tokio::select! {
            biased;
            () = self.halt.requested() => return Outcome::Cancelled,
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
        let result = match self.run.processor.process(fetched.bytes).await {
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
        match self.run.report.append(&row).await {
            Ok(()) => Outcome::Reported { row: Box::new(row), already_done },
            Err(error) => Outcome::Fatal(error.into()),
        }
    }
}

/// Size in KiB, between 1 and `max`.
fn kib(bytes: u64, max: u32) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(max).clamp(1, max)
}
