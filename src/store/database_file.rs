//! The redb file of the store: creation, opening, schema upgrade and error mapping.

use std::fmt;
use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use redb::{Builder, Database, DatabaseError, ReadableDatabase, TableHandle};

use super::storage_fault::Fault;
use super::tables::{DROPPED, META, META_SCHEMA, SCHEMA, Writing};
use super::{OpenError, create_private_dir, sync_dir};
use crate::telemetry::panic_message;

/// The path of the store inside a data directory.
#[must_use]
pub fn file_in(data_dir: &Path) -> PathBuf {
    data_dir.join("state.redb")
}

/// Page cache of redb. Everything that is read often is in the program's own maps, so the library's default of 1 GiB would
/// only weaken the daemon's memory limit.
const CACHE_BYTES: usize = 16 << 20;

/// Opens the file, at the start and after a fault. Tests use one on a failing file system.
pub(super) type Opener = Box<dyn Fn(&Path) -> Result<Database, DatabaseError> + Send + Sync>;

/// An open database that can be reopened, and whose closing cannot panic: redb commits once more there, and panics on a
/// damaged page.
///
/// The lock is taken exclusively for the rare work for which redb needs it; all other work shares it.
pub(super) struct OpenDatabase {
    pub(super) path: PathBuf,
    opener: Opener,
    /// `None` after a fault, until it is opened again.
    database: RwLock<Option<Database>>,
    /// Why it cannot be written; `None` while it can.
    fault: Mutex<Option<String>>,
}

impl OpenDatabase {
    /// Opens the file, and upgrades an older schema.
    pub(super) fn open(path: &Path, opener: Opener) -> Result<Self, OpenError> {
        let database = RwLock::new(Some(open_file(path, &opener)?));
        Ok(Self { path: path.into(), opener, database, fault: Mutex::default() })
    }

    /// Closes and reopens the file. When that fails it stays closed.
    pub(super) fn reopen(&self) -> Result<(), OpenError> {
        let mut database = self.database.write().unwrap_or_else(PoisonError::into_inner);
        close(database.take());
        drop_page_cache(&self.path);
        *database = Some(open_file(&self.path, &self.opener)?);
        Ok(())
    }

    /// Why the file cannot be written; `None` while it can. Held for a copy or an assignment.
    pub(super) fn fault(&self) -> MutexGuard<'_, Option<String>> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work`, while others may run too.
    pub(super) fn with<T>(&self, work: impl FnOnce(&Database) -> Result<T, Fault>) -> Result<T, Fault> {
        // A panic under the lock is caught below; poison carries no further information.
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        let database = database.as_ref().ok_or(Fault::Closed)?;
        catch_panic(|| work(database))
    }

