//! The job API: create, list, show, cancel and delete jobs, and run the background tasks.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::watch;

use super::cursor::Cursor;
use super::deps::Deps;
use super::error::JobsError;
use super::job_folders::IncomingClip;
use super::job_view::{JobView, Page, Removed, is_visible};
use super::new_job::{Created, NewJob};
use super::shared::Shared;
use super::tuning::Tuning;
use super::{Job, JobError, JobsConfig, create, expiry, recovery, runner, webhook_schedule};
use crate::store::{ChangeError, JobEnd};

/// Jobs on one page of a listing.
pub const MAX_PAGE: usize = 100;

/// The jobs of all keys. Clones share one state.
#[derive(Clone, Debug)]
pub struct Jobs(pub(super) Arc<Shared>);

impl Jobs {
    /// Recovers the jobs of the last run: interrupted ones are queued again, and folders without a job are deleted.
    ///
    /// # Errors
    /// When the store or the folder `jobs` of the data directory cannot be read or written.
    pub async fn start(deps: Deps, config: &JobsConfig, data_dir: &Path) -> Result<Self, JobsError> {
        Self::start_with(deps, Tuning::of(config), data_dir).await
    }

    pub(super) async fn start_with(deps: Deps, tuning: Tuning, data_dir: &Path) -> Result<Self, JobsError> {
        recovery::recover(deps, tuning, data_dir).await.map(Self)
    }

    /// A fresh folder for a clip of up to `bytes`.
    ///
    /// # Errors
    /// When the disk space of the jobs has no room for it, or it cannot be created.
    pub async fn incoming(&self, account: &str, bytes: u64) -> Result<IncomingClip, JobsError> {
        self.0.require_share(account, bytes).await?;
        self.0.folders.incoming(&self.0.space, bytes).await
    }

    /// The job of a key that has this `Idempotency-Key`.
    ///
    /// # Errors
    /// When the store or the record of the job cannot be read.
    pub async fn named(&self, key_id: &str, name: &str) -> Result<Option<JobView>, JobsError> {
        self.0.view(key_id, self.0.deps.store.job_named(key_id, name)).await
    }

    /// Creates a job from an incoming clip. It is queued, durably, when this returns.
    ///
    /// Once polled the creation is in progress, and is not undone when this is dropped.
    ///
    /// # Errors
    /// When the key has too many jobs, the clip cannot be stored, or the store fails.
    pub async fn create(&self, new: NewJob, incoming: IncomingClip) -> Result<Created, JobsError> {
        let shared = Arc::clone(&self.0);
        // A disconnected caller must not leave a job without its folder.
        let created = tokio::spawn(async move { create::create(&shared, new, incoming).await });
        created.await.unwrap_or(Err(JobsError::Write(ChangeError::Closed)))
    }

    /// A job of the key; `None` for another key's.
    ///
    /// # Errors
    /// When the store or the record of the job cannot be read.
    pub async fn get(&self, key_id: &str, id: &str) -> Result<Option<JobView>, JobsError> {
        self.0.view(key_id, self.0.deps.store.job(id)).await
    }

    /// The key's jobs, newest first, up to `limit` (1 to [`MAX_PAGE`]) of those after `cursor`, the `next` of another
    /// page.
    ///
    /// # Errors
    /// When the cursor is invalid, or the store cannot be read.
    pub async fn list(&self, key_id: &str, cursor: Option<&str>, limit: usize) -> Result<Page, JobsError> {
        let after = cursor.map(|text| Cursor::parse(text).ok_or(JobsError::Cursor)).transpose()?;
        let limit = limit.clamp(1, MAX_PAGE);
        // Before the records: see `running_jobs`.
        let progress = self.0.running.progress_of(key_id);
        // One more shows whether there is another page.
        let mut jobs = self.0.deps.store.jobs(key_id, after.as_ref().map(Cursor::parts), limit + 1).await?;
        let is_last = jobs.len() <= limit;
        jobs.truncate(limit);
        let next = jobs.last().filter(|_| !is_last).map(Cursor::of);
        let now = self.0.now();
        let visible = jobs.into_iter().filter(|job| is_visible(job, now));
        Ok(Page { jobs: visible.map(|job| JobView::of(&progress, job)).collect(), after, next })
    }

    /// Whether a job is queued, or this process runs one, a webhook is still to be sent, or a result to be deleted. True when
    /// the store cannot be read.
    pub async fn has_unfinished(&self) -> bool {
        let (store, is_pending) = (&self.0.deps.store, |job: &Job| {
            job.webhook_at().is_some() || job.result.as_ref().is_some_and(|result| result.object.is_some())
        });
        self.0.running.count() > 0
            || store.count_queued(0).await.map_or(true, |queued| queued > 0)
            || store.expiring_jobs(usize::MAX).await.map_or(true, |jobs| jobs.iter().any(|(_, job)| is_pending(job)))
    }

    /// Cancels a queued or running job of the key, also one that another daemon runs; deletes a finished one.
    /// `None` for another key's.
    ///
    /// Once polled the removal is in progress, and is not undone when this is dropped.
    ///
    /// # Errors
    /// When the store or the result store fails; the job is unchanged.
    pub async fn remove(&self, key_id: &str, id: &str) -> Result<Option<Removed>, JobsError> {
        let (shared, key_id, id) = (Arc::clone(&self.0), key_id.to_owned(), id.to_owned());
        let removed = tokio::spawn(async move { remove(&shared, &key_id, &id).await });
        removed.await.unwrap_or(Err(JobsError::Write(ChangeError::Closed)))
    }

    /// Runs jobs, deletes expired ones and sends webhooks, until `stop`. Jobs
    /// that run then are interrupted, and resume at the next start of the process, or on another daemon.
    pub async fn run(&self, stop: impl Future<Output = ()>) {
        let (stopping, stopped) = watch::channel(false);
        let all = async {
            tokio::join!(
                runner::run(&self.0, stopped.clone()),
                expiry::run(&self.0, stopped.clone()),
                webhook_schedule::run(&self.0, stopped.clone()),
            )
        };
        let stop = async {
            stop.await;
            stopping.send_replace(true);
        };
        tokio::join!(all, stop);
    }
}

async fn remove(shared: &Shared, key_id: &str, id: &str) -> Result<Option<Removed>, JobsError> {
    loop {
        let Some(JobView { job, progress }) = shared.view(key_id, shared.deps.store.job(id)).await? else {
            return Ok(None);
        };
        if job.state.is_final() {
            return shared.delete(&job).await.map(|()| Some(Removed::Deleted));
        }
        let error = JobError { code: "cancelled".into(), message: "the job was cancelled".into() };
        match shared.finish(&job.id, None, JobEnd::Failed { error, progress }).await {
            Ok(job) => {
                match shared.running.get(id) {
                    // The runner cleans up.
                    Some(handle) => handle.cancel.notify_one(),
                    // Also for a job of another daemon, which cleans up, too.
                    None => shared.clear(&job).await,
                }
                return Ok(Some(Removed::Cancelled(Box::new(JobView::finished(job)))));
            }
            // It ended, or was removed, in between.
            Err(ChangeError::JobState { .. } | ChangeError::NoSuchJob(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
