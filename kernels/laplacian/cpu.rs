//! The matting Laplacian on the CPU: its rows for the unknown band only, and their product with a plane.
//!
//! Stores three nested sets of pixels, each as runs along the rows in one compact array: the *unknown* pixels (U), the
//! *windows* that hold an unknown pixel (W, U grown by 1), and the *pixels* that those windows read (A, W grown by 1).
//! A window's three rows are contiguous in A, and a pixel's nine windows in W, so all passes are straight loops over x.
//! Runs of U and W are padded to whole blocks of eight; padding lanes are fixed.
//!
//! A row of the matrix has 24 entries and its diagonal. Assembling them costs about as much as three products without a
//! matrix; a product with them costs a quarter of one.
//!
//! A band is processed by one thread and small enough for its cache; larger pictures are solved as several bands.
//!
//! Multiplications and additions are not fused, and sums have a fixed order: the result has equal bits on every
//! instruction set and number of threads.

use super::passes::{self, Entries};
use super::runs::{Runs, UnknownRun, WindowRun, unknown_runs, window_runs};
use crate::f32x8::LANES;
use crate::pyramid::cpu::LevelPixels;
use std::ops::Range;

/// A picture's colours: packed RGBA, row after row. The fourth byte is ignored.
#[derive(Clone, Copy, Debug)]
pub struct Colours<'a> {
    /// Columns.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// `width * height` pixels.
    pub pixels: LevelPixels<'a>,
}

/// Rows whose windows are computed and used together, and then dropped.
const ASSEMBLED_ROWS: i32 = 32;

/// The Laplacian of one band of unknown pixels. Its memory is reused.
#[derive(Debug, Default)]
pub struct Band {
    unknown_set: Runs,
    window_set: Runs,
    pixels: Runs,
    unknown: Vec<UnknownRun>,
    windows: Vec<WindowRun>,
    /// Over A, in 8-bit steps: integers, so that sums over a window are exact.
    colours: [Vec<f32>; 3],
    /// Mean colours of a part of W.
    means: [Vec<f32>; 3],
    /// Of that part of W: the six numbers of the whitening, and 1/9.
    whitening: [Vec<f32>; 7],
    entries: Vec<Entries>,
    diagonal: Vec<f32>,
    /// 1 for unknown pixels, 0 in padding lanes.
    free: Vec<f32>,
    labels: Vec<u8>,
    /// Pixels of a row of a level that is not stored.
    row: Vec<[u8; 4]>,
}

/// Resizes `vector` to `len` zeros.
pub(super) fn zeros<T: Copy>(vector: &mut Vec<T>, len: usize, zero: T) {
    vector.clear();
    vector.resize(len, zero);
}

impl Band {
    /// The band of the pixels in `rows` whose label is `unknown`.
    ///
    /// # Panics
    /// When `labels` does not have one byte for each pixel of `colours`.
    #[must_use]
    pub fn new(colours: Colours<'_>, labels: &[u8], unknown: u8, rows: Range<usize>) -> Self {
        assert!(labels.len() == colours.width * colours.height, "one label for each pixel");
        let mut band = Self::default();
        band.rebuild(colours, rows, |y, row| {
            for (is_unknown, &label) in row.iter_mut().zip(&labels[y * colours.width..]) {
                *is_unknown = u8::from(label == unknown);
            }
        });
        band
    }

    /// Rebuilds the band for the pixels in `rows` where `is_unknown(y, row)` writes 1 into the row, in place of 0.
    ///
    /// # Panics
    /// When `colours` has fewer pixels than its size.
    pub fn rebuild(&mut self, colours: Colours<'_>, rows: Range<usize>, mut is_unknown: impl FnMut(usize, &mut [u8])) {
        let Colours { width, height, .. } = colours;
        zeros(&mut self.labels, width.next_multiple_of(LANES), 0);
        let Self { unknown_set, labels, free, .. } = self;
        free.clear();
        unknown_set.collect(rows.start as i32..rows.end as i32, 1, |y, intervals| {
            is_unknown(y as usize, &mut labels[..width]);
            for (block, lanes) in labels.as_chunks::<LANES>().0.iter().enumerate() {
                if u64::from_ne_bytes(*lanes) != 0 {
                    free.extend(lanes.map(f32::from));
                    let x = (block * LANES) as i32;
                    intervals.push(x..x + LANES as i32);
                }
            }
        });
        self.window_set.grow(&self.unknown_set, LANES as i32);
        self.pixels.grow(&self.window_set, 1);
        unknown_runs(&self.unknown_set, &self.window_set, &self.pixels, &mut self.unknown);
        window_runs(&self.window_set, &self.pixels, &mut self.windows);
        self.read_colours(colours);
        self.assemble([width, height]);
    }

