//! In-memory state of unfinished jobs: progress, reserved images, and the handle to cancel each.
//!
//! A job is inserted before its record is written and removed after its end is recorded: a reader that takes the
//! progress from here first and then the record never sees the progress decrease. Only the jobs of this daemon are
//! here: the others on its database show the progress that was last recorded, and that of an adopted job begins again.

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
    handle: JobHandle,
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
    /// Notified once when another daemon has adopted the job.
    pub(super) adopted: Arc<Notify>,
}

/// A job that was removed.
#[derive(Debug)]
pub(super) struct RemovedJob {
    /// Whether the runner has it: notified through the handle, it cleans up.
    pub(super) was_running: bool,
    pub(super) handle: JobHandle,
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
            handle: JobHandle { progress: Progress::at(progress), cancel: Arc::default(), adopted: Arc::default() },
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

    /// Marks a job as queued again: the runner gave it up before its end. False when it is gone.
    pub(super) fn requeue(&self, id: &str) -> bool {
        self.set_state(id, JobState::Queued).is_some()
    }

    fn set_state(&self, id: &str, state: JobState) -> Option<JobHandle> {
        let mut jobs = self.lock();
        let job = jobs.get_mut(id)?;
        metrics::job_left(job.state.name());
        metrics::job_entered(state.name());
        job.state = state;
        Some(job.handle.clone())
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
        Some(RemovedJob { was_running: job.state == JobState::Processing, handle: job.handle })
    }

    /// Removes the job that a handle is of, and not one of the same id that was inserted later.
    pub(super) fn remove_of(&self, id: &str, handle: &JobHandle) {
        let mut jobs = self.lock();
        let is_same = jobs.get(id).is_some_and(|job| Arc::ptr_eq(&job.handle.cancel, &handle.cancel));
        let removed = if is_same { jobs.remove(id) } else { None };
        // Before its reservation is released: see `give_reservation`.
        drop(jobs);
        if let Some(job) = removed {
            metrics::job_left(job.state.name());
        }
    }

    /// Whether a job is there.
    pub(super) fn contains(&self, id: &str) -> bool {
        self.lock().contains_key(id)
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
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
