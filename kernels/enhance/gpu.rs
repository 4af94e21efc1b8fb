//! Brightness and saturation on the GPU: one work item a pixel.

use burn::backend::tensor::IntTensor;
use burn::backend::{Backend, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::{DType, Int, Tensor};
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::cpu::Curve;
use super::{LUMA, STEPS};
use crate::device::{
    bytes_of_words, empty_like, host_int_tensor, host_words, launch_grid, scalar, upload_table, words_of_bytes,
};
use crate::srgb::gpu::value;

#[cube(launch)]
fn enhance_kernel(picture: &[u32], lifted: &[f32], output: &mut [u32], width: u32, height: u32, gain: f32) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= width || y >= height {
        terminate!();
    }
    let at = (y * width + x) as usize;
    let pixel = picture[at];
    let mut result = pixel;
    if pixel >> 24 > 0 {
        let luma = LUMA[0] * value(pixel, 0u32) + LUMA[1] * value(pixel, 8u32) + LUMA[2] * value(pixel, 16u32);
        let step = min(u32::cast_from(luma * STEPS as f32 + 0.5), 255 * STEPS as u32);
        let offset = lifted[step as usize] - gain * luma + 0.5;
        result = pixel & 0xff00_0000;
        for channel in 0u32..3u32 {
            let shift = 8 * channel;
            let raised = min(max(gain * value(pixel, shift) + offset, f32::new(0.0)), f32::new(255.0));
            result += u32::cast_from(raised) << shift;
        }
    }
    output[at] = result;
}

/// The kernel as a burn operation.
#[backend_extension(Flex, Cube)]
pub trait Enhance: Backend {
    /// `picture`: u32 `[H, W]`; `strength` above 0. Returns u32 `[H, W]`.
    fn enhance(picture: IntTensor<Self>, strength: f32) -> IntTensor<Self>;
}

fn curve(strength: f32) -> Curve {
    Curve::new(strength).expect("a strength that changes nothing launches nothing")
}

impl Enhance for Flex {
    fn enhance(picture: IntTensor<Self>, strength: f32) -> IntTensor<Self> {
        let (shape, curve, mut pixels) = (picture.shape(), curve(strength), bytes_of_words(&host_words(picture)));
        pixels.as_chunks_mut::<4>().0.iter_mut().for_each(|pixel| *pixel = curve.enhanced(*pixel));
        host_int_tensor(words_of_bytes(&pixels), shape)
    }
}

impl Enhance for CubeBackend {
    fn enhance(picture: IntTensor<Self>, strength: f32) -> IntTensor<Self> {
        let picture: CubeTensor = into_contiguous(picture);
        let [height, width] = picture.shape().dims();
        let curve = curve(strength);
        let output = empty_like(&picture, [height, width], DType::U32);
        let (count, dim) = launch_grid(width, height);
        enhance_kernel::launch(
            &output.client,
            count,
            dim,
            picture.clone().into_buffer_arg(),
            upload_table(&picture, &curve.lifted).into_buffer_arg(),
            output.clone().into_buffer_arg(),
            scalar(width),
            scalar(height),
            curve.gain,
        );
        output
    }
}

/// `picture` (u32 `[H, W]`, packed RGBA8), enhanced by `strength`, on its device. A strength of 0 or less changes nothing.
#[must_use]
pub fn enhance(picture: Tensor<2, Int>, strength: f32) -> Tensor<2, Int> {
    if strength.is_nan() || strength <= 0.0 {
        return picture;
    }
    Tensor::from_dispatch(<Dispatch as Enhance>::enhance(picture.into_dispatch(), strength))
}
