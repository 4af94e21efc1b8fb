//! Mean colour and foreground/background colour likelihood of each cell of the mask's grid.
//!
//! The likelihoods are those of two colour mixture models ([`ColorModels`]) fitted to the picture with its mask.

use super::clean_mask::CleanMask;
use crate::image::{Frame, Size};
use crate::matting::chamfer::STRAIGHT;
use crate::matting::gmm::ColorModels;
use crate::matting::upsample::upsampled;
use rayon::prelude::*;
use std::cell::OnceCell;

/// The grid on which the lengths below were tuned; they grow with finer ones, so that they are shares of the picture.
pub(super) const TUNED_SIDE: f32 = 384.0;
/// Finer grids are classified on a coarser one: colours are no better known there, and the time is bounded.
pub(super) const FINEST_SIDE: usize = 768;
/// The log likelihood ratio of one pixel is limited to this: no single colour decides alone.
const MOST_EVIDENCE: f32 = 5.0;
/// Pixels sampled of a cell, along each side.
const SAMPLES: usize = 4;

/// A picture and its mask, with the colour models of both sides, which are fitted on first use.
pub(super) struct MaskedFrame<'a> {
    pub(super) frame: &'a Frame,
    pub(super) mask: &'a CleanMask,
    models: OnceCell<Option<ColorModels>>,
}

impl<'a> MaskedFrame<'a> {
    pub(super) const fn new(frame: &'a Frame, mask: &'a CleanMask) -> Self {
        Self { frame, mask, models: OnceCell::new() }
    }

    /// `None` where the mask has too few certain pixels to fit to.
    pub(super) fn models(&self) -> Option<&ColorModels> {
        let fitted =
            || ColorModels::of(self.frame, &upsampled(self.mask.values(), self.mask.size(), self.frame.size()));
        self.models.get_or_init(fitted).as_ref()
    }
}

/// Samples the pixels of one cell.
pub(super) struct CellSampler<'a> {
    pub(super) frame: &'a Frame,
    pub(super) models: &'a ColorModels,
    /// Whether the likelihood ratio is computed.
    pub(super) with_likelihood: bool,
}

impl CellSampler<'_> {
    /// Mean colour and mean log likelihood ratio (above 0: subject); a cell smaller than a pixel has that of the pixel beneath.
    pub(super) fn at(&self, [column, row]: [usize; 2], grid: Size) -> ([f32; 3], f32) {
        let size = self.frame.size();
        let span = |cell: usize, cells: u32, pixels: u32| {
            let (cells, pixels) = (cells as usize, pixels as usize);
            let start = cell * pixels / cells;
            let end = ((cell + 1) * pixels / cells).max(start + 1);
            (start..end).step_by((end - start).div_ceil(SAMPLES))
        };
        let (pixels, _) = self.frame.pixels().as_chunks::<4>();
        let (mut colour, mut evidence, mut count) = ([0.0; 3], 0.0, 0.0);
        for y in span(row, grid.height, size.height) {
            for x in span(column, grid.width, size.width) {
                let [red, green, blue, _] = pixels[y * size.width as usize + x];
                let rgb = [red, green, blue];
                (0..3).for_each(|channel| colour[channel] += f32::from(rgb[channel]));
                if self.with_likelihood {
                    evidence += self.models.log_ratio(rgb).clamp(-MOST_EVIDENCE, MOST_EVIDENCE);
                }
                count += 1.0;
            }
        }
        (colour.map(|sum| sum / count), evidence / count)
    }
}

/// The means of `factor` by `factor` cells.
pub(super) fn reduced(mask: &CleanMask, factor: usize) -> CleanMask {
    let [columns, rows] = [mask.size().width as usize, mask.size().height as usize];
    let [width, height] = [columns.div_ceil(factor), rows.div_ceil(factor)];
    let mean = |at: usize| {
        let [left, top] = [at % width * factor, at / width * factor];
        let [right, bottom] = [(left + factor).min(columns), (top + factor).min(rows)];
        let sum: f32 =
            (top..bottom).map(|y| mask.values()[y * columns + left..y * columns + right].iter().sum::<f32>()).sum();
        sum / ((right - left) * (bottom - top)) as f32
    };
    let values = (0..width * height).into_par_iter().map(mean).collect();
    CleanMask::new(Size::new(width as u32, height as u32), values)
}

/// Square of the distance between two colours.
pub(super) fn difference(one: [f32; 3], other: [f32; 3]) -> f32 {
    one.iter().zip(other).map(|(one, other)| (one - other) * (one - other)).sum()
}

/// Chamfer distance of so many cells.
pub(super) fn thirds(cells: f32) -> u16 {
    (cells * f32::from(STRAIGHT)) as u16
}

#[cfg(test)]
pub(super) mod scene {
    //! Drawn pictures and masks.

    use super::CleanMask;
    use crate::image::{Buffer, Frame, Size};

    pub(in crate::matting::clean) const BLUE: [u8; 3] = [40, 60, 180];
    pub(in crate::matting::clean) const RED: [u8; 3] = [190, 50, 40];
    pub(in crate::matting::clean) const WHITE: [u8; 3] = [244, 244, 242];
    pub(in crate::matting::clean) const PICTURE: Size = Size::new(300, 240);

    /// A grainy picture of [`PICTURE`]'s size.
    pub(in crate::matting::clean) fn picture(colour: impl Fn(f32, f32) -> [u8; 3]) -> Frame {
        let grain = |x: u32, y: u32| (x.wrapping_mul(2_654_435_761).wrapping_add(y.wrapping_mul(40_503)) >> 13) % 9;
        let places = (0..PICTURE.height).flat_map(|y| (0..PICTURE.width).map(move |x| (x, y)));
        let pixels: Vec<u8> = places
            .flat_map(|(x, y)| {
                let [r, g, b] = colour(x as f32, y as f32).map(|channel| channel.saturating_add(grain(x, y) as u8));
                [r, g, b, 255]
            })
            .collect();
        Frame::new(PICTURE, Buffer::from(pixels))
    }

    /// A mask of `side` by `side` cells: `value` at the centres of its cells, in the units of the picture.
    pub(in crate::matting::clean) fn mask(side: u32, value: impl Fn(f32, f32) -> f32) -> CleanMask {
        let place = |cell: u32, pixels: u32| (cell as f32 + 0.5) * pixels as f32 / side as f32;
        let cells = (0..side).flat_map(|row| (0..side).map(move |column| (column, row)));
        let values = cells.map(|(column, row)| value(place(column, PICTURE.width), place(row, PICTURE.height)));
        CleanMask::new(Size::new(side, side), values.collect())
    }
}
