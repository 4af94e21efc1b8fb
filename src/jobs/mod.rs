//! Work that outlives its request: queued in the store, done on the engine's bulk lane, fetched when it is done.
//!
//! ```text
//! create ─▶ queued ─▶ processing ─▶ done ──▶ result deleted after 1 h ─▶ record deleted 24 h after the end
//!              │  ▲        │  │                                                 ▲
//!              │  └ start ─┘  ├───▶ error ───────────────────────────────────────┘
//!              └── cancelled ─┘
//! ```
//!
//! Every state is a record of the store, and every change of it one transaction: what [`Jobs::create`] answered is
//! there after `kill -9`, a finished job is billed in the transaction that finishes it, and so exactly once. In memory
//! are only how far a job is and the means to stop it.
//!
//! - [`Work`] does a job; [`Keep`] holds the results; [`Deliver`] tells the caller's server of the end.
//! - [`Jobs::run`] is all that happens by itself: the work, the deletions, the deliveries.

mod config;
mod document;
mod folders;
mod live;
pub mod results;
mod runner;
pub mod secret;
mod service;
mod space;
mod sweeper;
#[cfg(test)]
mod tests;
mod video_work;
pub mod webhook_sender;
mod webhooks;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::account::{Ledger, Reservation, WriteError};
use crate::store::{OpenError, StateStore};

pub use crate::store::{Job, JobError, JobResult, JobState, UnixSeconds, Webhook};
pub use config::JobsConfig;
pub use document::document;
pub use video_work::VideoWork;

/// How long a result can be fetched, in seconds from the end of its job on.
pub const RESULT_SECONDS: i64 = 60 * 60;

/// How long a job can be looked at, in seconds from its end on (and from its creation on).
pub const RECORD_SECONDS: i64 = 24 * 60 * 60;

/// Jobs on one page of a listing.
pub const MAX_PAGE: usize = 100;

/// The jobs of all keys. Clones share one state.
#[derive(Clone, Debug)]
pub struct Jobs(Arc<service::Shared>);

/// A job that is to be made.
#[derive(Debug)]
pub struct NewJob {
    /// Public id of the key that asks.
    pub key_id: String,
    /// The account that is billed.
    pub account: String,
    /// Asked for with a sandbox key.
    pub test: bool,
    /// What is asked for, judged already: names and values.
    pub fields: Vec<(String, String)>,
    /// The file that it makes, as the field `format` names it.
    pub format: &'static str,
    /// The `Idempotency-Key`.
    pub name: Option<String>,
    /// SHA-256 of everything that the result depends on.
    pub fingerprint: [u8; 32],
    /// Millionths of a dollar for a second of the result; 0 for a sandbox key.
    pub unit_price: u64,
    /// Who hears of its end.
    pub webhook: Option<NewWebhook>,
    /// The images of the quota that it may use: a started second counts as one. Nothing for a sandbox key.
    pub reservation: Option<Reservation>,
}

/// Who is to hear of the end of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewWebhook {
    /// The address, judged already.
    pub url: String,
    /// Scheme and host by which the caller reached this daemon, for the addresses in the message.
    pub base: String,
}

/// What became of a job that was to be made.
#[derive(Clone, Debug, PartialEq)]
pub enum Created {
    /// It waits for its turn.
    New(Shown),
    /// The same was asked for under this name before: that job. Nothing was made.
    Same(Shown),
    /// Something else was asked for under this name before. Nothing was made.
    Conflict,
}

/// A job as its owner sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// The record.
    pub job: Job,
    /// How far it is, 0 to 100: never less than it was, and 100 only when it is done.
    pub progress: u8,
}

/// What became of a job that was to be removed.
#[derive(Clone, Debug, PartialEq)]
pub enum Removed {
    /// It was waiting or under way, and ended with the error `cancelled`; it can still be looked at.
    Cancelled(Box<Shown>),
    /// It was at its end: result and record are gone.
    Deleted,
}

/// Some of a key's jobs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// The newest first.
    pub jobs: Vec<Shown>,
    /// Where the next page begins; nothing on the last one.
    pub next: Option<String>,
}

