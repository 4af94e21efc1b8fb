//! Claims jobs and runs them with bounded concurrency; accounts take turns.
//!
//! Each job has two tasks. One executes it and stores the result; the other supervises: it saves the progress, and
//! aborts the first when the job was cancelled, claimed by another daemon or makes no progress, when disk space runs
//! out, or when the daemon stops. A panic of the worker is an error of its job.
//!
//! A heartbeat renews the leases of the running jobs on a database. A daemon that was cut off from it until its leases ended may
//! run a job that another one has claimed. Both store the result under one name: either is a result of that clip, and only the
//! end by the newest claim is recorded and billed.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::deps::{WorkError, WorkOutput};
use super::error::JobsError;
use super::running_jobs::JobHandle;
use super::shared::{Shared, stopped};
use super::{Job, JobError, JobResult, JobState, RESULT_SECONDS, UnixSeconds, checkpoints};
use crate::account::price::{Estimate, Units};
use crate::store::{ChangeError, ClaimedJob, JOB_LEASE, JobChange, JobEnd, JobHeartbeat, Renewal, Usage};
use crate::telemetry::{metrics, with_causes};

/// The error code for a fault of this service.
const INTERNAL: &str = "internal_error";

/// Failed attempts to record the end of a job, each of which may have recorded it, before it is given up.
const MAX_FAILURES: u32 = 3;

/// Runs jobs until `stop`; returns when all workers have ended.
pub(super) async fn run(shared: &Arc<Shared>, mut stop: watch::Receiver<bool>) {
    let (running, mut ended) = watch::channel(false);
    let jobs = async {
        run_jobs(shared, &mut stop).await;
        running.send_replace(true);
    };
    let heartbeats = async {
        loop {
            tokio::select! {
                () = stopped(&mut ended) => return,
                () = sleep(shared.tuning.heartbeat) => renew(shared).await,
            }
        }
    };
    tokio::join!(jobs, heartbeats);
}

async fn run_jobs(shared: &Arc<Shared>, stop: &mut watch::Receiver<bool>) {
    let mut tasks = JoinSet::new();
    while !*stop.borrow() {
        let mut pause = shared.deps.store.is_shared().then_some(shared.tuning.poll);
        while tasks.len() < shared.tuning.parallel {
            if let Err(JobsError::DiskSpace(reason)) = shared.check_space().await {
                tracing::warn!(%reason, "no job is started until there is disk space");
                pause = Some(shared.tuning.pause);
                break;
            }
            match shared.deps.store.claim_job(shared.now(), &shared.running.ids()).await {
                Ok(Some(claimed)) => {
                    let handle = shared.running.enter(&claimed);
                    drop(tasks.spawn(supervise(Arc::clone(shared), claimed, handle, stop.clone())));
                }
                Ok(None) => break,
                Err(error) => {
                    tracing::error!(error = with_causes(&error), "no job can be started");
                    pause = Some(shared.tuning.pause);
                    break;
                }
            }
        }
        tokio::select! {
            () = stopped(stop) => {}
            Some(_) = tasks.join_next() => {}
            () = shared.queued.notified() => {}
            () = sleep(pause.unwrap_or_default()), if pause.is_some() => {}
        }
    }
    while tasks.join_next().await.is_some() {}
}

/// How long a renewal may take.
const RENEWAL_TIMEOUT: Duration = Duration::from_secs(JOB_LEASE.as_secs() / 3);

/// Renews the leases of the running jobs, and ends those that are not this daemon's any more.
async fn renew(shared: &Shared) {
    let running = shared.running.heartbeats();
    // A connection that hangs would cost the leases: the next heartbeat takes another one.
    let renewed = timeout(RENEWAL_TIMEOUT, shared.deps.store.renew_jobs(&running)).await;
    let Ok(renewed) = renewed else {
        tracing::warn!("the database does not renew the leases of jobs in time");
        return;
    };
    match renewed {
        Ok(renewed) => {
            for (JobHeartbeat { id, attempt, .. }, renewal) in running.iter().zip(renewed) {
                let Some(handle) = shared.running.get_attempt(id, *attempt) else { continue };
                match renewal {
                    Renewal::Kept => {}
                    Renewal::Ended => handle.cancel.notify_one(),
                    Renewal::Lost => handle.lost.notify_one(),
                }
            }
        }
        // The work goes on. Whether another daemon has the job afterwards is up to the lease.
        Err(error) => tracing::warn!(error = with_causes(&error), "the leases of jobs cannot be renewed"),
    }
    if let Ok(queued) = shared.deps.store.count_queued(running.len()).await {
        metrics::jobs_unfinished(queued, running.len());
    }
}

