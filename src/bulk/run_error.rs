//! Errors that end a run early: of the listing, of the report, or of all processing.

use super::report_reader::ReportError;
use crate::store::OpenError;

/// Why a run could not continue. Objects in flight are finished and recorded first.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The source, or the rest of it, cannot be listed.
    #[error("cannot list {place}")]
    Listing {
        /// The source.
        place: String,
        /// Why.
        #[source]
        error: object_store::Error,
    },
    /// No picture can be processed.
    #[error("{0}")]
    Fatal(String),
    /// The report cannot be written.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// The queue of runs cannot be used.
    #[error(transparent)]
    Queue(#[from] OpenError),
    /// The run may not be added to any more.
    #[error("the run {0} was cancelled, or another command lists it now")]
    Superseded(String),
    /// The run is not in the queue.
    #[error("the run {0} is gone: another command wrote its report")]
    Gone(String),
}
