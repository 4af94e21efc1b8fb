//! The changes that the store can make, and why it may refuse one.

use super::{
    Account, AccountModel, Day, Job, JobError, JobResult, JobState, Key, KeyHash, Month, OpenError, Plan, Preset,
    QuotaKind, Request, UnixSeconds, Usage,
};
use crate::telemetry::with_causes;

/// Presets that an account may have.
pub const PRESETS_PER_ACCOUNT: usize = 1000;

/// One change of state: all of it happens, or none.
#[derive(Clone, Debug)]
pub enum Change {
    /// Adds an account, with its first key if one is given.
    CreateAccount {
        /// The new account; its name must be free.
        account: Account,
        /// A key of that account.
        first_key: Option<(KeyHash, Key)>,
    },
    /// Changes an account. `None` leaves a value unchanged.
    SetAccount {
        /// Name of the account.
        account: String,
        /// The plan from now on.
        plan: Option<Plan>,
        /// Whether it is on the allow-list for generated backdrops from now on.
        generates: Option<bool>,
        /// Its model from now on.
        model: Option<AccountModel>,
    },
    /// Adds a key to an account.
    CreateKey {
        /// Hash of the token.
        hash: KeyHash,
        /// The key; its account must exist, its id and hash must be new.
        key: Key,
    },
    /// Changes a key.
    Key {
        /// Public id of the key.
        id: String,
        /// What is changed.
        change: KeyChange,
    },
    /// Records when keys were last used. An earlier time than the recorded one and an unknown key change nothing.
    TouchKeys {
        /// Public ids, each with the time.
        used: Vec<(String, UnixSeconds)>,
    },
    /// Adds to the usage of an account in a month, and remembers the billed request.
    Bill(Bill),
    /// Drops the usage of keys before a day.
    ForgetKeyDays {
        /// The first day to keep.
        before: Day,
    },
    /// Takes one of the generated backdrops of a day, for all accounts together. A day before the last counted one is taken for
    /// that one: a clock that ran backwards gives none back.
    CountGenerated {
        /// The day on which it is to be generated.
        day: Day,
        /// Maximum of a day; one more is refused.
        at_most: u32,
    },
    /// Gives a backdrop back that was not generated after all. One of a day before the last changes nothing.
    ReturnGenerated {
        /// The day of which it was taken.
        day: Day,
    },
    /// Drops the oldest of the requests billed before a time; [`Rows::forgotten_requests`](super::Rows::forgotten_requests)
    /// counts them. It delays other changes in proportion to what it drops.
    ForgetRequests {
        /// The oldest time to keep.
        before: UnixSeconds,
        /// Maximum of requests to drop.
        at_most: usize,
    },
    /// Adds a preset, or overwrites the one of the same account and id, which keeps its creation time.
    PutPreset {
        /// The preset; no other of the account may have its name.
        preset: Preset,
        /// Whether it is refused without a preset to overwrite.
        replaces: bool,
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
        /// Maximum of unfinished jobs of the key, this one included.
        at_most: usize,
    },
    /// Changes a job.
    Job {
        /// Public id of the job.
        id: String,
        /// The claim that runs it, on a database: refused where another one has the job. `None` for whatever claim.
        attempt: Option<i64>,
        /// What is changed.
        change: JobChange,
    },
}

/// A change of one key. A revoked key can only be revoked again.
#[derive(Clone, Debug)]
pub enum KeyChange {
    /// Revokes the key. Revoking it again keeps the first time.
    Revoke {
        /// When.
        at: UnixSeconds,
    },
    /// Replaces the secret.
    Rotate {
        /// Hash of the token to replace; refused where the key has another one by now.
        from: KeyHash,
        /// Hash of the new token, which must be new.
        to: KeyHash,
        /// Until when the replaced token is accepted; `None` to refuse it at once. An older one is refused in any case.
        keep_until: Option<UnixSeconds>,
    },
    /// Changes the restrictions.
    Set(KeyUpdate),
}

/// New restrictions of a key. `None` leaves a value unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyUpdate {
    /// When it expires; `Some(None)` for never.
    pub expires_at: Option<Option<UnixSeconds>>,
    /// Its images in a month; `Some(None)` for the quota of the plan alone.
    pub images_per_month: Option<Option<u64>>,
    /// The endpoints that it may call; empty for all of them.
    pub scopes: Option<Vec<String>>,
}

