//! Global average pooling on a GPU. The planes are small (12×12): a work item sums four channels of a picture.

use super::work::{Four, grid};
use super::{VECTOR, host};
use crate::device::{empty_like, scalar};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::{DType, Shape, Tensor};
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

#[cube(launch)]
fn average_kernel(input: &[Four], output: &mut [Four], pixels: u32, vectors: u32, pictures: u32) {
    let item = u32::cast_from(ABSOLUTE_POS);
    if item >= pictures * vectors {
        terminate!();
    }
    let first = item / vectors * pixels * vectors + item % vectors;
    let mut sum = Four::new(0.0);
    for pixel in 0..pixels {
        sum += input[(first + pixel * vectors) as usize];
    }
    output[item as usize] = sum / Four::new(f32::cast_from(pixels));
}

/// The kernel as a burn operation.
#[backend_extension(Flex, Cube)]
pub(super) trait GlobalAverage: Backend {
    /// `input`: f32 `[N, H, W, C]`. Returns f32 `[N, 1, 1, C]`.
    fn global_average(input: FloatTensor<Self>) -> FloatTensor<Self>;
}

fn output_shape(input: Shape) -> Shape {
    let [batch, _, _, channels] = input.dims();
    Shape::new([batch, 1, 1, channels])
}

impl GlobalAverage for Flex {
    fn global_average(input: FloatTensor<Self>) -> FloatTensor<Self> {
        host::average(input)
    }
}

impl GlobalAverage for CubeBackend {
    fn global_average(input: FloatTensor<Self>) -> FloatTensor<Self> {
        let input: CubeTensor = into_contiguous(input);
        let [batch, height, width, channels] = input.shape().dims();
        let output = empty_like(&input, output_shape(input.shape()), DType::F32);
        let vectors = channels / VECTOR;
        let (count, dim) = grid(VECTOR * batch, vectors);
        average_kernel::launch(
            &output.client,
            count,
            dim,
            input.into_buffer_arg(),
            output.clone().into_buffer_arg(),
            scalar(height * width),
            scalar(vectors),
            scalar(batch),
        );
        output
    }
}

/// The mean of each channel of each picture, on the tensor's device. `input`: `[N, H, W, C]`, C a multiple of four. Returns
/// f32 `[N, 1, 1, C]`.
#[must_use]
pub fn global_average(input: Tensor<4>) -> Tensor<4> {
    Tensor::from_dispatch(<Dispatch as GlobalAverage>::global_average(input.into_dispatch()))
}
