//! A job that a process runs: its claim, the renewal of that, and what may have become of it meanwhile.

use super::Job;

/// A job that this process runs from now on.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimedJob {
    /// The job, `processing`.
    pub job: Job,
    /// The number of the claim: only the newest one may write.
    pub attempt: i64,
}

/// A running job, for the renewal of its lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobHeartbeat {
    /// Public id of the job.
    pub id: String,
    /// The number of its claim.
    pub attempt: i64,
    /// Its progress, 0 to 100.
    pub progress: u8,
}

/// What became of a running job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// It is still this claim's.
    Kept,
    /// It was cancelled or removed.
    Ended,
    /// Its lease had ended: another claim has it, or may have it.
    Lost,
}
