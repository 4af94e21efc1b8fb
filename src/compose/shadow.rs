//! The shadow that a subject casts: its coverage, moved and blurred.
//!
//! A soft shadow has no detail: where the blur is wide, coverage is averaged over squares of pixels, blurred on that
//! grid and sampled from it bilinearly. Averaging over `k` pixels adds a variance of `(k² - 1) / 12`, the interpolation
//! twice that (its mean over all positions), which the blur leaves out.

use super::Shadow;
use crate::image::{Rect, Size};
use backdrop_kernels::gaussian::{self, Border};
use rayon::prelude::*;

/// The blur's deviation on a reduced grid, at least: below it the grid would show.
const LEAST_REDUCED: f32 = 4.0;
/// A blur beyond this, in pixels, spreads a shadow over more than any canvas.
const FAR: f32 = 1e6;

/// Pixels beyond which a shadow of this softness leaves nothing.
pub(super) fn reach(sigma: f32) -> usize {
    gaussian::reach(sigma)
}

/// How many pixels on a side become one before they are blurred.
pub(super) fn reduction(sigma: f32) -> usize {
    ((sigma / LEAST_REDUCED) as usize).max(1)
}

/// A blurred shadow on a grid of its own, moved.
#[derive(Debug)]
pub(super) struct Cast {
    shade: Vec<[f32; 1]>,
    width: usize,
    /// Pixels of the canvas on a side of a cell.
    cell: usize,
    /// Where the grid begins on the canvas.
    left: f32,
    top: f32,
}

impl Cast {
    /// The shadow of what `covers` says of each row of a canvas of `size`, all of it inside `bounds`: 0..=255 for each
    /// column of the bounds. `scale` canvas pixels are one of the shadow's.
    pub(super) fn new<C>(size: Size, bounds: Rect, shadow: &Shadow, scale: f32, covers: C) -> Self
    where
        C: Fn(u32, u32) -> u8 + Sync,
    {
        let sigma = (shadow.sigma * scale).clamp(0.0, FAR);
        Self::reduced(size, bounds, shadow, scale, covers, reduction(sigma))
    }

    fn reduced<C>(size: Size, bounds: Rect, shadow: &Shadow, scale: f32, covers: C, cell: usize) -> Self
    where
        C: Fn(u32, u32) -> u8 + Sync,
    {
        debug_assert!(bounds.left + bounds.width <= size.width && bounds.top + bounds.height <= size.height);
        let sigma = (shadow.sigma * scale).clamp(0.0, FAR);
        let squared = (cell * cell) as f32;
        let sigma = (sigma * sigma - (squared - 1.0) / 4.0).max(0.0).sqrt() / cell as f32;
        // One more, for the interpolation.
        let border = reach(sigma) + 1;
        let columns = (bounds.width as usize).div_ceil(cell);
        let rows = (bounds.height as usize).div_ceil(cell);
        let width = columns + 2 * border;
        let mut shade = vec![[0.0]; width * (rows + 2 * border)];
        let (right, bottom) = (bounds.left + bounds.width, bounds.top + bounds.height);
        shade[border * width..(border + rows) * width].par_chunks_mut(width).enumerate().for_each(|(row, shade)| {
            let top = bounds.top + (row * cell) as u32;
            let mut sums = vec![0_u32; columns];
            for y in top..(top + cell as u32).min(bottom) {
                for (x, column) in (bounds.left..right).zip(0..) {
                    sums[column / cell] += u32::from(covers(x, y));
                }
            }
            for (shade, sum) in shade[border..].iter_mut().zip(sums) {
                *shade = [sum as f32 / (255.0 * squared)];
            }
        });
        gaussian::cpu::blur(&mut shade, width, sigma, Border::Zero);
        let start = |first: u32, offset: f32| first as f32 - (border * cell) as f32 + finite(offset * scale);
        Self { shade, width, cell, left: start(bounds.left, shadow.dx), top: start(bounds.top, shadow.dy) }
    }

    /// The shade, 0..=1, of a row of the canvas; nothing when it has none. `line` is scratch.
    pub(super) fn row<'a>(&self, y: u32, line: &mut Vec<f32>, shade: &'a mut [f32]) -> Option<&'a [f32]> {
        let cell = self.cell as f32;
        let at = (y as f32 + 0.5 - self.top) / cell - 0.5;
        let rows = self.shade.len() / self.width;
        let above = at.floor();
        if above < -1.0 || above >= rows as f32 {
            return None;
        }
        let share = at - above;
        let grid_row = |row: f32| {
            let start = row as usize * self.width;
            // Beyond the grid there is no shade.
            if row >= 0.0 && row < rows as f32 { &self.shade[start..start + self.width] } else { &[] }
        };
        let (first, second) = (grid_row(above), grid_row(above + 1.0));
        line.clear();
        line.resize(self.width + 1, 0.0);
        for (line, [shade]) in line.iter_mut().zip(first) {
            *line = (1.0 - share) * shade;
        }
        if share > 0.0 {
            for (line, [shade]) in line.iter_mut().zip(second) {
                *line += share * shade;
            }
        }
        let value = |column: i64| usize::try_from(column).ok().and_then(|column| line.get(column)).map_or(0.0, |v| *v);
        let start = (0.5 - self.left) / cell - 0.5;
        for (x, shade) in shade.iter_mut().enumerate() {
            let at = start + x as f32 / cell;
            let left = at.floor();
            let share = at - left;
            *shade = (1.0 - share) * value(left as i64) + share * value(left as i64 + 1);
        }
        Some(shade)
    }
}

fn finite(length: f32) -> f32 {
    if length.is_nan() { 0.0 } else { length.clamp(-FAR, FAR) }
}
