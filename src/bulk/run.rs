//! The run: list, fetch, work, store, note; all at once, within bounds.

use super::failure::Failure;
use super::ledger::{Ledger, LedgerError};
use super::row::{Row, Stages, Status, now};
use super::sieve::{Order, Places, Sieve, Task, Verdict};
use super::survey::{Total, total};
use super::transfer::{fetch, found_done, store};
use bytes::Bytes;
use futures_util::stream::StreamExt;
use std::collections::BTreeMap;
use std::future::ready;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, watch};

/// Objects under way beside those that are worked on: being asked for, fetched, waiting, or stored. Enough to hide 100 ms
/// behind work of 3 ms.
const AHEAD: usize = 32;

/// Sources in memory, fetched or being fetched. At the bound no further download begins.
const FETCHED_KIB: u32 = 64 << 10;

/// Results in memory that wait to be stored. At the bound workers wait.
const STORED_KIB: u32 = 128 << 10;

/// How often a watcher hears of progress when nothing is finished.
const TICK: Duration = Duration::from_millis(200);

/// What is done with a picture.
pub trait Work: Sync {
    /// Makes the result of one picture. No more calls are open at a time than the run has jobs.
    ///
    /// # Errors
    /// See [`Unworked`].
    fn work(&self, picture: Bytes) -> impl Future<Output = Result<Worked, Unworked>> + Send;
}

/// A result.
#[derive(Clone, Debug, PartialEq)]
pub struct Worked {
    /// The file.
    pub bytes: Bytes,
    /// Its media type.
    pub media_type: &'static str,
    /// Its width in pixels.
    pub width: u32,
    /// Its height in pixels.
    pub height: u32,
    /// How unsure the mask is, 0 to 1; nothing where no subject was looked for.
    pub uncertainty: Option<f32>,
    /// Milliseconds of each stage; the transfers are added here.
    pub stages: Stages,
}

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unworked {
    /// This picture cannot be used.
    Refused(Failure),
    /// No picture can: the run ends.
    Broken(String),
}

/// Hears how a run goes.
pub trait Watch {
    /// So many objects are to be looked at; told once, when they have been counted.
    fn total(&mut self, total: Total);

    /// An object has its row.
    fn finished(&mut self, row: &Row, tally: &Tally);

    /// Some time has passed.
    fn tick(&mut self, tally: &Tally);
}

/// A request to stop that can be made and heard anywhere. Clones are one request.
#[derive(Clone, Debug)]
pub struct Stop(Arc<watch::Sender<bool>>);

impl Default for Stop {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }
}

impl Stop {
    /// Asks for it.
    pub fn ask(&self) {
        self.0.send_replace(true);
    }

    /// Whether it has been asked for.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is asked for.
    pub async fn asked(&self) {
        // The sender is ours, so there is no error.
        let _ = self.0.subscribe().wait_for(|asked| *asked).await;
    }
}

/// Counts of a run under way.
#[derive(Debug, Default)]
pub struct Tally {
    skipped: AtomicU64,
    passed: AtomicU64,
    done: AtomicU64,
    failed: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
}

impl Tally {
    /// Objects that were done before.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    /// Objects with a result.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Objects without.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Bytes read and written.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes_in.load(Ordering::Relaxed) + self.bytes_out.load(Ordering::Relaxed)
    }
}

fn add(counter: &AtomicU64, number: u64) {
    counter.fetch_add(number, Ordering::Relaxed);
}

/// What a run did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Objects with a result, made now.
    pub done: u64,
    /// Objects without.
    pub failed: u64,
    /// Objects that were done before.
    pub skipped: u64,
    /// Listed objects that were not asked for, or are another machine's.
    pub passed: u64,
    /// Bytes of the sources that were read.
    pub bytes_in: u64,
    /// Bytes of the results that were stored.
    pub bytes_out: u64,
    /// How many failed for each code.
    pub failures: BTreeMap<String, u64>,
    /// How long it took.
    pub took: Duration,
    /// Whether it ended early because somebody asked.
    pub stopped: bool,
}

