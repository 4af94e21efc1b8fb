//! The jobs that this process runs: progress, and the handles to cancel each.
//!
//! A job is entered once it is claimed, and removed after its end, or its way back into the queue, is recorded: a reader that
//! takes the progress from here first and then the record never sees the progress decrease. On a database the others show the
//! progress that the last renewal recorded.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::store::{ClaimedJob, JobHeartbeat};

/// The running jobs, by id.
#[derive(Debug, Default)]
pub(super) struct RunningJobs(Mutex<HashMap<String, RunningJob>>);

#[derive(Debug)]
struct RunningJob {
    key_id: String,
    attempt: i64,
    handle: JobHandle,
}

/// Progress in percent; it only grows.
#[derive(Debug, Default)]
pub(super) struct Progress(AtomicU8);

/// Ends a running job and takes its progress.
#[derive(Clone, Debug)]
pub(super) struct JobHandle {
    pub(super) progress: Arc<Progress>,
    /// Notified once when the job was cancelled.
    pub(super) cancel: Arc<Notify>,
    /// Notified once when another daemon has claimed the job, or may claim it.
    pub(super) lost: Arc<Notify>,
}

impl Progress {
    /// 100 is for jobs whose end is recorded.
    const MAX: u8 = 99;

    pub(super) fn at(progress: u8) -> Arc<Self> {
        Arc::new(Self(AtomicU8::new(progress.min(Self::MAX))))
    }

    pub(super) fn get(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn raise(&self, progress: u8) {
        self.0.fetch_max(progress.min(Self::MAX), Ordering::Relaxed);
    }
}

impl RunningJobs {
    /// Enters a claimed job.
    pub(super) fn enter(&self, ClaimedJob { job, attempt }: &ClaimedJob) -> JobHandle {
        let handle = JobHandle { progress: Progress::at(job.progress), cancel: Arc::default(), lost: Arc::default() };
        let running = RunningJob { key_id: job.key_id.clone(), attempt: *attempt, handle: handle.clone() };
        self.lock().insert(job.id.clone(), running);
        handle
    }

    /// Removes this attempt of a job.
    pub(super) fn remove(&self, id: &str, attempt: i64) {
        let mut running = self.lock();
        if running.get(id).is_some_and(|job| job.attempt == attempt) {
            running.remove(id);
        }
    }

    /// The handle of an attempt of a job.
    pub(super) fn get_attempt(&self, id: &str, attempt: i64) -> Option<JobHandle> {
        self.lock().get(id).filter(|job| job.attempt == attempt).map(|job| job.handle.clone())
    }

    /// The ids of all.
    pub(super) fn ids(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    /// The handle of a job.
    pub(super) fn get(&self, id: &str) -> Option<JobHandle> {
        self.lock().get(id).map(|job| job.handle.clone())
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.lock().len()
    }

    /// All jobs, for the renewal of their leases.
    pub(super) fn heartbeats(&self) -> Vec<JobHeartbeat> {
        let heartbeat = |(id, job): (&String, &RunningJob)| JobHeartbeat {
            id: id.clone(),
            attempt: job.attempt,
            progress: job.handle.progress.get(),
        };
        self.lock().iter().map(heartbeat).collect()
    }

    /// The progress of each job of a key.
    pub(super) fn progress_of(&self, key_id: &str) -> HashMap<String, u8> {
        let jobs = self.lock();
        let of_key = jobs.iter().filter(|(_, job)| job.key_id == key_id);
        of_key.map(|(id, job)| (id.clone(), job.handle.progress.get())).collect()
    }

    /// Held for a look-up, never across an await. Nothing panics under it, so poison is no reason to stop.
    fn lock(&self) -> MutexGuard<'_, HashMap<String, RunningJob>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
