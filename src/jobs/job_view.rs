//! A job with its live progress as its owner sees it, pages of jobs, and the outcome of a removal.

use std::collections::HashMap;

use super::cursor::Cursor;
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
    /// Place of the last job of the page before; `None` on the first page.
    pub after: Option<Cursor>,
    /// Place of the last job of this page, from which the next page continues; `None` on the last page.
    pub next: Option<Cursor>,
}

impl Page {
    /// Whether a bulk run, which is listed with the clips, belongs to this page.
    #[must_use]
    pub fn covers(&self, job: &Cursor) -> bool {
        self.next.as_ref().is_none_or(|last| last <= job) && self.after.as_ref().is_none_or(|after| job < after)
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
    /// `progress`: the progress of the key's unfinished jobs, by id.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_what_is_listed_beside_it_after_the_page_before_and_down_to_its_last_job() {
        let at = |place, id: &str| Cursor { place, id: id.to_owned() };
        let page = Page { jobs: Vec::new(), after: Some(at(30, "job_b")), next: Some(at(10, "job_a")) };
        for (job, expected) in [
            (at(31, "bulk_a"), false),
            (at(30, "job_b"), false),
            (at(30, "bulk_a"), true),
            (at(11, "bulk_a"), true),
            (at(10, "job_a"), true),
            // With the next page, whose cursor is greater.
            (at(10, "bulk_a"), false),
        ] {
            assert_eq!(page.covers(&job), expected, "{job}");
        }
        assert!(Page::default().covers(&at(0, "bulk_a")));
    }
}
