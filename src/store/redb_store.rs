//! The state of one machine: a single redb file, owned by one process.

use std::path::Path;
use std::sync::Arc;

use redb::ReadableDatabase;

use super::database_file::{OpenDatabase, Opener, builder, create, read_error};
use super::group_commit::Writer;
use super::storage_fault::Fault;
use super::tables::Reading;
use super::{Account, Change, Day, KeyHash, Month, OnCommit, OpenError, Rows, StateStore, UnixSeconds};

/// A redb file, opened exclusively by this process. All reads block: call them on a thread for blocking work.
///
/// A job whose record is damaged or of an unknown version is logged once and left out of every list and of the queue; its
/// row stays. Reading it by id or name fails with an error that has its id.
#[derive(Debug)]
pub struct RedbStore {
    // Declared before `database`: the writer finishes before the file is closed.
    writer: Writer,
    pub(super) database: Arc<OpenDatabase>,
}

impl RedbStore {
    /// Opens the file, creating it (and its folder) if it is missing, and upgrading an older schema.
    ///
    /// # Errors
    /// When another process has it open, a newer version wrote it, it is damaged, or the file system refuses.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        Self::open_with_opener(Box::new(|path| builder().open(path)), path)
    }

    pub(super) fn open_with_opener(opener: Opener, path: &Path) -> Result<Self, OpenError> {
        if !path.exists() {
            create(path)?;
        }
        let database = Arc::new(OpenDatabase::open(path, opener)?);
        let writer =
            Writer::start(Arc::clone(&database)).map_err(|source| OpenError::Io { path: path.into(), source })?;
        Ok(Self { writer, database })
    }

    /// Reads what is held in memory: all accounts and keys, the usage of the month of `now` and the one before it, by account and
    /// by key and day (and of later ones, when the clock ran backwards), and the unfinished jobs in the order of the queue.
    ///
    /// # Errors
    /// When the store is damaged or cannot be read.
    pub fn load_at(&self, now: UnixSeconds) -> Result<Rows, OpenError> {
        self.read(|tables| {
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
            rows.jobs = tables.jobs.waiting(usize::MAX)?;
            Ok(rows)
        })
    }

    /// The error of work on the database.
    pub(super) fn failed(&self, fault: Fault) -> OpenError {
        read_error(&self.database.path, fault)
    }

    /// Runs `work` on the tables of a snapshot.
    pub(super) fn read<T>(&self, work: impl FnOnce(&Reading<'_>) -> Result<T, Fault>) -> Result<T, OpenError> {
        let result = self.database.with(|database| work(&Reading::open(&database.begin_read()?)?));
        result.map_err(|fault| {
            if fault.is_io() {
                self.writer.report_read_fault(&fault);
            }
            self.failed(fault)
        })
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
        self.database.fault().clone()
    }
}
