//! The temporal prior on the GPU: one work item for each pixel.
//!
//! A prior is a plane of words: the expected coverage in the low byte, its weight in the next one.

use burn::tensor::{DType, Int, Tensor};
use cubecl::prelude::*;

use super::UNRELATED;
use super::cpu::cell;
use crate::device::{buffer_of, empty_like, launch_grid, scalar, tensor_of};
use crate::mask_upsample::gpu::{Stretch, stretch, stretched};
use crate::trimap::UNKNOWN;

/// Distance beyond the border, in pixels, from which all positions are equivalent: at least the reach of the cubic.
const OUTSIDE: f32 = 4.0;

/// Catmull-Rom weights of the four values around a position.
#[derive(CubeType, Clone, Copy)]
struct Weights {
    before: f32,
    near: f32,
    next: f32,
    after: f32,
}

#[cube]
fn catmull_rom(t: f32) -> Weights {
    let square = t * t;
    let cube = square * t;
    Weights {
        before: 0.5 * (2.0 * square - cube - t),
        near: 0.5 * (3.0 * cube - 5.0 * square + 2.0),
        next: 0.5 * (4.0 * square - 3.0 * cube + t),
        after: 0.5 * (cube - square),
    }
}

/// The valid index nearest to `at + step - 1` on an axis of `length` pixels.
#[cube]
fn clamped(at: i32, step: i32, length: u32) -> u32 {
    u32::cast_from(min(max(at + step - 1, 0i32), i32::cast_from(length) - 1))
}

/// Four values of row `y`, weighted.
#[cube]
fn along(matte: &[u32], left: i32, y: u32, weights: &Weights, width: u32) -> f32 {
    let from = y * width;
    let before = f32::cast_from(matte[(from + clamped(left, 0i32, width)) as usize]);
    let near = f32::cast_from(matte[(from + clamped(left, 1i32, width)) as usize]);
    let next = f32::cast_from(matte[(from + clamped(left, 2i32, width)) as usize]);
    let after = f32::cast_from(matte[(from + clamped(left, 3i32, width)) as usize]);
    before * weights.before + near * weights.near + next * weights.next + after * weights.after
}

/// The value of `matte` at a position in pixels from the centre of the first pixel.
#[cube]
fn cubic(matte: &[u32], x: f32, y: f32, width: u32, height: u32) -> f32 {
    // Beyond the border all values are the border's.
    let x = min(max(x, f32::new(0.0 - OUTSIDE)), f32::cast_from(width) + OUTSIDE);
    let y = min(max(y, f32::new(0.0 - OUTSIDE)), f32::cast_from(height) + OUTSIDE);
    let left = f32::floor(x);
    let top = f32::floor(y);
    let across = catmull_rom(x - left);
    let down = catmull_rom(y - top);
    let left = i32::cast_from(left);
    let top = i32::cast_from(top);
    along(matte, left, clamped(top, 0i32, height), &across, width) * down.before
        + along(matte, left, clamped(top, 1i32, height), &across, width) * down.near
        + along(matte, left, clamped(top, 2i32, height), &across, width) * down.next
        + along(matte, left, clamped(top, 3i32, height), &across, width) * down.after
}

#[cube]
fn rounded(value: f32) -> u32 {
    u32::cast_from(min(max(value + 0.5, f32::new(0.0)), f32::new(255.0)))
}

#[cube(launch)]
fn warp_kernel(
    matte: &[u32],
    right: &[f32],
    down: &[f32],
    share: &[f32],
    labels: &[u32],
    prior: &mut [u32],
    over: &Stretch,
    cell_width: f32,
    cell_height: f32,
) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= over.width || y >= over.height {
        terminate!();
    }
    let at = (y * over.width + x) as usize;
    let mut word = 0u32;
    if labels[at] == u32::cast_from(UNKNOWN) {
        let weight = rounded(stretched(share, x, y, over) * 255.0);
        if weight > 0 {
            let from_x = f32::cast_from(x) + stretched(right, x, y, over) * cell_width;
            let from_y = f32::cast_from(y) + stretched(down, x, y, over) * cell_height;
            word = rounded(cubic(matte, from_x, from_y, over.width, over.height)) | (weight << 8);
        }
    }
    prior[at] = word;
}

