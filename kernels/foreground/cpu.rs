//! Foreground relaxation on the CPU, one tile at a time.

use super::SMOOTHNESS;
use crate::f32x8::{F32x8, LANES};
use multiversion::multiversion;

/// Planes of a tile: alpha, the picture (3), foreground (3), background (3).
const ALPHA: usize = 0;
const PICTURE: usize = 1;
const FOREGROUND: usize = 4;
const BACKGROUND: usize = 7;

/// A rectangle of the picture with its alpha and the estimated colours. Its memory is reused.
#[derive(Debug, Default)]
pub struct Tile {
    width: usize,
    height: usize,
    stride: usize,
    planes: [Vec<f32>; 10],
    next: [Vec<f32>; 6],
    mixed: Vec<u16>,
}

impl Tile {
    /// Makes the tile `width` by `height` pixels; its values are undefined afterwards.
    pub fn resize(&mut self, width: usize, height: usize) {
        // One block on the left for the border, and one on the right for the border and the lanes beyond.
        (self.width, self.height, self.stride) = (width, height, LANES + width.next_multiple_of(LANES) + LANES);
        for plane in self.planes.iter_mut().chain(&mut self.next) {
            plane.resize(self.stride * height, 0.0);
        }
    }

    const fn index(&self, x: usize, y: usize) -> usize {
        y * self.stride + LANES + x
    }

    /// Sets one pixel.
    pub fn set(
        &mut self,
        (x, y): (usize, usize),
        alpha: f32,
        colour: [f32; 3],
        foreground: [f32; 3],
        background: [f32; 3],
    ) {
        let at = self.index(x, y);
        self.planes[ALPHA][at] = alpha;
        for channel in 0..3 {
            self.planes[PICTURE + channel][at] = colour[channel];
            self.planes[FOREGROUND + channel][at] = foreground[channel];
            self.planes[BACKGROUND + channel][at] = background[channel];
        }
    }

    /// Sets alpha and the picture of row `y`.
    pub fn set_row(&mut self, y: usize, coverage: &[u8], pixels: &[[u8; 4]]) {
        let row = y * self.stride + LANES..y * self.stride + LANES + self.width;
        let [alpha, red, green, blue, ..] = self.planes.each_mut().map(|plane| &mut plane[row.clone()]);
        read_row(coverage, pixels, [alpha, red, green, blue]);
    }

    /// Sets both colours of row `y` to the picture's.
    pub fn start_from_picture(&mut self, y: usize) {
        let row = y * self.stride..(y + 1) * self.stride;
        let (picture, colours) = self.planes.split_at_mut(FOREGROUND);
        for (at, plane) in colours.iter_mut().enumerate() {
            plane[row.clone()].copy_from_slice(&picture[PICTURE + at % 3][row.clone()]);
        }
    }

    /// Sets plane `plane` of the colours (three of the foreground, three of the background) of row `y` from two rows of
    /// the coarser level, bilinear: `near` has three times the weight of `far`. The tile's first column is column
    /// `first` of the finer level, which must be even.
    pub fn start_row(&mut self, plane: usize, y: usize, first: usize, near: &[u8], far: &[u8]) {
        debug_assert!(first.is_multiple_of(2), "a tile begins with a whole pair");
        let pairs = self.width.div_ceil(2);
        let parents = first / 2..first / 2 + pairs;
        let mix = |at: usize| 3 * u16::from(near[at]) + u16::from(far[at]);
        let mixed = &mut self.mixed;
        mixed.clear();
        mixed.push(mix(parents.start.saturating_sub(1)));
        mixed.extend(
            near[parents.clone()]
                .iter()
                .zip(&far[parents.clone()])
                .map(|(&near, &far)| 3 * u16::from(near) + u16::from(far)),
        );
        mixed.push(mix(parents.end.min(near.len() - 1)));
        let at = y * self.stride + LANES;
        // A row that ends within a pair has memory for the whole pair.
        spread_row(mixed, &mut self.planes[FOREGROUND + plane][at..at + 2 * pairs]);
    }

