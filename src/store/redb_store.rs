//! The state of one machine: a single redb file, owned by one process.

use std::path::Path;
use std::sync::Arc;

use redb::{ReadTransaction, ReadableDatabase};

use super::database_file::{self, OpenDatabase, Opener, builder, create, read_error};
use super::group_commit::Writer;
use super::records::{JobRecord, KeyDayRecord};
use super::reopen::{Reopener, StoreHealth};
use super::storage_fault::Fault;
use super::tables::{Jobs, Meta, Presets, Reading, Records};
use super::{
    Account, Change, Day, Job, KeyDay, KeyHash, LookupBy, Month, OnCommit, OpenError, Preset, REQUEST_SECONDS, Rows,
    StateStore, UnixSeconds,
};

/// A redb file, opened exclusively by this process. All reads block: call them on a thread for blocking work.
///
/// A job whose record is damaged or of an unknown version is logged once and left out of every list and of the queue; its
/// row stays. Reading it by id or name fails with an error that has its id.
#[derive(Debug)]
pub struct RedbStore {
    // Declared before `database`: the writer finishes before the file is closed.
    writer: Writer,
    pub(super) database: Arc<OpenDatabase>,
    health: Arc<StoreHealth>,
}

impl RedbStore {
    /// Opens the file, creating it (and its folder) if it is missing, and upgrading an older schema.
    ///
    /// # Errors
    /// When another process has it open, a newer version wrote it, it is damaged, or the file system refuses.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        Self::open_with_opener(Box::new(|path| builder().open(path)), path)
    }

    /// Whether [`Self::open`] would open the existing file. Nothing is upgraded or started.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn probe(path: &Path) -> Result<(), OpenError> {
        database_file::probe(path)
    }

    pub(super) fn open_with_opener(opener: Opener, path: &Path) -> Result<Self, OpenError> {
        if !path.exists() {
            create(path)?;
        }
        let database = Arc::new(OpenDatabase::open(path, opener)?);
        let health = Arc::new(StoreHealth::default());
        let reopener = Reopener::new(Arc::clone(&database), Arc::clone(&health));
        let writer = Writer::start(Arc::clone(&database), reopener)
            .map_err(|source| OpenError::Io { path: path.into(), source })?;
        Ok(Self { writer, database, health })
    }

    /// Reads what is held in memory: all accounts and keys, the usage of the month of `now` and the one before it, by account and
    /// by key and day (and of later ones, when the clock ran backwards), and the requests of the last 24 hours, oldest first.
    ///
    /// # Errors
    /// When the store is damaged or cannot be read.
    pub fn load_at(&self, now: UnixSeconds) -> Result<Rows, OpenError> {
        self.read(|transaction| {
            let tables = Reading::open(transaction)?;
            let mut rows = Rows::default();
            for row in tables.accounts.all()? {
                rows.accounts.push(row?.1?);
            }
            for row in tables.keys.rows.all()? {
                let (hash, key) = row?;
                rows.keys.push((KeyHash(*hash.value()), key?));
            }
            let first = Month::of(now).previous();
            for row in tables.usage.from((first.0, ""))? {
                let (key, usage) = row?;
                let (month, account) = key.value();
                rows.usage.push((account.to_owned(), Month(month), usage?));
            }
            for Account { name, .. } in &rows.accounts {
                let days = tables.key_days.of_account(name, Day::first_of(first), Day(u32::MAX), usize::MAX)?;
                rows.key_days.extend(days.into_iter().map(|(day, key_id, used)| (name.clone(), day, key_id, used)));
            }
            for row in tables.requests.times(UnixSeconds(now.0.saturating_sub(REQUEST_SECONDS)))? {
                let (_, [account, key]) = row?;
                let request = tables.requests.indexed(&account, &key)?;
                rows.requests.push((account, key, request));
            }
            Ok(rows)
        })
    }

    /// The error of work on the database.
    pub(super) fn failed(&self, fault: Fault) -> OpenError {
        read_error(&self.database.path, fault)
    }

    /// Runs `work` on a snapshot.
    pub(super) fn read<T>(&self, work: impl FnOnce(&ReadTransaction) -> Result<T, Fault>) -> Result<T, OpenError> {
        let generation = self.database.generation();
        let result = self.database.with(|database| work(&database.begin_read()?));
        result.map_err(|fault| {
            if fault.is_io() {
                self.writer.report_read_fault(generation, &fault);
            }
            self.failed(fault)
        })
    }
}

