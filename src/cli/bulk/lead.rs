//! Leads the runs that keys request over HTTP, in a daemon: lists the objects, follows the workers, and writes the report, as the
//! command does for its own runs.
//!
//! A lead is a lease that a heartbeat renews. When the daemon is gone another one claims the lead and continues: it lists what is
//! not queued yet, and collects all report rows again, which stay in the database until the report is written. A daemon that
//! lost its lead stops at the next heartbeat; it may have written the report, which is the same.

use super::report_file::ReportFile;
use super::run_spec::RunSpec;
use super::summary::{complete_report, summary_json};
use crate::bulk::cluster::{EXCLUSION, Enqueued, FollowEnd, Followed, enqueue, follow, listed};
use crate::bulk::{Code, Counters, ListingTotal, Observer, Rate, ReportLog, ReportRow, RunError, StopSignal, Summary};
use crate::cli::exit_code::Failure;
use crate::config::Config;
use crate::jobs::{BulkPlaces, RECORD_SECONDS};
use crate::store::{BULK_LEASE, BulkJobEnd, BulkLead, BulkQueue, BulkRunState, JobError, OpenError};
use crate::telemetry::with_causes;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Runs that a daemon leads at once. A further one waits for the end of one of them, or for another daemon.
const MOST: usize = 8;

/// The pause before the queue is read again where no run is to be led, or the database was away.
const POLL: Duration = Duration::from_secs(1);

/// Several heartbeats may be lost before the lease ends.
const HEARTBEAT: Duration = BULK_LEASE.checked_div(7).expect("not zero");

/// Between two removals of old runs.
const REMOVAL: Duration = Duration::from_secs(60);

/// Largest report that is continued: it is copied to the disk of the daemon, and its rows are read into memory.
const MAX_REPORT_BYTES: u64 = 4 << 30;

/// How long a run that has ended is shown.
const KEPT: Duration = Duration::from_secs(RECORD_SECONDS.unsigned_abs());

/// An estimate beyond it says nothing, and a database has no such dates.
const LONGEST_ESTIMATE: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Leads runs in a daemon.
#[derive(Clone)]
pub(in crate::cli) struct Leader {
    pub(in crate::cli) config: Arc<Config>,
    pub(in crate::cli) queue: BulkQueue,
    /// Gives the runs up, for other daemons.
    pub(in crate::cli) stop: StopSignal,
}

/// What the heartbeat records of a run.
#[derive(Clone, Copy, Debug, Default)]
struct Estimate {
    failed: u64,
    left: Option<Duration>,
}

/// How a lead ended.
enum LeadEnd {
    /// The end of the run is recorded.
    Recorded,
    /// Another daemon leads the run now, or it is paused and without a leader.
    Lost,
    /// The daemon stops.
    Stopped,
    /// This daemon leaves the run to others, for this reason.
    Excluded(String),
    /// It failed, and may succeed later.
    Later(String),
}

/// Why a run cannot be led to its end.
enum Trouble {
    /// See [`LeadEnd::Excluded`].
    Excluded(String),
    /// See [`LeadEnd::Later`].
    Later(String),
    /// The job ends with this error, and its run is kept.
    Failed(JobError),
}

impl Leader {
    /// Leads runs, and removes old ones, until the stop signal.
    pub(in crate::cli) async fn run(self) {
        tokio::join!(self.lead_runs(), self.remove_old_runs());
    }

    async fn remove_old_runs(&self) {
        while !self.stop.is_requested() {
            if let Err(error) = self.queue.remove_old_jobs(KEPT).await {
                tracing::warn!(error = with_causes(&error), "old bulk runs cannot be removed");
            }
            tokio::select! {
                () = self.stop.requested() => {}
                () = sleep(REMOVAL) => {}
            }
        }
    }

    async fn lead_runs(&self) {
        let (mut leads, mut excluded) = (JoinSet::new(), Vec::new());
        let mut is_away = false;
        while !self.stop.is_requested() {
            excluded.retain(|(_, since): &(String, Instant)| since.elapsed() < EXCLUSION);
            match self.claim(leads.len(), &excluded).await {
                Ok(Some(lead)) => {
                    let leader = self.clone();
                    leads.spawn(async move { leader.lead(lead).await });
                    continue;
                }
                Ok(None) => is_away = false,
                Err(error) if !std::mem::replace(&mut is_away, true) => {
                    tracing::warn!(error = with_causes(&error), "bulk runs cannot be led");
                }
                Err(_) => {}
            }
            tokio::select! {
                () = self.stop.requested() => {}
                Some(ended) = leads.join_next(), if !leads.is_empty() => {
                    excluded.extend(ended.ok().flatten().map(|id| (id, Instant::now())));
                }
                () = sleep(POLL) => {}
            }
        }
        while leads.join_next().await.is_some() {}
    }

    /// The lead of a run, unless there are `leading` already.
    async fn claim(&self, leading: usize, excluded: &[(String, Instant)]) -> Result<Option<BulkLead>, OpenError> {
        if leading >= MOST {
            return Ok(None);
        }
        let excluded: Vec<_> = excluded.iter().map(|(id, _)| id.clone()).collect();
        self.queue.lead(rand::random(), &excluded).await
    }

