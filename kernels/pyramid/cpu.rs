//! Halving on the CPU.

use super::half_size;
use crate::recycled::Recycled;
use crate::trimap::UNKNOWN;
use rayon::prelude::*;
use std::ops::Range;

/// Rows of the finer level in one task.
const ROWS: usize = 64;

/// Writes each pixel of `halved`, mixed from two by two of `plane`; at an odd border the last pixels count twice.
///
/// # Panics
/// When `halved` has not half of the size.
pub fn halve<T: Copy + Send + Sync>(
    plane: &[T],
    [width, height]: [usize; 2],
    mix: impl Fn([T; 4]) -> T + Sync,
    halved: &mut [T],
) {
    let [half_width, half_height] = half_size([width, height]);
    assert_eq!(halved.len(), half_width * half_height, "a pixel for each two by two");
    let tasks = halved.par_chunks_mut(half_width * ROWS / 2).zip(plane.par_chunks(width * ROWS));
    tasks.for_each(|(halved, rows)| {
        for (halved, pair) in halved.chunks_exact_mut(half_width).zip(rows.chunks(width * 2)) {
            let (above, below) = if pair.len() > width { pair.split_at(width) } else { (pair, pair) };
            halve_rows([above, below], &mix, halved);
        }
    });
}

/// The packed RGBA pixels of a level: stored, or halved from the next finer level as they are read, which costs less
/// than storing where few pixels are read.
#[derive(Clone, Copy, Debug)]
pub enum LevelPixels<'a> {
    /// All pixels, row after row.
    Stored(&'a [[u8; 4]]),
    /// The pixels of the next finer level, row after row, with its width and height.
    Halved(&'a [[u8; 4]], [usize; 2]),
}

impl LevelPixels<'_> {
    /// The pixels at `columns` of row `y` of a level of this width. `halved`: buffer of pixels that are not stored.
    ///
    /// # Panics
    /// When the level has no such pixels.
    #[must_use]
    pub fn row<'s>(
        &'s self,
        width: usize,
        y: usize,
        columns: Range<usize>,
        halved: &'s mut Vec<[u8; 4]>,
    ) -> &'s [[u8; 4]] {
        match *self {
            Self::Stored(pixels) => &pixels[y * width..][columns],
            Self::Halved(finer, [finer_width, finer_height]) => {
                let beneath = 2 * columns.start..(2 * columns.end).min(finer_width);
                let row = |y: usize| &finer[y * finer_width..][beneath.clone()];
                halved.resize(columns.len(), [0; 4]);
                halve_rows([row(2 * y), row((2 * y + 1).min(finer_height - 1))], mean_colour, halved);
                halved
            }
        }
    }

    /// Writes the half of a level of `size` to `half`.
    ///
    /// # Panics
    /// When `half` has not half of the size.
    pub fn halve(&self, [width, height]: [usize; 2], half: &mut [[u8; 4]]) {
        let [half_width, half_height] = half_size([width, height]);
        assert_eq!(half.len(), half_width * half_height, "a pixel for each two by two");
        half.par_chunks_mut(half_width * ROWS / 2).enumerate().for_each_init(
            Recycled::<[Vec<[u8; 4]>; 2]>::take,
            |scratch, (task, rows)| {
                let [above, below] = &mut **scratch;
                for (row, half) in rows.chunks_exact_mut(half_width).enumerate() {
                    let y = task * ROWS + 2 * row;
                    let above = self.row(width, y, 0..width, above);
                    let below = self.row(width, (y + 1).min(height - 1), 0..width, below);
                    halve_rows([above, below], mean_colour, half);
                }
            },
        );
    }
}