    /// Runs `work` with exclusive access, after all other work.
    pub(super) fn exclusive<T>(&self, work: impl FnOnce(&mut Database) -> Result<T, Fault>) -> Result<T, Fault> {
        let mut database = self.database.write().unwrap_or_else(PoisonError::into_inner);
        let database = database.as_mut().ok_or(Fault::Closed)?;
        catch_panic(|| work(database))
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

/// Drops the file's pages from the page cache. After a failed sync they count as written and may not be (Rebello et al.,
/// "Can Applications Recover from fsync Failures?", USENIX ATC 2020). The reopened file must show what is on the disk;
/// redb's checksums find what is missing there.
fn drop_page_cache(path: &Path) {
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
    catch_panic_of_open(path, || {
        let database = opener(path).map_err(|error| read_error(path, error.into()))?;
        match upgrade_schema(&database, path) {
            Ok(()) => Ok(database),
            Err(error) => {
                close(Some(database));
                Err(error)
            }
        }
    })
}

pub(super) fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

/// Creates an empty store under a temporary name and renames it to `path`: redb cannot open a file whose creation was
/// interrupted. A temporary file is readable by its owner only, and so is the store.
pub(super) fn create(path: &Path) -> Result<(), OpenError> {
    let failed = |source| OpenError::Io { path: path.into(), source };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    create_private_dir(folder).map_err(failed)?;
    let fresh = tempfile::Builder::new().prefix("state.").suffix(".new").tempfile_in(folder).map_err(failed)?;
    let database =
        builder().create_file(fresh.reopen().map_err(failed)?).map_err(|error| read_error(path, error.into()))?;
    create_tables(&database).map_err(|error| read_error(path, error))?;
    drop(database);
    fresh.as_file().sync_all().map_err(failed)?;
    match fresh.persist_noclobber(path) {
        Ok(_) => {}
        // Another process was first; its store is as good, and may have rows already.
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed(error.error)),
    }
    sync_dir(folder).map_err(failed)
}

/// Creates all missing tables, deletes the tables that only earlier schemas have and writes the schema, in one transaction.
pub(super) fn create_tables(database: &Database) -> Result<(), Fault> {
    let transaction = database.begin_write()?;
    for table in transaction.list_tables()?.filter(|table| DROPPED.contains(&table.name())) {
        transaction.delete_table(table)?;
    }
    transaction.open_table(META)?.insert(META_SCHEMA, SCHEMA)?;
    drop(Writing::open(&transaction)?);
    transaction.commit()?;
    Ok(())
}

/// Whether [`RedbStore::open`](super::RedbStore::open) would open the existing file, whose schema is not upgraded.
///
/// # Errors
/// As [`RedbStore::open`](super::RedbStore::open).
pub fn probe(path: &Path) -> Result<(), OpenError> {
    catch_panic_of_open(path, || {
        let database = builder().open(path).map_err(|error| read_error(path, error.into()))?;
        let known = known_schema(&database, path).map(drop);
        close(Some(database));
        known
    })
}

/// Reads the schema of the file before anything else, and upgrades an older one.
fn upgrade_schema(database: &Database, path: &Path) -> Result<(), OpenError> {
    let schema = known_schema(database, path)?;
    // Later schemas added tables and record versions, and dropped indexes; old record versions remain readable.
    if schema < SCHEMA {
        create_tables(database).map_err(|fault| read_error(path, fault))?;
        tracing::info!(path = %path.display(), from = schema, to = SCHEMA, "the schema of the store was upgraded");
    }
    Ok(())
}

/// The schema of the file, up to [`SCHEMA`].
fn known_schema(database: &Database, path: &Path) -> Result<u64, OpenError> {
    match schema_of(database).map_err(|fault| read_error(path, fault))? {
        0 => Err(corrupt(path, "schema 0 never existed".into())),
        schema @ 1..=SCHEMA => Ok(schema),
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

/// Converts a panic of the storage engine, as on some kinds of damage, into a fault.
fn catch_panic<T>(work: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(Fault::Panicked(panic_message(&*panic).to_owned())))
}

/// As [`catch_panic`], for the opening of a file.
fn catch_panic_of_open<T>(path: &Path, work: impl FnOnce() -> Result<T, OpenError>) -> Result<T, OpenError> {
    catch_panic(|| Ok(work())).map_err(|fault| read_error(path, fault))?
}

fn corrupt(path: &Path, reason: String) -> OpenError {
    OpenError::Corrupt { path: path.into(), reason }
}

pub(super) fn read_error(path: &Path, fault: Fault) -> OpenError {
    let failed = |source| OpenError::Io { path: path.into(), source };
    match fault {
        Fault::Storage(redb::Error::DatabaseAlreadyOpen) => OpenError::Locked { path: path.into() },
        // So redb reports a foreign file; the other kinds are the operating system's.
        Fault::Storage(redb::Error::Io(source))
            if matches!(source.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) =>
        {
            corrupt(path, source.to_string())
        }
        Fault::Storage(redb::Error::Io(source)) => failed(source),
        Fault::Storage(error @ redb::Error::PreviousIo) => failed(io::Error::other(error)),
        Fault::Closed => failed(io::Error::other(fault.to_string())),
        Fault::Storage(_) | Fault::Damaged(_) | Fault::Panicked(_) | Fault::Refused(_) => {
            corrupt(path, fault.to_string())
        }
    }
}
