//! The matting Laplacian on the CPU: its product with a plane, for the unknown band only.
//!
//! Stores three nested sets of pixels, each as runs along the rows in one compact array:
//! the *unknown* pixels (U), the *windows* that hold one (W, U grown by 1), the *pixels* that those windows read
//! (A, W grown by 1). Since a window's three rows are contiguous in A, and a pixel's nine windows in W, both passes are
//! straight loops over x. Runs of U and W are padded to whole blocks of eight; padding lanes have weight zero.
//!
//! Plain multiplications and additions, no fused ones, and sums in a fixed order: every instruction set and every
//! number of threads gives the same bits.

use super::WINDOW_AREA;
use super::passes::{WindowBlock, fit, gather, statistics};
use super::runs::{
    Chunk, Runs, UnknownRun, WindowRun, chunks_of_unknown, chunks_of_windows, split, unknown_runs, window_runs,
};
use crate::f32x8::LANES;
use rayon::prelude::*;
use std::ops::Range;

/// A picture to read colours from: packed RGBA, row after row. The fourth byte is ignored.
#[derive(Clone, Copy, Debug)]
pub struct Colours<'a> {
    /// Columns.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// `width * height` pixels.
    pub pixels: &'a [[u8; 4]],
}

/// The Laplacian of one band of unknown pixels.
#[derive(Debug)]
pub struct Band {
    pixels: Runs,
    unknown: Vec<UnknownRun>,
    windows: Vec<WindowRun>,
    unknown_chunks: Vec<Chunk>,
    window_chunks: Vec<Chunk>,
    colours: [Vec<f32>; 3],
    means: [Vec<f32>; 3],
    whitening: Vec<WindowBlock>,
    /// Number of windows that hold the pixel, 0 in padding lanes.
    counts: Vec<f32>,
    /// Diagonal of L, 0 in padding lanes.
    diagonal: Vec<f32>,
    unknown_len: usize,
    count: usize,
}

/// The lines fitted in the windows: scratch of [`Band::apply`].
#[derive(Debug)]
pub struct Fits {
    slopes: [Vec<f32>; 3],
    means: Vec<f32>,
}

impl Band {
    /// The band of the pixels in rows `rows` for which `labels` holds `unknown`.
    ///
    /// # Panics
    /// When `labels` is not one byte for each pixel of `colours`.
    #[must_use]
    pub fn new(colours: Colours<'_>, labels: &[u8], unknown: u8, rows: Range<usize>) -> Self {
        let (width, height) = (colours.width, colours.height);
        assert!(labels.len() == width * height && colours.pixels.len() == labels.len(), "one label for each pixel");
        let mut count = 0;
        let set = Runs::collect(rows.start as i32..rows.end as i32, 1, |y, intervals| {
            let row = &labels[y as usize * width..][..width];
            for (block, lanes) in row.chunks(LANES).enumerate() {
                let here = lanes.iter().filter(|&&label| label == unknown).count();
                if here > 0 {
                    count += here;
                    let x = (block * LANES) as i32;
                    intervals.push(x..x + LANES as i32);
                }
            }
        });
        let windows = set.grown(LANES as i32);
        let pixels = windows.grown(1);

        let mut band = Self {
            unknown: unknown_runs(&set, &windows, &pixels),
            windows: window_runs(&windows, &pixels),
            unknown_chunks: Vec::new(),
            window_chunks: Vec::new(),
            colours: [const { Vec::new() }; 3],
            means: [const { Vec::new() }; 3],
            whitening: Vec::new(),
            counts: vec![0.0; set.len],
            diagonal: vec![0.0; set.len],
            unknown_len: set.len,
            count,
            pixels,
        };
        band.unknown_chunks = chunks_of_unknown(&band.unknown, band.pixels.len);
        band.window_chunks = chunks_of_windows(&band.windows);
        band.read_colours(colours);
        band.fit_windows(&windows, width, height);
        band.sum_diagonal(labels, unknown, width);
        band
    }

    /// Number of unknown pixels.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Length of a vector over the unknown pixels (with padding).
    #[must_use]
    pub const fn unknown_len(&self) -> usize {
        self.unknown_len
    }

