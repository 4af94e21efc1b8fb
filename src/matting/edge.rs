//! What becomes of partly covered pixels.
//!
//! *Soft* keeps them: hair and fur are partly covered. *Hard* decides them, as is wanted of products: the cutout ends on
//! the line where coverage is one half, anti-aliased over one pixel and no more. It does so by distance: near that line
//! `(α - ½) / |∇α|` is how many pixels away it lies, whether the ramp is two pixels wide or twenty, so
//! `½ + (α - ½) / |∇α|`, clamped, is the coverage that a knife would have left.
//!
//! Both sweep up what matting leaves over: traces of coverage too faint to be anything but noise, and specks and pinholes
//! cut off from everything.

use super::patches;
use crate::image::AlphaMatte;
use rayon::prelude::*;

/// Coverage of 255 below which a pixel is nothing, and (from the other end) above which it is whole.
const TRACE: u8 = 4;
/// The gentlest slope per pixel that still counts as an edge; in flatter places the distance would be arbitrary.
const MIN_SLOPE: f32 = 1.0 / 32.0;
/// Rows that one task works on.
const ROWS: usize = 64;

/// Traces of coverage swept up; every other partly covered pixel as it was, on a scale that leaves no step.
#[must_use]
pub fn swept(mut matte: AlphaMatte) -> AlphaMatte {
    let table: [u8; 256] = std::array::from_fn(|value| {
        let value = (value as f32 - f32::from(TRACE)) * 255.0 / (255.0 - 2.0 * f32::from(TRACE));
        (value.clamp(0.0, 255.0) + 0.5) as u8
    });
    matte.coverage.par_iter_mut().for_each(|value| *value = table[usize::from(*value)]);
    matte
}

/// Every partly covered pixel decided.
#[must_use]
pub fn hardened(matte: &AlphaMatte) -> AlphaMatte {
    hardened_at(matte, 0.5)
}

/// Every partly covered pixel decided; the cutout ends on the line where coverage is `crossing`, but no more than a pixel
/// from the line where it is one half: further out lie shadows, not edges.
#[must_use]
pub(super) fn hardened_at(matte: &AlphaMatte, crossing: f32) -> AlphaMatte {
    let [width, height] = [matte.size.width as usize, matte.size.height as usize];
    let source = &matte.coverage;
    let mut coverage = source.clone();
    coverage.par_chunks_mut(width * ROWS).enumerate().for_each(|(chunk, rows)| {
        for (row, pixels) in rows.chunks_mut(width).enumerate() {
            let y = chunk * ROWS + row;
            for (x, pixel) in pixels.iter_mut().enumerate() {
                // Where the line lies further out, it is anti-aliased in pixels that had nothing.
                if (*pixel != 0 || crossing < 0.5) && *pixel != 255 {
                    *pixel = decided(source, [width, height], x, y, crossing);
                }
            }
        }
    });
    AlphaMatte { size: matte.size, coverage }
}

/// Coverage of one pixel if the edge were a knife's. The three by three around it are smoothed (1 2 1), so that grain
/// does not make the edge ragged.
fn decided(coverage: &[u8], [width, height]: [usize; 2], x: usize, y: usize, crossing: f32) -> u8 {
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

/// Removes specks (patches that are covered at all but smaller than `pixels`) and fills pinholes (patches that are not
/// fully covered but smaller than `pixels`). Specks are told from small subjects by size alone.
#[must_use]
pub fn without_specks(mut matte: AlphaMatte, pixels: usize) -> AlphaMatte {
    let width = matte.size.width as usize;
    patches::fill_small(&mut matte.coverage, width, pixels, |value| value > 0, 0);
    patches::fill_small(&mut matte.coverage, width, pixels, |value| value < 255, 255);
    matte
}
