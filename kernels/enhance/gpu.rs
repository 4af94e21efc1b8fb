//! Brightness and saturation on the GPU: one work item a pixel.

use burn::tensor::{DType, Int, Tensor};
use cubecl::prelude::*;

use super::cpu::Curve;
use super::{LUMA, STEPS};
use crate::device::{buffer_of, empty_like, launch_grid, scalar, tensor_of, upload_table};
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

/// `picture` (u32 `[H, W]`, packed RGBA8), enhanced by `strength`, on its device. A strength of 0 or less changes nothing.
#[must_use]
pub fn enhance(picture: Tensor<2, Int>, strength: f32) -> Tensor<2, Int> {
    let Some(curve) = Curve::new(strength) else { return picture };
    let [height, width] = picture.dims();
    let picture = buffer_of(picture);
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
    tensor_of(output)
}
