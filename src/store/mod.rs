//! The durable state: accounts, keys, presets, what was used, which requests were billed, and jobs.
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
//! - After a storage fault, such as a full disk, the file is opened again (`recovery.rs`). Until it can be written to,
//!   changes are refused with [`ChangeError::Unavailable`] and [`StateStore::fault`] has the reason.

mod apply;
mod check;
mod day;
mod fault;
#[cfg(test)]
mod fault_tests;
mod private;
mod records;
mod recovery;
mod redb_store;
mod reserve;
mod tables;
mod transfer;
mod upkeep;
mod writer;

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

pub use check::{Report, RowCounts};
pub use day::{Day, Generated};
pub use private::{create_private_dir, make_private};
pub use records::{
    AccountModel, AccountRecord, AccountV1, AccountV2, AccountV3, JobError, JobRecord, JobResult, JobState, JobV1,
    KeyDayRecord, KeyDayV1, KeyRecord, KeyV1, KeyV2, KeyV3, Month, NOTHING_FETCHED, Plan, PresetRecord, PresetV1,
    PreviousSecret, Record, RecordError, RequestRecord, RequestV1, RequestV2, UnixSeconds, UsageRecord, UsageV1,
    Webhook,
};
pub use redb_store::RedbStore;
pub use transfer::{ExportError, ImportError};

/// An account in its newest form, whatever version it was stored in.
pub type Account = AccountV3;

/// A key in its newest form, whatever version it was stored in.
pub type Key = KeyV3;

/// A preset in its newest form, whatever version it was stored in.
pub type Preset = PresetV1;

/// What an account used in a month, in the newest form.
pub type Usage = UsageV1;

/// What a key used on a day, in the newest form.
pub type KeyDay = KeyDayV1;

/// A billed request in its newest form.
pub type Request = RequestV2;

/// A job in its newest form.
pub type Job = JobV1;

/// Presets that an account may have.
pub const PRESETS_PER_ACCOUNT: usize = 1000;

/// How long a billed request is remembered, in seconds: [`StateStore::load`] gives none that is older.
pub const REQUEST_SECONDS: i64 = 24 * 60 * 60;

/// Days for which the use by key is kept.
pub const KEY_DAYS_KEPT: u32 = 400;

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

