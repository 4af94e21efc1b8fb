//! The networks beside the one that cuts out: they find faces, restore them, and enlarge pictures.

use super::SegmentError;
use crate::image::{Face, Frame};

/// Side of an aligned face, in pixels.
pub const FACE_SIDE: usize = 256;

/// An aligned face, or what is to be added to one: `FACE_SIDE` rows of `FACE_SIDE` pixels of red, green and blue. A
/// face is encoded sRGB in 0..=1.
#[derive(Clone, Debug, PartialEq)]
pub struct FaceCrop(pub Vec<[f32; 3]>);

/// How much larger a picture becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Factor {
    /// Twice as wide and high.
    Two,
    /// Four times as wide and high.
    Four,
}

impl Factor {
    /// 2 or 4.
    #[must_use]
    pub const fn get(self) -> u32 {
        match self {
            Self::Two => 2,
            Self::Four => 4,
        }
    }
}

/// The networks that are part of the binary, on the CPU kernels; each is unpacked when it is first needed.
#[derive(Debug, Default)]
pub struct CpuRetoucher {}

impl Retoucher for CpuRetoucher {
    fn faces(&self, _: &Frame) -> Result<Vec<Face>, SegmentError> {
        Err(SegmentError::Device("no network finds faces yet".to_owned()))
    }

    fn restoration(&self, _: &FaceCrop) -> Result<FaceCrop, SegmentError> {
        Err(SegmentError::Device("no network restores faces yet".to_owned()))
    }

    fn enlarged(&self, _: &Frame, _: Factor) -> Result<Frame, SegmentError> {
        Err(SegmentError::Device("no network enlarges yet".to_owned()))
    }

    fn restores_with(&self) -> String {
        String::new()
    }

    fn enlarges_with(&self, _: Factor) -> String {
        String::new()
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

    /// Name and version of the weights that restore faces, as told in `x-service-model`.
    fn restores_with(&self) -> String;

    /// Name and version of the weights that enlarge by so much.
    fn enlarges_with(&self, by: Factor) -> String;
}
