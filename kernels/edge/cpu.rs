//! Edges on the CPU: the table that removes traces of coverage, and hard edges, of one pixel.

use super::{MIN_SLOPE, TRACE};

/// The new coverage for each coverage.
#[must_use]
pub fn without_traces() -> [u8; 256] {
    std::array::from_fn(|value| {
        let value = (value as f32 - f32::from(TRACE)) * 255.0 / (255.0 - 2.0 * f32::from(TRACE));
        (value.clamp(0.0, 255.0) + 0.5) as u8
    })
}

/// The coverage by which the colours of an opaque subject are unmixed: the `solved` one. Where only the `hard` edge
/// covers the pixel, it is full in a pinhole, which shows the subject, and else the least.
#[must_use]
pub const fn unmixed_by(solved: u8, hard: u8) -> u8 {
    match (solved, hard) {
        (0, 255) => 255,
        (0, 1..) => 1,
        (solved, _) => solved,
    }
}

/// Coverage between `solved` and `hard`, with weight `share` (0 to 1) of the hard one.
#[must_use]
pub fn sharpened(solved: u8, hard: u8, share: f32) -> u8 {
    (f32::from(solved) + share * (f32::from(hard) - f32::from(solved)) + 0.5) as u8
}

/// Coverage of a pixel by a hard edge where `coverage` is `crossing`, at most a pixel away from where it is one half.
///
/// # Panics
/// When the pixel lies outside of the picture.
#[must_use]
pub fn hard_coverage(coverage: &[u8], [width, height]: [usize; 2], x: usize, y: usize, crossing: f32) -> u8 {
    let columns = [x.saturating_sub(1), x, (x + 1).min(width - 1)];
    let rows = [y.saturating_sub(1), y, (y + 1).min(height - 1)];
    let at = |column: usize, row: usize| f32::from(coverage[rows[row] * width + columns[column]]) / 255.0;
    let smooth = |a: f32, b: f32, c: f32| (a + 2.0 * b + c) / 4.0;
    let down = |column: usize| smooth(at(column, 0), at(column, 1), at(column, 2));
    let across = |row: usize| smooth(at(0, row), at(1, row), at(2, row));
    let value = smooth(down(0), down(1), down(2));
    // Sobel: the smoothed differences.
    let slope = f32::hypot((down(2) - down(0)) / 2.0, (across(2) - across(0)) / 2.0);
    let slope = slope.max(MIN_SLOPE);
    let distance = (value - 0.5) / slope + ((0.5 - crossing) / slope).min(1.0);
    ((0.5 + distance).clamp(0.0, 1.0) * 255.0 + 0.5) as u8
}
