//! Resampling to the network's input on the CPU, in two passes.
//!
//! Rows first: whole source rows are summed as 16-bit integers, and only the two fractional rows at the ends of a span
//! go through floats. Columns then add up one row of floats. The source is read once, in order.

use multiversion::multiversion;
use rayon::prelude::*;

use super::{Span, spans};
use crate::recycled::Recycled;

/// Maximum rows of 255 in a 16-bit sum.
const MAX_SUMMED_ROWS: usize = 257;

const TASK_ROWS: usize = 8;

/// Stretches `pixels` (packed RGBA8, straight alpha, `width` × `height`) to `side` × `side` × 3 floats in -1..=1.
///
/// `output` has `pad` more pixels at both ends of each row (not written), so that a convolution can read it directly:
/// `side · (side + 2 · pad) · 3` values.
///
/// # Panics
/// When a slice does not match its size, or the picture is empty.
pub fn model_input(pixels: &[u8], width: usize, height: usize, side: usize, pad: usize, output: &mut [f32]) {
    let row = (side + 2 * pad) * 3;
    assert_eq!(output.len(), side * row, "an output of another extent");
    stretched(
        pixels,
        [width, height],
        Target { width: side, height: side, background: 255, row, margin: pad * 3 },
        output,
    );
}

/// Size and memory layout of a resampled picture.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Pixels in a row.
    pub width: usize,
    /// Number of rows.
    pub height: usize,
    /// The encoded grey level beneath transparent pixels.
    pub background: u8,
    /// Values from row to row.
    pub row: usize,
    /// Values before the first pixel of a row.
    pub margin: usize,
}

/// Stretches `pixels` (packed RGBA8, straight alpha, `width` × `height`) to the first rows of `output`, as floats in
/// -1..=1. Values outside the target are not written.
///
/// # Panics
/// When `pixels` does not match its size, the target does not fit into `output`, or picture or target is empty.
pub fn stretched(pixels: &[u8], [width, height]: [usize; 2], target: Target, output: &mut [f32]) {
    let Target { row, margin, background, .. } = target;
    assert_eq!(pixels.len(), width * height * 4, "pixels of another extent");
    assert!(margin + target.width * 3 <= row && target.height * row <= output.len(), "no room for {target:?}");
    let (columns, rows) = (spans(width, target.width), spans(height, target.height));
    let source = |y: usize| &pixels[y * width * 4..][..width * 4];
    output.par_chunks_mut(TASK_ROWS * row).zip(rows.par_chunks(TASK_ROWS)).for_each(|(output, rows)| {
        let mut scratch = Recycled::<Rows>::take();
        let Rows { opaque, counts, sums } = &mut *scratch;
        opaque.resize(width * 4, 0);
        counts.resize(width * 4, 0);
        sums.resize(width * 4, 0.0);
        for (output, span) in output.chunks_exact_mut(row).zip(rows) {
            let first = over(background, source(span.first), opaque);
            weigh(first, span.first_weight, sums);
            let mut between = span.first + 1..span.last;
            while !between.is_empty() {
                counts.fill(0);
                for y in between.by_ref().take(MAX_SUMMED_ROWS) {
                    count(over(background, source(y), opaque), counts);
                }
                add_counts(counts, sums);
            }
            if span.last > span.first {
                let last = over(background, source(span.last), opaque);
                add_weighed(last, span.last_weight, sums);
            }
            let pixels = &mut output[margin..][..target.width * 3];
            combine_columns(sums, &columns, span.scale / 127.5, pixels);
        }
    });
}

/// Rows of a picture's width: a composited row, and the sums over a span. Both are written before they are read.
#[derive(Default)]
struct Rows {
    opaque: Vec<u8>,
    counts: Vec<u16>,
    sums: Vec<f32>,
}

/// `row` if it is opaque, else a copy composited over grey.
fn over<'a>(background: u8, row: &'a [u8], copy: &'a mut [u8]) -> &'a [u8] {
    if is_opaque(row) {
        return row;
    }
    composite_over(background, row, copy);
    copy
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2"))]
fn composite_over(background: u8, row: &[u8], copy: &mut [u8]) {
    let background = u16::from(background);
    for (target, source) in copy.as_chunks_mut::<4>().0.iter_mut().zip(row.as_chunks::<4>().0) {
        let alpha = u16::from(source[3]);
        // All four lanes, although alpha is unused, so that a pixel is one vector.
        *target = source.map(|value| {
            // A rounded division by 255 in sixteen bits, exact for every product of two bytes.
            let sum = u16::from(value) * alpha + background * (255 - alpha) + 128;
            ((sum + (sum >> 8)) >> 8) as u8
        });
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2"))]
fn is_opaque(row: &[u8]) -> bool {
    row.as_chunks::<64>().0.iter().all(|pixels| pixels.as_chunks::<4>().0.iter().fold(255, |all, p| all & p[3]) == 255)
        && row.as_chunks::<64>().1.as_chunks::<4>().0.iter().all(|pixel| pixel[3] == 255)
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2"))]
fn count(row: &[u8], counts: &mut [u16]) {
    for (count, &value) in counts.iter_mut().zip(row) {
        *count += u16::from(value);
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2"))]
fn add_counts(counts: &[u16], sums: &mut [f32]) {
    for (sum, &count) in sums.iter_mut().zip(counts) {
        *sum += f32::from(count);
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2"))]
fn weigh(row: &[u8], weight: f32, sums: &mut [f32]) {
    for (sum, &value) in sums.iter_mut().zip(row) {
        *sum = f32::from(value) * weight;
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2"))]
fn add_weighed(row: &[u8], weight: f32, sums: &mut [f32]) {
    for (sum, &value) in sums.iter_mut().zip(row) {
        *sum += f32::from(value) * weight;
    }
}

fn combine_columns(sums: &[f32], columns: &[Span], scale: f32, pixels: &mut [f32]) {
    let sums = sums.as_chunks::<4>().0;
    for (pixel, span) in pixels.as_chunks_mut::<3>().0.iter_mut().zip(columns) {
        // All four lanes, although alpha is unused, so that a pixel is one vector.
        let mut total = sums[span.first].map(|value| value * span.first_weight);
        if span.last > span.first {
            for sum in &sums[span.first + 1..span.last] {
                for channel in 0..4 {
                    total[channel] += sum[channel];
                }
            }
            for channel in 0..4 {
                total[channel] += sums[span.last][channel] * span.last_weight;
            }
        }
        for channel in 0..3 {
            pixel[channel] = total[channel] * (span.scale * scale) - 1.0;
        }
    }
}
