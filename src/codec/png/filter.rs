//! Filters the rows of a PNG, each with the one of the five filters that leaves the least sum of absolute differences.
//!
//! This is the heuristic of the PNG specification (12.7). Zeros at both ends of a row and of the row above are skipped:
//! most of a cutout is transparent.

use multiversion::multiversion;
use std::ops::Range;

/// The filters none, sub, up, average and Paeth, in the order of their numbers in the file.
const FILTERS: usize = 5;
/// Zeros are searched in blocks of this many bytes.
const BLOCK: usize = 64;
/// Bytes summed at once: the sum of their absolute values fits in 32 bits, and the bytes fit in the first-level cache.
const SUMMED: usize = 4096;

pub(super) struct RowFilter {
    bytes_per_pixel: usize,
    /// For each filter its number and the filtered row.
    candidates: [Vec<u8>; FILTERS],
    /// The row above the first.
    zeros: Vec<u8>,
}

impl RowFilter {
    pub(super) fn new(row_bytes: usize, bytes_per_pixel: usize) -> Self {
        let candidate = |filter| {
            let mut bytes = vec![0; row_bytes + 1];
            bytes[0] = filter as u8;
            bytes
        };
        Self { bytes_per_pixel, candidates: std::array::from_fn(candidate), zeros: vec![0; row_bytes] }
    }

    /// The number of the selected filter and the filtered `row`.
    pub(super) fn filtered(&mut self, row: &[u8], above: Option<&[u8]>) -> &[u8] {
        let above = above.unwrap_or(&self.zeros);
        let Range { start, end } = union(occupied(row), occupied(above));
        // From a pixel's first byte to the last pixel whose left neighbour is not zero.
        let start = start - start % self.bytes_per_pixel;
        let end = (end + self.bytes_per_pixel).min(row.len()).max(start);
        let (row, above) = (&row[start..end], &above[start..end]);
        let inner = self.candidates.each_mut().map(|candidate| &mut candidate[1 + start..1 + end]);
        let sums = filter_all(row, above, self.bytes_per_pixel, inner);
        let filter = (0..FILTERS).min_by_key(|&filter| sums[filter]).unwrap_or(0);
        let best = &mut self.candidates[filter];
        best[1..=start].fill(0);
        best[1 + end..].fill(0);
        best
    }
}

/// The blocks of `row` from the first to the last that is not all zero.
fn occupied(row: &[u8]) -> Range<usize> {
    let is_occupied = |block: &[u8]| match block.first_chunk::<BLOCK>() {
        Some(block) => *block != [0; BLOCK],
        None => block.iter().any(|&byte| byte != 0),
    };
    match row.chunks(BLOCK).position(is_occupied) {
        Some(first) => {
            let last = row.chunks(BLOCK).rposition(is_occupied).unwrap_or(first);
            first * BLOCK..((last + 1) * BLOCK).min(row.len())
        }
        None => 0..0,
    }
}

fn union(a: Range<usize>, b: Range<usize>) -> Range<usize> {
    match (a.is_empty(), b.is_empty()) {
        (true, _) => b,
        (_, true) => a,
        (false, false) => a.start.min(b.start)..a.end.max(b.end),
    }
}

/// Applies every filter to the non-zero part of `row` and returns the sums of absolute differences.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
fn filter_all(row: &[u8], above: &[u8], bytes_per_pixel: usize, out: [&mut [u8]; FILTERS]) -> [u64; FILTERS] {
    let [none, sub, up, average, paeth] = out;
    [
        residuals(row, above, bytes_per_pixel, none, |_, _, _| 0),
        residuals(row, above, bytes_per_pixel, sub, |left, _, _| left),
        residuals(row, above, bytes_per_pixel, up, |_, up, _| up),
        residuals(row, above, bytes_per_pixel, average, |left, up, _| ((u16::from(left) + u16::from(up)) / 2) as u8),
        residuals(row, above, bytes_per_pixel, paeth, paeth_predictor),
    ]
}

/// Writes `row` less `predict(left, up, upper left)` to `out` and returns the sum of absolute values.
#[inline(always)]
fn residuals(
    row: &[u8],
    above: &[u8],
    bytes_per_pixel: usize,
    out: &mut [u8],
    predict: impl Fn(u8, u8, u8) -> u8,
) -> u64 {
    let first = bytes_per_pixel.min(row.len());
    for ((residual, &byte), &up) in out.iter_mut().zip(&row[..first]).zip(above) {
        *residual = byte.wrapping_sub(predict(0, up, 0));
    }
    let bytes = out[first..].iter_mut().zip(&row[first..]).zip(row).zip(&above[first..]).zip(above);
    for ((((residual, &byte), &left), &up), &upper_left) in bytes {
        *residual = byte.wrapping_sub(predict(left, up, upper_left));
    }
    let sum = |bytes: &[u8]| bytes.iter().map(|&byte| u32::from((byte as i8).unsigned_abs())).sum::<u32>();
    out.chunks(SUMMED).map(|bytes| u64::from(sum(bytes))).sum()
}

/// The neighbour closest to `left + up - upper_left`.
#[inline(always)]
fn paeth_predictor(left: u8, up: u8, upper_left: u8) -> u8 {
    let [a, b, c] = [left, up, upper_left].map(i16::from);
    let (from_left, from_up, from_upper_left) = ((b - c).abs(), (a - c).abs(), (a + b - 2 * c).abs());
    let of_two = if from_up <= from_upper_left { up } else { upper_left };
    if from_left <= from_up.min(from_upper_left) { left } else { of_two }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_filter_has_the_least_sum() {
        let sum = |bytes: &[u8]| bytes.iter().map(|&byte| u64::from((byte as i8).unsigned_abs())).sum::<u64>();
        let row: Vec<u8> = (10..=250).step_by(2).collect();
        let mut filter = RowFilter::new(row.len(), 1);
        let best = filter.filtered(&row, None).to_vec();
        assert_eq!((best[0], sum(&best[1..])), (1, 10 + 2 * 120));
        assert!(filter.candidates.iter().all(|candidate| sum(&candidate[1..]) >= sum(&best[1..])));
    }
}
