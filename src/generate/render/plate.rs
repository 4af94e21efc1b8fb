//! The out-of-focus background as a low-resolution linear image: painting, Gaussian blur, cubic B-spline sampling.
//!
//! Out of focus there is no fine detail, so the grid is independent of the picture's size, and the B-spline hides it.
//! Glossy grounds reflect this image.
//!
//! Shapes are filled analytically instead of by `tiny-skia`: its pixmaps and masks have 8 bits, its colours end at 1
//! (windows and lamps are brighter), and it has neither soft edges of a given width nor a blur.

use super::span::{RgbSpan, SPAN, ScalarSpan, TexCoords, per_pixel};
use crate::generate::linear_rgb::Rgb;
use backdrop_kernels::gaussian::{self, Border};
use rayon::prelude::*;

const ROWS: usize = 400;
/// Maximum grid columns; wider pictures have wider cells.
const MAX_COLUMNS: usize = 2400;

pub(super) struct Plate {
    cells: Vec<Rgb>,
    columns: usize,
    /// Width in picture heights.
    aspect: f32,
}

impl Plate {
    /// Evaluates `paint` at each span of each row; coordinates are (u, v) in picture heights, u 0 in the middle.
    pub(super) fn paint(aspect: f32, paint: impl Fn(&TexCoords) -> RgbSpan + Sync) -> Self {
        let columns = ((ROWS as f32 * aspect).ceil() as usize).clamp(4, MAX_COLUMNS);
        let mut cells = vec![[0.0; 3]; ROWS * columns];
        let wide = aspect / columns as f32;
        cells.par_chunks_mut(columns).enumerate().for_each(|(row, cells)| {
            let v = (row as f32 + 0.5) / ROWS as f32;
            for (index, cells) in cells.chunks_mut(SPAN).enumerate() {
                let first = index * SPAN;
                let patch = TexCoords {
                    x: per_pixel(|at| ((first + at) as f32 + 0.5) * wide - 0.5 * aspect),
                    y: [v; SPAN],
                    footprint: [wide.min(0.01), 1.0 / ROWS as f32],
                };
                let light = paint(&patch);
                for (at, cell) in cells.iter_mut().enumerate() {
                    *cell = [light.0[0][at], light.0[1][at], light.0[2][at]];
                }
            }
        });
        Self { cells, columns, aspect }
    }

    /// Fills a box (left, top, right, bottom) with edges `soft` wide at opacity `share`.
    pub(super) fn fill_box(&mut self, [left, top, right, bottom]: [f32; 4], soft: f32, color: Rgb, share: f32) {
        let edge = move |value: f32| (value / soft.max(1e-3) + 0.5).clamp(0.0, 1.0);
        self.each([left - soft, top - soft, right + soft, bottom + soft], |u, v, cell| {
            let coverage = edge(u - left) * edge(right - u) * edge(v - top) * edge(bottom - v) * share;
            for (value, color) in cell.iter_mut().zip(color) {
                *value += coverage * (color - *value);
            }
        });
    }

    /// Fills an ellipse with these half axes.
    pub(super) fn fill_ellipse(
        &mut self,
        [u, v]: [f32; 2],
        [across, down]: [f32; 2],
        soft: f32,
        color: Rgb,
        share: f32,
    ) {
        let bounds = [u - across - soft, v - down - soft, u + across + soft, v + down + soft];
        self.each(bounds, |x, y, cell| {
            let distance = (((x - u) / across).powi(2) + ((y - v) / down).powi(2)).sqrt();
            let coverage = ((1.0 - distance) * across.min(down) / soft.max(1e-3) + 0.5).clamp(0.0, 1.0) * share;
            for (value, color) in cell.iter_mut().zip(color) {
                *value += coverage * (color - *value);
            }
        });
    }

