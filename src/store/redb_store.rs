//! The store of one machine: a single redb file, owned by one process.

use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, TryLockError};
use std::time::{Duration, Instant};

use crate::telemetry::panic_message;
use redb::{Builder, Database, DatabaseError, ReadTransaction, ReadableDatabase, StorageError, TableHandle};

use super::fault::Fault;
use super::recovery::{Health, Recovery};
use super::reserve::Reserve;
use super::tables::{Jobs, KeyDays, META, META_SCHEMA, Presets, Reading, ReadingFacts, SCHEMA, Writing};
use super::upkeep::{self, Upkeep};
use super::writer::Writer;
use super::{
    Change, Day, Done, Job, KeyDay, Month, OpenError, Preset, REQUEST_SECONDS, Rows, StateStore, UnixSeconds,
    create_private_dir,
};

/// Pages that redb may keep in memory. Everything that is read often lives in the program's own maps, so the library's
/// default of 1 GiB would only be a hole in the daemon's memory bound.
const CACHE_BYTES: usize = 16 << 20;

/// How often a locked file is tried again while waiting for it.
const LOCK_RETRY: Duration = Duration::from_millis(25);

/// A redb file, opened for this process alone.
#[derive(Debug)]
pub struct RedbStore {
    path: PathBuf,
    // Declared before `database`: the writer finishes before the file is closed.
    writer: Writer,
    database: Arc<OpenDatabase>,
    health: Arc<Health>,
}

/// Opens the file, at the start and after a fault. Tests put a file system that fails in its place.
pub(super) type Opener = Box<dyn Fn(&Path) -> Result<Database, DatabaseError> + Send + Sync>;

impl RedbStore {
    /// Opens the file, creating it (and its folder) where it is missing, and bringing one of an older schema up to date.
    ///
    /// # Errors
    /// When another process has it open, a newer version wrote it, it is damaged, or the file system refuses.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        Self::open_idling(path, upkeep::IDLE)
    }

    /// As [`Self::open`], with another time without a change after which the store tidies itself up.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_idling(path: &Path, idle: Duration) -> Result<Self, OpenError> {
        Self::open_by(Box::new(|path| settings().open(path)), path, idle, Reserve::none())
    }

    /// As [`Self::open`], with disk space allocated ahead of the file: it can grow by `bytes` on a disk that other files
    /// have filled. Nothing is allocated on a file system that cannot do so, or has too little room.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_reserving(path: &Path, bytes: u64) -> Result<Self, OpenError> {
        Self::open_by(Box::new(|path| settings().open(path)), path, upkeep::IDLE, Reserve::ahead_of(path, bytes))
    }

    pub(super) fn open_by(opener: Opener, path: &Path, idle: Duration, reserve: Reserve) -> Result<Self, OpenError> {
        if !path.exists() {
            create(path)?;
        }
        let database = Arc::new(OpenDatabase::open(path, opener)?);
        let health = Arc::new(Health::default());
        let recovery = Recovery::new(Arc::clone(&database), Arc::clone(&health));
        let writer = Writer::start(Arc::clone(&database), Upkeep::new(path.into(), idle), recovery, reserve)
            .map_err(|source| OpenError::Io { path: path.into(), source })?;
        Ok(Self { path: path.into(), writer, database, health })
    }

    /// As [`Self::open`], but waits up to `patience` for another process to close the file: a command that looks at the
    /// store for a moment must not keep a daemon from starting.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_within(path: &Path, patience: Duration) -> Result<Self, OpenError> {
        let start = Instant::now();
        loop {
            let opened = Self::open(path);
            if !matches!(opened, Err(OpenError::Locked { .. })) || start.elapsed() >= patience {
                return opened;
            }
            std::thread::sleep(LOCK_RETRY);
        }
    }
}

