//! Moves jobs between daemons on one database: adopts jobs whose daemon is gone, and stops own ones that were adopted.
//!
//! A job belongs to the daemon that created it until that one has not renewed its lease for 15 s. Then the first of the
//! others that finds it adopts it ([`Change::AdoptJobs`]):
//! - an unfinished one is queued here at its old place. Its clip and its last checkpoint are fetched from the result
//!   store when it starts (`checkpoints.rs`);
//! - a finished one only needs its webhook and its deletions, which follow from the records.
//!
//! A daemon that was cut off from the database finds its jobs adopted when it is back: a commit of another process, or
//! [`ChangeError::JobElsewhere`](crate::store::ChangeError::JobElsewhere). It stops the worker and deletes its local
//! files only; clip and result in the result store are the adopter's. Until then both may run the job, and both store
//! the result under one name: either is a result of that clip, and only the adopter's end is recorded and billed.
//! Stored after the adopter's was deleted it stays in the result store, as a clip may (`results`).
//!
//! A job that was cancelled through another daemon ends as one that was cancelled here, but its end is recorded already.
//!
//! Memory does not miss a change: commits of others and the callbacks of own ones run in commit order on one thread,
//! and jobs are entered before their creation is submitted, or by the callback of their adoption.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::sleep;

use super::checkpoints;
use super::error::JobsError;
use super::shared::{Shared, stopped};
use super::unfinished_jobs::{JobHandle, RemovedJob};
use super::{Job, JobState, input_in};
use crate::account::write_change;
use crate::store::{Change, Rows};
use crate::telemetry::with_causes;

/// Removes jobs from memory that other daemons cancel or adopt from now on.
pub(super) fn follow(shared: &Arc<Shared>) {
    // The store keeps the follower, and the service keeps the store.
    let service = Arc::downgrade(shared);
    let follower = move |rows: &Rows| {
        if !rows.jobs.is_empty()
            && let Some(shared) = service.upgrade()
        {
            rows.jobs.iter().for_each(|job| lose(&shared, job));
        }
    };
    shared.deps.store.follow(Box::new(follower));
}

/// Removes a job from memory that another process wrote: it was cancelled if it has ended, and adopted otherwise. Its
/// files are deleted by the runner, or by [`run`] where that does not have it.
fn lose(shared: &Shared, job: &Job) {
    let Some(RemovedJob { was_running, handle }) = shared.running.remove(&job.id) else { return };
    match (was_running, job.state == JobState::Failed) {
        (true, true) => handle.cancel.notify_one(),
        (true, false) => handle.adopted.notify_one(),
        (false, _) => shared.stale.push(job.clone()),
    }
    // The webhook of a cancelled one is due, and still this daemon's.
    shared.ended.notify_one();
}

/// Adopts jobs whose daemon is gone, and deletes the files of lost ones, until `stop`. Where no other daemon uses the
/// store there are none.
pub(super) async fn run(shared: &Arc<Shared>, mut stop: watch::Receiver<bool>) {
    if !shared.deps.store.is_shared() {
        return;
    }
    loop {
        let turn = async {
            // First: a job that is adopted back below must keep the folder in which it starts.
            delete_stale(shared).await;
            adopt(shared).await;
        };
        tokio::select! {
            () = stopped(&mut stop) => return,
            () = turn => {}
        }
        tokio::select! {
            () = stopped(&mut stop) => return,
            () = shared.stale.added() => {}
            () = sleep(shared.tuning.adopt_every) => {}
        }
    }
}

async fn delete_stale(shared: &Shared) {
    for job in shared.stale.take() {
        if job.state == JobState::Failed {
            shared.clear(&job).await;
        } else if !shared.running.contains(&job.id) {
            shared.folders.remove(&job.id).await;
        }
    }
}

/// Adopts the jobs of daemons that are gone. A failure is logged; the next turn retries.
async fn adopt(shared: &Arc<Shared>) {
    match shared.read(|store| store.has_orphaned_jobs()).await {
        Ok(true) => {}
        Ok(false) => return,
        Err(error) => {
            tracing::warn!(error = with_causes(&error), "jobs of other daemons cannot be read");
            return;
        }
    }
    let service = Arc::downgrade(shared);
    let enter = move |rows: &Rows| {
        if let Some(shared) = service.upgrade() {
            rows.jobs.iter().for_each(|job| shared.enter(job, job.progress));
        }
    };
    match write_change(&*shared.deps.store, Change::AdoptJobs { at: shared.now() }, enter).await {
        Ok(rows) => tracing::warn!(unfinished = rows.jobs.len(), "jobs of daemons that are gone were adopted"),
        Err(error) => tracing::warn!(error = with_causes(&error), "jobs of daemons that are gone cannot be adopted"),
    }
    // Also after a failure, which may have been written. Finished jobs may have a webhook that is due.
    shared.queued.notify_one();
    shared.ended.notify_one();
}

/// Ends this daemon's part in a job that another one has adopted: nothing of it is left here.
pub(super) async fn leave(shared: &Shared, job: &Job, handle: &JobHandle) {
    tracing::warn!(job = job.id, "another daemon has adopted the job");
    shared.running.remove_of(&job.id, handle);
    shared.folders.remove(&job.id).await;
}

/// Fetches the clip and the checkpoint of a job into its folder, unless they are there. A clip that the result store does not have either is
/// left to the worker, which fails.
pub(super) async fn fetch_input(shared: &Shared, job: &Job) -> Result<(), JobsError> {
    if !shared.deps.store.is_shared() {
        return Ok(());
    }
    let input = input_in(&shared.folders.create(&job.id).await?);
    // Written whole or not at all: one that is there is complete.
    if !tokio::fs::try_exists(&input).await.unwrap_or(false)
        && !shared.deps.results.fetch_input(&job.id, &input).await?
    {
        tracing::error!(job = job.id, "the result store does not have the clip of the job");
    }
    checkpoints::fetch(shared, job).await;
    Ok(())
}
