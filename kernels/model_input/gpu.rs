//! Resampling to the network's input on the GPU: one work item for each pixel of the network's grid.

use burn::tensor::{DType, Int, Tensor};
use cubecl::prelude::*;

use crate::device::{buffer_of, empty_like, launch_grid, scalar, tensor_of};

/// First source index of output `index`. Exact: positions are fractions of integers below 2^25.
#[cube]
fn first_tap(index: u32, from: u32, to: u32) -> u32 {
    let mut first = (index * from) / to;
    if from <= to {
        // Half-pixel centres: (index + 1/2) · from/to - 1/2, in units of 1/(2·to).
        let ahead = (2 * index + 1) * from;
        first = (max(ahead, to) - to) / (2 * to);
    }
    first
}

/// End of the source indices of output `index`.
#[cube]
fn end_tap(index: u32, from: u32, to: u32) -> u32 {
    let mut end = ((index + 1) * from).div_ceil(to);
    if from <= to {
        end = min(first_tap(index, from, to) + 2, from);
    }
    end
}

/// Weight of source index `tap` in output `index`; the weights of one output add up to 1.
#[cube]
fn tap_weight(index: u32, tap: u32, from: u32, to: u32) -> f32 {
    // The overlap of [tap, tap + 1) with [index, index + 1) · from/to, in units of 1/to.
    let low = max(tap * to, index * from);
    let high = min((tap + 1) * to, (index + 1) * from);
    let mut weight = f32::cast_from(high - low) / f32::cast_from(from);
    if from <= to {
        let ahead = (2 * index + 1) * from;
        let offset = max(ahead, to) - to;
        let first = offset / (2 * to);
        let fraction = f32::cast_from(offset - first * 2 * to) / f32::cast_from(2 * to);
        weight = fraction;
        if tap == first {
            weight = 1.0 - fraction;
            if first + 1 == from {
                // Beyond the border the last source pixel is repeated.
                weight = f32::new(1.0);
            }
        }
    }
    weight
}

#[cube]
fn over_white(value: u32, alpha: u32) -> f32 {
    f32::cast_from((value * alpha + 255 * (255 - alpha) + 127) / 255)
}

#[cube(launch)]
fn model_input_kernel(picture: &[u32], output: &mut [f32], width: u32, height: u32, side: u32) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= side || y >= side {
        terminate!();
    }
    let mut red = f32::new(0.0);
    let mut green = f32::new(0.0);
    let mut blue = f32::new(0.0);
    let left = first_tap(x, width, side);
    let right = end_tap(x, width, side);
    for row in first_tap(y, height, side)..end_tap(y, height, side) {
        let row_weight = tap_weight(y, row, height, side);
        for column in left..right {
            let weight = row_weight * tap_weight(x, column, width, side);
            let pixel = picture[(row * width + column) as usize];
            let alpha = pixel >> 24;
            red += weight * over_white(pixel & 255, alpha);
            green += weight * over_white((pixel >> 8) & 255, alpha);
            blue += weight * over_white((pixel >> 16) & 255, alpha);
        }
    }
    let at = ((y * side + x) * 3) as usize;
    output[at] = red / 127.5 - 1.0;
    output[at + 1] = green / 127.5 - 1.0;
    output[at + 2] = blue / 127.5 - 1.0;
}

/// Resizes `picture` (u32 `[H, W]`, packed RGBA8) to f32 `[side, side, 3]` in -1..=1, on its device.
#[must_use]
pub fn model_input(picture: Tensor<2, Int>, side: usize) -> Tensor<3> {
    let [height, width] = picture.dims();
    let picture = buffer_of(picture);
    let output = empty_like(&picture, [side, side, 3], DType::F32);
    let (count, dim) = launch_grid(side, side);
    model_input_kernel::launch(
        &output.client,
        count,
        dim,
        picture.into_buffer_arg(),
        output.clone().into_buffer_arg(),
        scalar(width),
        scalar(height),
        scalar(side),
    );
    tensor_of(output)
}