    /// Writes plane `plane` of the colours of row `y` from column `first` on, as bytes.
    pub fn store_row(&self, plane: usize, y: usize, first: usize, bytes: &mut [u8]) {
        let at = self.index(first, y);
        for (byte, value) in bytes.iter_mut().zip(&self.planes[FOREGROUND + plane][at..]) {
            *byte = (value * 255.0 + 0.5) as u8;
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
fn read_row(coverage: &[u8], pixels: &[[u8; 4]], planes: [&mut [f32]; 4]) {
    const UNIT: f32 = 1.0 / 255.0;
    let [alpha, red, green, blue] = planes;
    for (alpha, &coverage) in alpha.iter_mut().zip(coverage) {
        *alpha = f32::from(coverage) * UNIT;
    }
    for (((pixel, red), green), blue) in pixels.iter().zip(red).zip(green).zip(blue) {
        let packed = u32::from_le_bytes(*pixel);
        *red = (packed & 255) as f32 * UNIT;
        *green = (packed >> 8 & 255) as f32 * UNIT;
        *blue = (packed >> 16 & 255) as f32 * UNIT;
    }
}

/// Two values for each inner one of `mixed`, a quarter of the way to either neighbour.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
fn spread_row(mixed: &[u16], row: &mut [f32]) {
    const UNIT: f32 = 1.0 / (16.0 * 255.0);
    let (pairs, _) = row.as_chunks_mut::<2>();
    let neighbours = mixed.iter().zip(&mixed[1..]).zip(&mixed[2..]);
    for (pair, ((&left, &here), &right)) in pairs.iter_mut().zip(neighbours) {
        *pair = [f32::from(3 * here + left) * UNIT, f32::from(3 * here + right) * UNIT];
    }
}

#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
fn relax_row(planes: &[Vec<f32>; 10], next: &mut [Vec<f32>; 6], [above, here, below]: [usize; 3], width: usize) {
    let one = F32x8::splat(1.0);
    for x in (LANES..LANES + width).step_by(LANES) {
        let at = here + x;
        let neighbours = [above + x, below + x, at - 1, at + 1];
        let alpha = F32x8::load(&planes[ALPHA], at);
        let rest = one - alpha;
        let mut weights = [F32x8::splat(SMOOTHNESS); 4];
        for (weight, &neighbour) in weights.iter_mut().zip(&neighbours) {
            *weight = *weight + (alpha - F32x8::load(&planes[ALPHA], neighbour)).abs();
        }
        let sum = weights[0] + weights[1] + weights[2] + weights[3];
        let per_sum = one / sum;
        let share = one / (alpha * alpha + rest * rest + sum);
        for channel in 0..3 {
            let (mut foreground, mut background) = (F32x8::ZERO, F32x8::ZERO);
            for (&weight, &neighbour) in weights.iter().zip(&neighbours) {
                foreground = foreground + weight * F32x8::load(&planes[FOREGROUND + channel], neighbour);
                background = background + weight * F32x8::load(&planes[BACKGROUND + channel], neighbour);
            }
            let (foreground, background) = (foreground * per_sum, background * per_sum);
            let colour = F32x8::load(&planes[PICTURE + channel], at);
            let unexplained = (colour - alpha * foreground - rest * background) * share;
            (foreground + alpha * unexplained).clamped().store(&mut next[channel], at);
            (background + rest * unexplained).clamped().store(&mut next[3 + channel], at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(seed: usize) -> f32 {
        ((seed as u32).wrapping_mul(2_654_435_761) >> 16) as f32 / 65536.0
    }

    fn filled(width: usize, height: usize, from: (usize, usize)) -> Tile {
        let mut tile = Tile::default();
        tile.resize(width, height);
        for (x, y) in (0..height).flat_map(|y| (0..width).map(move |x| (x, y))) {
            let seed = ((y + from.1) * 1000 + x + from.0) * 10;
            let three = |first: usize| std::array::from_fn(|channel| value(seed + first + channel));
            tile.set((x, y), value(seed), three(1), three(4), three(7));
        }
        tile
    }

    /// The paper's 2×2 system of one pixel, in f64, for the first channel.
    fn by_the_paper(tile: &Tile, x: usize, y: usize) -> (f64, f64) {
        let read = |plane: usize, x: usize, y: usize| f64::from(tile.planes[plane][tile.index(x, y)]);
        let alpha = read(ALPHA, x, y);
        let (mut a00, mut a11) = (alpha * alpha, (1.0 - alpha) * (1.0 - alpha));
        let (a01, colour) = (alpha * (1.0 - alpha), read(PICTURE, x, y));
        let (mut b0, mut b1) = (alpha * colour, (1.0 - alpha) * colour);
        let (left, right) = (x.saturating_sub(1), (x + 1).min(tile.width - 1));
        let (above, below) = (y.saturating_sub(1), (y + 1).min(tile.height - 1));
        for (x, y) in [(left, y), (right, y), (x, above), (x, below)] {
            let weight = f64::from(SMOOTHNESS) + (alpha - read(ALPHA, x, y)).abs();
            a00 += weight;
            a11 += weight;
            b0 += weight * read(FOREGROUND, x, y);
            b1 += weight * read(BACKGROUND, x, y);
        }
        let determinant = a00 * a11 - a01 * a01;
        let solved = ((a11 * b0 - a01 * b1) / determinant, (a00 * b1 - a01 * b0) / determinant);
        (solved.0.clamp(0.0, 1.0), solved.1.clamp(0.0, 1.0))
    }

    #[test]
    fn a_step_solves_the_papers_system_at_every_pixel() {
        for (width, height) in [(1, 1), (1, 7), (7, 1), (8, 8), (13, 5), (67, 3)] {
            let before = filled(width, height, (0, 0));
            let mut after = filled(width, height, (0, 0));
            after.relax(1);
            for (x, y) in (0..height).flat_map(|y| (0..width).map(move |x| (x, y))) {
                let (foreground, background) = by_the_paper(&before, x, y);
                let ([ours, ..], [ours_behind, ..]) = after.colours((x, y));
                let error = (f64::from(ours) - foreground).abs().max((f64::from(ours_behind) - background).abs());
                assert!(error < 1e-4, "{width}×{height} at {x},{y}: {error}");
            }
        }
    }

    #[test]
    fn a_tile_with_a_margin_of_its_steps_matches_the_whole() {
        let mut whole = filled(40, 30, (0, 0));
        whole.relax(2);
        let mut tile = filled(20, 20, (5, 6));
        tile.relax(2);
        for (x, y) in (2..18).flat_map(|y| (2..18).map(move |x| (x, y))) {
            assert_eq!(tile.colours((x, y)), whole.colours((x + 5, y + 6)));
        }
        assert_ne!(
            tile.colours((0, 10)),
            whole.colours((5, 16)),
            "the outermost pixels must differ, or this shows nothing"
        );
    }
}