    pub(super) fn count(&self) -> usize {
        self.free.iter().filter(|&&free| free > 0.0).count()
    }

    /// Whether no pixel is unknown.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.unknown.is_empty()
    }

    /// Length of a vector over the unknown pixels (with padding).
    #[must_use]
    pub const fn unknown_len(&self) -> usize {
        self.unknown_set.len
    }

    /// A vector over all pixels of the band and its surroundings, by `fill(y, x, values)` for each run inside the
    /// picture.
    pub fn fill_plane(
        &self,
        width: usize,
        height: usize,
        plane: &mut Vec<f32>,
        mut fill: impl FnMut(usize, usize, &mut [f32]),
    ) {
        zeros(plane, self.pixels.len, 0.0);
        self.each_span(width, height, |at, x, y, len| fill(y, x, &mut plane[at..at + len]));
    }

    /// A vector over all pixels of the band and its surroundings, by `value(x, y)` inside the picture.
    pub fn plane(&self, width: usize, height: usize, mut value: impl FnMut(usize, usize) -> f32) -> Vec<f32> {
        let mut plane = Vec::new();
        self.fill_plane(width, height, &mut plane, |y, x, values| {
            values.iter_mut().zip(x..).for_each(|(at, x)| *at = value(x, y));
        });
        plane
    }

    fn each_span(&self, width: usize, height: usize, mut visit: impl FnMut(usize, usize, usize, usize)) {
        for (y, run) in self.pixels.iter().filter(|&(y, _)| (0..height as i32).contains(&y)) {
            let (left, right) = (run.x.max(0), (run.x + run.len as i32).min(width as i32));
            if left < right {
                let at = run.at as usize + (left - run.x) as usize;
                visit(at, left as usize, y as usize, (right - left) as usize);
            }
        }
    }

    /// Calls `visit(y, x, pixel, unknown, len)` for each run of blocks with unknown pixels: its start in the picture,
    /// in a plane of the band, and in a vector over the unknown pixels.
    pub fn each_run(&self, mut visit: impl FnMut(usize, usize, usize, usize, usize)) {
        for run in &self.unknown {
            visit(run.y as usize, run.x as usize, run.pixel as usize, run.at as usize, run.len as usize);
        }
    }

    /// Calls `visit(x, y, pixel, unknown)` for each unknown pixel, row after row, with its index in a [`Self::plane`]
    /// and in a vector over the unknown pixels.
    pub fn each_unknown(&self, mut visit: impl FnMut(usize, usize, usize, usize)) {
        self.each_run(|y, x, pixel, at, len| {
            for lane in (0..len).filter(|lane| self.free[at + lane] > 0.0) {
                visit(x + lane, y, pixel + lane, at + lane);
            }
        });
    }

    /// `product = L plane` over the unknown pixels. In padding lanes the product is undefined.
    pub fn apply(&self, plane: &[f32], product: &mut [f32]) {
        self.multiply(plane, &self.diagonal, product);
    }

    /// The product with `weights` as the diagonal. Returns its scalar product with `plane`.
    pub(super) fn multiply(&self, plane: &[f32], weights: &[f32], product: &mut [f32]) -> f64 {
        passes::multiply(&self.unknown, plane, &self.entries, weights, product)
    }

    pub(super) fn runs(&self) -> &[UnknownRun] {
        &self.unknown
    }

    /// For each unknown pixel the diagonal of `L` plus `gamma`, and its inverse, which is zero in padding lanes.
    pub(super) fn preconditioner(&self, gamma: &[f32], weights: &mut Vec<f32>, scale: &mut Vec<f32>) {
        weights.clear();
        weights.extend(self.diagonal.iter().zip(gamma).map(|(diagonal, gamma)| diagonal + gamma));
        scale.clear();
        // A picture less than three pixels wide has no windows: such a pixel has a zero row.
        scale.extend(self.free.iter().zip(&*weights).map(|(free, weight)| free / weight.max(1e-6)));
    }

    fn read_colours(&mut self, colours: Colours<'_>) {
        let Colours { width, height, pixels } = colours;
        let mut planes = std::mem::take(&mut self.colours);
        planes.iter_mut().for_each(|plane| zeros(plane, self.pixels.len, 0.0));
        let [red, green, blue] = &mut planes;
        let mut row = std::mem::take(&mut self.row);
        self.each_span(width, height, |at, x, y, len| {
            let here = at..at + len;
            let from = pixels.row(width, y, x..x + len, &mut row);
            passes::split_channels(from, &mut red[here.clone()], &mut green[here.clone()], &mut blue[here]);
        });
        (self.colours, self.row) = (planes, row);
    }

    fn assemble(&mut self, size: [usize; 2]) {
        let Self { means, whitening, entries, diagonal, unknown, windows, .. } = self;
        entries.resize(self.unknown_set.len / LANES, [[0.0; LANES]; 25]);
        diagonal.resize(self.unknown_set.len, 0.0);
        let colours = self.colours.each_ref().map(Vec::as_slice);
        let mut first = 0;
        for unknown in unknown.chunk_by(|a, b| a.y / ASSEMBLED_ROWS == b.y / ASSEMBLED_ROWS) {
            // The windows of the rows from one above to one below. The next task also needs the last two.
            let rows = unknown[0].y - 1..=unknown[unknown.len() - 1].y + 1;
            first += windows[first..].partition_point(|window| window.y < *rows.start());
            let windows = &windows[first..];
            let windows = &windows[..windows.partition_point(|window| window.y <= *rows.end())];
            let (base, last) = (windows[0].at, &windows[windows.len() - 1]);
            let len = (last.at + last.len - base) as usize;
            means.iter_mut().chain(&mut *whitening).for_each(|plane| plane.resize(len.max(plane.len()), 0.0));
            let planes = (means.each_mut().map(Vec::as_mut_slice), whitening.each_mut().map(Vec::as_mut_slice));
            passes::statistics(windows, base, size, colours, planes.0, planes.1);
            let (means, whitening) = (means.each_ref().map(Vec::as_slice), whitening.each_ref().map(Vec::as_slice));
            passes::assemble(unknown, base, colours, means, whitening, entries, diagonal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::EPSILON;
    use super::*;

    /// Noise: a hash of a position.
    fn noise(seed: usize) -> u8 {
        let mixed = (seed as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 56) as u8
    }

    fn picture(width: usize, height: usize) -> Vec<[u8; 4]> {
        (0..width * height).map(|at| [noise(3 * at), noise(3 * at + 1), noise(3 * at + 2), 255]).collect()
    }

    /// `L p` by the paper's matrix, in f64.
    fn product_of_matrix(pixels: &[[u8; 4]], [width, height]: [usize; 2], plane: &[f64]) -> Vec<f64> {
        let mut product = vec![0.0; plane.len()];
        for (top, left) in (0..height.saturating_sub(2)).flat_map(|y| (0..width.saturating_sub(2)).map(move |x| (y, x)))
        {
            let window: Vec<usize> = (0..9).map(|at| (top + at / 3) * width + left + at % 3).collect();
            let colour = |at: usize| std::array::from_fn::<f64, 3, _>(|channel| f64::from(pixels[at][channel]) / 255.0);
            let mean: [f64; 3] = std::array::from_fn(|c| window.iter().map(|&at| colour(at)[c]).sum::<f64>() / 9.0);
            let centred: Vec<[f64; 3]> =
                window.iter().map(|&at| std::array::from_fn(|channel| colour(at)[channel] - mean[channel])).collect();
            let mut system = [[0.0; 3]; 3];
            for (row, column) in (0..9).map(|at| (at / 3, at % 3)) {
                system[row][column] = centred.iter().map(|d| d[row] * d[column]).sum::<f64>() / 9.0;
                system[row][column] += if row == column { f64::from(EPSILON) / 9.0 } else { 0.0 };
            }
            for (i, &at_i) in window.iter().enumerate() {
                for (j, &at_j) in window.iter().enumerate() {
                    let solved = solve(system, centred[j]);
                    let tied = (0..3).map(|channel| centred[i][channel] * solved[channel]).sum::<f64>();
                    let entry = f64::from(u8::from(i == j)) - (1.0 + tied) / 9.0;
                    product[at_i] += entry * plane[at_j];
                }
            }
        }
        product
    }

    fn solve(mut system: [[f64; 3]; 3], mut right: [f64; 3]) -> [f64; 3] {
        for pivot in 0..3 {
            for row in pivot + 1..3 {
                let factor = system[row][pivot] / system[pivot][pivot];
                for column in pivot..3 {
                    system[row][column] -= factor * system[pivot][column];
                }
                right[row] -= factor * right[pivot];
            }
        }
        for pivot in (0..3).rev() {
            for column in pivot + 1..3 {
                right[pivot] -= system[pivot][column] * right[column];
            }
            right[pivot] /= system[pivot][pivot];
        }
        right
    }

    /// Largest difference between the band's product and the matrix product, over the unknown pixels.
    fn largest_error(width: usize, height: usize, unknown: impl Fn(usize, usize) -> bool, disturb: f32) -> f64 {
        largest_error_of(&picture(width, height), [width, height], unknown, disturb)
    }

    fn largest_error_of(
        pixels: &[[u8; 4]],
        [width, height]: [usize; 2],
        unknown: impl Fn(usize, usize) -> bool,
        disturb: f32,
    ) -> f64 {
        let labels: Vec<u8> = (0..width * height).map(|at| u8::from(unknown(at % width, at / width))).collect();
        let plane: Vec<f64> = (0..width * height).map(|at| f64::from(noise(7 * at + 5)) / 255.0).collect();
        let expected = product_of_matrix(pixels, [width, height], &plane);
        let band = Band::new(Colours { width, height, pixels: LevelPixels::Stored(pixels) }, &labels, 1, 0..height);
        let disturb = |x: usize, y: usize| if (x, y) == (width / 2, height / 2) { disturb } else { 0.0 };
        let values = band.plane(width, height, |x, y| plane[y * width + x] as f32 + disturb(x, y));
        let mut product = vec![f32::NAN; band.unknown_len()];
        band.apply(&values, &mut product);
        let (mut largest, mut seen) = (0.0, 0);
        band.each_unknown(|x, y, _, at| {
            assert_eq!(labels[y * width + x], 1);
            largest = f64::max(largest, (f64::from(product[at]) - expected[y * width + x]).abs());
            seen += 1;
        });
        assert_eq!(seen, labels.iter().filter(|&&label| label == 1).count());
        largest
    }

    #[test]
    fn the_product_matches_the_papers_matrix_at_every_size() {
        for (width, height) in [(1, 1), (1, 9), (9, 1), (2, 5), (3, 3), (4, 3), (17, 13), (40, 9), (9, 40)] {
            let everywhere = largest_error(width, height, |_, _| true, 0.0);
            assert!(everywhere < 1e-4, "{width}×{height}: {everywhere}");
            let ring = largest_error(width, height, |x, y| (x * x + y * y) % 37 < 12, 0.0);
            assert!(ring < 1e-4, "{width}×{height} in part: {ring}");
        }
        assert!(largest_error(4096, 3, |x, _| x % 50 < 20, 0.0) < 1e-4);
    }

    #[test]
    fn the_product_is_accurate_where_windows_have_one_or_two_colours() {
        for colours in [[[0; 3], [255; 3]], [[120, 121, 120], [121, 121, 120]], [[250, 3, 90], [10, 200, 91]]] {
            let pixels: Vec<[u8; 4]> = (0..24 * 24)
                .map(|at| colours[usize::from((at % 24) * 2 + at / 24 > 36)])
                .map(|[red, green, blue]| [red, green, blue, 255])
                .collect();
            let error = largest_error_of(&pixels, [24, 24], |_, _| true, 0.0);
            assert!(error < 1e-3, "{colours:?}: {error}");
        }
    }

    #[test]
    fn the_comparison_rejects_a_wrong_plane() {
        assert!(largest_error(17, 13, |_, _| true, 0.01) > 1e-3);
    }
}
