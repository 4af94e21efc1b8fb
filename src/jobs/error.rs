//! Errors of the job API, and the limits on disk space behind one of them.

use super::deps::ResultStoreError;
use crate::store::{ChangeError, OpenError, QuotaExhausted};

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum JobsError {
    /// The results of the account have their share of the disk space.
    #[error(
        "the results of this account use {used} bytes; {wanted} more would exceed its share of {max}; a result is deleted after an hour, or by `DELETE /jobs/…`"
    )]
    Share {
        /// Bytes of its results.
        used: u64,
        /// Further bytes.
        wanted: u64,
        /// The share.
        max: u64,
    },
    /// The key has its maximum of queued and running jobs.
    #[error("a key has at most {0} jobs waiting or under way; wait for one to end, or cancel one")]
    TooMany(usize),
    /// The images of the month are used up: another daemon has billed or reserved some since they were reserved here.
    #[error(transparent)]
    Quota(#[from] QuotaExhausted),
    /// The cursor is not from a listing.
    #[error("this is not a cursor of a listing of jobs")]
    Cursor,
    /// The store refused or failed.
    #[error(transparent)]
    Write(#[from] ChangeError),
    /// The store could not be read.
    #[error(transparent)]
    Read(#[from] OpenError),
    /// A file or folder of a job could not be created, moved or deleted, for instance on a full disk.
    #[error("{what}")]
    Io {
        /// The failed operation.
        what: String,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// The result store failed.
    #[error(transparent)]
    Results(#[from] ResultStoreError),
    /// The disk space of the jobs is used up.
    #[error(transparent)]
    DiskSpace(#[from] DiskSpaceError),
}

/// Which limit on the disk space of the jobs is reached; for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiskSpaceError {
    /// The limit on all of their files.
    #[error("clips, segments and results use {used} bytes; {wanted} more would exceed the limit of {max}")]
    MaxBytes {
        /// Bytes in use.
        used: u64,
        /// Further bytes.
        wanted: u64,
        /// The limit.
        max: u64,
    },
    /// The limit on the free space of the disk.
    #[error("the disk has {free} bytes free; {wanted} more would leave less than {min_free}")]
    MinFree {
        /// Free bytes.
        free: u64,
        /// Further bytes.
        wanted: u64,
        /// Bytes that must stay free.
        min_free: u64,
    },
}
