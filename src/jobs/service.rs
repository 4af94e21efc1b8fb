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
use super::{Job, JobError, JobsConfig, adoption, create, expiry, recovery, runner, webhook_schedule};
use crate::account::WriteError;
use crate::store::{ChangeError, JobEnd, StateStore};

/// Jobs on one page of a listing.
pub const MAX_PAGE: usize = 100;

/// The jobs of all keys. Clones share one state.
#[derive(Clone, Debug)]
pub struct Jobs(pub(super) Arc<Shared>);

impl Jobs {
    /// Recovers the jobs of the last run: interrupted ones are queued again and reserve their images, and folders without
    /// a job are deleted. Blocks; meant for start-up.
    ///
    /// # Errors
    /// When the store or the folder `jobs` of the data directory cannot be read or written.
    pub fn start(deps: Deps, config: &JobsConfig, data_dir: &Path) -> Result<Self, JobsError> {
        Self::start_with(deps, Tuning::of(config), data_dir)
    }

    pub(super) fn start_with(deps: Deps, tuning: Tuning, data_dir: &Path) -> Result<Self, JobsError> {
        recovery::recover(deps, tuning, data_dir).map(Self)
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
        let (of, name) = (key_id.to_owned(), name.to_owned());
        self.0.view(key_id, move |store| store.job_named(&of, &name)).await
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
        created.await.unwrap_or(Err(JobsError::Write(WriteError::Closed)))
    }

    /// A job of the key; `None` for another key's.
    ///
    /// # Errors
    /// When the store or the record of the job cannot be read.
    pub async fn get(&self, key_id: &str, id: &str) -> Result<Option<JobView>, JobsError> {
        let id = id.to_owned();
        self.0.view(key_id, move |store| store.job(&id)).await
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
        let (of, from) = (key_id.to_owned(), after.clone());
        let read = move |store: &dyn StateStore| {
            // One more shows whether there is another page.
            store.jobs(&of, from.as_ref().map(Cursor::parts), limit + 1)
        };
        let mut jobs = self.0.read(read).await?;
        let is_last = jobs.len() <= limit;
        jobs.truncate(limit);
        let next = jobs.last().filter(|_| !is_last).map(Cursor::of);
        let now = self.0.now();
        let visible = jobs.into_iter().filter(|job| is_visible(job, now));
        Ok(Page { jobs: visible.map(|job| JobView::of(&progress, job)).collect(), after, next })
    }

    /// Whether a job of this daemon is queued or running, a webhook is still to be sent, or a result to be deleted. True when
    /// the store cannot be read.
    pub async fn has_unfinished(&self) -> bool {
        // Before the records: see `unfinished_jobs`.
        if !self.0.running.is_empty() {
            return true;
        }
        let has_object = |job: &Job| job.result.as_ref().is_some_and(|result| result.object.is_some());
        let read = self.0.read(move |store| {
            // The cheaper read first.
            Ok(!store.webhook_jobs(1)?.is_empty()
                || store.expiring_jobs(usize::MAX)?.iter().any(|(_, job)| has_object(job)))
        });
        read.await.unwrap_or(true)
    }

    /// Cancels a queued or running job of the key, also one of another daemon on the database; deletes a finished one.
    /// `None` for another key's.
    ///
    /// Once polled the removal is in progress, and is not undone when this is dropped.
    ///
    /// # Errors
    /// When the store or the result store fails; the job is unchanged.
    pub async fn remove(&self, key_id: &str, id: &str) -> Result<Option<Removed>, JobsError> {
        let (shared, key_id, id) = (Arc::clone(&self.0), key_id.to_owned(), id.to_owned());
        let removed = tokio::spawn(async move { remove(&shared, &key_id, &id).await });
        removed.await.unwrap_or(Err(JobsError::Write(WriteError::Closed)))
    }

    /// Runs jobs, adopts those of daemons that are gone, deletes expired ones and sends webhooks, until `stop`. Jobs
    /// that run then are interrupted, and resume at the next start of the process.
    pub async fn run(&self, stop: impl Future<Output = ()>) {
        let (stopping, stopped) = watch::channel(false);
        let all = async {
            tokio::join!(
                runner::run(&self.0, stopped.clone()),
                adoption::run(&self.0, stopped.clone()),
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
        let of = id.to_owned();
        let Some(JobView { job, progress }) = shared.view(key_id, move |store| store.job(&of)).await? else {
            return Ok(None);
        };
        if job.state.is_final() {
            return shared.delete(&job).await.map(|()| Some(Removed::Deleted));
        }
        let error = JobError { code: "cancelled".into(), message: "the job was cancelled".into() };
        match shared.finish(&job, JobEnd::Cancelled { error, progress }).await {
            Ok((job, removed)) => {
                if removed.as_ref().is_some_and(|removed| removed.was_running) {
                    // The runner cleans up.
                    removed.inspect(|removed| removed.handle.cancel.notify_one());
                } else {
                    // Also for a job of another daemon, which has the folder and deletes that.
                    shared.clear(&job).await;
                }
                return Ok(Some(Removed::Cancelled(Box::new(JobView::finished(job)))));
            }
            // It ended, or was removed, in between.
            Err(WriteError::Change(ChangeError::JobState { .. } | ChangeError::NoSuchJob(_))) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
