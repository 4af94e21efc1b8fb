//! Finalizes the edge of a matte: soft or hard, without faint coverage, specks and pinholes.
//!
//! *Soft* keeps partly covered pixels, such as hair and fur. *Hard* is for products: the cutout ends on the line where
//! coverage is one half, anti-aliased over one pixel. Near that line `(α - ½) / |∇α|` is the distance in pixels at any
//! width of the ramp, so `½ + (α - ½) / |∇α|`, clamped, is the coverage of a geometric edge.
//!
//! Both remove artefacts of matting: coverage too faint to be more than noise, disconnected specks, and pinholes.

use super::specks::fill_small;
use crate::image::AlphaMatte;
use backdrop_kernels::edge::cpu::{hard_coverage, sharpened as mixed, without_traces as table_without_traces};
use backdrop_kernels::mask_upsample::cpu::Upsampled;
use rayon::prelude::*;

/// Rows that one task works on.
const ROWS: usize = 64;
/// Pixels of a row that are tested together for partial coverage.
const BLOCK: usize = 64;

/// Removes traces of coverage. The remaining range is stretched, so that there is no step.
#[must_use]
pub fn without_traces(mut matte: AlphaMatte) -> AlphaMatte {
    let table = table_without_traces();
    matte.coverage_mut().par_chunks_mut(1 << 16).for_each(|part| {
        for block in part.chunks_mut(BLOCK).filter(|block| is_partial(block)) {
            block.iter_mut().for_each(|value| *value = table[usize::from(*value)]);
        }
    });
    matte
}

/// Whether any pixel is partly covered. Without an early exit, which would keep the loop from being vectorised.
pub(super) fn is_partial(coverage: &[u8]) -> bool {
    coverage.iter().fold(false, |partial, &value| partial | (value.wrapping_add(1) > 1))
}

/// The matte with a hard edge where coverage is one half.
#[must_use]
pub fn hardened(matte: &AlphaMatte) -> AlphaMatte {
    hardened_at(matte, 0.5)
}

/// The matte with a hard edge where coverage is `crossing`, at most a pixel from one half: further out are shadows.
#[must_use]
pub(super) fn hardened_at(matte: &AlphaMatte, crossing: f32) -> AlphaMatte {
    // A line further out is anti-aliased in pixels without coverage.
    let is_edge = |value: u8| (value != 0 || crossing < 0.5) && value != 255;
    changed(matte, is_edge, |source, size, x, y| hard_coverage(source, size, x, y, crossing))
}

/// The matte mixed with a hard edge at coverage one half, by `share` (0 to 1) at each pixel.
#[must_use]
pub(super) fn sharpened(matte: &AlphaMatte, share: &Upsampled<'_>) -> AlphaMatte {
    let is_partial = |value: u8| value != 0 && value != 255;
    changed(matte, is_partial, |source, size, x, y| {
        mixed(source[y * size[0] + x], hard_coverage(source, size, x, y, 0.5), share.at(x, y))
    })
}

/// The matte with `change(coverage, x, y)` at each pixel that `is_edge`.
fn changed(
    matte: &AlphaMatte,
    is_edge: impl Fn(u8) -> bool + Sync,
    change: impl Fn(&[u8], [usize; 2], usize, usize) -> u8 + Sync,
) -> AlphaMatte {
    let size = [matte.size().width as usize, matte.size().height as usize];
    let source = matte.coverage();
    let mut changed = matte.clone();
    changed.coverage_mut().par_chunks_mut(size[0] * ROWS).enumerate().for_each(|(chunk, rows)| {
        for (row, pixels) in rows.chunks_mut(size[0]).enumerate() {
            let y = chunk * ROWS + row;
            for (x, pixel) in pixels.iter_mut().enumerate().filter(|(_, value)| is_edge(**value)) {
                *pixel = change(source, size, x, y);
            }
        }
    });
    changed
}

/// Removes specks (components of covered pixels smaller than `pixels`) and fills pinholes (components of not fully
/// covered pixels smaller than `pixels`). Only size separates specks from small subjects.
#[must_use]
pub fn without_specks(mut matte: AlphaMatte, pixels: usize) -> AlphaMatte {
    let width = matte.size().width as usize;
    fill_small(matte.coverage_mut(), width, pixels, |value| value > 0, 0);
    fill_small(matte.coverage_mut(), width, pixels, |value| value < 255, 255);
    matte
}
