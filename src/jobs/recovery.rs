//! Recovery of jobs after a crash or restart: requeues interrupted jobs, and deletes stray folders.
//!
//! A crash can leave three things, and each is resolved from the store alone:
//! - a job in state `processing`. On a file it goes back to its old place in the queue when the daemon starts: its folder still has
//!   the clip and the finished segments, so the worker resumes. On a database its lease ends, and whichever daemon claims it next
//!   resumes from the checkpoint in the result store;
//! - a job whose result was stored but whose end was not recorded: it runs again, and its result replaces the stored one.
//!   It is billed once, because the bill is part of the change that records the end;
//! - a folder without a job: it is deleted. The folder of a job whose record cannot be read stays: the record may be readable
//!   again, to another version or from a backup. On a database folders are of no use after the process.
//!
//! Webhooks need no recovery: the time of the next attempt is part of the record (`webhook_schedule.rs`). Faults of the
//! storage itself are `store/group_commit.rs`.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use tokio::sync::Notify;

use super::deps::Deps;
use super::disk_space::DiskSpace;
use super::error::JobsError;
use super::job_folders::JobFolders;
use super::running_jobs::RunningJobs;
use super::shared::Shared;
use super::tuning::Tuning;
use super::{Job, JobState};
use crate::store::JobChange;

/// The state of a service that starts, with the jobs of the last run.
pub(super) async fn recover(deps: Deps, tuning: Tuning, data_dir: &Path) -> Result<Arc<Shared>, JobsError> {
    let folders = JobFolders::open(data_dir)?;
    let results = deps.results.folder().map(Path::to_owned);
    let space = DiskSpace::new([folders.root().to_owned()].into_iter().chain(results), tuning.space.clone());
    let mut shared = Shared {
        deps,
        tuning,
        folders,
        space,
        running: RunningJobs::default(),
        queued: Notify::new(),
        ended: Notify::new(),
        place: AtomicI64::new(i64::MIN),
    };
    let waiting = if shared.deps.store.is_shared() { Vec::new() } else { requeue_interrupted(&shared).await? };
    let mut kept: HashSet<&str> = waiting.iter().map(|job| job.id.as_str()).collect();
    let ids = shared.folders.job_ids()?;
    for id in ids.iter().filter(|_| !shared.deps.store.is_shared()) {
        // An unreadable record may belong to an unfinished job.
        if shared.deps.store.job(id).await.is_err() {
            kept.insert(id);
        }
    }
    shared.folders.retain(|id| kept.contains(id))?;
    shared.place = AtomicI64::new(waiting.iter().map(|job| job.place).max().unwrap_or(i64::MIN));
    Ok(Arc::new(shared))
}

/// Puts the jobs back into the queue that ran at the end of the last process; returns the unfinished ones.
async fn requeue_interrupted(shared: &Shared) -> Result<Vec<Job>, JobsError> {
    let waiting = shared.deps.store.waiting_jobs(usize::MAX).await?;
    let mut requeued = 0;
    for job in &waiting {
        // Saved later than the record.
        let (progress, at) = (shared.folders.progress(&job.id).min(99), shared.now());
        if job.state == JobState::Queued && progress <= job.progress {
            continue;
        }
        shared.deps.store.change_job(&job.id, None, JobChange::Requeue { progress, at }).await?;
        requeued += 1;
    }
    if !waiting.is_empty() {
        tracing::info!(waiting = waiting.len(), requeued, "jobs of the last run are queued");
    }
    Ok(waiting)
}
