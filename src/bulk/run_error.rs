//! Errors that end a run early: of the listing, of the report, or of all processing.

use super::report_reader::ReportError;

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
}