/// Why a run could not go on. What was under way is finished and noted.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The place of the sources, or what comes after in it, cannot be listed.
    #[error("cannot list {place}")]
    Listing {
        /// The place.
        place: String,
        /// Why.
        #[source]
        error: object_store::Error,
    },
    /// Nothing can be worked on.
    #[error("{0}")]
    Broken(String),
    /// The report cannot be written.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// Everything a run needs.
#[derive(Debug)]
pub struct Run<'a, W> {
    /// From where to where.
    pub places: &'a Places,
    /// What, and which.
    pub order: &'a Order,
    /// Pictures that are worked on at once; at least 1.
    pub jobs: usize,
    /// What is done with each.
    pub work: &'a W,
    /// The report.
    pub ledger: &'a Ledger,
    /// When to end early: what is worked on is finished, nothing else is begun.
    pub stop: &'a Stop,
}

/// How an object's turn ended.
enum Turn {
    /// With a row, which is in the report.
    Row { row: Box<Row>, found: bool },
    /// Before its work began.
    Abandoned,
    /// The run cannot go on.
    Broken(RunError),
}

/// What the turns of a run share.
struct Shared<'a, W> {
    run: &'a Run<'a, W>,
    workers: Semaphore,
    fetched: Semaphore,
    stored: Semaphore,
    /// Asked for by `run.stop`, or because the run is broken.
    halt: Stop,
}

impl<W: Work> Run<'_, W> {
    /// Does it. Dropping the future ends everything at once.
    pub async fn run(&self, watch: &mut impl Watch) -> (Summary, Option<RunError>) {
        let started = Instant::now();
        let tally = Tally::default();
        let shared = Shared {
            run: self,
            workers: Semaphore::new(self.jobs),
            fetched: Semaphore::new(FETCHED_KIB as usize),
            stored: Semaphore::new(STORED_KIB as usize),
            halt: Stop::default(),
        };
        let Places { from, .. } = self.places;
        let mut sieve = Sieve::new(self.places, self.order, self.ledger.known());
        let listing = from.store.list(Some(&from.prefix)).take_until(shared.halt.asked());
        let turns = listing
            .map(|listed| {
                let verdict = listed.map(|meta| sieve.judge(meta));
                match &verdict {
                    Ok(Verdict::Passed) => add(&tally.passed, 1),
                    Ok(Verdict::Done) => add(&tally.skipped, 1),
                    Ok(Verdict::Refused(_) | Verdict::Task(_) | Verdict::Full) | Err(_) => {}
                }
                verdict
            })
            .take_while(|verdict| ready(!matches!(verdict, Ok(Verdict::Full))))
            .filter(|verdict| ready(!matches!(verdict, Ok(Verdict::Passed | Verdict::Done))))
            .map(|verdict| shared.turn(verdict))
            .buffer_unordered(self.jobs + AHEAD);
        let mut turns = pin!(turns);
        let mut counting = pin!(total(self.places, self.order));
        let mut is_counted = false;
        let mut ticks = tokio::time::interval(TICK);
        let mut summary = Summary::default();
        let mut broken = None;
        let mut stopping = pin!(async {
            self.stop.asked().await;
            shared.halt.ask();
            std::future::pending::<()>().await;
        });
        loop {
            let turn = tokio::select! {
                biased;
                () = &mut stopping => continue,
                turn = turns.next() => turn,
                counted = &mut counting, if !is_counted => {
                    is_counted = true;
                    if let Some(counted) = counted {
                        watch.total(counted);
                    }
                    continue;
                }
                _ = ticks.tick() => {
                    watch.tick(&tally);
                    continue;
                }
            };
            match turn {
                None => break,
                Some(Turn::Row { row, found }) => {
                    match row.status {
                        Status::Done if found => add(&tally.skipped, 1),
                        Status::Done => {
                            add(&tally.done, 1);
                            add(&tally.bytes_in, row.source_bytes);
                            add(&tally.bytes_out, row.output_bytes.unwrap_or_default());
                        }
                        Status::Failed => {
                            add(&tally.failed, 1);
                            *summary.failures.entry(row.code.clone().unwrap_or_default()).or_default() += 1;
                        }
                    }
                    if !found {
                        watch.finished(&row, &tally);
                    }
                }
                Some(Turn::Abandoned) => {}
                Some(Turn::Broken(error)) => {
                    // A listing ends by itself, and what it told of before is good.
                    if !matches!(error, RunError::Listing { .. }) {
                        shared.halt.ask();
                    }
                    broken.get_or_insert(error);
                }
            }
        }
        summary.done = tally.done();
        summary.failed = tally.failed();
        summary.skipped = tally.skipped();
        summary.passed = tally.passed.load(Ordering::Relaxed);
        summary.bytes_in = tally.bytes_in.load(Ordering::Relaxed);
        summary.bytes_out = tally.bytes_out.load(Ordering::Relaxed);
        summary.took = started.elapsed();
        summary.stopped = self.stop.is_asked();
        (summary, broken)
    }
}

