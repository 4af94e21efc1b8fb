//! One pass of face detection over a picture: resampling, the network, decoding.

use backdrop_kernels::model_input::cpu::{Target, stretched};

use super::decode::{Cells, decode};
use crate::image::{Face, Frame, Size};
use crate::model::SegmentError;
use crate::model::weights::architecture::face::{CELL, STRIDES};

/// Sides of the network's input are multiples of its coarsest stride.
const QUANTUM: usize = STRIDES[STRIDES.len() - 1];

/// Grey level under transparent pixels and around the picture: the middle of the network's range.
pub(super) const BACKGROUND: u8 = 128;

/// A face detection network on some device.
pub(in crate::model) trait FaceDetector {
    /// Minimum score of a face after refinement.
    fn threshold(&self) -> f32;

    /// The output cells for an input of `extent` columns and rows, multiples of [`QUANTUM`], at each of [`STRIDES`],
    /// row after row. `fill(input, pad)` writes the picture into zeroed rows of RGB in -1..=1, with `pad` more pixels
    /// at both ends.
    fn cells(
        &self,
        extent: [usize; 2],
        fill: &dyn Fn(&mut [f32], usize),
    ) -> Result<[Vec<[f32; CELL]>; 3], SegmentError>;
}

/// The faces that score at least `threshold` in a copy of longest side `side`, in pixels of the picture, best first.
pub(super) fn detect_at(
    frame: &Frame,
    detector: &dyn FaceDetector,
    side: u32,
    threshold: f32,
) -> Result<Vec<Face>, SegmentError> {
    let size = frame.size();
    let fitted = size.fitted(Size::new(side, side));
    let [width, height] = [fitted.width as usize, fitted.height as usize];
    let extent = [width, height].map(|side| side.next_multiple_of(QUANTUM));
    let cells = detector.cells(extent, &|input, pad| {
        let row = (extent[0] + 2 * pad) * 3;
        let target = Target { width, height, background: BACKGROUND, row, margin: pad * 3 };
        stretched(frame.pixels(), [size.width as usize, size.height as usize], target, input);
    })?;
    let levels: Vec<Cells<'_>> = STRIDES
        .into_iter()
        .zip(&cells)
        .map(|(stride, cells)| Cells { stride, width: extent[0] / stride, cells })
        .collect();
    let faces = decode(&levels, threshold).into_iter();
    let scale = [size.width as f32 / width as f32, size.height as f32 / height as f32];
    Ok(faces.map(|face| scaled(&face, scale)).collect())
}

fn scaled(face: &Face, [across, down]: [f32; 2]) -> Face {
    Face {
        left: face.left * across,
        top: face.top * down,
        right: face.right * across,
        bottom: face.bottom * down,
        landmarks: face.landmarks.map(|[x, y]| [x * across, y * down]),
        score: face.score,
    }
}