    /// The diagonal of `L` over the unknown pixels; zero in padding lanes.
    #[must_use]
    pub fn diagonal(&self) -> &[f32] {
        &self.diagonal
    }

    /// Scratch for [`Self::apply`].
    #[must_use]
    pub fn fits(&self) -> Fits {
        let len = self.means[0].len();
        Fits { slopes: std::array::from_fn(|_| vec![0.0; len]), means: vec![0.0; len] }
    }

    /// A vector over all pixels of the band and its surroundings; `value(x, y)` is called for those inside the picture.
    pub fn plane(&self, width: usize, height: usize, mut value: impl FnMut(usize, usize) -> f32) -> Vec<f32> {
        let mut plane = vec![0.0; self.pixels.len];
        self.each_pixel(width, height, |at, x, y| plane[at] = value(x, y));
        plane
    }

    fn each_pixel(&self, width: usize, height: usize, mut visit: impl FnMut(usize, usize, usize)) {
        let last = self.pixels.first_row + self.pixels.rows.len() as i32 - 1;
        for y in self.pixels.first_row.max(0)..last.min(height as i32) {
            for run in self.pixels.of_row(y) {
                for x in run.x.max(0)..(run.x + run.len as i32).min(width as i32) {
                    visit(run.at as usize + (x - run.x) as usize, x as usize, y as usize);
                }
            }
        }
    }

    /// Calls `visit(x, y, pixel, unknown)` for each unknown pixel with its index in a [`Self::plane`] and in a vector
    /// over the unknown pixels, row after row.
    pub fn each_unknown(&self, mut visit: impl FnMut(usize, usize, usize, usize)) {
        for run in &self.unknown {
            for lane in 0..run.len as usize {
                if self.counts[run.at as usize + lane] > 0.0 {
                    let x = run.x as usize + lane;
                    visit(x, run.y as usize, run.pixel as usize + lane, run.at as usize + lane);
                }
            }
        }
    }

    /// `product = L plane` over the unknown pixels. In padding lanes the product is undefined.
    pub fn apply(&self, plane: &[f32], fits: &mut Fits, product: &mut [f32]) {
        let Fits { slopes: [red, green, blue], means } = fits;
        let own = |chunk: &Chunk| chunk.own.clone();
        let slopes = [red, green, blue].map(|slope| split(slope, self.window_chunks.iter().map(own)));
        let [red, green, blue] = slopes;
        let means_split = split(means, self.window_chunks.iter().map(own));
        (&self.window_chunks, red, green, blue, means_split).into_par_iter().for_each(
            |(chunk, red, green, blue, mean)| {
                let runs = &self.windows[chunk.runs.clone()];
                let colours = self.colours.each_ref().map(Vec::as_slice);
                let centres = self.means.each_ref().map(Vec::as_slice);
                fit(runs, plane, colours, centres, &self.whitening, chunk.own.start, [red, green, blue], mean);
            },
        );
        let slopes = fits.slopes.each_ref().map(Vec::as_slice);
        let products = split(product, self.unknown_chunks.iter().map(own));
        (&self.unknown_chunks, products).into_par_iter().for_each(|(chunk, product)| {
            let runs = &self.unknown[chunk.runs.clone()];
            let colours = self.colours.each_ref().map(Vec::as_slice);
            let centres = self.means.each_ref().map(Vec::as_slice);
            gather(runs, plane, colours, centres, slopes, &fits.means, &self.counts, chunk.own.start, product);
        });
    }