    /// Leads a run to its end; its id where it is left to other daemons.
    async fn lead(&self, lead: BulkLead) -> Option<String> {
        tracing::info!(run = lead.id, "this daemon leads the run");
        let estimate = Arc::<Mutex<Estimate>>::default();
        // A task of its own, so that the lease does not wait for the work; it ends with this one.
        let mut heartbeats = JoinSet::new();
        heartbeats.spawn(self.clone().send_heartbeats(lead.clone(), Arc::clone(&estimate)));
        let end = tokio::select! {
            biased;
            end = self.lead_to_end(&lead, &estimate) => end,
            _ = heartbeats.join_next() => LeadEnd::Lost,
        };
        drop(heartbeats);
        match end {
            LeadEnd::Recorded => tracing::info!(run = lead.id, "the run has ended"),
            LeadEnd::Lost => {
                tracing::info!(run = lead.id, "the run is paused, or another daemon leads it or has ended it");
            }
            LeadEnd::Later(reason) => {
                tracing::warn!(run = lead.id, reason, "the run is led again");
                sleep(POLL).await;
                self.release(&lead).await;
            }
            LeadEnd::Stopped => self.release(&lead).await,
            LeadEnd::Excluded(reason) => {
                tracing::warn!(run = lead.id, reason, "this daemon leaves the run to others");
                self.release(&lead).await;
                return Some(lead.id);
            }
        }
        None
    }

    async fn lead_to_end(&self, lead: &BulkLead, estimate: &Mutex<Estimate>) -> LeadEnd {
        let end = match self.report(lead, estimate).await {
            Ok(Some(end)) => end,
            Ok(None) => return LeadEnd::Stopped,
            Err(Trouble::Excluded(reason)) => return LeadEnd::Excluded(reason),
            Err(Trouble::Later(reason)) => return LeadEnd::Later(reason),
            Err(Trouble::Failed(error)) => {
                tracing::error!(run = lead.id, code = error.code, reason = error.message, "the run failed");
                let Estimate { failed, .. } = *estimate.lock().unwrap_or_else(PoisonError::into_inner);
                BulkJobEnd { summary: None, failed, error: Some(error) }
            }
        };
        match self.queue.end_job(lead, &end).await {
            Ok(true) => LeadEnd::Recorded,
            Ok(false) => LeadEnd::Lost,
            Err(error) => LeadEnd::Later(with_causes(&error)),
        }
    }

    /// Lists and follows a run and writes its report; nothing where the daemon stops.
    async fn report(&self, lead: &BulkLead, estimate: &Mutex<Estimate>) -> Result<Option<BulkJobEnd>, Trouble> {
        let known = listed(&self.queue, &lead.id).await?;
        // A run that is cancelled ends also where this version cannot read it.
        if let Some(run) = known.as_ref().filter(|run| run.state != BulkRunState::Cancelled) {
            RunSpec::read(&run.spec).map_err(|error| Trouble::Excluded(error.to_string()))?;
        }
        let place = self.report_place(lead).await?;
        let no_report = |error: &Failure| report_failed(lead, with_causes(&**error));
        let report_file = ReportFile::confined(&place).map_err(|error| no_report(&error))?;
        if report_file.object_bytes().await.map_err(|error| no_report(&error))? > MAX_REPORT_BYTES {
            let message = format!("the report {} has more than 4 GiB; name another one", lead.report);
            return Err(failed(Code::PayloadTooLarge, message));
        }
        let path = report_file.open().await.map_err(|error| no_report(&error))?;
        let report = blocking(move || ReportLog::open(&path, "")).await?.map_err(|error| no_report(&error.into()))?;
        let enqueued = match known {
            Some(run) => Enqueued::from(&run),
            None => self.list(lead, &report).await?,
        };
        if !enqueued.is_complete {
            return Ok(None);
        }
        let mut progress = Progress { run: &lead.id, estimate, rate: Rate::default(), total: enqueued.objects };
        let followed = follow(&self.queue, &lead.id, &report, &self.stop, &mut progress).await;
        let Followed { summary, end } = followed.map_err(|error| trouble(lead, error))?;
        let summary = Summary { skipped: summary.skipped + enqueued.skipped, ignored: enqueued.ignored, ..summary };
        let error = match end {
            FollowEnd::Left => return Ok(None),
            FollowEnd::Cancelled => Some(("cancelled".to_owned(), "the run was cancelled".to_owned())),
            FollowEnd::Finished if summary.is_empty() => {
                let message = format!("there is no picture in {}", lead.source);
                Some((Code::NotFound.name().to_owned(), message))
            }
            FollowEnd::Finished => None,
        };
        let totals = complete_report(report, &report_file).await.map_err(|error| no_report(&error))?;
        Ok(Some(BulkJobEnd {
            summary: Some(summary_json(&summary, &totals, &report_file).to_string()),
            failed: summary.failed,
            error: error.map(|(code, message)| JobError { code, message }),
        }))
    }