/// Why a call was not served.
#[derive(Debug, thiserror::Error)]
pub enum JobsError {
    /// The key has as many jobs waiting and under way as it may have.
    #[error("a key has at most {0} jobs waiting or under way; wait for one to end, or cancel one")]
    TooMany(usize),
    /// A cursor that no listing gave.
    #[error("this is not a cursor of a listing of jobs")]
    Cursor,
    /// The store refused or failed.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The store could not be read.
    #[error(transparent)]
    Read(#[from] OpenError),
    /// A file or a folder of a job could not be made, moved or deleted; a full disk for one.
    #[error("{what}")]
    Io {
        /// What was being done.
        what: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The place of the results failed.
    #[error(transparent)]
    Keep(#[from] KeepError),
    /// The disk space of the jobs is used up.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
}

/// Which bound on the disk space of the jobs is reached; for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRoom {
    /// The one on all of their files.
    #[error("clips, segments and results take {used} bytes; with {wanted} more they would exceed {max}")]
    Bound {
        /// Bytes that are taken.
        used: u64,
        /// Bytes to come.
        wanted: u64,
        /// Bytes that they may take.
        max: u64,
    },
    /// The one on the free space of the disk.
    #[error("the disk has {free} bytes free; with {wanted} more taken less than {min_free} would be left")]
    Disk {
        /// Free bytes.
        free: u64,
        /// Bytes to come.
        wanted: u64,
        /// Bytes that stay free.
        min_free: u64,
    },
}

/// A folder for a clip that comes in. Dropped, it is deleted with what is in it; [`Jobs::create`] adopts it.
#[derive(Debug)]
pub struct Incoming {
    /// Nothing once it was adopted.
    folder: Option<PathBuf>,
    _room: space::Room,
}

impl Incoming {
    /// Where the clip is to be written. Nothing is there yet.
    #[must_use]
    pub fn input(&self) -> PathBuf {
        input_in(self.folder.as_deref().unwrap_or(Path::new("")))
    }
}

/// The clip in the folder of a job.
#[must_use]
pub fn input_in(folder: &Path) -> PathBuf {
    folder.join("input")
}

/// Does a job.
pub trait Work: Send + Sync + std::fmt::Debug {
    /// Does `job` in its own `folder`, where [`input_in`] is the clip. Called again with the same folder after a
    /// restart, it goes on where it was. `progress` hears 0 to 100. The future is dropped when the job is cancelled or
    /// the daemon stops: the work ends with it.
    fn run<'a>(
        &'a self,
        job: &'a Job,
        folder: &'a Path,
        progress: &'a (dyn Fn(u8) + Send + Sync),
    ) -> BoxFuture<'a, Result<Done, WorkError>>;
}

/// What a job made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// The file, in the job's folder.
    pub file: PathBuf,
    /// Its media type.
    pub media_type: &'static str,
    /// Frames in it.
    pub frames: u64,
    /// So many frames,
    pub rate_frames: u32,
    /// in so many seconds.
    pub rate_seconds: u32,
    /// What the caller should know, each as a sentence.
    pub warnings: Vec<String>,
}

/// Why a job made nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct WorkError {
    /// One word for programs.
    pub code: &'static str,
    /// A sentence for the caller.
    pub message: String,
    /// Not the caller's fault: it is logged as an error of this service.
    pub internal: bool,
}

impl WorkError {
    /// The disk is full, or the space of the jobs is used up.
    pub(super) fn no_room() -> Self {
        let message = "there is no room left on the service's disk".to_owned();
        Self { code: "unavailable", message, internal: true }
    }
}

/// Holds the results of jobs.
pub trait Keep: Send + Sync + std::fmt::Debug {
    /// Keeps a copy of `file` as the result of a job and gives its name. The name depends on the job alone, so that
    /// putting it again, after a crash, replaces what is there.
    fn put<'a>(
        &'a self,
        job_id: &'a str,
        file: &'a Path,
        media_type: &'a str,
    ) -> BoxFuture<'a, Result<String, KeepError>>;

    /// Deletes a result. One that is not there is as good as deleted.
    fn delete<'a>(&'a self, object: &'a str) -> BoxFuture<'a, Result<(), KeepError>>;

    /// Deletes whatever [`Keep::put`] may have made of a job, also where the process died before the name of it was
    /// recorded. Nothing there is as good as deleted.
    fn discard<'a>(&'a self, job: &'a Job) -> BoxFuture<'a, Result<(), KeepError>>;

    /// The folder of this machine that the results take space in, if there is one.
    fn folder(&self) -> Option<&Path> {
        None
    }
}

/// The place of the results failed; the text is for the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the place of the results failed: {0}")]
pub struct KeepError(pub String);

/// Tells the caller's server of the end of a job.
pub trait Deliver: Send + Sync + std::fmt::Debug {
    /// The message: what a look at the job would answer, made anew for each attempt.
    fn body<'a>(&'a self, shown: &'a Shown) -> BoxFuture<'a, Result<Vec<u8>, KeepError>>;

    /// Sends it once. `webhook_id` is the same at every attempt.
    fn deliver<'a>(&'a self, job: &'a Job, url: &'a str, webhook_id: &'a str, body: Vec<u8>)
    -> BoxFuture<'a, Delivery>;
}

/// What became of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It was taken.
    Delivered,
    /// It was not; the text says why, for the log. It is tried again.
    Retry(String),
    /// Nobody wants it; it is not tried again.
    Gone,
}

/// What [`Jobs`] stands on.
#[derive(Clone, Debug)]
pub struct Means {
    /// Where jobs are recorded.
    pub store: Arc<dyn StateStore>,
    /// Where they are billed.
    pub ledger: Ledger,
    /// Where their results go.
    pub keep: Arc<dyn Keep>,
    /// Who does them.
    pub work: Arc<dyn Work>,
    /// Who tells of their end.
    pub deliver: Arc<dyn Deliver>,
}
