//! Edges on the GPU. Traces are removed in integers: the quotient is never halfway between two, so all devices agree.

use burn::tensor::{DType, Int, Tensor};
use cubecl::prelude::*;

use super::{MIN_SLOPE, TRACE};
use crate::device::{buffer_of, empty_like, launch_grid, scalar, tensor_of};
use crate::mask_upsample::gpu::{Stretch, stretch, stretched};
use crate::srgb::gpu::{byte, unit};

const SPAN: u32 = 255 - 2 * TRACE as u32;

#[cube(launch)]
fn without_traces_kernel(coverage: &[u32], output: &mut [u32], width: u32, height: u32) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= width || y >= height {
        terminate!();
    }
    let at = (y * width + x) as usize;
    let trace = u32::cast_from(TRACE);
    let above = coverage[at] - min(coverage[at], trace);
    output[at] = min((above * 510 + SPAN) / (2 * SPAN), 255u32);
}

/// A smoothed line of three values.
#[cube]
fn smooth(a: f32, b: f32, c: f32) -> f32 {
    (a + 2.0 * b + c) / 4.0
}

/// Coverage in 0..=1 of the pixel at (`x`, `y`).
#[cube]
fn alpha(coverage: &[u32], x: u32, y: u32, width: u32) -> f32 {
    f32::cast_from(coverage[(y * width + x) as usize]) / 255.0
}

/// The smoothed values above, at and below a pixel, in one column.
#[cube]
fn column(coverage: &[u32], x: u32, above: u32, y: u32, below: u32, width: u32) -> f32 {
    smooth(alpha(coverage, x, above, width), alpha(coverage, x, y, width), alpha(coverage, x, below, width))
}

/// The smoothed values left of, at and right of a pixel, in one row.
#[cube]
fn row(coverage: &[u32], left: u32, x: u32, right: u32, y: u32, width: u32) -> f32 {
    smooth(alpha(coverage, left, y, width), alpha(coverage, x, y, width), alpha(coverage, right, y, width))
}

/// Coverage of the pixel at (`x`, `y`) by a hard edge; pixels without an edge are unchanged.
#[cube]
fn hard_coverage(coverage: &[u32], x: u32, y: u32, width: u32, height: u32, crossing: f32) -> u32 {
    let mut hard = coverage[(y * width + x) as usize];
    if (hard != 0 || crossing < 0.5) && hard != 255 {
        let left = x - min(x, 1u32);
        let right = min(x + 1, width - 1);
        let above = y - min(y, 1u32);
        let below = min(y + 1, height - 1);
        let before = column(coverage, left, above, y, below, width);
        let here = column(coverage, x, above, y, below, width);
        let after = column(coverage, right, above, y, below, width);
        let upper = row(coverage, left, x, right, above, width);
        let lower = row(coverage, left, x, right, below, width);
        let across = (after - before) / 2.0;
        let down = (lower - upper) / 2.0;
        let slope = max(f32::sqrt(across * across + down * down), f32::new(MIN_SLOPE));
        let further = min((f32::new(0.5) - crossing) / slope, f32::new(1.0));
        let distance = (smooth(before, here, after) - 0.5) / slope + further;
        hard = byte(unit(distance + 0.5));
    }
    hard
}

#[cube(launch)]
fn hardened_kernel(coverage: &[u32], output: &mut [u32], width: u32, height: u32, crossing: f32) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= width || y >= height {
        terminate!();
    }
    output[(y * width + x) as usize] = hard_coverage(coverage, x, y, width, height, crossing);
}

#[cube(launch)]
fn sharpened_kernel(coverage: &[u32], share: &[f32], output: &mut [u32], over: &Stretch) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= over.width || y >= over.height {
        terminate!();
    }
    let at = (y * over.width + x) as usize;
    let solved = f32::cast_from(coverage[at]);
    let hard = f32::cast_from(hard_coverage(coverage, x, y, over.width, over.height, f32::new(0.5)));
    output[at] = u32::cast_from(solved + stretched(share, x, y, over) * (hard - solved) + 0.5);
}

#[cube(launch)]
fn unmixed_by_kernel(solved: &[u32], hard: &[u32], output: &mut [u32], width: u32, height: u32) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= width || y >= height {
        terminate!();
    }
    let at = (y * width + x) as usize;
    let mut coverage = solved[at];
    if coverage == 0 && hard[at] > 0 {
        coverage = select(hard[at] == 255, 255u32, 1u32);
    }
    output[at] = coverage;
}

/// `coverage` (u32 `[H, W]`) with a hard edge at `crossing` (0..=0.5), at most a pixel from one half, on its device.
#[must_use]
pub fn hardened(coverage: Tensor<2, Int>, crossing: f32) -> Tensor<2, Int> {
    let [height, width] = coverage.dims();
    let coverage = buffer_of(coverage);
    let output = empty_like(&coverage, [height, width], DType::U32);
    let (count, dim) = launch_grid(width, height);
    hardened_kernel::launch(
        &output.client,
        count,
        dim,
        coverage.into_buffer_arg(),
        output.clone().into_buffer_arg(),
        scalar(width),
        scalar(height),
        crossing,
    );
    tensor_of(output)
}

/// `coverage` (u32 `[H, W]`) mixed with its hard edge by `share` (f32 `[rows, columns]`, upsampled), on its device.
#[must_use]
pub fn sharpened(coverage: Tensor<2, Int>, share: Tensor<2>) -> Tensor<2, Int> {
    let ([height, width], [rows, columns]) = (coverage.dims(), share.dims());
    let coverage = buffer_of(coverage);
    let share = buffer_of(share);
    let output = empty_like(&coverage, [height, width], DType::U32);
    let (count, dim) = launch_grid(width, height);
    sharpened_kernel::launch(
        &output.client,
        count,
        dim,
        coverage.into_buffer_arg(),
        share.into_buffer_arg(),
        output.clone().into_buffer_arg(),
        stretch((columns, rows), (width, height)),
    );
    tensor_of(output)
}

/// The coverage by which the colours of an opaque subject are unmixed: the `solved` one, and the least where only the
/// `hard` edge covers (each u32 `[H, W]`), on their device.
#[must_use]
pub fn unmixed_by(solved: Tensor<2, Int>, hard: Tensor<2, Int>) -> Tensor<2, Int> {
    let [height, width] = solved.dims();
    let [solved, hard] = [solved, hard].map(buffer_of);
    let output = empty_like(&solved, [height, width], DType::U32);
    let (count, dim) = launch_grid(width, height);
    unmixed_by_kernel::launch(
        &output.client,
        count,
        dim,
        solved.into_buffer_arg(),
        hard.into_buffer_arg(),
        output.clone().into_buffer_arg(),
        scalar(width),
        scalar(height),
    );
    tensor_of(output)
}

/// `coverage` (u32 `[H, W]`) without traces, on its device.
#[must_use]
pub fn without_traces(coverage: Tensor<2, Int>) -> Tensor<2, Int> {
    let [height, width] = coverage.dims();
    let coverage = buffer_of(coverage);
    let output = empty_like(&coverage, [height, width], DType::U32);
    let (count, dim) = launch_grid(width, height);
    without_traces_kernel::launch(
        &output.client,
        count,
        dim,
        coverage.into_buffer_arg(),
        output.clone().into_buffer_arg(),
        scalar(width),
        scalar(height),
    );
    tensor_of(output)
}
