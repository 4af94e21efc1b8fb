//! In-memory state of unfinished jobs: progress, reserved images, and the handle to cancel each.
//!
//! A job is inserted before its record is written and removed after its end is recorded: a reader that takes the progress
//! from here first and then the record never sees the progress decrease.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::account::Reservation;
use crate::store::JobState;
use crate::telemetry::metrics;

/// The queued and running jobs, by id.
#[derive(Debug, Default)]
pub(super) struct RunningJobs(Mutex<HashMap<String, RunningJob>>);

#[derive(Debug)]
struct RunningJob {
    key_id: String,
    state: JobState,
    progress: Arc<Progress>,
    cancel: Arc<Notify>,
    reservation: Option<Reservation>,
}

/// Progress in percent; it only grows.
#[derive(Debug, Default)]
pub(super) struct Progress(AtomicU8);

/// Cancels a running job and takes its progress.
#[derive(Clone, Debug)]
pub(super) struct JobHandle {
    pub(super) progress: Arc<Progress>,
    /// Notified once when the job was cancelled.
    pub(super) cancel: Arc<Notify>,
}

/// A job that was removed.
#[derive(Debug)]
pub(super) struct RemovedJob {
    /// Whether the runner has it: notified through `cancel`, it cleans up.
    pub(super) was_running: bool,
    pub(super) cancel: Arc<Notify>,
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
    /// Inserts a queued job.
    pub(super) fn insert(&self, id: &str, key_id: &str, progress: u8, reservation: Option<Reservation>) {
        let job = RunningJob {
            key_id: key_id.to_owned(),
            state: JobState::Queued,
            progress: Progress::at(progress),
            cancel: Arc::default(),
            reservation,
        };
        metrics::job_entered(job.state.name());
        if let Some(before) = self.lock().insert(id.to_owned(), job) {
            metrics::job_left(before.state.name());
        }
    }

    /// Marks a job as running; `None` when it is gone.
    pub(super) fn start(&self, id: &str) -> Option<JobHandle> {
        self.set_state(id, JobState::Processing)
    }

    /// Marks a job as queued again: the runner gave it up before its end.
    pub(super) fn requeue(&self, id: &str) {
        self.set_state(id, JobState::Queued);
    }

    fn set_state(&self, id: &str, state: JobState) -> Option<JobHandle> {
        let mut jobs = self.lock();
        let job = jobs.get_mut(id)?;
        metrics::job_left(job.state.name());
        metrics::job_entered(state.name());
        job.state = state;
        Some(JobHandle { progress: Arc::clone(&job.progress), cancel: Arc::clone(&job.cancel) })
    }

    /// Takes a job's reservation, once.
    pub(super) fn take_reservation(&self, id: &str) -> Option<Reservation> {
        self.lock().get_mut(id)?.reservation.take()
    }

    /// Gives a job a reservation; it is released where the job is gone.
    pub(super) fn give_reservation(&self, id: &str, reservation: Reservation) {
        // Dropped outside of the lock: releasing a reservation locks the billing counters.
        let _unused = match self.lock().get_mut(id) {
            Some(job) => job.reservation.replace(reservation),
            None => Some(reservation),
        };
    }

    /// Removes a job.
    pub(super) fn remove(&self, id: &str) -> Option<RemovedJob> {
        let job = self.lock().remove(id)?;
        metrics::job_left(job.state.name());
        Some(RemovedJob { was_running: job.state == JobState::Processing, cancel: job.cancel })
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// The progress of each job of a key.
    pub(super) fn progress_of(&self, key_id: &str) -> HashMap<String, u8> {
        let jobs = self.lock();
        let of_key = jobs.iter().filter(|(_, job)| job.key_id == key_id);
        of_key.map(|(id, job)| (id.clone(), job.progress.get())).collect()
    }

    /// Held for a look-up, never across an await. Nothing panics under it, so poison is no reason to stop.
    fn lock(&self) -> MutexGuard<'_, HashMap<String, RunningJob>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
