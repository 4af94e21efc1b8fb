//! State that the job API and its background tasks share, and the store changes that all of them make.

use std::sync::atomic::AtomicI64;
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::deps::{Deps, ResultStoreError};
use super::disk_space::DiskSpace;
use super::error::JobsError;
use super::job_folders::JobFolders;
use super::job_view::{JobView, is_visible};
use super::running_jobs::RunningJobs;
use super::tuning::Tuning;
use super::{Job, RECORD_SECONDS, UnixSeconds};
use crate::store::{Change, ChangeError, JobChange, JobEnd, OpenError};
use crate::telemetry::metrics;

/// The pause before a change is retried that found the store's queue full.
const BUSY_PAUSE: Duration = Duration::from_millis(200);

/// What the clones of [`Jobs`](super::Jobs) share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) deps: Deps,
    pub(super) tuning: Tuning,
    pub(super) folders: JobFolders,
    pub(super) space: DiskSpace,
    pub(super) running: RunningJobs,
    /// Notified when a job was queued.
    pub(super) queued: Notify,
    /// Notified when a job ended.
    pub(super) ended: Notify,
    /// The place of the newest job.
    pub(super) place: AtomicI64,
}

/// Waits until `true` is sent or the sender is dropped.
pub(super) async fn stopped(stop: &mut watch::Receiver<bool>) {
    drop(stop.wait_for(|stop| *stop).await);
}

impl Shared {
    pub(super) fn now(&self) -> UnixSeconds {
        UnixSeconds(self.tuning.clock.0().div_euclid(1000))
    }

    /// Deletes all files of a job that ended without a result, and what it may have put to the result store before a
    /// crash.
    pub(super) async fn clear(&self, job: &Job) {
        if let Err(error) = self.deps.results.discard(job).await {
            tracing::warn!(job = job.id, %error, "an unrecorded result of the job could not be deleted");
        }
        self.clear_input(&job.id).await;
    }

    /// Deletes the files of a job that ended, but for its result: its folder, and clip and checkpoint in the result store.
    pub(super) async fn clear_input(&self, id: &str) {
        if let Err(error) = self.delete_shared(id).await {
            tracing::warn!(job = id, %error, "clip or checkpoint stay in the result store until the job's record is deleted");
        }
        self.folders.remove(id).await;
    }

    /// Deletes what the result store has of a job for other daemons.
    async fn delete_shared(&self, id: &str) -> Result<(), ResultStoreError> {
        if !self.deps.store.is_shared() {
            return Ok(());
        }
        // Both, also where one fails.
        let (input, checkpoint) =
            (self.deps.results.delete_input(id).await, self.deps.results.delete_checkpoint(id).await);
        input.and(checkpoint)
    }

    /// Deletes a finished job, its result first: a crash in between leaves no result without a job. One that failed or was
    /// cancelled may have a result, too, whose storing ended after that.
    pub(super) async fn delete(&self, job: &Job) -> Result<(), JobsError> {
        self.deps.results.discard(job).await?;
        // Where it could not be deleted at the end of the job.
        self.delete_shared(&job.id).await?;
        Ok(self.change(&job.id, JobChange::Remove).await?)
    }

    /// Records the end of a job, with its bill if it has one: of one that the claim `attempt` runs, or of any that is cancelled.
    pub(super) async fn finish(&self, id: &str, attempt: Option<i64>, end: JobEnd) -> Result<Job, ChangeError> {
        let ended = loop {
            let at = self.now();
            let expires_at = UnixSeconds(at.0.saturating_add(RECORD_SECONDS));
            let change = JobChange::Finish { at, expires_at, end: end.clone() };
            match self.deps.store.change_job(id, attempt, change).await {
                Err(ChangeError::Busy) => tokio::time::sleep(BUSY_PAUSE).await,
                outcome => break outcome?,
            }
        };
        metrics::job_ended(ended.state.name());
        self.ended.notify_one();
        Ok(ended)
    }

    /// An error when running jobs have to end for want of disk space, or the space cannot be measured.
    pub(super) async fn check_space(&self) -> Result<(), JobsError> {
        let space = self.space.clone();
        let checked = tokio::task::spawn_blocking(move || space.check()).await;
        checked.unwrap_or(Err(JobsError::Write(ChangeError::Closed)))
    }

    /// Changes a job, which may have been removed meanwhile. Retried while the store's queue is full.
    pub(super) async fn change(&self, id: &str, change: JobChange) -> Result<(), ChangeError> {
        let change = Change::Job { id: id.to_owned(), attempt: None, change };
        loop {
            match self.deps.store.change(change.clone()).await {
                Ok(_) | Err(ChangeError::NoSuchJob(_)) => return Ok(()),
                Err(ChangeError::Busy) => tokio::time::sleep(BUSY_PAUSE).await,
                Err(error) => return Err(error),
            }
        }
    }

    /// The job that `read` finds, if it belongs to the key and is visible.
    pub(super) async fn view(
        &self,
        key_id: &str,
        read: impl Future<Output = Result<Option<Job>, OpenError>>,
    ) -> Result<Option<JobView>, JobsError> {
        // Before the record: see `running_jobs`.
        let progress = self.running.progress_of(key_id);
        let now = self.now();
        let job = read.await?.filter(|job| job.key_id == key_id && is_visible(job, now));
        Ok(job.map(|job| JobView::of(&progress, job)))
    }

    /// Refuses a clip of `bytes` of an account whose results would have more than half of the disk space with it.
    pub(super) async fn require_share(&self, account: &str, bytes: u64) -> Result<(), JobsError> {
        let jobs = self.deps.store.expiring_jobs(usize::MAX).await?.into_iter().map(|(_, job)| job);
        let results = jobs.filter(|job| job.account == account).filter_map(|job| job.result);
        let used = results.filter(|result| result.object.is_some()).map(|result| result.bytes).sum::<u64>();
        let max = self.space.share();
        if used > 0 && used.saturating_add(bytes) > max {
            return Err(JobsError::Share { used, wanted: bytes, max });
        }
        Ok(())
    }
}