/// Writes each pixel of the row `halved`, mixed from two by two of the two `rows`.
pub fn halve_rows<T: Copy>([above, below]: [&[T]; 2], mix: impl Fn([T; 4]) -> T, halved: &mut [T]) {
    let ([above, last_above], [below, last_below]) = (split_odd(above), split_odd(below));
    for ((mixed, [a, b]), [c, d]) in halved.iter_mut().zip(above.as_chunks::<2>().0).zip(below.as_chunks::<2>().0) {
        *mixed = mix([*a, *b, *c, *d]);
    }
    if let (Some(mixed), [a], [b]) = (halved.last_mut(), last_above, last_below) {
        *mixed = mix([*a, *a, *b, *b]);
    }
}

/// The pairs of a row, and its odd last value.
fn split_odd<T>(row: &[T]) -> [&[T]; 2] {
    let (pairs, last) = row.split_at(row.len() / 2 * 2);
    [pairs, last]
}

/// The mean colour of four pixels, rounded to nearest.
#[must_use]
#[inline]
pub fn mean_colour(pixels: [[u8; 4]; 4]) -> [u8; 4] {
    // Two channels at a time, each in sixteen bits.
    const EVEN: u32 = 0x00ff_00ff;
    let [mut even, mut odd] = [0x0002_0002; 2];
    for pixel in pixels {
        let packed = u32::from_le_bytes(pixel);
        even += packed & EVEN;
        odd += packed >> 8 & EVEN;
    }
    (even >> 2 & EVEN | (odd >> 2 & EVEN) << 8).to_le_bytes()
}

/// The mean of four coverages, rounded to nearest.
#[must_use]
#[inline]
pub fn mean_coverage(four: [u8; 4]) -> u8 {
    let sum: u16 = four.into_iter().map(u16::from).sum();
    ((sum + 2) / 4) as u8
}

/// The common label of four pixels, else unknown.
#[must_use]
#[inline]
pub fn common_label([a, b, c, d]: [u8; 4]) -> u8 {
    if (a == b) & (a == c) & (a == d) { a } else { UNKNOWN }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colour_is_the_rounded_mean_of_each_channel() {
        let pixels = [[0, 255, 3, 9], [1, 255, 4, 9], [1, 255, 4, 9], [0, 254, 3, 10]];
        assert_eq!(mean_colour(pixels), [1, 255, 4, 9]);
    }

    #[test]
    fn a_label_stays_where_all_four_agree() {
        assert_eq!(common_label([255; 4]), 255);
        assert_eq!(common_label([255, 255, 0, 255]), UNKNOWN);
    }

    #[test]
    fn pixels_halved_on_reading_match_stored_ones() {
        for size in [[1, 1], [2, 3], [7, 5], [150, 131]] {
            let pixels: Vec<[u8; 4]> =
                (0..size[0] * size[1]).map(|at| (at as u32).wrapping_mul(2_654_435_761).to_be_bytes()).collect();
            let [width, height] = half_size(size);
            let mut half = vec![[0; 4]; width * height];
            halve(&pixels, size, mean_colour, &mut half);
            let level = LevelPixels::Halved(&pixels, size);
            let mut row = Vec::new();
            for (y, first) in (0..height).flat_map(|y| [0, width / 3].map(|first| (y, first))) {
                let expected = &half[y * width + first..(y + 1) * width];
                assert_eq!(level.row(width, y, first..width, &mut row), expected, "{size:?}, row {y}");
            }
            let [quarter_width, quarter_height] = half_size([width, height]);
            let mut quarter = [(); 2].map(|()| vec![[0; 4]; quarter_width * quarter_height]);
            halve(&half, [width, height], mean_colour, &mut quarter[0]);
            level.halve([width, height], &mut quarter[1]);
            assert_eq!(quarter[0], quarter[1], "{size:?}");
        }
    }

    #[test]
    fn odd_borders_count_twice() {
        #[rustfmt::skip]
        let plane = [
            0, 4, 8,
            4, 8, 8,
            1, 1, 5,
        ];
        let mut halved = [0; 4];
        halve(&plane, [3, 3], mean_coverage, &mut halved);
        assert_eq!(halved, [4, 8, 1, 5]);
        halve(&[7], [1, 1], mean_coverage, &mut halved[..1]);
        assert_eq!(halved[0], 7);
    }
}
