//! Does the jobs, so many at once; the accounts take turns.
//!
//! Each job has two tasks: one works and keeps the result; the other one watches it, saves how far it is, and ends it
//! when it was cancelled, hangs, or the daemon stops. A panic of the work is an error of its job.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::live::Reins;
use super::service::Shared;
use super::{Done, Job, JobError, JobResult, JobState, JobsError, RESULT_SECONDS, UnixSeconds, WorkError};
use crate::account::WriteError;
use crate::account::price::{Estimate, Units};
use crate::store::{Change, ChangeError, JobEnd, Usage};
use crate::telemetry::with_causes;

/// What a caller hears of an error that is not theirs.
const INTERNAL: &str = "internal_error";

/// How long a job rests that is in the queue and not in memory: it is about to leave the queue.
const REST: Duration = Duration::from_millis(100);

/// How often the end of a job is tried to be recorded again that may have been recorded.
const FAILURES: u32 = 3;

/// Waits for the sender's `true`, or its end.
pub(super) async fn stopped(stop: &mut watch::Receiver<bool>) {
    // A sender that is gone means the same.
    drop(stop.wait_for(|stop| *stop).await);
}

/// Does jobs until `stop`; gives when those under way have let go.
pub(super) async fn run(shared: &Arc<Shared>, mut stop: watch::Receiver<bool>) {
    let mut under_way = JoinSet::new();
    let mut taken = HashMap::new();
    while !*stop.borrow() {
        let mut pause = None;
        while taken.len() < shared.habits.parallel {
            let next = match next(shared, &taken).await {
                Ok(Some(job)) => job,
                Ok(None) => break,
                Err(()) => {
                    pause = Some(shared.habits.pause);
                    break;
                }
            };
            if let Err(JobsError::NoRoom(reason)) = shared.check_space().await {
                tracing::warn!(%reason, "no job is started until there is disk space");
                pause = Some(shared.habits.pause);
                break;
            }
            let (id, watched) = (next.id.clone(), watch_over(Arc::clone(shared), next, stop.clone()));
            taken.insert(under_way.spawn(watched).id(), id);
        }
        tokio::select! {
            () = stopped(&mut stop) => {}
            Some(ended) = under_way.join_next_with_id() => {
                let task = ended.as_ref().map_or_else(JoinError::id, |(task, ())| *task);
                taken.remove(&task);
            }
            () = shared.queued.notified() => {}
            () = sleep(pause.unwrap_or_default()), if pause.is_some() => {}
        }
    }
    while under_way.join_next().await.is_some() {}
}

/// The queued job whose turn it is, of those that are not under way.
async fn next(shared: &Shared, taken: &HashMap<tokio::task::Id, String>) -> Result<Option<Job>, ()> {
    let taken: HashSet<String> = taken.values().cloned().collect();
    let next = shared.read(move |store| store.next_job(&taken)).await;
    next.map_err(|error| tracing::error!(error = with_causes(&error), "the queue cannot be read"))
}

/// How the work on a job ended.
enum Ended {
    /// By itself.
    Made(Result<Made, WorkError>),
    /// It was cancelled, and its end is recorded.
    Cancelled,
    /// The daemon stops.
    Stopped,
    /// It was no farther for too long.
    Stalled,
    /// It panicked.
    Panicked,
    /// The disk space of the jobs is used up.
    NoRoom,
}

/// A result that is kept and not yet recorded.
struct Made {
    done: Done,
    object: String,
    bytes: u64,
}

