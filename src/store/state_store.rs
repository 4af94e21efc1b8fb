//! What the file and its users exchange: changes, the rows that they wrote, and errors.

use std::io;
use std::path::PathBuf;

use super::{Account, Change, ChangeError, Day, Job, Key, KeyDay, KeyHash, Month, Preset, RedbStore, Usage};

/// How long a billed request is remembered, in seconds.
pub const REQUEST_SECONDS: i64 = 24 * 60 * 60;

/// Days for which usage by key is kept.
pub const KEY_DAYS_KEPT: u32 = 400;

/// Changes that may wait for the disk; one more is refused.
pub const QUEUED_CHANGES: usize = 4096;

/// Rows of the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// Accounts, each with its unique name.
    pub accounts: Vec<Account>,
    /// Keys, each with the hash of its token; revoked ones included.
    pub keys: Vec<(KeyHash, Key)>,
    /// Account, month, and the account's usage in it.
    pub usage: Vec<(String, Month, Usage)>,
    /// Account, day, key id, and the key's usage on it.
    pub key_days: Vec<(String, Day, String, KeyDay)>,
    /// Presets that a change wrote. [`RedbStore::load_at`] omits them: they are read on demand.
    pub presets: Vec<Preset>,
    /// Jobs. [`RedbStore::load_at`] omits those that have ended: they are read on demand.
    pub jobs: Vec<Job>,
    /// How many requests a [`Change::ForgetRequests`] dropped.
    pub forgotten_requests: usize,
}

/// Called once with the rows that a change wrote, in their new form, or with the reason why it did not happen.
///
/// After a fault of the disk the call can be late: it waits until the file shows whether the change was committed. Runs on the
/// store's thread, in commit order (on the caller's thread when the queue is full): it must be short and must not wait for the
/// store.
pub type OnCommit = Box<dyn FnOnce(Result<Rows, ChangeError>) + Send>;

/// Where the changes of a file go: to the file itself, or in tests to a double in front of it that fails on demand.
pub trait StateStore: Send + Sync + std::fmt::Debug + 'static {
    /// The file, for reads.
    fn file(&self) -> &RedbStore;

    /// Submits a change without blocking; `done` is called with its outcome.
    fn submit(&self, change: Change, done: OnCommit);

    /// Why no change can be written at present; `None` while the store works.
    fn fault(&self) -> Option<String>;
}

/// Whether a reference to a preset is tried first as an id or as a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupBy {
    /// The id.
    Id,
    /// The name.
    Name,
}

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it open, or uses the database in a way that excludes this one.
    #[error("{} is in use by another process, such as a running daemon", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// A newer version of this program wrote it; no row was read or changed.
    #[error("{} has schema {found} from a newer version; this one reads up to schema {supported}", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// The schema it has.
        found: u64,
        /// The newest supported schema.
        supported: u64,
    },
    /// The file is not a store, or its content is damaged; restore a backup.
    #[error("{} is damaged or not a store: {reason}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The file or database cannot be opened or read.
    #[error("cannot open {}", path.display())]
    Io {
        /// The file, or the address of the database.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
}