    /// Processes the chunks of the unknown pixels in parallel: `work(spans, plane, unknown)` gets the chunk's part of each
    /// plane and of each vector over the unknown pixels; its results are summed in a fixed order.
    pub fn each_chunk<const P: usize, const U: usize>(
        &self,
        planes: [&mut [f32]; P],
        unknowns: [&mut [f32]; U],
        work: impl Fn(Spans<'_>, [&mut [f32]; P], [&mut [f32]; U]) -> f64 + Sync,
    ) -> f64 {
        let mut tasks: Vec<_> = self.unknown_chunks.iter().map(|chunk| (chunk, Vec::new(), Vec::new())).collect();
        for plane in planes {
            let parts = split(plane, self.unknown_chunks.iter().map(|chunk| chunk.pixels.clone()));
            tasks.iter_mut().zip(parts).for_each(|(task, part)| task.1.push(part));
        }
        for unknown in unknowns {
            let parts = split(unknown, self.unknown_chunks.iter().map(|chunk| chunk.own.clone()));
            tasks.iter_mut().zip(parts).for_each(|(task, part)| task.2.push(part));
        }
        let sums: Vec<f64> = tasks
            .into_par_iter()
            .map(|(chunk, planes, unknowns)| {
                let spans = Spans { runs: &self.unknown[chunk.runs.clone()], chunk };
                let (Ok(planes), Ok(unknowns)) = (planes.try_into(), unknowns.try_into()) else {
                    unreachable!("one part of each vector was pushed")
                };
                work(spans, planes, unknowns)
            })
            .collect();
        sums.iter().sum()
    }

    fn read_colours(&mut self, colours: Colours<'_>) {
        let mut planes = [const { Vec::new() }; 3];
        for (channel, plane) in planes.iter_mut().enumerate() {
            *plane = self.plane(colours.width, colours.height, |x, y| {
                f32::from(colours.pixels[y * colours.width + x][channel]) * (1.0 / 255.0)
            });
        }
        self.colours = planes;
    }

    /// Mean colour and whitening of every window.
    fn fit_windows(&mut self, windows: &Runs, width: usize, height: usize) {
        self.means = std::array::from_fn(|_| vec![0.0; windows.len]);
        self.whitening = vec![[[0.0; LANES]; 7]; windows.len / LANES];
        // Where windows exist; one row of the set is one row of the picture.
        let mut places = Vec::with_capacity(self.windows.len());
        for row in 0..windows.rows.len() - 1 {
            let y = windows.first_row + row as i32;
            places.extend(windows.of_row(y).iter().map(|run| (run.x, y)));
        }
        let colours = self.colours.each_ref().map(Vec::as_slice);
        let [red, green, blue] = &mut self.means;
        let own = |chunk: &Chunk| chunk.own.clone();
        let blocks = |chunk: &Chunk| chunk.own.start / LANES..chunk.own.end / LANES;
        let red = split(red, self.window_chunks.iter().map(own));
        let green = split(green, self.window_chunks.iter().map(own));
        let blue = split(blue, self.window_chunks.iter().map(own));
        let whitening = split(&mut self.whitening, self.window_chunks.iter().map(blocks));
        (&self.window_chunks, red, green, blue, whitening).into_par_iter().for_each(
            |(chunk, red, green, blue, whitening)| {
                let means = [red, green, blue];
                for (run, &(x, y)) in self.windows[chunk.runs.clone()].iter().zip(&places[chunk.runs.clone()]) {
                    if y < 1 || y + 2 > height as i32 {
                        continue;
                    }
                    for step in 0..run.len as usize {
                        let x = x + step as i32;
                        if x < 1 || x + 2 > width as i32 {
                            continue;
                        }
                        let (mean, triangle) = statistics(colours, run.pixels.map(|at| at as usize + step));
                        let at = run.at as usize + step - chunk.own.start;
                        for channel in 0..3 {
                            means[channel][at] = mean[channel];
                        }
                        let block = &mut whitening[at / LANES];
                        for (row, value) in block.iter_mut().zip(triangle.into_iter().chain([1.0 / WINDOW_AREA])) {
                            row[at % LANES] = value;
                        }
                    }
                }
            },
        );
    }

    fn sum_diagonal(&mut self, labels: &[u8], unknown: u8, width: usize) {
        for run in &self.unknown {
            for lane in 0..run.len as usize {
                let x = run.x as usize + lane;
                if x >= width || labels[run.y as usize * width + x] != unknown {
                    continue;
                }
                let colour = self.colours.each_ref().map(|plane| plane[run.pixel as usize + lane]);
                let (mut diagonal, mut count) = (0.0, 0.0);
                for window in run.windows.iter().flat_map(|&first| (0..3).map(move |dx| first as usize + lane + dx)) {
                    let block = &self.whitening[window / LANES];
                    let [w00, w10, w11, w20, w21, w22, ninth] = std::array::from_fn(|row| block[row][window % LANES]);
                    if ninth == 0.0 {
                        continue;
                    }
                    let [x, y, z]: [f32; 3] =
                        std::array::from_fn(|channel| colour[channel] - self.means[channel][window]);
                    let (x, y, z) = (w00 * x, w10 * x + w11 * y, w20 * x + w21 * y + w22 * z);
                    let spread = x * x + y * y + z * z;
                    diagonal += 1.0 - (1.0 + spread) * ninth;
                    count += 1.0;
                }
                let at = run.at as usize + lane;
                // A picture less than three pixels wide has no window; such a pixel has a zero row.
                self.counts[at] = f32::max(count, f32::MIN_POSITIVE);
                self.diagonal[at] = f32::max(diagonal, 1e-6);
            }
        }
    }
}

/// The runs of a chunk of unknown pixels.
#[derive(Debug)]
pub struct Spans<'a> {
    runs: &'a [UnknownRun],
    chunk: &'a Chunk,
}

