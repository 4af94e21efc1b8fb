//! The durable state: accounts and keys.
//!
//! [`StateStore`] is what the rest of the program sees; [`RedbStore`] is the store of one machine, a single redb file.
//! Nothing outside this module knows redb, so that a clustered store can stand beside it.
//!
//! The contract:
//! - A [`Change`] is one atomic unit. It is either refused ([`ChangeError`]) and leaves no trace, or it is on the disk
//!   (fsync) before its `done` is called: what was acknowledged survives `kill -9` and a power cut.
//! - `done` is called in the order in which changes took effect, so a reader's copy that is updated there never runs
//!   backwards, even when the caller who asked went away.
//! - Changes that wait while the disk works share the next commit (group commit); nobody waits for a batch to fill.
//! - At [`QUEUED_CHANGES`] waiting changes the next one is refused with [`ChangeError::Busy`].

mod apply;
mod records;
mod redb_store;
mod tables;
mod writer;

use std::io;
use std::path::{Path, PathBuf};

pub use records::{AccountRecord, AccountV1, KeyRecord, KeyV1, Plan, Record, RecordError, UnixSeconds};
pub use redb_store::RedbStore;

/// An account in its newest form, whatever version it was stored in.
pub type Account = AccountV1;

/// A key in its newest form, whatever version it was stored in.
pub type Key = KeyV1;

/// Changes that may wait for the disk; one more is refused rather than queued without end.
pub const QUEUED_CHANGES: usize = 4096;

/// The file of the store inside a data directory.
#[must_use]
pub fn file_in(data_dir: &Path) -> PathBuf {
    data_dir.join("state.redb")
}

/// SHA-256 of a secret token; the only form in which one is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash(pub [u8; 32]);

/// Accounts and keys, as they are now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// Accounts, each with its unique name.
    pub accounts: Vec<Account>,
    /// Keys, each under the hash of its token; revoked ones too.
    pub keys: Vec<(KeyHash, Key)>,
}

/// One change of state: all of it happens, or none.
#[derive(Clone, Debug)]
pub enum Change {
    /// Adds an account, and its first key with it where one is given.
    CreateAccount {
        /// The new account; its name must be free.
        account: Account,
        /// A key of that account.
        first_key: Option<(KeyHash, Key)>,
    },
    /// Puts an account on another plan.
    SetPlan {
        /// Name of the account.
        account: String,
        /// The plan from now on.
        plan: Plan,
    },
    /// Adds a key to an account.
    CreateKey {
        /// Hash of the token.
        hash: KeyHash,
        /// The key; its account must be there, its id and hash must be new.
        key: Key,
    },
    /// Revokes a key for good. Revoking it again keeps the first time.
    RevokeKey {
        /// Public id of the key.
        id: String,
        /// When.
        at: UnixSeconds,
    },
}

/// Called once with the rows that a change wrote, in their new form, or with the reason why it did not happen.
///
/// Runs on the store's own thread, in commit order (a refusal for want of room on the caller's): it must be short and
/// must not wait for the store.
pub type Done = Box<dyn FnOnce(Result<Rows, ChangeError>) + Send>;

/// A durable store of accounts and keys.
pub trait StateStore: Send + Sync + std::fmt::Debug + 'static {
    /// Reads everything. Blocks; meant for start-up, before changes are submitted.
    ///
    /// # Errors
    /// When the store is damaged or cannot be read.
    fn load(&self) -> Result<Rows, OpenError>;

    /// Hands over a change without blocking; `done` hears what became of it.
    fn submit(&self, change: Change, done: Done);
}

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it open; ask that one instead.
    #[error("{} is in use by another process, such as a running daemon", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// A newer version of this program wrote it; no row of it was read or changed.
    #[error("{} has schema {found} from a newer version; this one reads up to schema {supported}", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// The schema it has.
        found: u64,
        /// The newest schema known here.
        supported: u64,
    },
    /// The file is not a store, or its content is damaged; restore a backup.
    #[error("{} is damaged or not a store: {reason}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What was found.
        reason: String,
    },
    /// The file cannot be opened or read.
    #[error("cannot open {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
}

/// Why a change did not happen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// The name is taken.
    #[error("account `{0}` exists already")]
    AccountExists(String),
    /// Unknown account.
    #[error("no account `{0}`")]
    NoSuchAccount(String),
    /// Unknown key id.
    #[error("no key `{0}`")]
    NoSuchKey(String),
    /// The same token or the same id is there already, possibly revoked.
    #[error("this key exists already")]
    KeyExists,
    /// Too many changes wait; try again in a moment.
    #[error("too many changes are waiting for the disk")]
    Busy,
    /// The disk or the file failed; the store takes no more changes until it is opened again.
    #[error("the store failed: {0}")]
    Storage(String),
}
