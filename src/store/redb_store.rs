//! The store of one machine: a single redb file, owned by one process.

use std::any::Any;
use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use redb::{Builder, Database, DatabaseError, ReadableDatabase, ReadableTable, StorageError, TableHandle};

use super::records::{AccountRecord, KeyRecord, Record};
use super::tables::{ACCOUNTS, KEY_IDS, KEYS, META, META_SCHEMA, SCHEMA};
use super::writer::Writer;
use super::{Change, Done, KeyHash, OpenError, Rows, StateStore};

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
}

impl RedbStore {
    /// Opens the file, creating it (and its folder) where it is missing.
    ///
    /// # Errors
    /// When another process has it open, a newer version wrote it, it is damaged, or the file system refuses.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        if !path.exists() {
            create(path)?;
        }
        // The repair that redb does here after a crash reads the whole file: 0.1 to 0.3 s at 100,000 keys, loading
        // included. Its quick repair was no faster at that size and made a single commit 4 to 10 times slower.
        let opened = guarded(path, || settings().open(path).map_err(|error| refused(path, error)))?;
        let database = Arc::new(OpenDatabase(Some(opened)));
        guarded(path, || check_schema(database.get(), path))?;
        let writer =
            Writer::start(Arc::clone(&database)).map_err(|source| OpenError::Io { path: path.into(), source })?;
        Ok(Self { path: path.into(), writer, database })
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

impl StateStore for RedbStore {
    fn load(&self) -> Result<Rows, OpenError> {
        let path = &self.path;
        guarded(path, || {
            let transaction = self.database.get().begin_read().map_err(|e| unreadable(path, e.into()))?;
            let mut rows = Rows::default();
            let accounts = transaction.open_table(ACCOUNTS).map_err(|e| unreadable(path, e.into()))?;
            for row in accounts.iter().map_err(|e| unreadable(path, e.into()))? {
                let (name, bytes) = row.map_err(|e| unreadable(path, e.into()))?;
                let record = AccountRecord::decode(bytes.value())
                    .map_err(|error| corrupt(path, format!("account {}: {error}", name.value())))?;
                rows.accounts.push(record.latest());
            }
            let keys = transaction.open_table(KEYS).map_err(|e| unreadable(path, e.into()))?;
            for row in keys.iter().map_err(|e| unreadable(path, e.into()))? {
                let (hash, bytes) = row.map_err(|e| unreadable(path, e.into()))?;
                let record =
                    KeyRecord::decode(bytes.value()).map_err(|error| corrupt(path, format!("a key: {error}")))?;
                rows.keys.push((KeyHash(*hash.value()), record.latest()));
            }
            Ok(rows)
        })
    }

    fn submit(&self, change: Change, done: Done) {
        self.writer.submit(change, done);
    }
}

/// A database whose closing cannot take the process down: redb commits once more there, and panics over a damaged page.
#[derive(Debug)]
pub(super) struct OpenDatabase(Option<Database>);

impl OpenDatabase {
    pub(super) const fn get(&self) -> &Database {
        self.0.as_ref().expect("only `drop` takes it")
    }
}

impl Drop for OpenDatabase {
    fn drop(&mut self) {
        let database = self.0.take();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(database))) {
            tracing::error!(reason = panic_text(&*panic), "the store could not be closed cleanly");
        }
    }
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
    fs::create_dir_all(folder).map_err(failed)?;
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

/// All tables and the schema, in one transaction.
fn create_tables(database: &Database) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    transaction.open_table(META)?.insert(META_SCHEMA, SCHEMA)?;
    transaction.open_table(ACCOUNTS)?;
    transaction.open_table(KEYS)?;
    transaction.open_table(KEY_IDS)?;
    transaction.commit()?;
    Ok(())
}

/// Reads the schema of the file before anything else of it.
fn check_schema(database: &Database, path: &Path) -> Result<(), OpenError> {
    let reading = database.begin_read().map_err(|e| unreadable(path, e.into()))?;
    let mut tables = reading.list_tables().map_err(|e| unreadable(path, e.into()))?;
    if !tables.any(|table| table.name() == META.name()) {
        return Err(corrupt(path, "a redb file of another program".into()));
    }
    let meta = reading.open_table(META).map_err(|e| unreadable(path, e.into()))?;
    let schema = meta.get(META_SCHEMA).map_err(|e| unreadable(path, e.into()))?.map(|row| row.value());
    match schema {
        Some(SCHEMA) => Ok(()),
        Some(found) if found > SCHEMA => Err(OpenError::Newer { path: path.into(), found, supported: SCHEMA }),
        Some(found) => Err(corrupt(path, format!("schema {found} never existed"))),
        None => Err(corrupt(path, "it does not say its schema".into())),
    }
}

/// Turns a panic of the storage engine over a damaged file into an error that names the file.
fn guarded<T>(path: &Path, work: impl FnOnce() -> Result<T, OpenError>) -> Result<T, OpenError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(corrupt(path, panic_text(&*panic))))
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    format!("the storage engine gave up: {}", text.unwrap_or("no reason given"))
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

fn unreadable(path: &Path, error: redb::Error) -> OpenError {
    if let redb::Error::Io(source) = error { io_error(path, source) } else { corrupt(path, error.to_string()) }
}

/// redb reports a file that is not its own as an I/O error of these kinds; the rest is the operating system's.
fn io_error(path: &Path, source: io::Error) -> OpenError {
    if matches!(source.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) {
        return corrupt(path, source.to_string());
    }
    OpenError::Io { path: path.into(), source }
}
