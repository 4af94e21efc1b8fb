//! Reopening the store after a storage fault.
//!
//! After one failed write or read redb refuses all further work until the file is opened again ("latched" I/O error).
//! The first reopening comes at once. While the file cannot be opened or written to, further ones come after 0.1 s,
//! doubled up to 10 s. Opening repairs the file as after a crash: each transaction is there whole or not at all.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use redb::{Database, Durability, ReadableDatabase};

use super::fault::Fault;
use super::redb_store::OpenDatabase;
use super::tables::{ReadingFacts, Writing};
use crate::telemetry::with_causes;

/// The pause before the second reopening; it doubles with each one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause between two reopenings.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Why the store cannot write, if so. Shared by the writer and the readers of the store.
#[derive(Debug, Default)]
pub(super) struct Health(Mutex<Option<String>>);

impl Health {
    pub(super) fn fault(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, fault: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }
}

/// Brings a failed database back. Owned by the writer's thread.
#[derive(Debug)]
pub(super) struct Recovery {
    database: Arc<OpenDatabase>,
    health: Arc<Health>,
    failed: Option<Failed>,
}

/// A fault that lasts.
#[derive(Debug)]
struct Failed {
    reason: String,
    pause: Duration,
    due: Instant,
}

impl Recovery {
    pub(super) const fn new(database: Arc<OpenDatabase>, health: Arc<Health>) -> Self {
        Self { database, health, failed: None }
    }

    /// Why changes are refused; nothing while the store works.
    pub(super) fn reason(&self) -> Option<&str> {
        self.failed.as_ref().map(|failed| failed.reason.as_str())
    }

    /// How long until [`Self::attempt`] is due; nothing while the store works.
    pub(super) fn due_after(&self) -> Option<Duration> {
        self.failed.as_ref().map(|failed| failed.due.saturating_duration_since(Instant::now()))
    }

    /// Notes that a fault lasts. From now on the store is unready, until an attempt succeeds.
    pub(super) fn fail(&mut self, reason: String) {
        let pause = self.failed.as_ref().map_or(FIRST_PAUSE, |failed| (failed.pause * 2).min(LONGEST_PAUSE));
        if self.failed.is_none() {
            tracing::error!(reason, "the store cannot write; it is opened again until it can");
        }
        self.health.set(Some(reason.clone()));
        self.failed = Some(Failed { reason, pause, due: Instant::now() + pause });
    }

    /// Notes that the store works.
    pub(super) fn succeed(&mut self) {
        if self.failed.take().is_some() {
            self.health.set(None);
            tracing::info!("the store can write again");
        }
    }

    /// Opens the file again; gives how many transactions were committed.
    pub(super) fn reopen(&self) -> Result<u64, String> {
        self.database.reopen().map_err(|error| with_causes(&error))?;
        let commits = |database: &Database| ReadingFacts::open(&database.begin_read()?)?.commits();
        guarded(|| self.database.with(commits)).map_err(|fault| fault.to_string())
    }

    /// Commits a transaction without a change, on a file that was just opened.
    pub(super) fn probe(&self) -> Result<(), Fault> {
        guarded(|| {
            self.database.with(|database| {
                let mut transaction = database.begin_write()?;
                transaction.set_durability(Durability::Immediate)?;
                Writing::open(&transaction)?.facts.count_commit()?;
                transaction.commit()?;
                Ok(())
            })
        })
    }
}

/// Turns a panic of the storage engine into a fault.
pub(super) fn guarded<T>(work: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(Fault::Panicked))
}