/// Presets, usage and jobs, which are read on demand.
impl RedbStore {
    /// One preset by its id or its name, tried as `first` first.
    ///
    /// # Errors
    /// When the store is damaged or cannot be read.
    pub fn preset(&self, account: &str, id_or_name: &str, first: LookupBy) -> Result<Option<Preset>, OpenError> {
        self.read(|transaction| Presets::open(transaction)?.find(account, id_or_name, first))
    }

    /// Up to `limit` presets of an account by id, ascending, those after the id `after` or from the first one on.
    ///
    /// # Errors
    /// When the store is damaged or cannot be read.
    pub fn presets(&self, account: &str, after: Option<&str>, limit: usize) -> Result<Vec<Preset>, OpenError> {
        self.read(|transaction| Presets::open(transaction)?.page(account, after, limit))
    }

    /// Usage of an account's keys on the days from `from` to `to`, both included, by day and key id: up to `limit` rows.
    ///
    /// # Errors
    /// When the store is damaged or cannot be read.
    pub fn key_days(
        &self,
        account: &str,
        from: Day,
        to: Day,
        limit: usize,
    ) -> Result<Vec<(Day, String, KeyDay)>, OpenError> {
        self.read(|transaction| Records::<_, KeyDayRecord>::open(transaction)?.of_account(account, from, to, limit))
    }

    /// One job by its id.
    ///
    /// # Errors
    /// When the store is damaged or cannot be read.
    pub fn job(&self, id: &str) -> Result<Option<Job>, OpenError> {
        self.read(|transaction| Records::<_, JobRecord>::open(transaction)?.get(id))
    }

    /// One job by its key and its `Idempotency-Key`.
    ///
    /// # Errors
    /// When the store is damaged or cannot be read.
    pub fn job_named(&self, key_id: &str, name: &str) -> Result<Option<Job>, OpenError> {
        self.read(|transaction| Jobs::open(transaction)?.named(key_id, name))
    }

    /// Up to `limit` jobs of a key, newest first, after the job with the place and id `after`, which may be deleted, or from
    /// the newest on.
    ///
    /// # Errors
    /// When the store is damaged or cannot be read.
    pub fn jobs(&self, key_id: &str, after: Option<(i64, &str)>, limit: usize) -> Result<Vec<Job>, OpenError> {
        self.read(|transaction| Jobs::open(transaction)?.page(key_id, after, limit))
    }

    /// Up to `limit` queued and running jobs, in the order of the queue.
    ///
    /// # Errors
    /// When the store is damaged or cannot be read.
    pub fn waiting_jobs(&self, limit: usize) -> Result<Vec<Job>, OpenError> {
        self.read(|transaction| Jobs::open(transaction)?.waiting(limit))
    }

    /// The queued job to start next. Accounts take turns, also over a restart: first the account after the
    /// one whose job was started last, and of an account the oldest job.
    ///
    /// # Errors
    /// When the store is damaged or cannot be read.
    pub fn next_job(&self) -> Result<Option<Job>, OpenError> {
        self.read(|transaction| {
            let last_turn = Meta::open(transaction)?.last_turn()?;
            Jobs::open(transaction)?.next(last_turn)
        })
    }

    /// Up to `limit` finished jobs, each with the time when its result or record expires, earliest first.
    ///
    /// # Errors
    /// When the store is damaged or cannot be read.
    pub fn expiring_jobs(&self, limit: usize) -> Result<Vec<(UnixSeconds, Job)>, OpenError> {
        self.read(|transaction| Jobs::open(transaction)?.expiring(limit))
    }

    /// Up to `limit` jobs with a pending webhook, each with the time of the next attempt, earliest first.
    ///
    /// # Errors
    /// When the store is damaged or cannot be read.
    pub fn webhook_jobs(&self, limit: usize) -> Result<Vec<(UnixSeconds, Job)>, OpenError> {
        self.read(|transaction| Jobs::open(transaction)?.webhooks(limit))
    }
}

impl StateStore for RedbStore {
    fn file(&self) -> &Self {
        self
    }

    fn submit(&self, change: Change, done: OnCommit) {
        self.writer.submit(change, done);
    }

    fn fault(&self) -> Option<String> {
        self.health.fault()
    }
}
