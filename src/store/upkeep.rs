//! Giving space back to the file system while nobody waits.
//!
//! redb reuses the pages of deleted rows, and cuts the file when its end is free. What it does not do by itself is to
//! move a few live pages away from there: after many deletions the file stays as large as it ever was. Compaction moves
//! them, with the database for itself alone, so it is done when no change came for a while and it halves the file.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Duration;

use redb::Database;

use super::fault::Fault;
use super::redb_store::OpenDatabase;

/// No change for this long: nobody waits, and most likely nobody will in the next moment.
pub(super) const IDLE: Duration = Duration::from_secs(10);

/// A file up to this size is left alone.
const SMALL_BYTES: u64 = 8 << 20;

/// Measuring reads the whole file. It is done when there was one change per this many bytes of it: the reading stays in
/// proportion to the writing.
const BYTES_PER_CHANGE: u64 = 16 << 10;

/// What the writer does when it is idle.
#[derive(Debug)]
pub(super) struct Upkeep {
    path: PathBuf,
    idle: Duration,
    changes: u64,
    changes_until_due: u64,
}

impl Upkeep {
    pub(super) const fn new(path: PathBuf, idle: Duration) -> Self {
        // The first look is due at once: an earlier process may have left a large file.
        Self { path, idle, changes: 0, changes_until_due: 0 }
    }

    /// How long the queue has to be empty before [`Self::tidy`] is due; `None` when nothing is to be done.
    pub(super) fn due_after(&self) -> Option<Duration> {
        (self.changes >= self.changes_until_due).then_some(self.idle)
    }

    pub(super) fn note(&mut self, changes: usize) {
        self.changes = self.changes.saturating_add(u64::try_from(changes).unwrap_or(u64::MAX));
    }

    /// Compacts the file where that halves it. A failure is only told: the store works as before.
    pub(super) fn tidy(&mut self, database: &OpenDatabase) {
        let before = self.length();
        (self.changes, self.changes_until_due) = (0, (before / BYTES_PER_CHANGE).max(1));
        if before <= SMALL_BYTES {
            return;
        }
        let path = self.path.display();
        let done = catch_unwind(AssertUnwindSafe(|| match database.with(used_bytes) {
            Ok(used) if used > before / 2 => Ok(false),
            // A reader at this moment means that somebody is there: next time.
            Ok(_) => database.alone_if_free(|database| Ok(database.compact()?)).unwrap_or(Ok(false)),
            Err(fault) => Err(fault),
        }))
        .unwrap_or_else(|_| Err(Fault::Damaged("the storage engine panicked".into())));
        match done {
            Ok(true) => tracing::info!(%path, before, after = self.length(), "the store was compacted"),
            Ok(false) => {}
            Err(error) => tracing::warn!(%path, %error, "the store could not be compacted"),
        }
    }

    fn length(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |file| file.len())
    }
}

/// Bytes of the pages that hold something.
fn used_bytes(database: &Database) -> Result<u64, Fault> {
    let transaction = database.begin_write()?;
    let stats = transaction.stats()?;
    transaction.abort()?;
    Ok(stats.allocated_pages().saturating_mul(u64::try_from(stats.page_size()).unwrap_or(u64::MAX)))
}
