//! The interface of the auxiliary networks: face detection, face restoration and upscaling.

use super::FaceCrop;
use crate::image::{Face, Frame};
use crate::model::weights::{BuiltIn, manifest};
use crate::model::{Enlargement, FaceSearch, Factor, SegmentError};

/// Detects faces, restores them, and upscales pictures. Shared by any number of threads; parallel work runs on the calling
/// thread's rayon pool.
pub trait Retoucher: Send + Sync + std::fmt::Debug {
    /// The faces of `frame` by `search`, at most [`FaceSearch::MAX_FACES`], largest first. Transparent pixels are grey.
    ///
    /// # Errors
    /// [`SegmentError`] when the device fails.
    fn faces(&self, frame: &Frame, search: FaceSearch) -> Result<Vec<Face>, SegmentError>;

    /// The residual that sharpens and cleans an aligned face. Close to zero for a sharp, clean face.
    ///
    /// # Errors
    /// [`SegmentError`] when the device fails.
    fn restoration(&self, face: &FaceCrop) -> Result<FaceCrop, SegmentError>;

    /// Computes the next band of an incomplete enlargement. Alpha is upscaled too; colours under alpha 0 are zero.
    ///
    /// # Errors
    /// [`SegmentError`] when the device fails; the band is then missing.
    fn enlarge_band(&self, picture: &mut Enlargement) -> Result<(), SegmentError>;

    /// `frame` upscaled, in all its bands.
    ///
    /// # Errors
    /// [`SegmentError`] when the device fails, and the errors of [`Enlargement::new`].
    fn enlarged(&self, frame: Frame, by: Factor) -> Result<Frame, SegmentError> {
        let mut picture = Enlargement::new(frame, by)?;
        while !picture.is_complete() {
            self.enlarge_band(&mut picture)?;
        }
        Ok(picture.into_frame())
    }

    /// Name and version of the embedded weights that restore faces, as reported in `x-service-model`.
    fn restores_with(&self) -> String {
        manifest::model(BuiltIn::Restore)
    }

    /// Name and version of the embedded weights that upscale by `by`.
    fn enlarges_with(&self, by: Factor) -> String {
        manifest::model(BuiltIn::Upscale(by))
    }
}
