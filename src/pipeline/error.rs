//! Errors of a run of the pipeline.

use super::files::AuxImage;
use crate::codec::{DecodeError, EncodeError};
use crate::compose::OutputTooLarge;
use crate::engine::EngineError;
use crate::face::MIN_FACE_SIDE;
use crate::matting::NoSubject;
use crate::model::SegmentError;
use crate::recipe::FieldError;

/// Why a run has no picture.
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    /// The source cannot be used.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// An input picture other than the source cannot be used.
    #[error("{which}: {error}")]
    AuxImage {
        /// The picture.
        which: AuxImage,
        /// Its error.
        #[source]
        error: DecodeError,
    },
    /// The caller's guidance does not fit the picture or contradicts itself.
    #[error(transparent)]
    Guidance(#[from] FieldError),
    /// The result would be too large.
    #[error(transparent)]
    OutputTooLarge(#[from] OutputTooLarge),
    /// The picture has no subject.
    #[error(transparent)]
    NoSubject(#[from] NoSubject),
    /// No face was found. It must be large enough in the network's copy of the picture or of a tile.
    #[error(
        "there is no face in the picture, or none that is large enough: {MIN_FACE_SIDE} pixels and about a 28th of the longest \
         side, in pictures over 1280 pixels about 40 pixels"
    )]
    NoFace,
    /// The result has transparency, which its format lacks.
    #[error("the picture is transparent in places, which a jpg cannot be; png and webp can")]
    NoAlpha,
    /// The engine is full, late or broken.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The result could not be written.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

impl From<SegmentError> for PipelineError {
    fn from(error: SegmentError) -> Self {
        Self::Engine(EngineError::Device(error.into_reason()))
    }
}
