//! Depthwise convolutions on a GPU.

use super::Window;
use super::work::{Corner, Four, Sizes, activated, sizes};
use crate::device::{buffer_of, empty_like, tensor_of};
use burn::tensor::{DType, Tensor};
use cubecl::prelude::*;

#[cube(launch)]
fn depthwise_kernel(
    input: &[Four],
    weights: &[Four],
    bias: &[Four],
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
    let dilation = comptime!(window.dilation as u32);
    for down in 0..size {
        for right in 0..size {
            let weight = weights[((down * size + right) * sizes.vectors_out + vector) as usize];
            #[unroll]
            for at in 0..4usize {
                let tap = corners[at].tap(right * dilation, down * dilation, sizes);
                let value = input[(tap.pixel * sizes.vectors_out + vector) as usize];
                sums[at] = fma(value * Four::new(tap.inside), weight, sums[at]);
            }
        }
    }
    #[unroll]
    for at in 0..4u32 {
        let pixel = start + at;
        if pixel < sizes.pixels {
            output[(pixel * sizes.vectors_out + vector) as usize] = activated(sums[at as usize], window.activation);
        }
    }
}

/// `input`: f32 `[N, H, W, C]`; `weights`: f32 `[taps, C]`; `bias`: f32 `[C]`. Returns f32 `[N, H', W', C]`.
pub(super) fn depthwise(input: Tensor<4>, weights: Tensor<2>, bias: Tensor<1>, window: Window) -> Tensor<4> {
    let [channels] = bias.dims();
    let shape = window.output_shape(input.dims(), channels);
    let input = buffer_of(input);
    let output = empty_like(&input, shape, DType::F32);
    let (sizes, (count, dim)) = sizes(&input, &output);
    depthwise_kernel::launch(
        &output.client,
        count,
        dim,
        input.into_buffer_arg(),
        buffer_of(weights).into_buffer_arg(),
        buffer_of(bias).into_buffer_arg(),
        output.clone().into_buffer_arg(),
        sizes,
        window,
    );
    tensor_of(output)
}
