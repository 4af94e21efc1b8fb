//! The per-picture work of a run: the [`Processor`] trait, its result and its errors.

use super::failure::Failure;
use super::report_row::StageTimes;
use bytes::Bytes;

/// Processes one picture.
pub trait Processor: Sync {
    /// Computes the result of one picture. At most the run's `jobs` calls are open at a time.
    ///
    /// # Errors
    /// See [`ProcessError`].
    fn process(&self, picture: Bytes) -> impl Future<Output = Result<Processed, ProcessError>> + Send;
}

/// A result.
#[derive(Clone, Debug, PartialEq)]
pub struct Processed {
    /// The file.
    pub bytes: Bytes,
    /// Its media type.
    pub media_type: &'static str,
    /// Its width in pixels.
    pub width: u32,
    /// Its height in pixels.
    pub height: u32,
    /// Uncertainty of the mask, 0 to 1; `None` where no mask was computed.
    pub uncertainty: Option<f32>,
    /// Milliseconds of each stage; the run adds the transfers.
    pub stages: StageTimes,
}

/// Why a picture has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessError {
    /// This picture cannot be used.
    Rejected(Failure),
    /// No picture can be processed; the run ends.
    Fatal(String),
}
