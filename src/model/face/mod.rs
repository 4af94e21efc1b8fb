//! Faces in a picture of any size.
//!
//! The picture is made small enough for the network, which tells of each cell of three grids whether it belongs to a
//! face and where that is; what is sure enough is brought back to the picture's own pixels, each face once.

mod cpu;
mod decode;

use std::borrow::Cow;

use backdrop_kernels::model_input::cpu::{Target, stretched};

use self::decode::{Level, decode, distinct, overlap};
use super::SegmentError;
use super::weights::architecture::face::{CELL, STRIDES};
use crate::image::{Face, Frame, Size};

pub(super) use cpu::FaceNet;

/// The longest side that the network looks at.
const SIDE: u32 = 320;

/// The score from which a cell of the first look is a candidate, and how many of them are looked at again.
const CANDIDATE: f32 = 0.35;
const CANDIDATES: usize = 8;

/// The second look is at a square of so many times the candidate's longer side, shown at so many pixels.
const AROUND: f32 = 2.0;
const NEAR: usize = 160;

/// What the second look sees is the candidate if it scores at least this and overlaps it by that much.
const NEAR_SCORE: f32 = 0.1;
const SAME: f32 = 0.3;

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
///
/// What may be a face is looked at once more from nearby, where large faces are placed better than the first look does,
/// and what only seemed to be one is seen through.
pub(super) fn find(frame: &Frame, eye: &dyn Eye) -> Result<Vec<Face>, SegmentError> {
    let size = frame.size();
    if size.area() == 0 {
        return Err(SegmentError::Device("a frame without pixels".to_owned()));
    }
    let candidates = look(frame, eye, &View::whole(size), CANDIDATE)?;
    let mut faces = Vec::new();
    for candidate in candidates.iter().take(CANDIDATES) {
        let Some(view) = View::around(candidate, size) else { continue };
        let near = look(frame, eye, &view, NEAR_SCORE)?.into_iter().map(|face| (overlap(candidate, &face), face));
        let same = near.filter(|(overlap, _)| *overlap >= SAME);
        let best = same.max_by(|(one, a), (other, b)| (one * a.score).total_cmp(&(other * b.score)));
        faces.extend(best.map(|(_, face)| face).filter(|face| face.score >= eye.threshold()));
    }
    let mut faces = distinct(faces);
    faces.sort_by(|one, other| other.area().total_cmp(&one.area()));
    Ok(faces)
}

/// A part of the picture, and where the network is shown it.
struct View {
    /// Its first column and row in the picture.
    from: [usize; 2],
    /// Its columns and rows.
    part: [usize; 2],
    /// Its first column and row in the input.
    to: [usize; 2],
    /// Its columns and rows there.
    shown: [usize; 2],
    /// Columns and rows of the input.
    extent: [usize; 2],
}

impl View {
    /// The whole picture.
    fn whole(size: Size) -> Self {
        let fitted = size.fitted(Size::new(SIDE, SIDE));
        let shown = [fitted.width as usize, fitted.height as usize];
        let part = [size.width as usize, size.height as usize];
        Self { from: [0; 2], part, to: [0; 2], shown, extent: shown.map(|side| side.next_multiple_of(QUANTUM)) }
    }

    /// A square around a face, as far as the picture goes.
    fn around(face: &Face, size: Size) -> Option<Self> {
        let half = (face.right - face.left).max(face.bottom - face.top).max(2.0) * AROUND / 2.0;
        let scale = NEAR as f32 / (2.0 * half);
        let middles = [(face.left + face.right) / 2.0, (face.top + face.bottom) / 2.0];
        let mut view = Self { from: [0; 2], part: [0; 2], to: [0; 2], shown: [0; 2], extent: [NEAR; 2] };
        for (axis, (middle, extent)) in middles.into_iter().zip([size.width, size.height]).enumerate() {
            // Negative numbers become 0 here.
            let (from, end) = ((middle - half) as usize, ((middle + half).ceil() as usize).min(extent as usize));
            view.from[axis] = from;
            view.part[axis] = end.checked_sub(from).filter(|part| *part > 0)?;
            let place = |at: usize| ((at as f32 - (middle - half)) * scale).round().clamp(0.0, NEAR as f32) as usize;
            view.to[axis] = place(from).min(NEAR - 1);
            view.shown[axis] = place(end).saturating_sub(view.to[axis]).max(1);
        }
        Some(view)
    }

    /// The pixels of the part, packed.
    fn pixels<'a>(&self, frame: &'a Frame) -> Cow<'a, [u8]> {
        let width = frame.size().width as usize;
        if self.part[0] == width {
            return Cow::Borrowed(&frame.pixels()[self.from[1] * width * 4..][..self.part[1] * width * 4]);
        }
        let rows = frame.pixels().chunks_exact(width * 4).skip(self.from[1]).take(self.part[1]);
        Cow::Owned(rows.flat_map(|row| &row[self.from[0] * 4..][..self.part[0] * 4]).copied().collect())
    }

    /// A face in the input, in pixels of the picture.
    fn in_picture(&self, face: &Face) -> Face {
        let back = |axis: usize, at: f32| {
            let scale = self.part[axis] as f32 / self.shown[axis] as f32;
            self.from[axis] as f32 + (at - self.to[axis] as f32) * scale
        };
        Face {
            left: back(0, face.left),
            top: back(1, face.top),
            right: back(0, face.right),
            bottom: back(1, face.bottom),
            landmarks: face.landmarks.map(|[x, y]| [back(0, x), back(1, y)]),
            score: face.score,
        }
    }
}

/// The faces that are seen in a part of the picture and score at least `threshold`, the surest first.
fn look(frame: &Frame, eye: &dyn Eye, view: &View, threshold: f32) -> Result<Vec<Face>, SegmentError> {
    let pixels = view.pixels(frame);
    let cells = eye.cells(view.extent, &|input, pad| {
        let row = (view.extent[0] + 2 * pad) * 3;
        let [width, height] = view.shown;
        let target = Target { width, height, ground: GROUND, row, margin: (pad + view.to[0]) * 3 };
        stretched(&pixels, view.part, target, &mut input[view.to[1] * row..]);
    })?;
    let levels: Vec<Level<'_>> = STRIDES
        .into_iter()
        .zip(&cells)
        .map(|(stride, cells)| Level { stride, width: view.extent[0] / stride, cells })
        .collect();
    Ok(decode(&levels, threshold).iter().map(|face| view.in_picture(face)).collect())
}

#[cfg(test)]
mod tests;