impl RedbStore {
    /// As [`StateStore::load`], at a time of the caller's choice.
    ///
    /// # Errors
    /// As [`StateStore::load`].
    pub fn load_at(&self, now: UnixSeconds) -> Result<Rows, OpenError> {
        self.read(|transaction| {
            let tables = Reading::open(transaction)?;
            let mut rows = Rows::default();
            for row in tables.accounts.rows()? {
                rows.accounts.push(row?.1?);
            }
            for row in tables.keys.rows()? {
                let (hash, key) = row?;
                rows.keys.push((hash, key?));
            }
            for row in tables.usage.rows(Month::of(now).previous())? {
                let (account, month, usage) = row?;
                rows.usage.push((account, month, usage?));
            }
            let first = Day::first_of(Month::of(now).previous());
            for account in &rows.accounts {
                for (day, key_id, used) in
                    tables.key_days.of_account(&account.name, first, Day(u32::MAX), usize::MAX)?
                {
                    rows.key_days.push((account.name.clone(), day, key_id, used));
                }
            }
            for row in tables.requests.times(UnixSeconds(now.0.saturating_sub(REQUEST_SECONDS)))? {
                let (_, [account, key]) = row?;
                let request = tables.requests.indexed(&account, &key)?;
                rows.requests.push((account, key, request));
            }
            rows.generated = tables.facts.generated()?;
            Ok(rows)
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn database(&self) -> &OpenDatabase {
        &self.database
    }

    /// Runs `work` while nobody else reads or writes.
    pub(super) fn exclusively<T>(&self, work: impl FnOnce(&mut Database) -> Result<T, Fault>) -> Result<T, OpenError> {
        guarded(&self.path, || self.database.alone(work).map_err(|fault| unreadable(&self.path, fault)))
    }

    /// Runs `work` on a snapshot.
    pub(super) fn read<T>(&self, work: impl FnOnce(&ReadTransaction) -> Result<T, Fault>) -> Result<T, OpenError> {
        guarded(&self.path, || {
            let opening = self.database.opening();
            let result = self.database.with(|database| work(&database.begin_read()?));
            result.map_err(|fault| {
                if fault.is_io() {
                    self.writer.report(opening, &fault);
                }
                unreadable(&self.path, fault)
            })
        })
    }
}

impl StateStore for RedbStore {
    fn load(&self) -> Result<Rows, OpenError> {
        self.load_at(UnixSeconds::now())
    }

    fn submit(&self, change: Change, done: Done) {
        self.writer.submit(change, done);
    }

    fn preset(&self, account: &str, id: &str) -> Result<Option<Preset>, OpenError> {
        self.read(|transaction| Presets::open(transaction)?.get(account, id))
    }

    fn preset_named(&self, account: &str, name: &str) -> Result<Option<Preset>, OpenError> {
        self.read(|transaction| Presets::open(transaction)?.find(account, name))
    }

    fn presets(&self, account: &str, after: Option<&str>, limit: usize) -> Result<Vec<Preset>, OpenError> {
        self.read(|transaction| Presets::open(transaction)?.page(account, after, limit))
    }

    fn key_days(
        &self,
        account: &str,
        from: Day,
        to: Day,
        limit: usize,
    ) -> Result<Vec<(Day, String, KeyDay)>, OpenError> {
        self.read(|transaction| KeyDays::open(transaction)?.of_account(account, from, to, limit))
    }

    fn job(&self, id: &str) -> Result<Option<Job>, OpenError> {
        self.read(|transaction| Jobs::open(transaction)?.get(id))
    }

    fn job_named(&self, key_id: &str, name: &str) -> Result<Option<Job>, OpenError> {
        self.read(|transaction| Jobs::open(transaction)?.named(key_id, name))
    }

    fn jobs(&self, key_id: &str, after: Option<(i64, &str)>, limit: usize) -> Result<Vec<Job>, OpenError> {
        self.read(|transaction| Jobs::open(transaction)?.page(key_id, after, limit))
    }

    fn waiting_jobs(&self, limit: usize) -> Result<Vec<Job>, OpenError> {
        self.read(|transaction| Jobs::open(transaction)?.waiting(limit))
    }

    fn next_job(&self, taken: &HashSet<String>) -> Result<Option<Job>, OpenError> {
        self.read(|transaction| {
            let last_turn = ReadingFacts::open(transaction)?.last_turn()?;
            Jobs::open(transaction)?.next(last_turn, taken)
        })
    }

    fn expiring_jobs(&self, limit: usize) -> Result<Vec<(UnixSeconds, Job)>, OpenError> {
        self.read(|transaction| Jobs::open(transaction)?.expiring(limit))
    }

    fn webhook_jobs(&self, limit: usize) -> Result<Vec<(UnixSeconds, Job)>, OpenError> {
        self.read(|transaction| Jobs::open(transaction)?.webhooks(limit))
    }

    fn fault(&self) -> Option<String> {
        self.health.fault()
    }
}

/// A database whose closing cannot take the process down: redb commits once more there, and panics over a damaged page.
///
/// The lock is for the rare work that redb wants the database alone for; all other work shares it.
pub(super) struct OpenDatabase {
    path: PathBuf,
    opener: Opener,
    /// Nothing after a fault, until it could be opened again.
    database: RwLock<Option<Database>>,
    /// How many times it was opened.
    openings: AtomicU64,
}

impl OpenDatabase {
    /// Opens the file, and brings one of an older schema up to date.
    pub(super) fn open(path: &Path, opener: Opener) -> Result<Self, OpenError> {
        let database = RwLock::new(Some(open_file(path, &opener)?));
        Ok(Self { path: path.into(), opener, database, openings: AtomicU64::new(0) })
    }

    /// Closes the file and opens it again. When that fails it stays closed.
    pub(super) fn reopen(&self) -> Result<(), OpenError> {
        let mut database = self.database.write().unwrap_or_else(PoisonError::into_inner);
        close(database.take());
        self.openings.fetch_add(1, Ordering::Release);
        forget_cached(&self.path);
        *database = Some(open_file(&self.path, &self.opener)?);
        Ok(())
    }

    /// The number of the present opening of the file.
    pub(super) fn opening(&self) -> u64 {
        self.openings.load(Ordering::Acquire)
    }

    pub(super) fn with<T, E: From<Fault>>(&self, work: impl FnOnce(&Database) -> Result<T, E>) -> Result<T, E> {
        // A panic is caught and logged where it happens; the lock has nothing to add to it.
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        database.as_ref().map_or_else(|| Err(Fault::Closed.into()), work)
    }

    /// Waits for everybody else, and keeps them waiting.
    fn alone<T>(&self, work: impl FnOnce(&mut Database) -> Result<T, Fault>) -> Result<T, Fault> {
        let mut database = self.database.write().unwrap_or_else(PoisonError::into_inner);
        database.as_mut().map_or(Err(Fault::Closed), work)
    }

    /// As [`Self::alone`], but `None` when somebody is at work.
    pub(super) fn alone_if_free<T>(&self, work: impl FnOnce(&mut Database) -> T) -> Option<T> {
        let mut database = match self.database.try_write() {
            Ok(database) => database,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        database.as_mut().map(work)
    }
}

impl fmt::Debug for OpenDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenDatabase").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Drop for OpenDatabase {
    fn drop(&mut self) {
        close(self.database.get_mut().unwrap_or_else(PoisonError::into_inner).take());
    }
}

fn close(database: Option<Database>) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(database))) {
        tracing::error!(reason = panic_message(&*panic), "the store could not be closed cleanly");
    }
}

