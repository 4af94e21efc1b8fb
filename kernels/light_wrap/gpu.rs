//! Light wrap on the GPU: one work item a pixel. It encodes with `pow`, not from a table.

use burn::backend::tensor::IntTensor;
use burn::backend::{Backend, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::{DType, Int, Tensor};
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::{TINT_STRENGTH, WRAP_STRENGTH, cpu};
use crate::device::{
    bytes_of_words, empty_like, everywhere, host_int_tensor, host_words, launch_grid, scalar, step, upload_table,
    words_of_bytes,
};
use crate::dst_over::cpu::Under;
use crate::srgb::exact_linear_of_encoded8;
use crate::srgb::gpu::{byte, encoded, unit};

#[cube(launch)]
fn light_wrap_kernel(
    canvas: &[u32],
    background: &[u32],
    linear: &[f32],
    tint: &[f32],
    output: &mut [u32],
    width: u32,
    height: u32,
    background_step: u32,
) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= width || y >= height {
        terminate!();
    }
    let at = y * width + x;
    let pixel = canvas[at as usize];
    let under = background[(at * background_step) as usize];
    let alpha = pixel >> 24;
    let mut result = pixel;
    if alpha > 0 && alpha < 255 {
        let transmittance = 1.0 - f32::cast_from(alpha) / 255.0;
        result = pixel & 0xff00_0000;
        for channel in 0u32..3u32 {
            let shift = 8 * channel;
            let own = linear[((pixel >> shift) & 255) as usize];
            let lit = own * (1.0 + TINT_STRENGTH * transmittance * (tint[channel as usize] - 1.0));
            let behind = linear[((under >> shift) & 255) as usize];
            let other = select(under >> 24 == 255, behind, lit);
            let wrapped = lit + WRAP_STRENGTH * transmittance * (other - lit);
            result += byte(encoded(unit(wrapped))) << shift;
        }
    }
    output[at as usize] = result;
}

/// The kernel as a burn operation.
#[backend_extension(Flex, Cube)]
pub trait LightWrap: Backend {
    /// `canvas`: u32 `[H, W]`; `background`: u32 `[H, W]`, or `[1, 1]` for the same everywhere. Returns u32 `[H, W]`.
    fn light_wrap(canvas: IntTensor<Self>, background: IntTensor<Self>, tint: [f32; 3]) -> IntTensor<Self>;
}

impl LightWrap for Flex {
    fn light_wrap(canvas: IntTensor<Self>, background: IntTensor<Self>, tint: [f32; 3]) -> IntTensor<Self> {
        let [height, width] = canvas.shape().dims();
        let mut pixels = bytes_of_words(&host_words(canvas));
        let background = bytes_of_words(&everywhere(host_words(background), width * height));
        let rows = pixels.chunks_exact_mut(4 * width).zip(background.chunks_exact(4 * width));
        rows.for_each(|(pixels, background)| cpu::row(pixels, Under::Pixels(background), tint));
        host_int_tensor(words_of_bytes(&pixels), [height, width])
    }
}

impl LightWrap for CubeBackend {
    fn light_wrap(canvas: IntTensor<Self>, background: IntTensor<Self>, tint: [f32; 3]) -> IntTensor<Self> {
        let canvas: CubeTensor = into_contiguous(canvas);
        let background: CubeTensor = into_contiguous(background);
        let [height, width] = canvas.shape().dims();
        let output = empty_like(&canvas, [height, width], DType::U32);
        let linear = upload_table(&canvas, exact_linear_of_encoded8());
        let tint = upload_table(&canvas, &tint);
        let background_step = step(&background);
        let (count, dim) = launch_grid(width, height);
        light_wrap_kernel::launch(
            &output.client,
            count,
            dim,
            canvas.into_buffer_arg(),
            background.into_buffer_arg(),
            linear.into_buffer_arg(),
            tint.into_buffer_arg(),
            output.clone().into_buffer_arg(),
            scalar(width),
            scalar(height),
            background_step,
        );
        output
    }
}

/// Tints the translucent pixels of `canvas` (u32 `[H, W]`, packed RGBA8) by `tint` (factors of linear red, green and
/// blue) and mixes in the opaque colours of `background` (u32 `[H, W]`, or `[1, 1]` for one colour), on their device.
#[must_use]
pub fn light_wrap(canvas: Tensor<2, Int>, background: Tensor<2, Int>, tint: [f32; 3]) -> Tensor<2, Int> {
    let (canvas, background) = (canvas.into_dispatch(), background.into_dispatch());
    Tensor::from_dispatch(<Dispatch as LightWrap>::light_wrap(canvas, background, tint))
}
