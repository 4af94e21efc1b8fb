//! A job with its live progress as its owner sees it, pages of jobs, and the outcome of a removal.

use std::collections::HashMap;

use crate::store::{Job, UnixSeconds};

/// A job as its owner sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct JobView {
    /// The record.
    pub job: Job,
    /// Progress, 0 to 100; 100 only when the job is done. It never decreases at the daemon that runs the job; other
    /// daemons on its database see what was last recorded.
    pub progress: u8,
}

/// Some of a key's jobs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// Newest first.
    pub jobs: Vec<JobView>,
    /// Cursor of the next page; `None` on the last one.
    pub next: Option<String>,
    /// Place of its last job; `None` on the last page.
    pub(super) from: Option<i64>,
    /// Place of the last job of the page before; `None` on the first page.
    pub(super) before: Option<i64>,
}

impl Page {
    /// Whether a job that is listed beside these belongs to this page, by its creation in milliseconds since 1970.
    #[must_use]
    pub fn covers(&self, created_ms: i64) -> bool {
        self.from.is_none_or(|from| from <= created_ms) && self.before.is_none_or(|before| created_ms < before)
    }
}

/// The outcome of a removal.
#[derive(Clone, Debug, PartialEq)]
pub enum Removed {
    /// The job was queued or running and ended with the error `cancelled`; its record stays visible.
    Cancelled(Box<JobView>),
    /// The job had ended: result and record are deleted.
    Deleted,
}

impl JobView {
    /// `progress` is that of the key's unfinished jobs, by id.
    pub(super) fn of(progress: &HashMap<String, u8>, job: Job) -> Self {
        if job.state.is_final() {
            return Self::finished(job);
        }
        let live = progress.get(&job.id).copied().unwrap_or(0);
        Self { progress: live.max(job.progress), job }
    }

    pub(super) const fn finished(job: Job) -> Self {
        Self { progress: job.progress, job }
    }
}

/// Whether its owner still sees a job: deletion may be late.
pub(super) fn is_visible(job: &Job, now: UnixSeconds) -> bool {
    !job.state.is_final() || now < job.expires_at
}