/// How the execution of a job ended, or why it did not begin.
enum Ended {
    /// By itself.
    Completed(Result<StoredOutput, WorkError>),
    /// It was cancelled, and its end is recorded.
    Cancelled,
    /// Another daemon has claimed it, or may have.
    Lost,
    /// The daemon stops.
    Stopped,
    /// No progress for too long.
    Stalled,
    /// It panicked.
    Panicked,
    /// The disk space of the jobs is used up.
    NoDiskSpace,
}

/// A result that is stored and not yet recorded.
struct StoredOutput {
    output: WorkOutput,
    object: String,
    bytes: u64,
}

/// Takes a claimed job to its end.
async fn supervise(shared: Arc<Shared>, claimed: ClaimedJob, handle: JobHandle, mut stop: watch::Receiver<bool>) {
    let ClaimedJob { job, attempt } = claimed;
    let (id, started_at) = (job.id.as_str(), Instant::now());
    tracing::info!(job = id, key = job.key_id, "a job starts");
    let outcome = match execute(&shared, &job, &handle, &mut stop).await {
        Ended::Completed(outcome) => Some(outcome),
        Ended::Stalled => Some(Err(internal("the work on the job came to a standstill"))),
        Ended::Panicked => Some(Err(internal("the work on the job ended unexpectedly"))),
        Ended::NoDiskSpace => Some(Err(WorkError::no_disk_space())),
        Ended::Stopped => {
            tracing::info!(job = id, "the job was interrupted and resumes at the next start, or on another daemon");
            release(&shared, &job, attempt, &handle).await;
            None
        }
        Ended::Cancelled => {
            tracing::info!(job = id, "the job was cancelled");
            shared.clear(&job).await;
            None
        }
        Ended::Lost => {
            leave(&shared, &job).await;
            None
        }
    };
    if let Some(outcome) = outcome {
        end(&shared, &job, attempt, &handle, outcome, started_at, &mut stop).await;
    }
    shared.running.remove(&job.id, attempt);
}

/// Ends a job with the outcome of its work.
async fn end(
    shared: &Shared,
    job: &Job,
    attempt: i64,
    handle: &JobHandle,
    outcome: Result<StoredOutput, WorkError>,
    started_at: Instant,
    stop: &mut watch::Receiver<bool>,
) {
    let end = match outcome {
        Ok(stored) => job_end(job, stored, shared.now()),
        Err(error) => {
            if error.internal {
                tracing::error!(job = job.id, %error, "a job failed");
                // Before its end is recorded: on a full disk, recording it needs the space. If the daemon dies in
                // between, the job fails at the next start, because its clip is missing, or runs again with the clip in
                // the result store.
                shared.folders.remove(&job.id).await;
            }
            let WorkError { code, message, internal: _ } = error;
            let error = JobError { code: code.to_owned(), message };
            JobEnd::Failed { error, progress: handle.progress.get() }
        }
    };
    record_end(shared, job, attempt, handle, end, started_at.elapsed(), stop).await;
}

/// Ends this daemon's part in a job that another one has claimed, or may have: nothing of it is left here.
async fn leave(shared: &Shared, job: &Job) {
    tracing::warn!(job = job.id, "the job is not this daemon's any more");
    shared.folders.remove(&job.id).await;
}

