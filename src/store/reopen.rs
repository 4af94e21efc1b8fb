//! Reopens the store's file after a storage fault, with exponential backoff, until it can be written.
//!
//! After one failed write or read redb refuses all further work until the file is opened again ("latched" I/O error).
//! The first attempt follows at once, further ones after 0.1 s, doubled up to 10 s. Opening repairs the file as after a
//! crash: each transaction is present as a whole or not at all. The jobs of a crashed daemon are `jobs/recovery.rs`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use redb::{Database, Durability, ReadableDatabase};

use super::database_file::OpenDatabase;
use super::storage_fault::Fault;
use super::tables::{Meta, Writing};
use crate::telemetry::with_causes;

/// The pause before the second attempt; it doubles with each one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Why the store cannot write, if it cannot. Shared by its writer and readers.
#[derive(Debug, Default)]
pub(super) struct StoreHealth(Mutex<Option<String>>);

impl StoreHealth {
    pub(super) fn fault(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, fault: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }
}

/// Reopens a failed database. Owned by the writer's thread.
#[derive(Debug)]
pub(super) struct Reopener {
    database: Arc<OpenDatabase>,
    health: Arc<StoreHealth>,
    /// While the store cannot write: the pause before the next attempt, and when it is due.
    next: Option<(Duration, Instant)>,
}

impl Reopener {
    pub(super) const fn new(database: Arc<OpenDatabase>, health: Arc<StoreHealth>) -> Self {
        Self { database, health, next: None }
    }

    /// Why changes are refused; `None` while the store works.
    pub(super) fn reason(&self) -> Option<String> {
        self.health.fault()
    }

    /// How long until the next attempt is due; `None` while the store works.
    pub(super) fn due_after(&self) -> Option<Duration> {
        self.next.map(|(_, due)| due.saturating_duration_since(Instant::now()))
    }

    /// Records a persistent fault: the store is unready until an attempt succeeds.
    pub(super) fn fail(&mut self, reason: String) {
        if self.next.is_none() {
            tracing::error!(reason, "the store cannot write; it is reopened until it can");
        }
        let pause = self.next.map_or(FIRST_PAUSE, |(pause, _)| (pause * 2).min(LONGEST_PAUSE));
        self.health.set(Some(reason));
        self.next = Some((pause, Instant::now() + pause));
    }

    /// Records that the store works.
    pub(super) fn succeed(&mut self) {
        if self.next.take().is_some() {
            self.health.set(None);
            tracing::info!("the store can write again");
        }
    }

    /// Opens the file again; returns how many transactions were committed.
    pub(super) fn reopen(&self) -> Result<u64, String> {
        self.database.reopen().map_err(|error| with_causes(&error))?;
        let commits = |database: &Database| Meta::open(&database.begin_read()?)?.commits();
        self.database.with(commits).map_err(|fault| fault.to_string())
    }

    /// Commits a transaction without a change, to test whether the file can be written.
    pub(super) fn probe(&self) -> Result<(), Fault> {
        self.database.with(|database| {
            let mut transaction = database.begin_write()?;
            transaction.set_durability(Durability::Immediate)?;
            Writing::open(&transaction)?.meta.count_commit()?;
            Ok(transaction.commit()?)
        })
    }
}
