//! Light wrap on the GPU: one work item a pixel. It encodes with `pow`, not from a table.

use burn::tensor::{DType, Int, Tensor};
use cubecl::prelude::*;

use super::{TINT_STRENGTH, WRAP_STRENGTH};
use crate::device::{buffer_of, empty_like, launch_grid, scalar, step, tensor_of, upload_table};
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

/// Tints the translucent pixels of `canvas` (u32 `[H, W]`, packed RGBA8) by `tint` (factors of linear red, green and
/// blue) and mixes in the opaque colours of `background` (u32 `[H, W]`, or `[1, 1]` for one colour), on their device.
#[must_use]
pub fn light_wrap(canvas: Tensor<2, Int>, background: Tensor<2, Int>, tint: [f32; 3]) -> Tensor<2, Int> {
    let [height, width] = canvas.dims();
    let canvas = buffer_of(canvas);
    let background = buffer_of(background);
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
    tensor_of(output)
}