/// Drops the pages of the file that the system has in memory. After a failed sync they count as written and may not be
/// (Rebello et al., "Can Applications Recover from fsync Failures?", USENIX ATC 2020). The reopened file has to show what
/// the disk holds; redb's checksums find what is missing there.
fn forget_cached(path: &Path) {
    #[cfg(target_os = "linux")]
    if let Ok(file) = fs::File::open(path) {
        let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = path;
}

fn open_file(path: &Path, opener: &Opener) -> Result<Database, OpenError> {
    // The repair that redb does here after a crash reads the whole file: 0.1 to 0.3 s at 100,000 keys, loading
    // included. Its quick repair was no faster at that size and made a single commit 4 to 10 times slower.
    guarded(path, || {
        let database = opener(path).map_err(|error| refused(path, error))?;
        match bring_up_to_date(&database, path) {
            Ok(()) => Ok(database),
            Err(error) => {
                close(Some(database));
                Err(error)
            }
        }
    })
}

fn settings() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

/// Makes an empty store beside `path` and puts it there whole: redb cannot open a file whose creation was cut short.
///
/// A temporary file is readable by its owner only, and so is the store.
fn create(path: &Path) -> Result<(), OpenError> {
    let failed = |source| OpenError::Io { path: path.into(), source };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    create_private_dir(folder).map_err(failed)?;
    let fresh = tempfile::Builder::new().prefix("state.").suffix(".new").tempfile_in(folder).map_err(failed)?;
    let database = settings().create_file(fresh.reopen().map_err(failed)?).map_err(|error| refused(path, error))?;
    create_tables(&database).map_err(|error| unreadable(path, error))?;
    drop(database);
    fresh.as_file().sync_all().map_err(failed)?;
    match fresh.persist_noclobber(path) {
        Ok(_) => {}
        // Another process was faster; its store is as good, and may hold something already.
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed(error.error)),
    }
    #[cfg(unix)]
    fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
    Ok(())
}

