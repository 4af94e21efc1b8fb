//! Dense convolutions on a GPU.

use super::work::{Corner, Four, Sizes, activated, sizes};
use super::{Added, Window};
use crate::device::{buffer_of, empty_like, tensor_of};
use burn::tensor::{DType, Tensor};
use cubecl::prelude::*;

#[cube(launch)]
fn dense_kernel(
    input: &[Four],
    weights: &[Four],
    bias: &[Four],
    residual: &[Four],
    output: &mut [Four],
    sizes: &Sizes,
    #[comptime] window: Window,
) {
    let item = u32::cast_from(ABSOLUTE_POS);
    let vector = item % sizes.vectors_out;
    let start = item / sizes.vectors_out * 4;
    if start >= sizes.pixels {
        terminate!();
    }
    let mut sums = Array::<Four>::new(4usize);
    let mut corners = Sequence::<Corner>::new();
    #[unroll]
    for at in 0..4u32 {
        sums[at as usize] = bias[vector as usize];
        corners.push(Corner::of(start + at, sizes, window));
    }
    let size = comptime!(window.size as u32);
    for down in 0..size {
        for right in 0..size {
            let mut weight = (down * size + right) * sizes.vectors_in * 4 * sizes.vectors_out + vector;
            let mut values = Array::<u32>::new(4usize);
            let mut inside = Array::<f32>::new(4usize);
            #[unroll]
            for at in 0..4usize {
                let tap = corners[at].tap(right, down, sizes);
                values[at] = tap.pixel * sizes.vectors_in;
                inside[at] = tap.inside;
            }
            for channel in 0..sizes.vectors_in {
                let first = weights[weight as usize];
                let second = weights[(weight + sizes.vectors_out) as usize];
                let third = weights[(weight + 2 * sizes.vectors_out) as usize];
                let fourth = weights[(weight + 3 * sizes.vectors_out) as usize];
                #[unroll]
                for at in 0..4usize {
                    let mut value = input[(values[at] + channel) as usize];
                    // A window of one pixel is never outside.
                    if comptime!(window.size > 1) {
                        value *= Four::new(inside[at]);
                    }
                    let mut sum = sums[at];
                    sum = fma(Four::new(value.extract(0usize)), first, sum);
                    sum = fma(Four::new(value.extract(1usize)), second, sum);
                    sum = fma(Four::new(value.extract(2usize)), third, sum);
                    sums[at] = fma(Four::new(value.extract(3usize)), fourth, sum);
                }
                weight += 4 * sizes.vectors_out;
            }
        }
    }
    #[unroll]
    for at in 0..4u32 {
        let pixel = start + at;
        if pixel < sizes.pixels {
            let mut sum = sums[at as usize];
            if comptime!(window.added == Added::Same) {
                sum += residual[(pixel * sizes.vectors_out + vector) as usize];
            } else if comptime!(window.added == Added::Upsampled) {
                let row = pixel / sizes.columns;
                // Row of all pictures together: each picture has an even number of rows.
                let below = row / 2 * (sizes.columns / 2) + pixel % sizes.columns / 2;
                sum += residual[(below * sizes.vectors_out + vector) as usize];
            }
            output[(pixel * sizes.vectors_out + vector) as usize] = activated(sum, window.activation);
        }
    }
}

/// `input`: f32 `[N, H, W, C]`; `weights`: f32 `[taps · C, O]`; `bias`: f32 `[O]`; `residual`: f32 of the output's shape,
/// of half its rows and columns, or of one value, as `window` says. Returns f32 `[N, H', W', O]`.
pub(super) fn dense(
    input: Tensor<4>,
    weights: Tensor<2>,
    bias: Tensor<1>,
    residual: Tensor<4>,
    window: Window,
) -> Tensor<4> {
    let [channels] = bias.dims();
    let shape = window.output_shape(input.dims(), channels);
    let [input, residual] = [input, residual].map(buffer_of);
    let output = empty_like(&input, shape, DType::F32);
    let (sizes, (count, dim)) = sizes(&input, &output);
    dense_kernel::launch(
        &output.client,
        count,
        dim,
        input.into_buffer_arg(),
        buffer_of(weights).into_buffer_arg(),
        buffer_of(bias).into_buffer_arg(),
        residual.into_buffer_arg(),
        output.clone().into_buffer_arg(),
        sizes,
        window,
    );
    tensor_of(output)
}
