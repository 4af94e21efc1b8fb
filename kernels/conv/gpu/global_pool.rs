//! Global average pooling on a GPU. The planes are small (12×12): a work item sums four channels of a picture.

use super::VECTOR;
use super::work::{Four, grid};
use crate::device::{buffer_of, empty_like, scalar, tensor_of};
use burn::tensor::{DType, Tensor};
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

/// The mean of each channel of each picture, on the tensor's device. `input`: `[N, H, W, C]`, C a multiple of four. Returns
/// f32 `[N, 1, 1, C]`.
#[must_use]
pub fn global_average(input: Tensor<4>) -> Tensor<4> {
    let [batch, height, width, channels] = input.dims();
    let input = buffer_of(input);
    let output = empty_like(&input, [batch, 1, 1, channels], DType::F32);
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
    tensor_of(output)
}
