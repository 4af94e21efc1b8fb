//! Recovery of jobs after a crash or restart: requeues interrupted jobs, reserves their images again, deletes stray folders.
//!
//! A crash can leave four things, and each is resolved from the store alone:
//! - a job in state `processing`: it goes back to its old place in the queue. Its folder still has the clip and the
//!   finished segments, so the worker resumes;
//! - a job whose result was stored but whose end was not recorded: it runs again, and its result replaces the stored one.
//!   It is billed once, because the bill is part of the change that records the end;
//! - a folder without a job: it is deleted;
//! - a queued job that is not in memory, because its creation was reported as failed and was written all the same: the
//!   runner finds it in the queue and calls [`adopt`].
//!
//! Webhooks need no recovery: the time of the next attempt is part of the record (`webhook_schedule.rs`). Faults of the
//! storage itself are `store/reopen.rs`.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::AtomicI64;
use std::sync::mpsc;

use tokio::sync::Notify;

use super::deps::Deps;
use super::disk_space::DiskSpace;
use super::error::JobsError;
use super::job_folders::JobFolders;
use super::shared::Shared;
use super::tuning::Tuning;
use super::unfinished_jobs::RunningJobs;
use super::{JobState, UnixSeconds};
use crate::account::WriteError;
use crate::store::{Change, Rows, StateStore};

/// The state of a service that starts, with the jobs of the last run. Blocks.
pub(super) fn recover(deps: Deps, tuning: Tuning, data_dir: &Path) -> Result<Shared, JobsError> {
    let folders = JobFolders::open(data_dir)?;
    let at = UnixSeconds(tuning.clock.0().div_euclid(1000));
    let requeued = submit_blocking(&*deps.store, Change::RequeueJobs { at })?.jobs.len();
    let waiting = deps.store.waiting_jobs(usize::MAX)?;
    folders.retain(&waiting.iter().map(|job| job.id.as_str()).collect::<HashSet<_>>())?;
    if !waiting.is_empty() {
        tracing::info!(waiting = waiting.len(), requeued, "jobs of the last run are queued");
    }
    let results = deps.results.folder().map(Path::to_owned);
    let space = DiskSpace::new([folders.root().to_owned()].into_iter().chain(results), tuning.space.clone());
    let newest = waiting.iter().map(|job| job.place).max().unwrap_or(i64::MIN);
    let shared = Shared {
        deps,
        tuning,
        folders,
        space,
        running: RunningJobs::default(),
        queued: Notify::new(),
        ended: Notify::new(),
        place: AtomicI64::new(newest),
    };
    for job in &waiting {
        let progress = shared.folders.progress(&job.id).max(job.progress);
        shared.running.insert(&job.id, &job.key_id, progress, Some(shared.reserve_again(job, job.reserved)));
    }
    Ok(shared)
}

/// Enters a queued job into memory whose creation was reported as failed and was written all the same.
pub(super) async fn adopt(shared: &Shared, id: &str) -> Result<(), JobsError> {
    let of = id.to_owned();
    let job = shared.read(move |store| store.job(&of)).await?;
    if let Some(job) = job.filter(|job| job.state == JobState::Queued) {
        tracing::warn!(job = id, "a queued job that was not in memory is adopted");
        shared.running.insert(id, &job.key_id, job.progress, Some(shared.reserve_again(&job, job.reserved)));
    }
    Ok(())
}

/// As [`write_change`](crate::account::write_change), on a thread that may block.
fn submit_blocking(store: &dyn StateStore, change: Change) -> Result<Rows, WriteError> {
    let (reply, answer) = mpsc::sync_channel(1);
    store.submit(change, Box::new(move |result| drop(reply.send(result))));
    Ok(answer.recv().map_err(|_| WriteError::Closed)??)
}
