//! Sticker outline: the subject's coverage dilated by the outline's width.
//!
//! Dilation is by exact Euclidean distance (kernel `dilate`). The outline lies beneath the subject, so that soft edges
//! blend into it without a gap. Subject coverage beyond the outline is clipped, as by a die cut: stray remains would
//! otherwise float around the sticker.

use super::SUBJECT_ALPHA;
use backdrop_kernels::dilate::cpu::dilate;
use rayon::prelude::*;

/// Minimum width in pixels; narrower lines are invisible.
const MIN_WIDTH: f32 = 1.0 / 16.0;
/// Coverage, of 255, that is dilated.
const SEED_ALPHA: u8 = 128;

pub(super) fn is_visible(width: f32) -> bool {
    width >= MIN_WIDTH
}

/// The coverage of an outline of `width` pixels around the subject in `canvas` (packed RGBA8, `row` pixels a row), to
/// which the subject is clipped. `None` when the line is invisibly narrow or there is no subject.
pub(super) fn outline(canvas: &mut [u8], row: usize, width: f32) -> Option<Vec<u8>> {
    if !is_visible(width) {
        return None;
    }
    let mut coverage = coverage(canvas, row);
    if !coverage.par_iter().any(|&coverage| coverage >= SEED_ALPHA) {
        // The subject is entirely translucent: dilate all visible pixels.
        coverage.par_iter_mut().for_each(|coverage| *coverage = if *coverage >= SUBJECT_ALPHA { 255 } else { 0 });
        if !coverage.par_iter().any(|&coverage| coverage > 0) {
            return None;
        }
    }
    let covered = dilate(&coverage, row, width);
    drop(coverage);
    canvas.par_chunks_mut(row * 4).zip(covered.par_chunks(row)).for_each(|(canvas, covered)| {
        for (pixel, &covered) in canvas.as_chunks_mut::<4>().0.iter_mut().zip(covered) {
            pixel[3] = pixel[3].min(covered);
        }
    });
    Some(covered)
}

fn coverage(canvas: &[u8], row: usize) -> Vec<u8> {
    let mut coverage = vec![0; canvas.len() / 4];
    coverage.par_chunks_mut(row).zip(canvas.par_chunks(row * 4)).for_each(|(coverage, canvas)| {
        for (coverage, pixel) in coverage.iter_mut().zip(canvas.as_chunks::<4>().0) {
            *coverage = pixel[3];
        }
    });
    coverage
}