/// Rows of the store, as they are now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// Accounts, each with its unique name.
    pub accounts: Vec<Account>,
    /// Keys, each under the hash of its token; revoked ones too.
    pub keys: Vec<(KeyHash, Key)>,
    /// Account, month, and what the account used in it.
    pub usage: Vec<(String, Month, Usage)>,
    /// What keys used on the days of those months, each with its account, day and key id.
    pub key_days: Vec<(String, Day, String, KeyDay)>,
    /// Account, `Idempotency-Key`, and the request that was billed under it.
    pub requests: Vec<(String, String, Request)>,
    /// Presets that a change wrote. [`StateStore::load`] leaves them out: they are read when they are needed.
    pub presets: Vec<Preset>,
    /// Jobs that a change wrote. [`StateStore::load`] leaves them out: they are read when they are needed.
    pub jobs: Vec<Job>,
    /// Backdrops of the last day on which one was made; nothing before the first.
    pub generated: Option<Generated>,
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
    /// Changes what an account may do. What is `None` stays.
    SetAccount {
        /// Name of the account.
        account: String,
        /// The plan from now on.
        plan: Option<Plan>,
        /// Whether it is on the allow-list of the generated backgrounds from now on.
        generates: Option<bool>,
        /// Which model cuts out for it from now on.
        model: Option<AccountModel>,
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
    /// Gives a working key another secret. All else of the key stays.
    RotateKey {
        /// Public id of the key; a revoked one is refused.
        id: String,
        /// Hash of the token that is replaced; refused where the key has another one by now.
        from: KeyHash,
        /// Hash of the new token, which must be new.
        to: KeyHash,
        /// Until when the replaced token still works; nothing where it stops at once. An older one stops in any case.
        keep_until: Option<UnixSeconds>,
    },
    /// Changes what a working key may do. What is `None` stays.
    SetKey {
        /// Public id of the key; a revoked one is refused.
        id: String,
        /// When it expires from now on; nothing inside for never.
        expires_at: Option<Option<UnixSeconds>>,
        /// Images that it may have made in a month from now on; nothing inside for no bound of its own.
        images_per_month: Option<Option<u64>>,
        /// The endpoints that it is for from now on; none for all of them.
        scopes: Option<Vec<String>>,
    },
    /// Notes when keys were last used. An earlier time than the one noted and an unknown key change nothing.
    TouchKeys {
        /// Public ids, each with the time.
        used: Vec<(String, UnixSeconds)>,
    },
    /// Adds to what an account used in a month, and remembers the request that it was for.
    Bill {
        /// Name of the account.
        account: String,
        /// The month to add to.
        month: Month,
        /// Images to add.
        images: u64,
        /// Millionths of a dollar to add.
        microdollars: u64,
        /// The request with its `Idempotency-Key`, in place of an older one of the same key.
        request: Option<(String, Request)>,
        /// The key and day that the same is added to.
        by: Option<KeyUse>,
    },
    /// Drops what keys used before a day.
    ForgetKeyDays {
        /// The first day to keep.
        before: Day,
    },
    /// Counts one more backdrop that was made, for all accounts together. One of a day before the last changes nothing.
    CountGenerated {
        /// The day on which it was made.
        day: Day,
    },
    /// Drops the requests billed before a time. It holds up the others the longer the more it drops: better often.
    ForgetRequests {
        /// The oldest time to keep.
        before: UnixSeconds,
    },
    /// Adds a preset, or overwrites the one of the same account and id, which keeps its time of creation.
    PutPreset {
        /// The preset; no other of the account may have its name.
        preset: Preset,
    },
    /// As [`Change::PutPreset`], but refused where there is none to overwrite.
    ReplacePreset {
        /// The preset in its new form; no other of the account may have its name.
        preset: Preset,
    },
    /// Removes a preset.
    DeletePreset {
        /// Name of the account.
        account: String,
        /// Public id of the preset.
        id: String,
    },
    /// Adds a job.
    CreateJob {
        /// The job, queued; its id must be new, and its name free for its key.
        job: Box<Job>,
        /// Jobs of the key that may be before their end, this one counted.
        at_most: usize,
    },
    /// Says that a queued job is worked on.
    StartJob {
        /// Public id of the job.
        id: String,
        /// When.
        at: UnixSeconds,
    },
    /// Puts all jobs that are worked on back into the queue, where each has its old place. Gives those.
    RequeueJobs {
        /// When.
        at: UnixSeconds,
    },
    /// Brings a job to its end, once: a job at its end is refused. What it made is billed with that.
    FinishJob {
        /// Public id of the job.
        id: String,
        /// When. A webhook is due then.
        at: UnixSeconds,
        /// When the record goes.
        expires_at: UnixSeconds,
        /// How it ended.
        end: JobEnd,
    },
    /// Notes that the object of a job's result was deleted.
    ForgetJobResult {
        /// Public id of the job, which is at its end.
        id: String,
    },
    /// Notes an attempt to tell of a job's end.
    NoteWebhook {
        /// Public id of the job, which is at its end and has a webhook.
        id: String,
        /// When to try again; nothing for never.
        next_at: Option<UnixSeconds>,
    },
    /// Removes a job that is at its end.
    RemoveJob {
        /// Public id of the job.
        id: String,
    },
}

/// Whose use a bill adds to, beside its account's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyUse {
    /// Public id of the key.
    pub key_id: String,
    /// The day.
    pub day: Day,
    /// Length of the clip that is billed; 0 for pictures.
    pub milliseconds: u64,
}

/// How a job ended.
#[derive(Clone, Debug)]
pub enum JobEnd {
    /// It was worked on, and this came of it.
    Done {
        /// What it made.
        result: JobResult,
        /// What the caller should know, each as a sentence.
        warnings: Vec<String>,
        /// What it adds to what its account used in its month; nothing for a sandbox key.
        bill: Option<Usage>,
    },
    /// It was waiting or worked on, and nothing came of it.
    Failed {
        /// Why.
        error: JobError,
        /// How far it was, 0 to 100.
        progress: u8,
    },
}

/// Called once with the rows that a change wrote, in their new form, or with the reason why it did not happen.
///
/// Runs on the store's own thread, in commit order (a refusal for want of room on the caller's): it must be short and
/// must not wait for the store.
pub type Done = Box<dyn FnOnce(Result<Rows, ChangeError>) + Send>;

