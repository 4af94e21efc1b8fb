//! Foreground relaxation on the CPU, one tile at a time.

use super::SMOOTHNESS;
use crate::lanes::{LANES, Lanes};
use multiversion::multiversion;

/// Planes of a tile: alpha, the picture (3), foreground (3), background (3).
const ALPHA: usize = 0;
const PICTURE: usize = 1;
const FOREGROUND: usize = 4;
const BACKGROUND: usize = 7;

/// A rectangle of the picture with what is being estimated in it. Kept between uses for its memory.
#[derive(Debug, Default)]
pub struct Tile {
    width: usize,
    height: usize,
    stride: usize,
    planes: [Vec<f32>; 10],
    next: [Vec<f32>; 6],
}

impl Tile {
    /// Makes the tile `width` by `height` pixels; what it held is meaningless afterwards.
    pub fn resize(&mut self, width: usize, height: usize) {
        // A block to the left for the border, and one to the right for the border and the lanes beyond.
        (self.width, self.height, self.stride) = (width, height, LANES + width.next_multiple_of(LANES) + LANES);
        for plane in self.planes.iter_mut().chain(&mut self.next) {
            plane.clear();
            plane.resize(self.stride * height, 0.0);
        }
    }

    const fn index(&self, x: usize, y: usize) -> usize {
        y * self.stride + LANES + x
    }

    /// Sets one pixel.
    pub fn set(&mut self, (x, y): (usize, usize), alpha: f32, colour: [f32; 3], foreground: [f32; 3], background: [f32; 3]) {
        let at = self.index(x, y);
        self.planes[ALPHA][at] = alpha;
        for channel in 0..3 {
            self.planes[PICTURE + channel][at] = colour[channel];
            self.planes[FOREGROUND + channel][at] = foreground[channel];
            self.planes[BACKGROUND + channel][at] = background[channel];
        }
    }

    /// Foreground and background colour of one pixel.
    #[must_use]
    pub fn colours(&self, (x, y): (usize, usize)) -> ([f32; 3], [f32; 3]) {
        let at = self.index(x, y);
        let colour = |first: usize| std::array::from_fn(|channel| self.planes[first + channel][at]);
        (colour(FOREGROUND), colour(BACKGROUND))
    }

    /// Takes `steps` relaxation steps.
    pub fn relax(&mut self, steps: usize) {
        self.mirror_border(ALPHA..ALPHA + 1);
        for _ in 0..steps {
            self.mirror_border(FOREGROUND..BACKGROUND + 3);
            for y in 0..self.height {
                let above = y.saturating_sub(1) * self.stride;
                let below = (y + 1).min(self.height - 1) * self.stride;
                relax_row(&self.planes, &mut self.next, [above, y * self.stride, below], self.width);
            }
            for (plane, next) in self.planes[FOREGROUND..].iter_mut().zip(&mut self.next) {
                std::mem::swap(plane, next);
            }
        }
    }

    fn mirror_border(&mut self, planes: std::ops::Range<usize>) {
        for plane in &mut self.planes[planes] {
            for row in plane.chunks_exact_mut(self.stride) {
                row[LANES - 1] = row[LANES];
                row[LANES + self.width] = row[LANES + self.width - 1];
            }
        }
    }
}

#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
fn relax_row(planes: &[Vec<f32>; 10], next: &mut [Vec<f32>; 6], [above, here, below]: [usize; 3], width: usize) {
    let one = Lanes::all(1.0);
    for x in (LANES..LANES + width).step_by(LANES) {
        let at = here + x;
        let neighbours = [above + x, below + x, at - 1, at + 1];
        let alpha = Lanes::load(&planes[ALPHA], at);
        let rest = one - alpha;
        let weights = neighbours.map(|n| Lanes::all(SMOOTHNESS) + (alpha - Lanes::load(&planes[ALPHA], n)).abs());
        let sum = weights[0] + weights[1] + weights[2] + weights[3];
        let per_sum = one / sum;
        let share = one / (alpha * alpha + rest * rest + sum);
        for channel in 0..3 {
            let mean = |plane: &[f32]| {
                let mut mean = Lanes::ZERO;
                for (weight, n) in weights.into_iter().zip(neighbours) {
                    mean = mean + weight * Lanes::load(plane, n);
                }
                mean * per_sum
            };
            let foreground = mean(&planes[FOREGROUND + channel]);
            let background = mean(&planes[BACKGROUND + channel]);
            let colour = Lanes::load(&planes[PICTURE + channel], at);
            let unexplained = (colour - alpha * foreground - rest * background) * share;
            (foreground + alpha * unexplained).clamped().store(&mut next[channel], at);
            (background + rest * unexplained).clamped().store(&mut next[3 + channel], at);
        }
    }
}
