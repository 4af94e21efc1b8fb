//! Faces in a picture of any size.
//!
//! The picture is made small enough for the network, which tells of each cell of three grids whether it belongs to a
//! face and where that is; what is sure enough is brought back to the picture's own pixels, each face once.

mod cpu;
mod decode;

use backdrop_kernels::model_input::cpu::{Target, stretched};

use self::decode::{Level, decode};
use super::SegmentError;
use super::weights::architecture::face::{CELL, STRIDES};
use crate::image::{Face, Frame, Size};

pub(super) use cpu::FaceNet;

/// The longest side that the network looks at.
const SIDE: u32 = 320;

/// Sides of the network's input are multiples of this: its coarsest stride.
const QUANTUM: usize = STRIDES[STRIDES.len() - 1];

/// What shines through transparency: the middle of the network's values, as around the picture.
const GROUND: u8 = 128;

/// A network that looks for faces.
pub(super) trait Eye {
    /// The score from which a face counts.
    fn threshold(&self) -> f32;

    /// The cells for an input of so many columns and rows, multiples of [`QUANTUM`], at each of [`STRIDES`], row after
    /// row. `fill(input, pad)` puts the picture into rows of 3 values a pixel, red, green and blue in -1..=1, that have
    /// `pad` pixels more at both ends and are zero.
    fn cells(
        &self,
        extent: [usize; 2],
        fill: &dyn Fn(&mut [f32], usize),
    ) -> Result<[Vec<[f32; CELL]>; 3], SegmentError>;
}

/// The faces in `frame`, the largest first.
pub(super) fn find(frame: &Frame, eye: &dyn Eye) -> Result<Vec<Face>, SegmentError> {
    if frame.size().area() == 0 {
        return Err(SegmentError::Device("a frame without pixels".to_owned()));
    }
    let mut faces = look(frame, eye, SIDE)?;
    faces.sort_by(|one, other| other.area().total_cmp(&one.area()));
    Ok(faces)
}

/// The faces that are seen when the picture's longest side is `side`, in pixels of the picture.
fn look(frame: &Frame, eye: &dyn Eye, side: u32) -> Result<Vec<Face>, SegmentError> {
    let size = frame.size();
    let fitted = size.fitted(Size::new(side, side));
    let [width, height] = [fitted.width as usize, fitted.height as usize];
    let extent = [width, height].map(|side| side.next_multiple_of(QUANTUM));
    let cells = eye.cells(extent, &|input, pad| {
        let row = (extent[0] + 2 * pad) * 3;
        let target = Target { width, height, ground: GROUND, row, margin: pad * 3 };
        stretched(frame.pixels(), [size.width as usize, size.height as usize], target, input);
    })?;
    let levels: Vec<Level<'_>> = STRIDES
        .into_iter()
        .zip(&cells)
        .map(|(stride, cells)| Level { stride, width: extent[0] / stride, cells })
        .collect();
    let faces = decode(&levels, eye.threshold()).into_iter();
    let scale = [size.width as f32 / width as f32, size.height as f32 / height as f32];
    Ok(faces.map(|face| scaled(&face, scale)).collect())
}

/// A face in a picture that is `scale` times as wide and high.
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

#[cfg(test)]
mod tests;