#[cube(launch)]
fn toward_kernel(start: &[f32], prior: &[u32], output: &mut [f32], width: u32, height: u32) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= width || y >= height {
        terminate!();
    }
    let at = (y * width + x) as usize;
    let expected = f32::cast_from(prior[at] & 255) / 255.0;
    let weight = f32::cast_from(prior[at] >> 8) / 255.0;
    output[at] = start[at] + (expected - start[at]) * weight;
}

#[cube(launch)]
fn blend_kernel(solved: &[u32], prior: &[u32], output: &mut [u32], width: u32, height: u32) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= width || y >= height {
        terminate!();
    }
    let at = (y * width + x) as usize;
    let solved = solved[at];
    let expected = prior[at] & 255;
    let unrelated = u32::cast_from(UNRELATED);
    let apart = max(solved, expected) - min(solved, expected);
    let weight = (prior[at] >> 8) * (unrelated - min(apart, unrelated));
    let whole = 255 * unrelated;
    output[at] = (solved * (whole - weight) + expected * weight + whole / 2) / whole;
}

/// The prior of a frame with these `labels` (u32 `[H, W]`): the previous frame's `matte` (u32 `[H, W]`), moved by
/// `flow` (to the right and down) with the weight `share` (each f32 `[rows, columns]`). On their device: u32 `[H, W]`,
/// coverage in the low byte and weight in the next one.
#[must_use]
pub fn warp(matte: Tensor<2, Int>, flow: [Tensor<2>; 2], share: Tensor<2>, labels: Tensor<2, Int>) -> Tensor<2, Int> {
    let ([height, width], [rows, columns]) = (labels.dims(), share.dims());
    let [matte, labels] = [matte, labels].map(buffer_of);
    let [right, down] = flow;
    let [right, down, share] = [right, down, share].map(buffer_of);
    let (size, grid) = ((width, height), (columns, rows));
    let [cell_width, cell_height] = cell(size, grid);
    let prior = empty_like(&labels, [height, width], DType::U32);
    let (count, dim) = launch_grid(width, height);
    warp_kernel::launch(
        &prior.client,
        count,
        dim,
        matte.into_buffer_arg(),
        right.into_buffer_arg(),
        down.into_buffer_arg(),
        share.into_buffer_arg(),
        labels.into_buffer_arg(),
        prior.clone().into_buffer_arg(),
        stretch(grid, size),
        cell_width,
        cell_height,
    );
    tensor_of(prior)
}

/// Moves `start` (f32 `[H, W]`) towards a `prior` from [`warp`], on their device.
#[must_use]
pub fn toward(start: Tensor<2>, prior: Tensor<2, Int>) -> Tensor<2> {
    let [height, width] = start.dims();
    let start = buffer_of(start);
    let prior = buffer_of(prior);
    let output = empty_like(&start, [height, width], DType::F32);
    let (count, dim) = launch_grid(width, height);
    toward_kernel::launch(
        &output.client,
        count,
        dim,
        start.into_buffer_arg(),
        prior.into_buffer_arg(),
        output.clone().into_buffer_arg(),
        scalar(width),
        scalar(height),
    );
    tensor_of(output)
}

/// Blends the `solved` coverage (u32 `[H, W]`) with a `prior` from [`warp`], on their device.
#[must_use]
pub fn blended(solved: Tensor<2, Int>, prior: Tensor<2, Int>) -> Tensor<2, Int> {
    let [height, width] = solved.dims();
    let [solved, prior] = [solved, prior].map(buffer_of);
    let output = empty_like(&solved, [height, width], DType::U32);
    let (count, dim) = launch_grid(width, height);
    blend_kernel::launch(
        &output.client,
        count,
        dim,
        solved.into_buffer_arg(),
        prior.into_buffer_arg(),
        output.clone().into_buffer_arg(),
        scalar(width),
        scalar(height),
    );
    tensor_of(output)
}
