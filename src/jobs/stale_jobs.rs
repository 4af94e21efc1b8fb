//! Queued jobs that left this daemon through another one, until their local files are deleted.

use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use super::Job;

/// Jobs that waited in the queue when another daemon cancelled or adopted them: their files here are to be deleted.
/// Each was in memory before, so there are no more of them than of those.
#[derive(Debug, Default)]
pub(super) struct StaleJobs {
    jobs: Mutex<Vec<Job>>,
    added: Notify,
}

impl StaleJobs {
    /// Adds a job.
    pub(super) fn push(&self, job: Job) {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).push(job);
        self.added.notify_one();
    }

    /// Takes all jobs.
    pub(super) fn take(&self) -> Vec<Job> {
        std::mem::take(&mut *self.jobs.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until a job is added.
    pub(super) async fn added(&self) {
        self.added.notified().await;
    }
}
