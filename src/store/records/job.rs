//! Stored job: state, request fields, progress, result or error, webhook.

use serde::{Deserialize, Serialize};

use super::OneVersion;
use crate::store::{Month, UnixSeconds};

/// A job in its newest form.
pub type Job = JobV1;

/// A job, as stored. Since schema 3.
pub type JobRecord = OneVersion<JobV1>;

/// Version 1 of a job: work that outlives its request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobV1 {
    /// Public id, `job_` + 24 characters; the key of the table.
    pub id: String,
    /// Public id of the key that created it; it is invisible to other keys.
    pub key_id: String,
    /// Name of the account that is billed.
    pub account: String,
    /// Created with a sandbox key: never billed, and its result is marked.
    pub test: bool,
    /// Its state.
    pub state: JobState,
    /// Its progress when this was written, 0 to 100.
    pub progress: u8,
    /// The validated request fields: names and values.
    pub fields: Vec<(String, String)>,
    /// The output format, as the field `format` names it.
    pub format: String,
    /// The `Idempotency-Key`, unique for the key while the record lives.
    pub name: Option<String>,
    /// SHA-256 of the request; the same name with another one is a conflict.
    pub fingerprint: [u8; 32],
    /// Millionths of a dollar for a second of the result.
    pub unit_price: u64,
    /// The month that it is billed to.
    pub month: Month,
    /// Images of the month's quota that it reserves until it ends.
    pub reserved: u64,
    /// When it was created.
    pub created_at: UnixSeconds,
    /// Its place in the queue and in listings: its creation time in milliseconds, or more, so that it is larger than the place of every earlier job.
    pub place: i64,
    /// When its state last changed.
    pub updated_at: UnixSeconds,
    /// When the record expires: 24 h after its creation, and once it has ended 24 h after its end.
    pub expires_at: UnixSeconds,
    /// Its result.
    pub result: Option<JobResult>,
    /// Warnings for the caller, each a sentence.
    pub warnings: Vec<String>,
    /// Why it failed.
    pub error: Option<JobError>,
    /// The webhook to send at its end.
    pub webhook: Option<Webhook>,
}

/// The state of a job. Queued → processing → done or failed, and queued → failed. A job returns from processing to queued
/// when its daemon stops or restarts, or cannot record its end. Stored: never edited, reordered or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// It waits in the queue.
    Queued,
    /// It is running.
    Processing,
    /// It has a result.
    Done,
    /// It has an error.
    // As the table of bulk runs and the API name it.
    #[serde(alias = "error")]
    Failed,
}

impl JobState {
    /// All states, in their usual order.
    pub const ALL: [Self; 4] = [Self::Queued, Self::Processing, Self::Done, Self::Failed];

    /// The state as the API calls it: `queued`, `processing`, `done`, `error`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Processing => "processing",
            Self::Done => "done",
            Self::Failed => "error",
        }
    }

    /// Whether the job has ended.
    #[must_use]
    pub const fn is_final(self) -> bool {
        match self {
            Self::Queued | Self::Processing => false,
            Self::Done | Self::Failed => true,
        }
    }
}

/// The result of a job. Part of a stored job: never edited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobResult {
    /// Name of the object that holds the file; `None` after it was deleted.
    pub object: Option<String>,
    /// Size of the file.
    pub bytes: u64,
    /// Frames in it.
    pub frames: u64,
    /// Numerator of the frame rate: frames in [`Self::rate_seconds`].
    pub rate_frames: u32,
    /// Denominator of the frame rate, in seconds.
    pub rate_seconds: u32,
    /// When the object is deleted.
    pub expires_at: UnixSeconds,
}

impl JobResult {
    /// Its length: `frames · rate_seconds / rate_frames`.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        (self.frames as f64) * f64::from(self.rate_seconds) / f64::from(self.rate_frames.max(1))
    }
}

/// Why a job failed. Part of a stored job: never edited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobError {
    /// One word for programs.
    pub code: String,
    /// A sentence for people.
    pub message: String,
}

/// The webhook about a job's end, and its attempts. Part of a stored job: never edited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Webhook {
    /// The address.
    pub url: String,
    /// Scheme and host by which the caller reached this daemon, for the addresses in the message.
    pub base: String,
    /// The number of attempts.
    pub attempts: u32,
    /// The time of the next attempt; `None` before the job's end, and after delivery or the last attempt.
    pub next_at: Option<UnixSeconds>,
}

impl JobV1 {
    /// Whether a text has the form of a job's id, and so is safe as the name of a folder.
    #[must_use]
    pub fn is_id(text: &str) -> bool {
        let random = text.strip_prefix("job_");
        random.is_some_and(|random| random.len() == 24 && random.bytes().all(|byte| byte.is_ascii_alphanumeric()))
    }

    /// When something of it expires next: the object of its result, then the record. `None` before its end.
    #[must_use]
    pub fn due_at(&self) -> Option<UnixSeconds> {
        if !self.state.is_final() {
            return None;
        }
        let object = self.result.as_ref().filter(|result| result.object.is_some());
        Some(object.map_or(self.expires_at, |result| result.expires_at.min(self.expires_at)))
    }

    /// The time of the next webhook attempt.
    #[must_use]
    pub fn webhook_at(&self) -> Option<UnixSeconds> {
        self.webhook.as_ref().and_then(|webhook| webhook.next_at)
    }
}
