//! What is only in memory of the jobs that are not at their end: how far each is, its part of the quota, and how to stop
//! it.
//!
//! A job enters before it is recorded and leaves after its end is: whoever looks here first and at the record then never
//! sees it go back.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::account::Reservation;
use crate::store::JobState;
use crate::telemetry::metrics;

#[derive(Debug, Default)]
pub(super) struct Lives(Mutex<HashMap<String, Live>>);

/// One job.
#[derive(Debug)]
struct Live {
    key_id: String,
    state: JobState,
    progress: Arc<Progress>,
    cancel: Arc<Notify>,
    reservation: Option<Reservation>,
}

/// How far a job is.
#[derive(Debug, Default)]
pub(super) struct Progress(AtomicU8);

/// What stops a job that is worked on, and hears how far it is.
#[derive(Clone, Debug)]
pub(super) struct Reins {
    pub(super) progress: Arc<Progress>,
    /// Notified once when the job was cancelled.
    pub(super) cancel: Arc<Notify>,
}

/// A job that left.
#[derive(Debug)]
pub(super) struct Left {
    /// Whether somebody works on it, who will hear of it and clean up.
    pub(super) was_running: bool,
    pub(super) cancel: Arc<Notify>,
}

impl Progress {
    /// 100 is for those whose end is recorded.
    const MOST: u8 = 99;

    pub(super) fn at(progress: u8) -> Arc<Self> {
        Arc::new(Self(AtomicU8::new(progress.min(Self::MOST))))
    }

    pub(super) fn get(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn raise(&self, progress: u8) {
        self.0.fetch_max(progress.min(Self::MOST), Ordering::Relaxed);
    }
}

impl Lives {
    /// A job that waits enters.
    pub(super) fn enter(&self, id: &str, key_id: &str, progress: u8, reservation: Option<Reservation>) {
        let live = Live {
            key_id: key_id.to_owned(),
            state: JobState::Queued,
            progress: Progress::at(progress),
            cancel: Arc::default(),
            reservation,
        };
        metrics::job_entered(live.state.name());
        if let Some(before) = self.lock().insert(id.to_owned(), live) {
            metrics::job_left(before.state.name());
        }
    }

    /// Somebody begins to work on a job; nothing when it is gone.
    pub(super) fn begin(&self, id: &str) -> Option<Reins> {
        self.turn(id, JobState::Processing)
    }

    /// Nobody works on a job any more, and it is not at its end.
    pub(super) fn pause(&self, id: &str) {
        self.turn(id, JobState::Queued);
    }

    fn turn(&self, id: &str, state: JobState) -> Option<Reins> {
        let mut lives = self.lock();
        let live = lives.get_mut(id)?;
        metrics::job_left(live.state.name());
        metrics::job_entered(state.name());
        live.state = state;
        Some(Reins { progress: Arc::clone(&live.progress), cancel: Arc::clone(&live.cancel) })
    }

    /// What a job holds of the quota, once.
    pub(super) fn take_reservation(&self, id: &str) -> Option<Reservation> {
        self.lock().get_mut(id)?.reservation.take()
    }

    /// Holds a part of the quota for a job again; given back where the job is gone.
    pub(super) fn give_reservation(&self, id: &str, reservation: Reservation) {
        // Dropped outside of the lock: a reservation that is given back locks the ledger.
        let _unused = match self.lock().get_mut(id) {
            Some(live) => live.reservation.replace(reservation),
            None => Some(reservation),
        };
    }

    /// A job leaves.
    pub(super) fn leave(&self, id: &str) -> Option<Left> {
        let live = self.lock().remove(id)?;
        metrics::job_left(live.state.name());
        Some(Left { was_running: live.state == JobState::Processing, cancel: live.cancel })
    }

    /// How far each job of a key is.
    pub(super) fn progress_of(&self, key_id: &str) -> HashMap<String, u8> {
        let lives = self.lock();
        let of_key = lives.iter().filter(|(_, live)| live.key_id == key_id);
        of_key.map(|(id, live)| (id.clone(), live.progress.get())).collect()
    }

    /// Held for a look-up, never across an await. Nothing panics under it, so poison is no reason to stop.
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Live>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
