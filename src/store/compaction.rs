//! Compacts the store's file when the store is idle and compaction halves it.
//!
//! redb reuses the pages of deleted rows and truncates the file when its end is free, but moves no live pages away from
//! there: after many deletions the file stays at its largest size. Compaction moves them, with exclusive access to the
//! database, so it runs only after a time without changes.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use redb::Database;

use super::database_file::OpenDatabase;
use super::reopen::catch_panic;
use super::storage_fault::Fault;

/// The store is idle after this long without a change.
pub(super) const IDLE: Duration = Duration::from_secs(10);

/// A file up to this size is not compacted.
const SMALL_BYTES: u64 = 8 << 20;

/// Measuring reads the whole file. It is done after one change per this many bytes of it, so that reading stays in
/// proportion to writing.
const BYTES_PER_CHANGE: u64 = 16 << 10;

/// When compaction is due, and how it runs.
#[derive(Debug)]
pub(super) struct Compaction {
    path: PathBuf,
    idle: Duration,
    changes: u64,
    changes_until_due: u64,
}

impl Compaction {
    pub(super) const fn new(path: PathBuf, idle: Duration) -> Self {
        // The first check is due at once: an earlier process may have left a large file.
        Self { path, idle, changes: 0, changes_until_due: 0 }
    }

    /// How long the queue has to be empty before [`Self::run`] is due; `None` when there is nothing to do.
    pub(super) fn due_after(&self) -> Option<Duration> {
        (self.changes >= self.changes_until_due).then_some(self.idle)
    }

    /// Counts changes.
    pub(super) fn record(&mut self, changes: usize) {
        self.changes = self.changes.saturating_add(u64::try_from(changes).unwrap_or(u64::MAX));
    }

    /// Compacts the file if that halves it.
    pub(super) fn run(&mut self, database: &OpenDatabase) -> Result<(), Fault> {
        let before = self.length();
        (self.changes, self.changes_until_due) = (0, (before / BYTES_PER_CHANGE).max(1));
        if before <= SMALL_BYTES {
            return Ok(());
        }
        let path = self.path.display();
        let compacted = catch_panic(|| match database.with(used_bytes) {
            Ok(used) if used > before / 2 => Ok(false),
            // A reader at this moment means that the store is not idle: next time.
            Ok(_) => database.exclusive_if_idle(|database| Ok(database.compact()?)).unwrap_or(Ok(false)),
            Err(fault) => Err(fault),
        });
        match compacted {
            Ok(true) => tracing::info!(%path, before, after = self.length(), "the store was compacted"),
            Ok(false) => {}
            Err(fault) => {
                tracing::warn!(%path, error = %fault, "the store could not be compacted");
                return Err(fault);
            }
        }
        Ok(())
    }

    fn length(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |file| file.len())
    }
}