impl<W: Work> Shared<'_, W> {
    async fn turn(&self, verdict: object_store::Result<Verdict>) -> Turn {
        let task = match verdict {
            Ok(Verdict::Task(task)) => *task,
            Ok(Verdict::Refused(row)) => return self.noted(*row, false).await,
            Ok(Verdict::Passed | Verdict::Done | Verdict::Full) => return Turn::Abandoned,
            Err(error) => {
                let place = self.run.places.from.place();
                return Turn::Broken(RunError::Listing { place, error });
            }
        };
        let Task { meta, output, mut row } = task;
        let Places { from, to, .. } = self.run.places;
        let size = kib(meta.size, FETCHED_KIB);
        // Nothing is lost when this is dropped.
        let prepare = async {
            if to.has_attributes
                && let Some(row) = found_done(to, &output, &row).await
            {
                return Err(Some(row));
            }
            let Ok(memory) = self.fetched.acquire_many(size).await else { return Err(None) };
            let began = Instant::now();
            let fetched = fetch(&*from.store, &meta, self.run.order.max_bytes).await;
            let took = milliseconds(began.elapsed());
            let Ok(worker) = self.workers.acquire().await else { return Err(None) };
            Ok((fetched, took, memory, worker))
        };
        let prepared = tokio::select! {
            biased;
            () = self.halt.asked() => return Turn::Abandoned,
            prepared = prepare => prepared,
        };
        let (fetched, download, memory, worker) = match prepared {
            Ok(prepared) => prepared,
            Err(Some(row)) => return self.noted(row, true).await,
            Err(None) => return Turn::Abandoned,
        };
        let fetched = match fetched {
            Ok(fetched) => fetched,
            Err(failure) => {
                drop((memory, worker));
                return self.noted(row.failed(failure), false).await;
            }
        };
        row.source_etag = fetched.version;
        row.source_bytes = fetched.bytes.len() as u64;
        let worked = match self.run.work.work(fetched.bytes).await {
            Ok(worked) => worked,
            Err(Unworked::Refused(failure)) => {
                drop((memory, worker));
                return self.noted(row.failed(failure), false).await;
            }
            Err(Unworked::Broken(why)) => return Turn::Broken(RunError::Broken(why)),
        };
        drop(memory);
        let Ok(room) = self.stored.acquire_many(kib(worked.bytes.len() as u64, STORED_KIB)).await else {
            return Turn::Abandoned;
        };
        drop(worker);
        let began = Instant::now();
        let stored = store(to, &output, &worked, &row).await;
        let row = match stored {
            Err(failure) => row.failed(failure),
            Ok(()) => Row {
                status: Status::Done,
                output_bytes: Some(worked.bytes.len() as u64),
                width: Some(worked.width),
                height: Some(worked.height),
                uncertainty: worked.uncertainty,
                milliseconds: Some(Stages { download, upload: milliseconds(began.elapsed()), ..worked.stages }),
                finished_at: now(),
                ..row
            },
        };
        drop((worked, room));
        self.noted(row, false).await
    }

    async fn noted(&self, row: Row, found: bool) -> Turn {
        match self.run.ledger.append(&row).await {
            Ok(()) => Turn::Row { row: Box::new(row), found },
            Err(error) => Turn::Broken(error.into()),
        }
    }
}

/// Units of 1 KiB, at least one and at most all there are.
fn kib(bytes: u64, most: u32) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(most).clamp(1, most)
}

/// In tenths of one.
pub(super) fn milliseconds(took: Duration) -> f64 {
    (took.as_secs_f64() * 10_000.0).round() / 10.0
}
