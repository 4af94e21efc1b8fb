//! Distance between the local colours of subject and background: how well colours discriminate around each cell of the mask's grid.
//!
//! The squared Mahalanobis distance of the means under the pooled covariance, which Fisher's linear discriminant
//! maximises ("The Use of Multiple Measurements in Taxonomic Problems", Annals of Eugenics 1936):
//!
//! ```text
//! d² = (μ_s − μ_b)ᵀ (½ Σ_s + ½ Σ_b + n² I)⁻¹ (μ_s − μ_b)
//! ```
//!
//! Means and covariances are measured on pixels of which the mask is certain: in a window around the cell, and in the
//! whole picture with the weight of a few pixels, so that a window inside a wide fringe of hair has both sides too. n
//! is the noise of a pixel. Without certain pixels of both sides the distance is 0 everywhere.

use crate::image::{Frame, Size};
use crate::matting::trimap::{BACKGROUND, FOREGROUND};
use backdrop_kernels::mask_upsample::cpu::Upsampled;
use backdrop_kernels::recycled::Recycled;
use rayon::prelude::*;

/// Cells along each side of a block, which has one distance.
const BLOCK: usize = 4;
/// Blocks to either side of a block in its window; a window is twenty cells wide.
const REACH: usize = 2;
/// Weight of each side's moments of the whole picture in a window, in samples.
const SAMPLES_OF_ALL: f32 = 16.0;
/// n: standard deviation of a channel's noise, in steps of 255.
const NOISE: f32 = 5.0;

/// Number of samples, sums of the channels, and sums of products of channels (upper triangle, row after row).
type Moments = [f32; 10];
type Sides = [Moments; 2];

/// A value for each block of a grid.
#[derive(Debug)]
pub(super) struct Blocks {
    values: Recycled<Vec<f32>>,
    columns: usize,
}

impl Blocks {
    pub(super) fn map(mut self, change: impl Fn(f32) -> f32) -> Self {
        self.values.iter_mut().for_each(|value| *value = change(*value));
        self
    }

    /// Interpolates a value for each cell of `grid` between the centres of the blocks.
    pub(super) fn upsampled(&self, grid: Size) -> Recycled<Vec<f32>> {
        let (columns, rows) = (self.columns, self.values.len() / self.columns);
        let plane = Upsampled::new(&self.values, (columns, rows), (columns * BLOCK, rows * BLOCK));
        let mut mixed = Vec::new();
        let mut cells = Recycled::filled(grid.area(), 0.0);
        for (y, row) in cells.chunks_exact_mut(grid.width as usize).enumerate() {
            plane.mix_rows(y, &mut mixed);
            row.iter_mut().enumerate().for_each(|(x, cell)| *cell = plane.along(&mixed, x));
        }
        cells
    }
}

pub(super) fn color_distances(frame: &Frame, mask: &[f32], grid: Size) -> Blocks {
    let [columns, rows] = [grid.width as usize, grid.height as usize].map(|cells| cells.div_ceil(BLOCK));
    let mut sides = Recycled::filled(columns * rows, [[0.0; 10]; 2]);
    sides.par_iter_mut().enumerate().with_min_len(columns).for_each(|(at, sides)| {
        *sides = moments(frame, mask, grid, at % columns, at / columns);
    });
    let all = sides.iter().fold([[0.0; 10]; 2], sum);
    let all = all.map(|side| side.map(|moment| moment * SAMPLES_OF_ALL / side[0].max(1.0)));
    let window = |sides: &[Sides], at: usize, position: usize, stride: usize, length: usize| {
        let around = position.saturating_sub(REACH)..(position + REACH + 1).min(length);
        around.map(|other| &sides[at + other * stride - position * stride]).fold([[0.0; 10]; 2], sum)
    };
    let along = Recycled::collected((0..sides.len()).map(|at| window(&sides, at, at % columns, 1, columns)));
    let values =
        (0..along.len()).map(|at| squared_distance(&sum(window(&along, at, at / columns, columns, rows), &all)));
    Blocks { values: Recycled::collected(values), columns }
}

fn sum(mut sums: Sides, terms: &Sides) -> Sides {
    sums.iter_mut().flatten().zip(terms.iter().flatten()).for_each(|(sum, term)| *sum += term);
    sums
}