/// A durable store. All reads block: in async code they belong on a thread for blocking work.
pub trait StateStore: Send + Sync + std::fmt::Debug + 'static {
    /// Reads what lives in memory: all accounts and keys, the use of this and the previous month, by account and by key
    /// and day (and of later ones, when the clock ran backwards), and the requests of the last 24 hours. Meant for start-up,
    /// before changes are submitted.
    ///
    /// # Errors
    /// When the store is damaged or cannot be read.
    fn load(&self) -> Result<Rows, OpenError>;

    /// Hands over a change without blocking; `done` hears what became of it.
    fn submit(&self, change: Change, done: Done);

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

    /// What the keys of an account used on the days from `from` to `to`, both included, by day and key id: up to `limit`
    /// rows.
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

    /// Up to `limit` jobs of a key, the newest first: those behind the job with the place and id `after`, which may be
    /// gone, or from the newest on.
    ///
    /// # Errors
    /// When the store is damaged or cannot be read.
    fn jobs(&self, key_id: &str, after: Option<(i64, &str)>, limit: usize) -> Result<Vec<Job>, OpenError>;

    /// Up to `limit` jobs that wait or are worked on, in the order of the queue.
    ///
    /// # Errors
    /// When the store is damaged or cannot be read.
    fn waiting_jobs(&self, limit: usize) -> Result<Vec<Job>, OpenError>;

    /// The queued job to begin next, none of `taken`. The accounts take turns, also over a restart: the one behind the
    /// account whose job was begun last comes first, and of an account the oldest job.
    ///
    /// # Errors
    /// When the store is damaged or cannot be read.
    fn next_job(&self, taken: &HashSet<String>) -> Result<Option<Job>, OpenError>;

    /// Up to `limit` jobs at their end, each with the time when something of it is to be deleted, the earliest first.
    ///
    /// # Errors
    /// When the store is damaged or cannot be read.
    fn expiring_jobs(&self, limit: usize) -> Result<Vec<(UnixSeconds, Job)>, OpenError>;

    /// Up to `limit` jobs whose end is to be told, each with the time for that, the earliest first.
    ///
    /// # Errors
    /// When the store is damaged or cannot be read.
    fn webhook_jobs(&self, limit: usize) -> Result<Vec<(UnixSeconds, Job)>, OpenError>;

    /// Why no change can be written at present; nothing while the store works.
    fn fault(&self) -> Option<String> {
        None
    }
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
    /// The key was revoked; it cannot be replaced.
    #[error("key `{0}` is revoked")]
    KeyRevoked(String),
    /// The key got another secret in the meantime.
    #[error("key `{0}` was rotated in the meantime")]
    KeyRotated(String),
    /// Another preset of the account has the name.
    #[error("a preset named `{0}` exists already")]
    PresetNameTaken(String),
    /// The account has [`PRESETS_PER_ACCOUNT`] presets.
    #[error("account `{0}` has {PRESETS_PER_ACCOUNT} presets already")]
    TooManyPresets(String),
    /// Unknown preset id, or another account's.
    #[error("no preset `{0}`")]
    NoSuchPreset(String),
    /// The same id is there already.
    #[error("job `{0}` exists already")]
    JobExists(String),
    /// Another job of the key has the name; this is its id.
    #[error("job `{0}` has this name already")]
    JobNameTaken(String),
    /// The key has as many jobs before their end as it may have.
    #[error("key `{key_id}` has {count} jobs that are not at their end")]
    TooManyJobs {
        /// Public id of the key.
        key_id: String,
        /// How many those are.
        count: usize,
    },
    /// Unknown job id.
    #[error("no job `{0}`")]
    NoSuchJob(String),
    /// The state that the job is in does not allow it.
    #[error("job `{id}` is {}", state.name())]
    JobState {
        /// Public id of the job.
        id: String,
        /// Its state.
        state: JobState,
    },
    /// Too many changes wait; try again in a moment.
    #[error("too many changes are waiting for the disk")]
    Busy,
    /// The store cannot write at present, such as on a full disk; the change did not happen.
    #[error("the store cannot write at present: {0}")]
    Unavailable(String),
    /// The disk or the file failed; the change may or may not have happened.
    #[error("the store failed: {0}")]
    Storage(String),
}