/// Does one job from the queue to its end.
async fn watch_over(shared: Arc<Shared>, job: Job, mut stop: watch::Receiver<bool>) {
    let id = job.id.clone();
    let Some(reins) = shared.lives.begin(&id) else {
        sleep(REST).await;
        if let Err(error) = shared.adopt(&id).await {
            tracing::error!(job = id, error = with_causes(&error), "a job cannot be read");
        }
        return;
    };
    let started = shared.change(Change::StartJob { id: id.clone(), at: shared.now() }).await;
    let job = match started.map(|rows| rows.jobs.into_iter().next()) {
        Ok(Some(job)) => job,
        // Cancelled before it began.
        Err(WriteError::Change(ChangeError::JobState { .. } | ChangeError::NoSuchJob(_))) => {
            return shared.clear(&job).await;
        }
        outcome @ (Ok(None) | Err(_)) => {
            tracing::error!(job = id, reason = outcome.err().map(|error| with_causes(&error)), "a job cannot be begun");
            shared.lives.pause(&id);
            tokio::select! {
                () = stopped(&mut stop) => {}
                () = sleep(shared.habits.pause) => {}
            }
            return;
        }
    };
    tracing::info!(job = id, key = job.key_id, "a job begins");
    let begun = Instant::now();
    let ended = work_on(&shared, &job, &reins, &mut stop).await;
    let outcome = match ended {
        Ended::Stopped => {
            tracing::info!(job = id, "the job goes on at the next start");
            return shared.lives.pause(&id);
        }
        Ended::Cancelled => {
            tracing::info!(job = id, "the job was cancelled");
            return shared.clear(&job).await;
        }
        Ended::Made(outcome) => outcome,
        Ended::Stalled => Err(internal("the work on the job came to a standstill")),
        Ended::Panicked => Err(internal("the work on the job broke off")),
        Ended::NoRoom => Err(WorkError::no_room()),
    };
    let end = match outcome {
        Ok(made) => done(&job, made, shared.now()),
        Err(error) => {
            if error.internal {
                tracing::error!(job = id, %error, "a job failed");
                // Before its end is recorded: where the disk is full, recording it needs the room. Should the daemon die
                // in between, the job fails at the next start, for want of its clip.
                shared.clear(&job).await;
            }
            let WorkError { code, message, internal: _ } = error;
            let error = JobError { code: code.to_owned(), message };
            JobEnd::Failed { error, progress: reins.progress.get() }
        }
    };
    finish(&shared, &job, end, begun.elapsed(), &mut stop).await;
}

/// Works on a job that was begun, until one of the ends there are.
async fn work_on(shared: &Arc<Shared>, job: &Job, reins: &Reins, stop: &mut watch::Receiver<bool>) -> Ended {
    let (hears, mut heard) = watch::channel(reins.progress.get());
    let mut work = Worker(tokio::spawn(work(Arc::clone(shared), job.clone(), hears)));
    let mut farther_at = Instant::now();
    let mut space_at = farther_at + shared.space.check_every();
    let ended = loop {
        tokio::select! {
            biased;
            () = reins.cancel.notified() => break Ended::Cancelled,
            () = stopped(stop) => break Ended::Stopped,
            outcome = &mut work.0 => return made(job, outcome),
            Ok(()) = heard.changed() => {
                let progress = *heard.borrow_and_update();
                // Shown is what a restart remembers.
                shared.folders.save_progress(&job.id, progress).await;
                reins.progress.raise(progress);
                farther_at = Instant::now();
            }
            () = sleep_until(space_at) => {
                match shared.check_space().await {
                    Err(JobsError::NoRoom(reason)) => {
                        tracing::error!(job = job.id, %reason, "the disk space of the jobs is used up");
                        break Ended::NoRoom;
                    }
                    Err(error) => tracing::warn!(error = with_causes(&error), "the space is not checked"),
                    Ok(()) => {}
                }
                space_at = Instant::now() + shared.space.check_every();
            }
            () = sleep_until(farther_at + shared.habits.stall) => break Ended::Stalled,
        }
    };
    work.0.abort();
    match (timeout(shared.habits.grace, &mut work.0).await, ended) {
        // It was faster.
        (Ok(outcome @ Ok(_)), Ended::Stopped | Ended::Stalled | Ended::NoRoom) => made(job, outcome),
        (Ok(_), ended) => ended,
        (Err(_), ended) => {
            // Code that blocks cannot be stopped from outside; it has lost its job all the same.
            tracing::error!(job = job.id, "the work on the job does not let go");
            ended
        }
    }
}

fn made(job: &Job, outcome: Result<Result<Made, WorkError>, JoinError>) -> Ended {
    match outcome {
        Ok(outcome) => Ended::Made(outcome),
        Err(error) => {
            tracing::error!(job = job.id, %error, "the work on the job panicked");
            Ended::Panicked
        }
    }
}

/// The task that works. Ends with its owner.
struct Worker(JoinHandle<Result<Made, WorkError>>);