/// Returns a job to the queue, if it was given up before its end.
async fn release(shared: &Shared, job: &Job, attempt: i64, handle: &JobHandle) {
    let change = JobChange::Requeue { progress: handle.progress.get(), at: shared.now() };
    match shared.deps.store.change_job(&job.id, Some(attempt), change).await {
        Ok(_) if shared.deps.store.is_shared() => shared.folders.remove(&job.id).await,
        Ok(_) => {}
        // Cancelled at the last moment.
        Err(ChangeError::JobState { .. } | ChangeError::NoSuchJob(_)) => shared.clear(job).await,
        Err(ChangeError::JobElsewhere(_)) => leave(shared, job).await,
        // It is claimed again, by a later claim of this process, after its next start, or once its lease has ended.
        Err(error) => {
            tracing::warn!(job = job.id, error = with_causes(&error), "a job could not be put back into the queue")
        }
    }
}

/// Executes a started job until it ends in one of the ways of [`Ended`].
async fn execute(shared: &Arc<Shared>, job: &Job, handle: &JobHandle, stop: &mut watch::Receiver<bool>) -> Ended {
    // From 0, though the progress of the last run is shown: a worker that begins anew is not at a standstill.
    let (reports, mut reported) = watch::channel(0);
    let mut task = WorkerTask(tokio::spawn(work(Arc::clone(shared), job.clone(), reports)));
    let mut progress_at = Instant::now();
    let mut space_at = progress_at + shared.space.check_every();
    let ended = loop {
        tokio::select! {
            biased;
            () = handle.cancel.notified() => break Ended::Cancelled,
            () = handle.lost.notified() => break Ended::Lost,
            () = stopped(stop) => break Ended::Stopped,
            outcome = &mut task.0 => return completed(job, outcome),
            Ok(()) = reported.changed() => {
                let progress = handle.progress.get().max(*reported.borrow_and_update());
                // Saved before it is shown: a restart must not turn it back.
                shared.folders.save_progress(&job.id, progress).await;
                handle.progress.raise(progress);
                progress_at = Instant::now();
            }
            () = sleep_until(space_at) => {
                match shared.check_space().await {
                    Err(JobsError::DiskSpace(reason)) => {
                        tracing::error!(job = job.id, %reason, "the disk space of the jobs is used up");
                        break Ended::NoDiskSpace;
                    }
                    Err(error) => tracing::warn!(error = with_causes(&error), "the disk space of the jobs is not checked"),
                    Ok(()) => {}
                }
                space_at = Instant::now() + shared.space.check_every();
            }
            () = sleep_until(progress_at + shared.tuning.stall) => {
                if !shared.deps.worker.is_waiting() {
                    break Ended::Stalled;
                }
                progress_at = Instant::now();
            }
        }
    };
    task.0.abort();
    match (timeout(shared.tuning.grace, &mut task.0).await, ended) {
        // It completed before the abort.
        (Ok(outcome @ Ok(_)), Ended::Stopped | Ended::Stalled | Ended::NoDiskSpace) => completed(job, outcome),
        (Ok(_), ended) => ended,
        (Err(_), ended) => {
            // Blocking code cannot be stopped from outside; the job ends all the same.
            tracing::error!(job = job.id, "the worker does not stop");
            ended
        }
    }
}

fn completed(job: &Job, outcome: Result<Result<StoredOutput, WorkError>, JoinError>) -> Ended {
    match outcome {
        Ok(outcome) => Ended::Completed(outcome),
        Err(error) => {
            tracing::error!(job = job.id, %error, "the worker panicked");
            Ended::Panicked
        }
    }
}

/// The task of the worker, aborted with its owner.
struct WorkerTask(JoinHandle<Result<StoredOutput, WorkError>>);

impl Drop for WorkerTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn work(shared: Arc<Shared>, job: Job, reports: watch::Sender<u8>) -> Result<StoredOutput, WorkError> {
    let report = move |progress: u8| {
        let raise = |before: &mut u8| {
            let is_progress = progress > *before;
            *before = progress.max(*before);
            is_progress
        };
        reports.send_if_modified(raise);
    };
    checkpoints::fetch_input(&shared, &job).await.map_err(|error| {
        tracing::error!(job = job.id, error = with_causes(&error), "the clip of a job could not be fetched");
        internal("the clip could not be fetched")
    })?;
    let folder = shared.folders.of(&job.id);
    let output = checkpoints::copied_during(&shared, &job, shared.deps.worker.run(&job, &folder, &report)).await?;
    if output.rate_frames == 0 || output.rate_seconds == 0 {
        return Err(internal("the result has no length"));
    }
    let bytes = size_of(&output.file).await?;
    let object = shared.deps.results.put(&job.id, &output.file, output.media_type).await;
    let object = object.map_err(|error| {
        tracing::error!(job = job.id, %error, "a result could not be stored");
        internal("the result could not be stored")
    })?;
    Ok(StoredOutput { output, object, bytes })
}

