//! The networks beside the one that cuts out: they find faces, restore them, and enlarge pictures.

mod cpu;
#[cfg(feature = "gpu")]
mod gpu;

pub use cpu::CpuRetoucher;
#[cfg(feature = "gpu")]
pub use gpu::GpuRetoucher;

use super::SegmentError;
use super::weights::{BuiltIn, manifest};
use crate::image::{Face, Frame};

/// Side of an aligned face, in pixels.
pub const FACE_SIDE: usize = 256;

/// An aligned face, or what is to be added to one: `FACE_SIDE` rows of `FACE_SIDE` pixels of red, green and blue. A
/// face is encoded sRGB in 0..=1.
#[derive(Clone, Debug, PartialEq)]
pub struct FaceCrop(pub Vec<[f32; 3]>);

impl FaceCrop {
    /// An error unless there are as many pixels as in an aligned face.
    fn check(&self) -> Result<(), SegmentError> {
        if self.0.len() == FACE_SIDE * FACE_SIDE {
            return Ok(());
        }
        Err(SegmentError::Device(format!("a face of {} pixels instead of {FACE_SIDE}×{FACE_SIDE}", self.0.len())))
    }
}

/// How much larger a picture becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Factor {
    /// Twice as wide and high.
    Two,
    /// Four times as wide and high.
    Four,
}

impl Factor {
    /// All of them, the smaller first.
    pub const ALL: [Self; 2] = [Self::Two, Self::Four];

    /// 2 or 4.
    #[must_use]
    pub const fn get(self) -> u32 {
        match self {
            Self::Two => 2,
            Self::Four => 4,
        }
    }
}

/// Finds faces, restores them, and enlarges pictures. Any number of threads may use one at the same time; work inside
/// runs on the rayon pool that calls it.
pub trait Retoucher: Send + Sync + std::fmt::Debug {
    /// The faces in `frame`, the largest first. Transparent pixels are looked at as if they were grey.
    ///
    /// # Errors
    /// [`SegmentError`] when the device fails.
    fn faces(&self, frame: &Frame) -> Result<Vec<Face>, SegmentError>;

    /// What has to be added to an aligned face so that it is sharp and clean. Next to nothing where it is already.
    ///
    /// # Errors
    /// [`SegmentError`] when the device fails.
    fn restoration(&self, face: &FaceCrop) -> Result<FaceCrop, SegmentError>;

    /// `frame`, larger. Transparency is enlarged with its edge; colours under alpha 0 are zero.
    ///
    /// # Errors
    /// [`SegmentError`] when the device fails.
    fn enlarged(&self, frame: &Frame, by: Factor) -> Result<Frame, SegmentError>;

    /// Name and version of the weights that restore faces, as told in `x-service-model`: of those in the binary.
    fn restores_with(&self) -> String {
        manifest::model(BuiltIn::Restore)
    }

    /// Name and version of the weights that enlarge by so much.
    fn enlarges_with(&self, by: Factor) -> String {
        manifest::model(BuiltIn::Upscale(by))
    }
}
