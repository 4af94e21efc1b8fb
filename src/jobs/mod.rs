//! Jobs: work that outlives its request, queued in the store and run on the engine's bulk lane.
//!
//! ```text
//! create ─▶ queued ─▶ processing ─▶ done ──▶ result deleted after 1 h ─▶ record deleted 24 h after the end
//!              │  ▲        │  │                                                 ▲
//!              │  └ start ─┘  ├───▶ error ───────────────────────────────────────┘
//!              └── cancelled ─┘
//! ```
//!
//! Every state is a record of the store, and every transition one transaction: an acknowledged job survives `kill -9`,
//! and a finished job is billed in the transaction that finishes it, exactly once. Memory holds only the progress of running jobs
//! and the handles to cancel them. On a database any daemon claims a queued job, and renews a lease while it runs
//! (`runner.rs`); `recovery.rs` is what happens after a crash.
//!
//! - A [`Worker`] executes a job; a [`ResultStore`] holds the results; a [`WebhookTransport`] notifies the caller's server.
//! - [`Jobs::run`] runs the background tasks: jobs (`runner.rs`), checkpoints for the next daemon (`checkpoints.rs`), deletions
//!   (`expiry.rs`), deliveries (`webhook_schedule.rs`).

mod bulk_places;
mod checkpoints;
mod config;
mod create;
mod cursor;
mod deps;
mod disk_space;
mod error;
mod expiry;
mod job_folders;
mod job_json;
mod job_view;
mod new_job;
mod recovery;
pub mod results;
mod runner;
mod running_jobs;
pub mod secret;
mod service;
mod shared;
#[cfg(test)]
mod tests;
mod tuning;
mod video_worker;
pub mod webhook_client;
mod webhook_schedule;

pub use crate::store::{Job, JobError, JobResult, JobState, UnixSeconds, Webhook};
pub use bulk_places::{BulkPlaces, ResolvedPlaces};
pub use config::JobsConfig;
pub use cursor::Cursor;
pub use deps::{
    DeliveryOutcome, Deps, ResultStore, ResultStoreError, WebhookTransport, WorkCheckpoint, WorkError, WorkOutput,
    Worker,
};
pub use disk_space::free_bytes;
pub use error::{DiskSpaceError, JobsError};
pub use job_folders::{IncomingClip, input_in};
pub use job_json::job_json;
pub use job_view::{JobView, Page, Removed};
pub use new_job::{Created, NewJob, NewWebhook};
pub use service::{Jobs, MAX_PAGE};
pub use video_worker::VideoWorker;

/// How long a result can be fetched, in seconds from the end of its job.
pub const RESULT_SECONDS: i64 = 60 * 60;

/// How long a record is visible, in seconds from the creation of the job and again from its end.
pub const RECORD_SECONDS: i64 = 24 * 60 * 60;
