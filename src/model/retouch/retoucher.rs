//! The interface of the auxiliary networks: face detection, face restoration and upscaling.

use super::FaceCrop;
use crate::image::{Face, Frame};
use crate::model::weights::{BuiltIn, manifest};
use crate::model::{FaceSearch, Factor, SegmentError};

/// Detects faces, restores them, and upscales pictures. Shared by any number of threads; parallel work runs on the calling
/// thread's rayon pool.
pub trait Retoucher: Send + Sync + std::fmt::Debug {
    /// All faces in `frame` that the network finds, at most [`FaceSearch::MAX_FACES`], the largest first. Transparent pixels
    /// count as grey.
    ///
    /// # Errors
    /// [`SegmentError`] when the device fails.
    fn faces(&self, frame: &Frame) -> Result<Vec<Face>, SegmentError>;

    /// The faces in `frame` that a search is for, the largest first; by default [`all`](Self::faces) of them.
    ///
    /// # Errors
    /// [`SegmentError`] when the device fails.
    fn search_faces(&self, frame: &Frame, _search: FaceSearch) -> Result<Vec<Face>, SegmentError> {
        self.faces(frame)
    }

    /// The residual that, added to an aligned face, makes it sharp and clean. Close to zero where it is already.
    ///
    /// # Errors
    /// [`SegmentError`] when the device fails.
    fn restoration(&self, face: &FaceCrop) -> Result<FaceCrop, SegmentError>;

    /// `frame`, upscaled. Alpha is upscaled as well; colours under alpha 0 are zero.
    ///
    /// # Errors
    /// [`SegmentError`] when the device fails.
    fn enlarged(&self, frame: &Frame, by: Factor) -> Result<Frame, SegmentError>;

    /// Name and version of the embedded weights that restore faces, as reported in `x-service-model`.
    fn restores_with(&self) -> String {
        manifest::model(BuiltIn::Restore)
    }

    /// Name and version of the embedded weights that upscale by `by`.
    fn enlarges_with(&self, by: Factor) -> String {
        manifest::model(BuiltIn::Upscale(by))
    }
}
