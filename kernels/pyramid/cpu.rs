//! Halving on the CPU.

use super::half_size;
use crate::trimap::UNKNOWN;
use rayon::prelude::*;

/// Rows of the finer level that one task halves.
const ROWS: usize = 64;

/// Writes each pixel of `halved`, mixed from the two by two of `plane` beneath it; at an odd border the last ones count twice.
///
/// # Panics
/// When `halved` has more or fewer pixels than half of the size.
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

/// Writes each pixel of the row `halved`, mixed from the two by two of the two `rows` beneath it.
pub fn halve_rows<T: Copy>([above, below]: [&[T]; 2], mix: impl Fn([T; 4]) -> T, halved: &mut [T]) {
    let ([above, last_above], [below, last_below]) = (split_odd(above), split_odd(below));
    for ((mixed, [a, b]), [c, d]) in halved.iter_mut().zip(above.as_chunks::<2>().0).zip(below.as_chunks::<2>().0) {
        *mixed = mix([*a, *b, *c, *d]);
    }
    if let (Some(mixed), [a], [b]) = (halved.last_mut(), last_above, last_below) {
        *mixed = mix([*a, *a, *b, *b]);
    }
}

/// The pairs of a row, and what is left of it.
fn split_odd<T>(row: &[T]) -> [&[T]; 2] {
    let (pairs, last) = row.split_at(row.len() / 2 * 2);
    [pairs, last]
}

/// The mean colour of four pixels, rounded to nearest.
#[must_use]
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
pub fn mean_coverage(four: [u8; 4]) -> u8 {
    let sum: u16 = four.into_iter().map(u16::from).sum();
    ((sum + 2) / 4) as u8
}

/// The label of four pixels.
#[must_use]
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