async fn size_of(file: &Path) -> Result<u64, WorkError> {
    let metadata = tokio::fs::metadata(file).await;
    Ok(metadata.map_err(|error| internal(&format!("the result is missing: {}", error.kind())))?.len())
}

fn internal(message: &str) -> WorkError {
    WorkError { code: INTERNAL, message: message.to_owned(), internal: true }
}

/// The end of a job with a result, with its bill.
fn job_end(job: &Job, stored: StoredOutput, now: UnixSeconds) -> JobEnd {
    let StoredOutput {
        output: WorkOutput { file: _, media_type: _, frames, rate_frames, rate_seconds, warnings },
        object,
        bytes,
    } = stored;
    let expires_at = UnixSeconds(now.0.saturating_add(RESULT_SECONDS));
    let result = JobResult { object: Some(object), bytes, frames, rate_frames, rate_seconds, expires_at };
    let bill = (!job.test).then(|| bill(job.unit_price, &result));
    JobEnd::Done { result, warnings, bill }
}

/// The price of a result, as the estimate for its length, and one image of the quota for each started second.
fn bill(unit_price: u64, result: &JobResult) -> Usage {
    let estimate = Estimate { unit_price, units: Units::Seconds(result.seconds()) };
    let parts = u128::from(result.frames) * u128::from(result.rate_seconds);
    let images = u64::try_from(parts.div_ceil(u128::from(result.rate_frames.max(1)))).unwrap_or(u64::MAX);
    Usage { images, microdollars: estimate.total() }
}

/// Records the end of a job and then deletes its folder. Retried while the store cannot write.
async fn record_end(
    shared: &Shared,
    job: &Job,
    attempt: i64,
    handle: &JobHandle,
    end: JobEnd,
    took: Duration,
    stop: &mut watch::Receiver<bool>,
) {
    let mut failures = 0;
    loop {
        let error = match shared.finish(&job.id, Some(attempt), end.clone()).await {
            Ok(ended) => {
                tracing::info!(
                    job = job.id,
                    state = ended.state.name(),
                    code = ended.error.as_ref().map(|error| error.code.as_str()),
                    took_s = took.as_secs_f64(),
                    "a job ended"
                );
                return clean_up(shared, job, ended.state).await;
            }
            // Cancelled at the last moment, or recorded by an attempt that was reported as failed.
            Err(ChangeError::JobState { state, .. }) if state.is_final() => {
                shared.ended.notify_one();
                return clean_up(shared, job, state).await;
            }
            Err(ChangeError::NoSuchJob(_)) => return shared.clear(job).await,
            Err(ChangeError::JobElsewhere(_) | ChangeError::JobState { .. }) => {
                return leave(shared, job).await;
            }
            Err(error) => error,
        };
        tracing::error!(job = job.id, error = with_causes(&error), "the end of a job cannot be recorded");
        failures += u32::from(matches!(error, ChangeError::Storage(_)));
        let is_transient =
            matches!(error, ChangeError::Unavailable(_) | ChangeError::Interrupted(_) | ChangeError::Storage(_));
        if !is_transient || failures > MAX_FAILURES {
            // An end that is not recorded has not happened: the job runs again.
            return release(shared, job, attempt, handle).await;
        }
        tokio::select! {
            () = stopped(stop) => return release(shared, job, attempt, handle).await,
            () = sleep(shared.tuning.pause) => {}
        }
    }
}

/// Deletes the files of a job that ended.
async fn clean_up(shared: &Shared, job: &Job, state: JobState) {
    match state {
        JobState::Done => shared.clear_input(&job.id).await,
        JobState::Queued | JobState::Processing | JobState::Failed => shared.clear(job).await,
    }
}
