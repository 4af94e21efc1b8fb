//! Depthwise convolutions on a GPU.

use super::work::{Corner, Four, Sizes, activated, sizes};
use super::{Window, host};
use crate::device::empty_like;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::{DType, Tensor};
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
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

/// The kernel as a burn operation.
#[backend_extension(Flex, Cube)]
pub(super) trait DepthwiseConvolution: Backend {
    /// `input`: f32 `[N, H, W, C]`; `weights`: f32 `[taps, C]`; `bias`: f32 `[C]`. Returns f32 `[N, H', W', C]`.
    fn depthwise_convolution(
        input: FloatTensor<Self>,
        weights: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        window: Window,
    ) -> FloatTensor<Self>;
}

impl DepthwiseConvolution for Flex {
    fn depthwise_convolution(
        input: FloatTensor<Self>,
        weights: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        window: Window,
    ) -> FloatTensor<Self> {
        host::depthwise(input, weights, bias, window)
    }
}

impl DepthwiseConvolution for CubeBackend {
    fn depthwise_convolution(
        input: FloatTensor<Self>,
        weights: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        window: Window,
    ) -> FloatTensor<Self> {
        let input: CubeTensor = into_contiguous(input);
        let [channels] = bias.shape().dims();
        let output = empty_like(&input, window.output_shape(input.shape(), channels), DType::F32);
        let (sizes, (count, dim)) = sizes(&input, &output);
        depthwise_kernel::launch(
            &output.client,
            count,
            dim,
            input.into_buffer_arg(),
            weights.into_buffer_arg(),
            bias.into_buffer_arg(),
            output.clone().into_buffer_arg(),
            sizes,
            window,
        );
        output
    }
}

pub(super) fn depthwise(input: Tensor<4>, weights: Tensor<2>, bias: Tensor<1>, window: Window) -> Tensor<4> {
    Tensor::from_dispatch(<Dispatch as DepthwiseConvolution>::depthwise_convolution(
        input.into_dispatch(),
        weights.into_dispatch(),
        bias.into_dispatch(),
        window,
    ))
}
