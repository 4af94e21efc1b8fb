//! The interface of the file: load what lives in memory, submit changes, query presets and jobs.

use std::io;
use std::path::PathBuf;

use super::{Account, Change, ChangeError, Day, Job, Key, KeyDay, KeyHash, Month, Preset, Request, UnixSeconds, Usage};

/// How long a billed request is remembered, in seconds: [`StateStore::load`] returns no older ones.
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
    /// Account, `Idempotency-Key`, and the request billed under it.
    pub requests: Vec<(String, String, Request)>,
    /// Presets that a change wrote. [`StateStore::load`] omits them: they are read on demand.
    pub presets: Vec<Preset>,
    /// Jobs that a change wrote. [`StateStore::load`] omits them: they are read on demand.
    pub jobs: Vec<Job>,
    /// Account and `Idempotency-Key` of the requests that a [`Change::ForgetRequests`] dropped.
    pub forgotten_requests: Vec<(String, String)>,
}

impl Rows {
    /// Appends the rows of a later change.
    pub(super) fn append(&mut self, later: Self) {
        let Self { accounts, keys, usage, key_days, requests, presets, jobs, forgotten_requests } = later;
        self.accounts.extend(accounts);
        self.keys.extend(keys);
        self.usage.extend(usage);
        self.key_days.extend(key_days);
        self.requests.extend(requests);
        self.presets.extend(presets);
        self.jobs.extend(jobs);
        self.forgotten_requests.extend(forgotten_requests);
    }
}

/// Called once with the rows that a change wrote, in their new form, or with the reason why it did not happen.
///
/// After a fault of the disk the call can be late: it waits until the file shows whether the change was committed. Runs on the
/// store's thread, in commit order (on the caller's thread when the queue is full): it must be short and must not wait for the
/// store.
pub type OnCommit = Box<dyn FnOnce(Result<Rows, ChangeError>) + Send>;

/// A durable store. All reads block: call them on a thread for blocking work.
///
/// A job whose record is damaged or of an unknown version is logged once and left out of every list and of the queue; its
/// row stays. Reading it by id or name fails with an error that has its id.
pub trait StateStore: Send + Sync + std::fmt::Debug + 'static {
    /// Reads what is held in memory: all accounts and keys, the usage of this and the previous month, by account and by key
    /// and day (and of later ones, when the clock ran backwards), and the requests of the last 24 hours, oldest first. Meant for start-up,
    /// before changes are submitted.
    ///
    /// # Errors
    /// When the store is damaged or cannot be read.
    fn load(&self) -> Result<Rows, OpenError>;

    /// Submits a change without blocking; `done` is called with its outcome.
    fn submit(&self, change: Change, done: OnCommit);

    /// One preset by its id.
    ///
    /// # Errors
    /// When the store is damaged or cannot be read.
    fn preset(&self, account: &str, id: &str) -> Result<Option<Preset>, OpenError>;

    /// One preset by its name.
    ///
    /// # Errors
    /// When the store is damaged or cannot be read.
    fn preset_named(&self, account: &str, name: &str) -> Result<Option<Preset>, OpenError>;

    /// Up to `limit` presets of an account by id, ascending, those after the id `after` or from the first one on.
    ///
    /// # Errors
    /// When the store is damaged or cannot be read.
    fn presets(&self, account: &str, after: Option<&str>, limit: usize) -> Result<Vec<Preset>, OpenError>;

    /// Usage of an account's keys on the days from `from` to `to`, both included, by day and key id: up to `limit` rows.
    ///
    /// # Errors
    /// When the store is damaged or cannot be read.
    fn key_days(
        &self,
        account: &str,
        from: Day,
        to: Day,
        limit: usize,
    ) -> Result<Vec<(Day, String, KeyDay)>, OpenError>;

    /// One job by its id.
    ///
    /// # Errors
    /// When the store is damaged or cannot be read.
    fn job(&self, id: &str) -> Result<Option<Job>, OpenError>;

    /// One job by its key and its `Idempotency-Key`.
    ///
    /// # Errors
    /// When the store is damaged or cannot be read.
    fn job_named(&self, key_id: &str, name: &str) -> Result<Option<Job>, OpenError>;

    /// Up to `limit` jobs of a key, newest first, after the job with the place and id `after`, which may be deleted, or from
    /// the newest on.
    ///
    /// # Errors
    /// When the store is damaged or cannot be read.
    fn jobs(&self, key_id: &str, after: Option<(i64, &str)>, limit: usize) -> Result<Vec<Job>, OpenError>;

    /// Up to `limit` queued and running jobs, in the order of the queue.
    ///
    /// # Errors
    /// When the store is damaged or cannot be read.
    fn waiting_jobs(&self, limit: usize) -> Result<Vec<Job>, OpenError>;

    /// The queued job to start next. Accounts take turns, also over a restart: first the account after the
    /// one whose job was started last, and of an account the oldest job.
    ///
    /// # Errors
    /// When the store is damaged or cannot be read.
    fn next_job(&self) -> Result<Option<Job>, OpenError>;

    /// Up to `limit` finished jobs, each with the time when its result or record expires, earliest first.
    ///
    /// # Errors
    /// When the store is damaged or cannot be read.
    fn expiring_jobs(&self, limit: usize) -> Result<Vec<(UnixSeconds, Job)>, OpenError>;

    /// Up to `limit` jobs with a pending webhook, each with the time of the next attempt, earliest first.
    ///
    /// # Errors
    /// When the store is damaged or cannot be read.
    fn webhook_jobs(&self, limit: usize) -> Result<Vec<(UnixSeconds, Job)>, OpenError>;

    /// Why no change can be written at present; `None` while the store works.
    fn fault(&self) -> Option<String> {
        None
    }
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