impl Drop for Worker {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn work(shared: Arc<Shared>, job: Job, hears: watch::Sender<u8>) -> Result<Made, WorkError> {
    let farther = move |progress: u8| {
        let raise = |before: &mut u8| {
            let is_farther = progress > *before;
            *before = progress.max(*before);
            is_farther
        };
        hears.send_if_modified(raise);
    };
    let folder = shared.folders.of(&job.id);
    let done = shared.means.work.run(&job, &folder, &farther).await?;
    if done.rate_frames == 0 || done.rate_seconds == 0 {
        return Err(internal("the result has no length"));
    }
    let bytes = size_of(&done.file).await?;
    let object = shared.means.keep.put(&job.id, &done.file, done.media_type).await;
    let object = object.map_err(|error| {
        tracing::error!(job = job.id, %error, "a result could not be kept");
        internal("the result could not be kept: the place for results does not take it")
    })?;
    Ok(Made { done, object, bytes })
}

async fn size_of(file: &Path) -> Result<u64, WorkError> {
    let metadata = tokio::fs::metadata(file).await;
    Ok(metadata.map_err(|error| internal(&format!("the result is not there: {}", error.kind())))?.len())
}

fn internal(message: &str) -> WorkError {
    WorkError { code: INTERNAL, message: message.to_owned(), internal: true }
}

/// The end of a job that made something, with its bill.
fn done(job: &Job, made: Made, now: UnixSeconds) -> JobEnd {
    let Made { done: Done { file: _, media_type: _, frames, rate_frames, rate_seconds, warnings }, object, bytes } =
        made;
    let expires_at = UnixSeconds(now.0.saturating_add(RESULT_SECONDS));
    let result = JobResult { object: Some(object), bytes, frames, rate_frames, rate_seconds, expires_at };
    let bill = (!job.test).then(|| bill(job.unit_price, &result));
    JobEnd::Done { result, warnings, bill }
}

/// What a result costs: what the estimate says for its length, and one image of the quota for each second that began.
fn bill(unit_price: u64, result: &JobResult) -> Usage {
    let estimate = Estimate { unit_price, units: Units::Seconds(result.seconds()) };
    let parts = u128::from(result.frames) * u128::from(result.rate_seconds);
    let images = u64::try_from(parts.div_ceil(u128::from(result.rate_frames.max(1)))).unwrap_or(u64::MAX);
    Usage { images, microdollars: estimate.total() }
}

/// Records the end of a job, and deletes its folder after that. Tried again while the store cannot write.
async fn finish(shared: &Shared, job: &Job, end: JobEnd, took: Duration, stop: &mut watch::Receiver<bool>) {
    let mut failures = 0;
    loop {
        let error = match shared.end(job, end.clone()).await {
            Ok((ended, _)) => {
                tracing::info!(
                    job = job.id,
                    state = ended.state.name(),
                    code = ended.error.as_ref().map(|error| error.code.as_str()),
                    took_s = took.as_secs_f64(),
                    "a job ended"
                );
                return clean_up(shared, job, ended.state).await;
            }
            // Cancelled in the last moment, or recorded by a try that was reported as failed.
            Err(WriteError::Change(ChangeError::JobState { state, .. })) => {
                shared.lives.leave(&job.id);
                shared.ended.notify_one();
                return clean_up(shared, job, state).await;
            }
            Err(WriteError::Change(ChangeError::NoSuchJob(_))) => return shared.clear(job).await,
            Err(error) => error,
        };
        tracing::error!(job = job.id, error = with_causes(&error), "the end of a job cannot be recorded");
        failures += u32::from(matches!(error, WriteError::Change(ChangeError::Storage(_))));
        let is_passing = matches!(error, WriteError::Change(ChangeError::Unavailable(_) | ChangeError::Storage(_)));
        if !is_passing || failures > FAILURES {
            // What cannot be recorded has not happened: the next start does the job again.
            return shared.lives.pause(&job.id);
        }
        tokio::select! {
            () = stopped(stop) => return shared.lives.pause(&job.id),
            () = sleep(shared.habits.pause) => {}
        }
    }
}

/// Deletes what a job has left that is at its end.
async fn clean_up(shared: &Shared, job: &Job, state: JobState) {
    match state {
        JobState::Done => shared.folders.remove(&job.id).await,
        JobState::Queued | JobState::Processing | JobState::Failed => shared.clear(job).await,
    }
}
