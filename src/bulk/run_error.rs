//! Errors that end a run early: of the listing, of the report, or of all processing.

use super::report_reader::ReportError;
use crate::store::OpenError;
use crate::telemetry::with_causes;
use object_store::Error;

/// A sentence for frequent mistakes, and the store's text for other errors.
fn listing_failure(error: &Error) -> String {
    if matches!(error, Error::NotFound { .. }) {
        "it does not exist".to_owned()
    } else if matches!(error, Error::PermissionDenied { .. }) {
        "these credentials may not list it".to_owned()
    } else if matches!(error, Error::Unauthenticated { .. }) {
        "the credentials are missing or wrong".to_owned()
    } else {
        with_causes(error)
    }
}

/// Why a run could not continue. Objects in flight are finished and recorded first.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The source, or the rest of it, cannot be listed.
    #[error("cannot list {place}: {}", listing_failure(.error))]
    Listing {
        /// The source.
        place: String,
        /// Why.
        error: Error,
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
    /// No more chunks may be added to the run.
    #[error("the run {0} was cancelled, or another command lists it now")]
    Superseded(String),
    /// The run is not in the queue.
    #[error("the run {0} is gone: another command wrote its report")]
    Gone(String),
}