/// The moments of a block, from one pixel of each certain cell.
fn moments(frame: &Frame, mask: &[f32], grid: Size, column: usize, row: usize) -> Sides {
    let [width, height] = [frame.size().width as usize, frame.size().height as usize];
    let [columns, rows] = [grid.width as usize, grid.height as usize];
    let pixels = frame.pixels().as_chunks::<4>().0;
    let mut sides = [[0.0; 10]; 2];
    for y in row * BLOCK..((row + 1) * BLOCK).min(rows) {
        for x in column * BLOCK..((column + 1) * BLOCK).min(columns) {
            let value = mask[y * columns + x];
            if value > BACKGROUND && value < FOREGROUND {
                continue;
            }
            let pixel = pixels[(2 * y + 1) * height / (2 * rows) * width + (2 * x + 1) * width / (2 * columns)];
            let [r, g, b, _] = pixel.map(f32::from);
            let terms = [1.0, r, g, b, r * r, r * g, r * b, g * g, g * b, b * b];
            let side = &mut sides[usize::from(value >= FOREGROUND)];
            side.iter_mut().zip(terms).for_each(|(sum, term)| *sum += term);
        }
    }
    sides
}

fn squared_distance([background, subject]: &Sides) -> f32 {
    if background[0].min(subject[0]) <= 0.0 {
        return 0.0;
    }
    let mean = |side: &Moments, at: usize| side[at] / side[0];
    let covariance = |at: usize, one: usize, other: usize| {
        let of = |side: &Moments| mean(side, at) - mean(side, one) * mean(side, other);
        (of(background) + of(subject)) / 2.0
    };
    // At least the noise, because rounding can make the variance of a flat window negative.
    let variance = |at: usize, channel: usize| covariance(at, channel, channel).max(0.0) + NOISE * NOISE;
    let [x, y, z] = [1, 2, 3].map(|at| mean(subject, at) - mean(background, at));
    // Cholesky's triangle, and its inverse times the difference of the means.
    let xx = variance(4, 1).sqrt();
    let (xy, xz) = (covariance(5, 1, 2) / xx, covariance(6, 1, 3) / xx);
    let yy = (variance(7, 2) - xy * xy).max(1.0).sqrt();
    let yz = (covariance(8, 2, 3) - xz * xy) / yy;
    let zz = (variance(9, 3) - xz * xz - yz * yz).max(1.0).sqrt();
    let a = x / xx;
    let b = (y - xy * a) / yy;
    let c = (z - xz * a - yz * b) / zz;
    a * a + b * b + c * c
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRID: Size = Size::new(40, 32);

    fn distances(subject: [u8; 3], background: [u8; 3], certain: bool) -> Blocks {
        let cells = || (0..GRID.area()).map(|at| at % 40 < 20);
        let color = |is_subject| if is_subject { subject } else { background };
        let pixels: Vec<u8> = cells().map(color).flat_map(|[r, g, b]| [r, g, b, 255]).collect();
        let mask: Vec<f32> = cells().map(|is_subject| f32::from(u8::from(is_subject && certain))).collect();
        color_distances(&Frame::new(GRID, pixels.into()), &mask, GRID)
    }

    #[test]
    fn the_distance_counts_in_standard_deviations_of_the_noise() {
        for (difference, expected) in [(0, 0.0), (5, 1.0), (20, 16.0)] {
            let blocks = distances([100 + difference, 100, 100], [100; 3], true);
            // Windows far from the border hold one side; the other side comes from the whole picture.
            for distance in &*blocks.values {
                assert!((distance - expected).abs() < 1e-3, "{difference}: {distance}");
            }
        }
    }

    #[test]
    fn a_side_without_certain_cells_has_no_distance() {
        assert!(distances([255, 0, 0], [0, 0, 255], false).values.iter().all(|&value| value == 0.0));
    }

    #[test]
    fn cells_are_interpolated_between_blocks() {
        let blocks = Blocks { values: Recycled::copy_of(&[0.0, 1.0]), columns: 2 };
        let cells = blocks.upsampled(Size::new(7, 2));
        assert_eq!(cells[..7], [0.0, 0.0, 0.125, 0.375, 0.625, 0.875, 1.0]);
        assert_eq!(cells[7..], cells[..7]);
    }
}