impl Spans<'_> {
    /// `(unknown, plane)` for each run: where it lies in the chunk's part of a vector over the unknown pixels and of a
    /// plane.
    pub fn iter(&self) -> impl Iterator<Item = (Range<usize>, Range<usize>)> + '_ {
        self.runs.iter().map(|run| {
            let (unknown, pixel) =
                (run.at as usize - self.chunk.own.start, run.pixel as usize - self.chunk.pixels.start);
            (unknown..unknown + run.len as usize, pixel..pixel + run.len as usize)
        })
    }

    /// The chunk's part of a vector over the unknown pixels.
    #[must_use]
    pub fn unknown<'v, T>(&self, vector: &'v [T]) -> &'v [T] {
        &vector[self.chunk.own.clone()]
    }
}

#[cfg(test)]
mod tests {
    use super::super::EPSILON;
    use super::*;

    /// Hash of a position, as noise.
    fn noise(seed: usize) -> u8 {
        let mixed = (seed as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 56) as u8
    }

    fn picture(width: usize, height: usize) -> Vec<[u8; 4]> {
        (0..width * height).map(|at| [noise(3 * at), noise(3 * at + 1), noise(3 * at + 2), 255]).collect()
    }

    /// `L p` by the definition of the paper's matrix, in f64.
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

    /// Gaussian elimination of a positive definite system.
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
        let pixels = picture(width, height);
        let labels: Vec<u8> = (0..width * height).map(|at| u8::from(unknown(at % width, at / width))).collect();
        let plane: Vec<f64> = (0..width * height).map(|at| f64::from(noise(7 * at + 5)) / 255.0).collect();
        let expected = product_of_matrix(&pixels, [width, height], &plane);
        let band = Band::new(Colours { width, height, pixels: &pixels }, &labels, 1, 0..height);
        let disturb = |x: usize, y: usize| if (x, y) == (width / 2, height / 2) { disturb } else { 0.0 };
        let values = band.plane(width, height, |x, y| plane[y * width + x] as f32 + disturb(x, y));
        let (mut fits, mut product) = (band.fits(), vec![f32::NAN; band.unknown_len()]);
        band.apply(&values, &mut fits, &mut product);
        let (mut largest, mut seen) = (0.0, 0);
        band.each_unknown(|x, y, _, at| {
            assert_eq!(labels[y * width + x], 1);
            largest = f64::max(largest, (f64::from(product[at]) - expected[y * width + x]).abs());
            seen += 1;
        });
        assert_eq!(seen, labels.iter().filter(|&&label| label == 1).count());
        assert_eq!(seen, band.count());
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
    fn the_comparison_rejects_a_wrong_plane() {
        assert!(largest_error(17, 13, |_, _| true, 0.01) > 1e-3);
    }
}
