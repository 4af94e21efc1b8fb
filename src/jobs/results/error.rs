//! Why a result could not be stored, opened, addressed or deleted.

use std::io;

use crate::source::StorageError;

/// Why an operation on a result failed.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// `jobs.results` names no usable store.
    #[error("jobs.results: {0}")]
    Place(#[from] StorageError),
    /// A local file or folder, or the finished file itself.
    #[error("{what}")]
    Io {
        /// The failed operation.
        what: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The store refused or failed.
    #[error("the store of results failed")]
    Store(#[from] object_store::Error),
    /// An invalid object name.
    #[error("no result is called `{0}`")]
    Name(String),
}

impl ResultsError {
    pub(super) fn io(what: impl Into<String>, source: io::Error) -> Self {
        Self::Io { what: what.into(), source }
    }
}
