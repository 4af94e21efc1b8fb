//! A line around the subject.
//!
//! The outline is all that lies within its width of the subject, by exact Euclidean distance (see the kernel `dilate`):
//! it goes beneath the subject, so that soft edges lie on it and nothing shows between the two. What of the subject
//! lies beyond it is cut away, as a die would: stray traces would else float around the sticker.

use super::SUBJECT_ALPHA;
use backdrop_kernels::dilate::cpu::dilate;
use rayon::prelude::*;

/// Narrower than this nobody sees a line.
const LEAST_WIDTH: f32 = 1.0 / 16.0;
/// Coverage from which an outline starts.
const SEED: u8 = 128;

/// What an outline of `width` pixels around the coverage in `canvas` (packed RGBA8, `row` pixels a row) covers; the
/// coverage itself is cut to it. Nothing when the line is too narrow to be seen, or there is nothing to draw it around.
pub(super) fn outline(canvas: &mut [u8], row: usize, width: f32) -> Option<Vec<u8>> {
    if width.is_nan() || width < LEAST_WIDTH {
        return None;
    }
    let mut coverage = coverage(canvas, row);
    if !coverage.par_iter().any(|&coverage| coverage >= SEED) {
        // All of it is translucent: then what can be seen is what the line goes around.
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