/// All tables and the schema, in one transaction. What is there already stays.
fn create_tables(database: &Database) -> Result<(), Fault> {
    let transaction = database.begin_write()?;
    transaction.open_table(META)?.insert(META_SCHEMA, SCHEMA)?;
    drop(Writing::open(&transaction)?);
    transaction.commit()?;
    Ok(())
}

/// Reads the schema of the file before anything else of it, and raises an older one to this version's.
fn bring_up_to_date(database: &Database, path: &Path) -> Result<(), OpenError> {
    let schema = schema_of(database).map_err(|fault| unreadable(path, fault))?;
    match schema {
        SCHEMA => Ok(()),
        // What later schemas added are tables, and versions of records: the old ones are read as long as they are there.
        1..SCHEMA => {
            create_tables(database).map_err(|fault| unreadable(path, fault))?;
            tracing::info!(path = %path.display(), from = schema, to = SCHEMA, "the store was brought up to date");
            Ok(())
        }
        0 => Err(corrupt(path, "schema 0 never existed".into())),
        found => Err(OpenError::Newer { path: path.into(), found, supported: SCHEMA }),
    }
}

fn schema_of(database: &Database) -> Result<u64, Fault> {
    let reading = database.begin_read()?;
    if !reading.list_tables()?.any(|table| table.name() == META.name()) {
        return Err(Fault::Damaged("a redb file of another program".into()));
    }
    let schema = reading.open_table(META)?.get(META_SCHEMA)?.map(|row| row.value());
    schema.ok_or_else(|| Fault::Damaged("it does not say its schema".into()))
}

/// Turns a panic of the storage engine over a damaged file into an error that names the file.
pub(super) fn guarded<T>(path: &Path, work: impl FnOnce() -> Result<T, OpenError>) -> Result<T, OpenError> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(corrupt(path, format!("the storage engine panicked: {}", panic_message(&*panic)))))
}

fn corrupt(path: &Path, reason: String) -> OpenError {
    OpenError::Corrupt { path: path.into(), reason }
}

fn refused(path: &Path, error: DatabaseError) -> OpenError {
    if matches!(error, DatabaseError::DatabaseAlreadyOpen) {
        return OpenError::Locked { path: path.into() };
    }
    if let DatabaseError::Storage(StorageError::Io(source)) = error {
        return io_error(path, source);
    }
    corrupt(path, error.to_string())
}

pub(super) fn unreadable(path: &Path, fault: Fault) -> OpenError {
    match fault {
        Fault::Storage(error) => {
            if let redb::Error::Io(source) = error {
                io_error(path, source)
            } else if matches!(error, redb::Error::PreviousIo) {
                io_error(path, io::Error::other(error))
            } else {
                corrupt(path, error.to_string())
            }
        }
        Fault::Damaged(reason) => corrupt(path, reason),
        Fault::Panicked => corrupt(path, fault.to_string()),
        Fault::Closed => io_error(path, io::Error::other(fault.to_string())),
    }
}

/// redb reports a file that is not its own as an I/O error of these kinds; the rest is the operating system's.
fn io_error(path: &Path, source: io::Error) -> OpenError {
    if matches!(source.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) {
        return corrupt(path, source.to_string());
    }
    OpenError::Io { path: path.into(), source }
}
