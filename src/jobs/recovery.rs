//! Recovery of jobs after a crash or restart: requeues interrupted jobs, reserves their images again, deletes stray folders.
//!
//! A crash can leave four things, and each is resolved from the store alone:
//! - a job in state `processing`: it goes back to its old place in the queue. Its folder still has the clip and the
//!   finished segments, so the worker resumes;
//! - a job whose result was stored but whose end was not recorded: it runs again, and its result replaces the stored one.
//!   It is billed once, because the bill is part of the change that records the end;
//! - a folder without a job: it is deleted. That of a job whose record cannot be read stays: the record may be readable
//!   again, to another version or from a backup;
//! - a queued job that is not in memory, because its creation was reported as failed and was written all the same: the
//!   runner finds it in the queue and calls [`enter_missing`].
//!
//! On a database of several daemons all of this concerns the jobs of this one, by the identity of its data directory.
//! If it does not return within its lease, another daemon adopts them, and resumes each from its stored checkpoint
//! (`adoption.rs`). A daemon that returns later deletes their folders.
//!
//! Webhooks need no recovery: the time of the next attempt is part of the record (`webhook_schedule.rs`). Faults of the
//! storage itself are `store/reopen.rs`.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, mpsc};

use tokio::sync::Notify;

use super::Job;
use super::adoption;
use super::deps::Deps;
use super::disk_space::DiskSpace;
use super::error::JobsError;
use super::job_folders::JobFolders;
use super::shared::Shared;
use super::stale_jobs::StaleJobs;
use super::tuning::Tuning;
use super::unfinished_jobs::RunningJobs;
use crate::account::WriteError;
use crate::store::{Change, Rows, StateStore};

/// The state of a service that starts, with the jobs of the last run. Blocks.
pub(super) fn recover(deps: Deps, tuning: Tuning, data_dir: &Path) -> Result<Arc<Shared>, JobsError> {
    let folders = JobFolders::open(data_dir)?;
    let results = deps.results.folder().map(Path::to_owned);
    let space = DiskSpace::new([folders.root().to_owned()].into_iter().chain(results), tuning.space.clone());
    let shared = Arc::new(Shared {
        deps,
        tuning,
        folders,
        space,
        running: RunningJobs::default(),
        stale: StaleJobs::default(),
        queued: Notify::new(),
        ended: Notify::new(),
        place: AtomicI64::new(i64::MIN),
    });
    adoption::follow(&shared);
    let store = &*shared.deps.store;
    let requeued = submit_blocking(store, Change::RequeueJobs { at: shared.now() })?.jobs.len();
    let mut waiting = store.waiting_jobs(usize::MAX)?;
    for job in &waiting {
        shared.enter(job, shared.folders.progress(&job.id).max(job.progress));
    }
    if store.is_shared() {
        // Other daemons may have cancelled or adopted jobs after the read and before they were entered.
        let found = std::mem::replace(&mut waiting, store.waiting_jobs(usize::MAX)?);
        let kept = ids(&waiting);
        for lost in found.iter().filter(|job| !kept.contains(job.id.as_str())) {
            shared.running.remove(&lost.id);
        }
    }
    let kept = ids(&waiting);
    // A record that cannot be read may be that of an unfinished job.
    shared.folders.retain(|id| kept.contains(id) || store.job(id).is_err())?;
    if !waiting.is_empty() {
        tracing::info!(waiting = waiting.len(), requeued, "jobs of the last run are queued");
    }
    shared.place.store(waiting.iter().map(|job| job.place).max().unwrap_or(i64::MIN), Ordering::Relaxed);
    Ok(shared)
}

fn ids(jobs: &[Job]) -> HashSet<&str> {
    jobs.iter().map(|job| job.id.as_str()).collect()
}

/// Enters a queued job into memory whose creation or adoption was reported as failed and was written all the same.
pub(super) async fn enter_missing(shared: &Shared, job: &Job) -> Result<(), JobsError> {
    if !waits(shared, &job.id).await? {
        return Ok(());
    }
    tracing::warn!(job = job.id, "a queued job that was not in memory is entered");
    shared.enter(job, job.progress);
    // Cancelled or adopted since the read, it was not in memory to be removed.
    let waits = waits(shared, &job.id).await;
    if !matches!(waits, Ok(true)) {
        shared.running.remove(&job.id);
    }
    waits.map(drop)
}

/// Whether an unfinished job is this daemon's.
async fn waits(shared: &Shared, id: &str) -> Result<bool, JobsError> {
    let waiting = shared.read(|store| store.waiting_jobs(usize::MAX)).await?;
    Ok(waiting.iter().any(|job| job.id == id))
}

/// As [`write_change`](crate::account::write_change), on a thread that may block.
fn submit_blocking(store: &dyn StateStore, change: Change) -> Result<Rows, WriteError> {
    let (reply, answer) = mpsc::sync_channel(1);
    store.submit(change, Box::new(move |result| drop(reply.send(result))));
    Ok(answer.recv().map_err(|_| WriteError::Closed)??)
}