/// Bytes of the allocated pages.
fn used_bytes(database: &Database) -> Result<u64, Fault> {
    let transaction = database.begin_write()?;
    let stats = transaction.stats()?;
    transaction.abort()?;
    Ok(stats.allocated_pages().saturating_mul(u64::try_from(stats.page_size()).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{AccountRecord, AccountV1, Change, Plan, Preset, Record, RedbStore, StateStore, UnixSeconds};
    use redb::StorageBackend;
    use redb::backends::FileBackend;
    use std::fs::OpenOptions;
    use std::io;
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};
    use std::sync::mpsc;

    /// How many times the compaction is interrupted, evenly over its length.
    const CUTS: i64 = 40;
    const PRESETS: usize = 900;
    const KEPT_OF: usize = 30;

    /// A file whose process dies: after `left` changes the next one is half written, and no other at all.
    #[derive(Debug)]
    struct DyingFile {
        file: FileBackend,
        left: Arc<AtomicI64>,
    }

    impl DyingFile {
        fn is_alive(&self) -> bool {
            self.left.fetch_sub(1, Ordering::SeqCst) > 0
        }
    }

    fn dead() -> io::Error {
        io::Error::other("the process is dead")
    }

    impl StorageBackend for DyingFile {
        fn len(&self) -> io::Result<u64> {
            self.file.len()
        }

        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.file.read(offset, out)
        }

        fn set_len(&self, len: u64) -> io::Result<()> {
            if self.is_alive() { self.file.set_len(len) } else { Err(dead()) }
        }

        fn sync_data(&self) -> io::Result<()> {
            if self.is_alive() { self.file.sync_data() } else { Err(dead()) }
        }

        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            match self.left.fetch_sub(1, Ordering::SeqCst) {
                1.. => self.file.write(offset, data),
                0 => self.file.write(offset, &data[..data.len() / 2]).and(Err(dead())),
                _ => Err(dead()),
            }
        }

        fn close(&self) -> io::Result<()> {
            self.file.close()
        }
    }

    fn apply(store: &RedbStore, changes: impl Iterator<Item = Change>) {
        for change in changes {
            let (done, outcome) = mpsc::channel();
            store.submit(change, Box::new(move |result| drop(done.send(result))));
            outcome.recv_timeout(Duration::from_secs(120)).expect("the store answers").expect("a valid change");
        }
    }

    fn preset(number: usize) -> Preset {
        let id = format!("preset_{number:03}");
        let params = format!(r#"{{"text":"{}"}}"#, number.to_string().repeat(5000));
        let at = UnixSeconds(0);
        Preset { name: id.clone(), id, account: "a".into(), endpoint: None, params, created_at: at, updated_at: at }
    }

    /// A store with every thirtieth of the presets that it once had.
    fn sparse(path: &Path) -> Vec<Preset> {
        let store = RedbStore::open(path).expect("a new store");
        let account = AccountV1 { name: "a".into(), plan: Plan::Free, created_at: UnixSeconds(0) };
        let account = AccountRecord::V1(account).latest();
        let account = Change::CreateAccount { account, first_key: None };
        apply(&store, std::iter::once(account));
        apply(&store, (0..PRESETS).map(|number| Change::PutPreset { preset: preset(number) }));
        let gone = (0..PRESETS).filter(|number| number % KEPT_OF != 0);
        apply(&store, gone.map(|number| Change::DeletePreset { account: "a".into(), id: preset(number).id }));
        (0..PRESETS).step_by(KEPT_OF).map(preset).collect()
    }

    /// Compacts a copy of a store in a process that dies after `changes` changes of the file; returns those left.
    fn compact_copy(sparse: &Path, path: &Path, changes: i64) -> i64 {
        fs::copy(sparse, path).expect("a copy");
        let left = Arc::new(AtomicI64::new(i64::MAX));
        let opener = {
            let left = Arc::clone(&left);
            move |path: &Path| {
                let file = OpenOptions::new().read(true).write(true).open(path).expect("it is there");
                let backend = DyingFile { file: FileBackend::new(file)?, left: Arc::clone(&left) };
                redb::Builder::new().create_with_backend(backend)
            }
        };
        let database = OpenDatabase::open(path, Box::new(opener)).expect("it is whole");
        left.store(changes, Ordering::SeqCst);
        drop(Compaction::new(path.into(), IDLE).run(&database));
        // Closing writes, which a dead process does not.
        let left = left.swap(0, Ordering::SeqCst);
        drop(database);
        left
    }

    #[test]
    fn a_store_whose_compaction_was_interrupted_anywhere_is_whole() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (original, path) = (folder.path().join("sparse"), folder.path().join("interrupted"));
        let kept = sparse(&original);
        let length = |path: &Path| fs::metadata(path).expect("it is there").len();
        let before = length(&original);

        let all = i64::MAX - compact_copy(&original, &path, i64::MAX);
        assert!(length(&path) < before / 2, "{} of {before} bytes: nothing was compacted", length(&path));
        assert!(all > CUTS, "{all} changes");
        for cut in (0..CUTS).map(|turn| turn * all / CUTS) {
            assert!(compact_copy(&original, &path, cut) <= 0, "it was not interrupted at {cut} of {all}");
            let store = RedbStore::open(&path).unwrap_or_else(|error| panic!("interrupted at {cut} of {all}: {error}"));
            assert_eq!(
                store.presets("a", None, PRESETS).expect("the store reads"),
                kept,
                "interrupted at {cut} of {all}"
            );
            let report = store.check().expect("the store reads");
            assert!(report.is_sound(), "interrupted at {cut} of {all}: {:?}", report.findings);
        }
    }
}