    /// Adds a light that falls off around a point.
    pub(super) fn add_glow(&mut self, [u, v]: [f32; 2], radius: f32, color: Rgb) {
        self.each([u - 3.0 * radius, v - 3.0 * radius, u + 3.0 * radius, v + 3.0 * radius], |x, y, cell| {
            let squared = ((x - u) * (x - u) + (y - v) * (y - v)) / (radius * radius);
            let amount = (1.0 - squared / 9.0).max(0.0).powi(2) / (1.0 + squared);
            for (value, color) in cell.iter_mut().zip(color) {
                *value += amount * color;
            }
        });
    }

    fn each(&mut self, [left, top, right, bottom]: [f32; 4], paint: impl Fn(f32, f32, &mut Rgb)) {
        let wide = self.aspect / self.columns as f32;
        let columns = |u: f32| (((u + 0.5 * self.aspect) / wide).max(0.0) as usize).min(self.columns);
        let rows = |v: f32| ((v * ROWS as f32).max(0.0) as usize).min(ROWS);
        let (first, end) = (columns(left), (columns(right) + 1).min(self.columns));
        let (top, bottom) = (rows(top), (rows(bottom) + 1).min(ROWS));
        for row in top..bottom {
            let v = (row as f32 + 0.5) / ROWS as f32;
            for column in first..end {
                let u = (column as f32 + 0.5) * wide - 0.5 * self.aspect;
                paint(u, v, &mut self.cells[row * self.columns + column]);
            }
        }
    }

    /// Gaussian blur with a standard deviation of `sigma` picture heights.
    pub(super) fn blur(&mut self, sigma: f32) {
        gaussian::cpu::blur(&mut self.cells, self.columns, sigma * ROWS as f32, Border::Clamp);
    }

    /// The row at `v`, interpolated between grid rows.
    pub(super) fn row(&self, v: f32) -> Row {
        let at = (v.clamp(-1.0, 2.0) * ROWS as f32 - 0.5).clamp(0.0, (ROWS - 1) as f32);
        let first = at as usize;
        let weights = spline(at - first as f32);
        let mut cells = vec![[0.0_f32; 3]; self.columns];
        for (tap, weight) in weights.into_iter().enumerate() {
            let row = (first + tap).saturating_sub(1).min(ROWS - 1);
            for (cell, from) in cells.iter_mut().zip(&self.cells[row * self.columns..][..self.columns]) {
                for (value, from) in cell.iter_mut().zip(from) {
                    *value += weight * from;
                }
            }
        }
        Row { cells, aspect: self.aspect }
    }
}

pub(super) struct Row {
    cells: Vec<Rgb>,
    aspect: f32,
}

impl Row {
    pub(super) fn sample(&self, u: &ScalarSpan) -> RgbSpan {
        let columns = self.cells.len();
        let scale = columns as f32 / self.aspect;
        let mut light = RgbSpan::uniform([0.0; 3]);
        for at in 0..SPAN {
            let place = ((u[at] + 0.5 * self.aspect) * scale - 0.5).clamp(0.0, (columns - 1) as f32);
            let first = place as usize;
            let weights = spline(place - first as f32);
            let mut sum = [0.0; 3];
            for (tap, weight) in weights.into_iter().enumerate() {
                let cell = self.cells[(first + tap).saturating_sub(1).min(columns - 1)];
                for (sum, cell) in sum.iter_mut().zip(cell) {
                    *sum += weight * cell;
                }
            }
            for (plane, sum) in light.0.iter_mut().zip(sum) {
                plane[at] = sum;
            }
        }
        light
    }

    pub(super) fn mean(&self) -> Rgb {
        let count = self.cells.len() as f32;
        let sum = self.cells.iter().fold([0.0_f32; 3], |sum, cell| std::array::from_fn(|c| sum[c] + cell[c]));
        sum.map(|sum| sum / count)
    }
}

#[inline(always)]
fn spline(t: f32) -> [f32; 4] {
    let rest = 1.0 - t;
    let (squared, cubed) = (t * t, t * t * t);
    [
        rest * rest * rest / 6.0,
        (4.0 - 6.0 * squared + 3.0 * cubed) / 6.0,
        (1.0 + 3.0 * t + 3.0 * squared - 3.0 * cubed) / 6.0,
        cubed / 6.0,
    ]
}