/// A change of one job.
#[derive(Clone, Debug)]
pub enum JobChange {
    /// Marks a queued job as running.
    Start {
        /// When.
        at: UnixSeconds,
    },
    /// Puts an unfinished job back into the queue, at its old place.
    Requeue {
        /// Its progress, 0 to 100; a smaller one than recorded changes nothing.
        progress: u8,
        /// When.
        at: UnixSeconds,
    },
    /// Finishes a job, with its bill; a finished job is refused.
    Finish {
        /// When. The webhook is due then.
        at: UnixSeconds,
        /// When the record expires.
        expires_at: UnixSeconds,
        /// How it ended.
        end: JobEnd,
    },
    /// Records that the object of a finished job's result was deleted.
    ForgetResult,
    /// Records a webhook attempt of a finished job.
    NoteWebhook {
        /// When to retry; `None` for never.
        next_at: Option<UnixSeconds>,
    },
    /// Removes a finished job.
    Remove,
}

/// What is added to the usage of an account.
#[derive(Clone, Debug)]
pub struct Bill {
    /// Name of the account.
    pub account: String,
    /// The month to add to.
    pub month: Month,
    /// Images to add.
    pub images: u64,
    /// Millionths of a dollar to add.
    pub microdollars: u64,
    /// The request with its `Idempotency-Key`; it replaces an older one of the same key.
    pub request: Option<(String, Request)>,
    /// The key and day whose usage it is added to.
    pub by: Option<KeyUse>,
}

/// The key and day that a bill adds to, in addition to the month of the account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyUse {
    /// Public id of the key.
    pub key_id: String,
    /// The day.
    pub day: Day,
    /// Length of the billed clip; 0 for pictures.
    pub milliseconds: u64,
}

/// How a job ended.
#[derive(Clone, Debug)]
pub enum JobEnd {
    /// With a result.
    Done {
        /// The result.
        result: JobResult,
        /// Warnings for the caller, each a sentence.
        warnings: Vec<String>,
        /// The usage to add to its account's month; `None` for a sandbox key.
        bill: Option<Usage>,
    },
    /// Without a result, queued or running before: by an error, or at the caller's wish, also by a daemon that does not run the
    /// job.
    Failed {
        /// Why.
        error: JobError,
        /// Its progress, 0 to 100.
        progress: u8,
    },
}

/// Why a change did not happen. After `Interrupted`, `Storage` and `Closed` it may have happened.
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
    /// The token or the id exists already, possibly revoked.
    #[error("this key exists already")]
    KeyExists,
    /// The key was revoked; it cannot be changed.
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
    /// The id exists already.
    #[error("job `{0}` exists already")]
    JobExists(String),
    /// Another job of the key has the name; this is its id.
    #[error("job `{0}` has this name already")]
    JobNameTaken(String),
    /// The key has its maximum of unfinished jobs.
    #[error("the key has its maximum of unfinished jobs")]
    TooManyJobs,
    /// Unknown job id.
    #[error("no job `{0}`")]
    NoSuchJob(String),
    /// The job's state does not allow it.
    #[error("job `{id}` is {}", state.name())]
    JobState {
        /// Public id of the job.
        id: String,
        /// Its state.
        state: JobState,
    },
    /// Another daemon runs the job, or none.
    #[error("job `{0}` is not this daemon's any more")]
    JobElsewhere(String),
    /// Fewer images than requested are left of this quota.
    #[error("the images of this month are used up")]
    QuotaExceeded(QuotaKind),
    /// Another daemon has billed a request with the same `Idempotency-Key` in the meantime: this is what it billed.
    #[error("a request with this `Idempotency-Key` was billed in the meantime")]
    RequestBilled(Box<Request>),
    /// The generated backdrops of this day are used up.
    #[error("the backdrops of today are used up; there are new ones from {}", day.ends())]
    GeneratedEnough {
        /// The day.
        day: Day,
    },
    /// Too many changes are waiting; retry in a moment.
    #[error("too many changes are waiting for the disk")]
    Busy,
    /// The store cannot write at present, for instance on a full disk; the change did not happen.
    #[error("the store cannot write at present: {0}")]
    Unavailable(String),
    /// The connection to the database broke during the change, which may or may not have happened.
    #[error("the database went away: {0}")]
    Interrupted(String),
    /// The disk or the file failed; the change may or may not have happened.
    #[error("the store failed: {0}")]
    Storage(String),
    /// The store was closed during the change, which may or may not have happened.
    #[error("the store was closed")]
    Closed,
}

/// For a change that needs a row which cannot be read.
impl From<OpenError> for ChangeError {
    fn from(error: OpenError) -> Self {
        let reason = with_causes(&error);
        if matches!(error, OpenError::Io { .. }) { Self::Unavailable(reason) } else { Self::Storage(reason) }
    }
}
