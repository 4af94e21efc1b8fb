//! Why a run of the pipeline has no result.

use super::files::AuxImage;
use crate::codec::{DecodeError, EncodeError};
use crate::compose::OutputTooLarge;
use crate::engine::EngineError;
use crate::face::MIN_FACE_SIDE;
use crate::matting::NoSubject;
use crate::model::SegmentError;
use crate::recipe::FieldError;

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    /// The input cannot be used.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// Another input picture than the source cannot be used.
    #[error("{which}: {error}")]
    AuxImage {
        /// Which one.
        which: AuxImage,
        /// Why.
        #[source]
        error: DecodeError,
    },
    /// What the caller says about the subject does not fit the picture, or contradicts itself.
    #[error(transparent)]
    Guidance(#[from] FieldError),
    /// The result would be too large.
    #[error(transparent)]
    OutputTooLarge(#[from] OutputTooLarge),
    /// There is no subject in it.
    #[error(transparent)]
    NoSubject(#[from] NoSubject),
    /// There is no face in it that is large enough to be found: in the network's copy of the picture or of a tile.
    #[error(
        "there is no face in the picture, or none that is large enough: {MIN_FACE_SIDE} pixels and about a 28th of the longest \
         side, in pictures over 1280 pixels about 40 pixels"
    )]
    NoFace,
    /// The result has transparency, and its format cannot.
    #[error("the picture is transparent in places, which a jpg cannot be; png and webp can")]
    NoAlpha,
    /// The engine is full, late, or broken.
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
