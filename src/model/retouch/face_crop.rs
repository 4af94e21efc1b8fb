//! An aligned face crop: the input and the output of the restoration network.

use crate::model::SegmentError;

/// Side of an aligned face, in pixels.
pub const FACE_SIDE: usize = 256;

/// An aligned face (encoded sRGB in 0..=1) or a residual to add: `FACE_SIDE` rows of `FACE_SIDE` RGB pixels.
#[derive(Clone, Debug, PartialEq)]
pub struct FaceCrop(pub Vec<[f32; 3]>);

impl FaceCrop {
    /// An error unless the number of pixels is an aligned face's.
    pub(super) fn check(&self) -> Result<(), SegmentError> {
        if self.0.len() == FACE_SIDE * FACE_SIDE {
            return Ok(());
        }
        Err(SegmentError::Device(format!("a face of {} pixels instead of {FACE_SIDE}×{FACE_SIDE}", self.0.len())))
    }
}
