//! Depthwise convolutions on a GPU.

use super::work::{Corner, Four, Sizes, SizesLaunch, activated, element, grid};
use super::{VECTOR, Window, host};
use crate::device::{empty_like, scalar};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::{Shape, Tensor};
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use cubecl::ir::ElemType;
use cubecl::prelude::*;

#[cube(launch)]
fn depthwise_kernel<F: Float>(
    input: &[Four<F>],
    weights: &[Four<F>],
    bias: &[Four<f32>],
    output: &mut [Four<F>],
    sizes: &Sizes,
    #[comptime] window: Window,
    #[define(F)] _element: ElemType,
) {
    let item = u32::cast_from(ABSOLUTE_POS);
    let vector = item % sizes.vectors_out;
    let first = item / sizes.vectors_out * 4;
    if first >= sizes.pixels {
        terminate!();
    }
    let mut sums = Array::<Four<f32>>::new(4usize);
    let mut corners = Sequence::<Corner>::new();
    #[unroll]
    for at in 0..4u32 {
        sums[at as usize] = bias[vector as usize];
        corners.push(Corner::of(first + at, sizes, window));
    }
    let size = comptime!(window.size as u32);
    let dilation = comptime!(window.dilation as u32);
    for down in 0..size {
        for right in 0..size {
            let weight = Four::<f32>::cast_from(weights[((down * size + right) * sizes.vectors_out + vector) as usize]);
            #[unroll]
            for at in 0..4usize {
                let tap = corners[at].tap(right * dilation, down * dilation, sizes);
                let value = Four::<f32>::cast_from(input[(tap.pixel * sizes.vectors_out + vector) as usize]);
                sums[at] = fma(value * Four::<f32>::new(tap.inside), weight, sums[at]);
            }
        }
    }
    #[unroll]
    for at in 0..4u32 {
        let pixel = first + at;
        if pixel < sizes.pixels {
            let stored = Four::<F>::cast_from(activated(sums[at as usize], window.activation));
            output[(pixel * sizes.vectors_out + vector) as usize] = stored;
        }
    }
}

/// The kernel as a burn operation.
#[backend_extension(Flex, Cube)]
pub(super) trait DepthwiseConvolution: Backend {
    /// `input`: `[N, H, W, C]`; `weights`: `[taps, C]`; `bias`: f32 `[C]`. Returns `[N, H', W', C]`.
    fn depthwise_convolution(
        input: FloatTensor<Self>,
        weights: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        window: Window,
    ) -> FloatTensor<Self>;
}

fn output_shape(input: Shape, window: &Window) -> Shape {
    let [batch, height, width, channels] = input.dims();
    Shape::new([batch, window.output_extent(height), window.output_extent(width), channels])
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
        let [_, height, width, channels] = input.shape().dims();
        let shape = output_shape(input.shape(), &window);
        let [batch, rows, columns, _] = shape.dims();
        let dtype = input.dtype;
        let output = empty_like(&input, shape, dtype);
        let (pixels, vectors) = (batch * rows * columns, channels / VECTOR);
        let (count, dim) = grid(pixels, vectors);
        depthwise_kernel::launch(
            &output.client,
            count,
            dim,
            input.into_buffer_arg(),
            weights.into_buffer_arg(),
            bias.into_buffer_arg(),
            output.clone().into_buffer_arg(),
            SizesLaunch::new(
                scalar(width),
                scalar(height),
                scalar(columns),
                scalar(rows),
                scalar(pixels),
                scalar(vectors),
                scalar(vectors),
            ),
            window,
            element(dtype),
        );
        output
    }
}

/// The operation on the tensors' device.
pub(super) fn depthwise(input: Tensor<4>, weights: Tensor<2>, bias: Tensor<1>, window: Window) -> Tensor<4> {
    Tensor::from_dispatch(<Dispatch as DepthwiseConvolution>::depthwise_convolution(
        input.into_dispatch(),
        weights.into_dispatch(),
        bias.into_dispatch(),
        window,
    ))
}
