//! Dependencies of the job service: the store, and the traits `Worker`, `ResultStore` and `WebhookTransport`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::job_view::JobView;
use crate::store::{Job, Store};

/// What [`Jobs`](super::Jobs) depends on.
#[derive(Clone, Debug)]
pub struct Deps {
    /// Stores and bills the jobs.
    pub store: Store,
    /// Stores the results, and clips for other daemons.
    pub results: Arc<dyn ResultStore>,
    /// Executes the jobs.
    pub worker: Arc<dyn Worker>,
    /// Sends the webhooks.
    pub webhooks: Arc<dyn WebhookTransport>,
}

/// Executes a job.
pub trait Worker: Send + Sync + std::fmt::Debug {
    /// Executes `job` in its own `folder`; the clip is [`input_in`](super::input_in) it. Called again with the same
    /// folder after a restart, it resumes. `progress` takes 0 to 100. The future is dropped when the job is cancelled or
    /// the daemon stops: the work must end with it.
    fn run<'a>(
        &'a self,
        job: &'a Job,
        folder: &'a Path,
        progress: &'a (dyn Fn(u8) + Send + Sync),
    ) -> BoxFuture<'a, Result<WorkOutput, WorkError>>;

    /// Whether all work waits for something outside of the jobs, such as a network that cannot be loaded. Jobs then do not count
    /// as stalled.
    fn is_waiting(&self) -> bool {
        false
    }

    /// What the folder of a job has from which the job resumes, also in a copy of the folder on another machine; `None`
    /// before there is anything. Blocks for a short time.
    ///
    /// # Errors
    /// When the folder cannot be read.
    fn checkpoint(&self, folder: &Path) -> io::Result<Option<WorkCheckpoint>>;
}

/// The complete files in a job's folder from which it resumes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkCheckpoint {
    /// What the files are of; files of two plans are of no use together.
    pub plan: Vec<u8>,
    /// The files. While the plan is the same they do not change, and more are added.
    pub files: Vec<PathBuf>,
}

/// The output of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkOutput {
    /// The file, in the job's folder.
    pub file: PathBuf,
    /// Its media type.
    pub media_type: &'static str,
    /// Frames in it.
    pub frames: u64,
    /// Numerator of the frame rate: frames in [`Self::rate_seconds`].
    pub rate_frames: u32,
    /// Denominator of the frame rate, in seconds.
    pub rate_seconds: u32,
    /// Warnings for the caller, each a sentence.
    pub warnings: Vec<String>,
}

/// Why a job has no output.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct WorkError {
    /// One word for programs.
    pub code: &'static str,
    /// A sentence for the caller.
    pub message: String,
    /// A fault of this service, to be logged as an error.
    pub internal: bool,
}

impl WorkError {
    /// The disk is full, or the disk space of the jobs is used up.
    pub(super) fn no_disk_space() -> Self {
        let message = "there is no room left on the service's disk".to_owned();
        Self { code: "unavailable", message, internal: true }
    }
}

/// Stores the results of jobs, and on a store that other daemons use too the clips and checkpoints of unfinished jobs.
pub trait ResultStore: Send + Sync + std::fmt::Debug {
    /// Stores a copy of `file` as the result of a job and returns its object name. The name depends on the job alone:
    /// a repeated call, after a crash, replaces the object.
    fn put<'a>(
        &'a self,
        job_id: &'a str,
        file: &'a Path,
        media_type: &'a str,
    ) -> BoxFuture<'a, Result<String, ResultStoreError>>;

    /// Deletes a result. A missing one is no error.
    fn delete<'a>(&'a self, object: &'a str) -> BoxFuture<'a, Result<(), ResultStoreError>>;

    /// Deletes whatever [`ResultStore::put`] may have stored for a job, also where the process died before the object
    /// name was recorded. A missing object is no error.
    fn discard<'a>(&'a self, job: &'a Job) -> BoxFuture<'a, Result<(), ResultStoreError>>;

    /// Stores a copy of a job's clip, so that any daemon on the database can run the job. A repeated call replaces it.
    fn put_input<'a>(&'a self, job_id: &'a str, file: &'a Path) -> BoxFuture<'a, Result<(), ResultStoreError>>;

    /// Writes the stored clip of a job to the file `to`, whole or not at all; its folder exists. False without a clip.
    fn fetch_input<'a>(&'a self, job_id: &'a str, to: &'a Path) -> BoxFuture<'a, Result<bool, ResultStoreError>>;

    /// Deletes the stored clip of a job. A missing one is no error.
    fn delete_input<'a>(&'a self, job_id: &'a str) -> BoxFuture<'a, Result<(), ResultStoreError>>;

    /// Stores a copy of a file of a job's checkpoint under its name, letters, digits, `.` and `-`. A repeated call
    /// replaces it.
    fn put_checkpoint<'a>(&'a self, job_id: &'a str, file: &'a Path) -> BoxFuture<'a, Result<(), ResultStoreError>>;

    /// Writes the files of the stored checkpoint of a job into an existing folder, each whole or not at all.
    fn fetch_checkpoint<'a>(&'a self, job_id: &'a str, into: &'a Path) -> BoxFuture<'a, Result<(), ResultStoreError>>;

    /// Deletes the stored checkpoint of a job. A missing one is no error.
    fn delete_checkpoint<'a>(&'a self, job_id: &'a str) -> BoxFuture<'a, Result<(), ResultStoreError>>;

    /// The local folder whose disk space the results use, if there is one.
    fn folder(&self) -> Option<&Path> {
        None
    }
}

/// The result store failed; the text is for the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the result store failed: {0}")]
pub struct ResultStoreError(pub String);

/// Sends webhooks about finished jobs.
pub trait WebhookTransport: Send + Sync + std::fmt::Debug {
    /// The message: the job as `GET /jobs/{id}` shows it, built for each attempt.
    fn body<'a>(&'a self, view: &'a JobView) -> BoxFuture<'a, Result<Vec<u8>, ResultStoreError>>;

    /// Sends it once. `webhook_id` is the same at every attempt.
    fn deliver<'a>(
        &'a self,
        job: &'a Job,
        url: &'a str,
        webhook_id: &'a str,
        body: Vec<u8>,
    ) -> BoxFuture<'a, DeliveryOutcome>;
}

/// The outcome of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// The receiver accepted it.
    Delivered,
    /// It failed and is tried again; the reason is for the log.
    Retry(String),
    /// The receiver is gone; it is not tried again.
    Gone,
}
