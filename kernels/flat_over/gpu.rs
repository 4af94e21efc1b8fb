//! Flat layers on the GPU, over whole planes: one work item a pixel.

use burn::tensor::{DType, Int, Tensor};
use cubecl::prelude::*;

use crate::device::{empty_like, launch_grid, tensor_of};
use crate::layers::{self, Layers, Paint};
use crate::srgb::gpu::{byte, unit, value};

#[cube(launch)]
fn flat_over_kernel(
    canvas: &[u32],
    stroke: &[u32],
    shadow: &[f32],
    background: &[u32],
    output: &mut [u32],
    layers: &Layers,
) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= layers.width || y >= layers.height {
        terminate!();
    }
    let at = y * layers.width + x;
    let stroked = stroke[(at * layers.stroke_step) as usize];
    let shade = unit(shadow[(at * layers.shadow_step) as usize] * layers.opacity);
    let below = background[(at * layers.background_step) as usize];
    let mut result = below;
    if canvas[at as usize] >> 24 == 255 {
        result = 0u32;
    } else if stroked > 0 || shade > 0.0 {
        let of_stroke = f32::cast_from(stroked) / 255.0;
        let mut rest = 1.0 - of_stroke;
        let of_shadow = rest * shade;
        rest -= of_shadow;
        let of_background = rest * (f32::cast_from(below >> 24) / 255.0);
        rest -= of_background;
        let alpha = 1.0 - rest;
        let coverage = byte(unit(alpha));
        result = 0u32;
        if coverage > 0 {
            result = coverage << 24;
            for channel in 0u32..3u32 {
                let shift = 8 * channel;
                let sum = of_stroke * value(layers.stroke_color, shift)
                    + of_shadow * value(layers.shadow_color, shift)
                    + of_background * value(below, shift);
                result += min(u32::cast_from(sum / alpha + 0.5), 255u32) << shift;
            }
        }
    }
    output[at as usize] = result;
}

/// A stroke (u32, 0..=255) over a shadow (f32, 0..=1) over a background (u32, packed RGBA8), where `canvas` (u32
/// `[H, W]`, packed RGBA8) is not opaque: u32 `[H, W]`, on their device. Each layer is `[H, W]`, or `[1, 1]` for one
/// value.
///
/// # Panics
/// When a layer has neither of the two shapes.
#[must_use]
pub fn flat_over(
    canvas: Tensor<2, Int>,
    stroke: Tensor<2, Int>,
    shadow: Tensor<2>,
    background: Tensor<2, Int>,
    paint: Paint,
) -> Tensor<2, Int> {
    let [height, width] = canvas.dims();
    let ([canvas, stroke, shadow, background], layers) = layers::arguments(canvas, stroke, shadow, background, paint);
    let output = empty_like(&canvas, [height, width], DType::U32);
    let (count, dim) = launch_grid(width, height);
    flat_over_kernel::launch(
        &output.client,
        count,
        dim,
        canvas.into_buffer_arg(),
        stroke.into_buffer_arg(),
        shadow.into_buffer_arg(),
        background.into_buffer_arg(),
        output.clone().into_buffer_arg(),
        layers,
    );
    tensor_of(output)
}