    /// Queues the objects of a run that are not queued yet.
    async fn list(&self, lead: &BulkLead, report: &ReportLog) -> Result<Enqueued, Trouble> {
        let run = self.queue.run(&lead.id).await?;
        let run = run.ok_or_else(|| failed(Code::InternalError, "the run is not in the queue any more"))?;
        let config = Arc::clone(&self.config);
        // Reads weights, and looks at folders.
        let prepare = move || {
            let excluded = |error: Failure| Trouble::Excluded(with_causes(&*error));
            let spec = RunSpec::of(&run).map_err(excluded)?;
            let locations = spec.locations(&run).map_err(|error| failed(Code::UpstreamFailed, error.to_string()))?;
            let options = spec.options(&run, &config).map_err(excluded)?;
            Ok::<_, Trouble>((run, locations, options))
        };
        let (run, locations, options) = blocking(prepare).await??;
        let enqueued = enqueue(&self.queue, &run, &locations, &options, report, &self.stop).await;
        enqueued.map_err(|error| trouble(lead, error))
    }

    /// The place of a run's report with symbolic links resolved, once it is checked that the account may still use the places
    /// of the run, as its request was checked.
    async fn report_place(&self, lead: &BulkLead) -> Result<String, Trouble> {
        let (config, lead) = (Arc::clone(&self.config), lead.clone());
        let checked = blocking(move || {
            let places = BulkPlaces { from: &lead.source, to: &lead.destination, report: Some(&lead.report) };
            if let Some(param) = config.jobs.refused_bulk_place(&lead.account, &places) {
                return Err(param);
            }
            config.jobs.resolved_bulk_places(&lead.account, &places)?.report.ok_or("report")
        });
        checked.await?.map_err(|param| {
            let message = format!("the operator of this service does not allow the place of `{param}` to the account");
            failed(Code::Forbidden, message)
        })
    }

    /// Renews the lease and records the estimate, again and again. Returns when this daemon does not lead the run any more.
    async fn send_heartbeats(self, lead: BulkLead, estimate: Arc<Mutex<Estimate>>) {
        loop {
            sleep(HEARTBEAT).await;
            let Estimate { failed, left } = *estimate.lock().unwrap_or_else(PoisonError::into_inner);
            match self.queue.renew_lead(&lead, failed, left).await {
                Ok(true) => {}
                Ok(false) => return,
                // The work goes on. Whether another daemon leads the run afterwards is up to the lease.
                Err(error) => tracing::warn!(error = with_causes(&error), "a heartbeat failed"),
            }
        }
    }

    async fn release(&self, lead: &BulkLead) {
        if let Err(error) = self.queue.release_lead(lead).await {
            tracing::warn!(run = lead.id, error = with_causes(&error), "the run waits for the end of its lease");
        }
    }
}

impl From<OpenError> for Trouble {
    fn from(error: OpenError) -> Self {
        Self::Later(with_causes(&error))
    }
}

/// Runs `work` on a thread that may block.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Trouble> {
    let worked = tokio::task::spawn_blocking(work).await;
    worked.map_err(|error| failed(Code::InternalError, error.to_string()))
}

fn failed(code: Code, message: impl Into<String>) -> Trouble {
    Trouble::Failed(JobError { code: code.name().to_owned(), message: message.into() })
}

/// The report cannot be read or written; why is for the log.
fn report_failed(lead: &BulkLead, cause: String) -> Trouble {
    tracing::error!(run = lead.id, cause, "the report cannot be read or written");
    failed(Code::UpstreamFailed, format!("the report {} cannot be read or written", lead.report))
}

fn trouble(lead: &BulkLead, error: RunError) -> Trouble {
    match error {
        RunError::Queue(error) => error.into(),
        // Cancelled while it was listed, or led by another daemon.
        RunError::Superseded(_) | RunError::Gone(_) => Trouble::Later(error.to_string()),
        RunError::Report(error) => report_failed(lead, with_causes(&error)),
        RunError::Fatal(message) => failed(Code::InternalError, message),
        RunError::Listing { .. } => {
            tracing::error!(run = lead.id, cause = with_causes(&error), "the source cannot be listed");
            failed(Code::UpstreamFailed, error.to_string())
        }
    }
}

/// Estimates the end of a run, for the heartbeat.
struct Progress<'a> {
    run: &'a str,
    estimate: &'a Mutex<Estimate>,
    rate: Rate,
    total: u64,
}

impl Observer for Progress<'_> {
    fn total(&mut self, total: ListingTotal) {
        self.total = total.objects;
    }

    fn finished(&mut self, _: &ReportRow, _: &Counters) {}

    fn tick(&mut self, counters: &Counters) {
        let processed = counters.done() + counters.failed();
        self.rate.update(processed);
        let left = self.rate.time_for(self.total.saturating_sub(processed + counters.skipped()));
        let estimate = Estimate { failed: counters.failed(), left: left.filter(|left| *left < LONGEST_ESTIMATE) };
        *self.estimate.lock().unwrap_or_else(PoisonError::into_inner) = estimate;
    }

    fn notice(&mut self, text: &str) {
        tracing::info!(run = self.run, "{text}");
    }
}
