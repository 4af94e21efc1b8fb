//! Destination over on the GPU, over whole planes: one work item a pixel. It encodes with `pow`, not from a table.

use burn::tensor::{DType, Int, Tensor};
use cubecl::prelude::*;

use crate::device::{empty_like, launch_grid, tensor_of, upload_table};
use crate::layers::{self, Layers, Paint};
use crate::srgb::exact_linear_of_encoded8;
use crate::srgb::gpu::{byte, encoded, unit};

#[cube]
fn light(linear: &[f32], pixel: u32, shift: u32) -> f32 {
    linear[((pixel >> shift) & 255) as usize]
}

#[cube(launch)]
fn dst_over_kernel(
    canvas: &[u32],
    stroke: &[u32],
    shadow: &[f32],
    background: &[u32],
    linear: &[f32],
    output: &mut [u32],
    layers: &Layers,
) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= layers.width || y >= layers.height {
        terminate!();
    }
    let at = y * layers.width + x;
    let above = canvas[at as usize];
    let stroke = stroke[(at * layers.stroke_step) as usize];
    let shadow = unit(shadow[(at * layers.shadow_step) as usize] * layers.opacity);
    let under = background[(at * layers.background_step) as usize];
    let mut result = above;
    let bare = stroke == 0 && shadow <= 0.0;
    if bare && above >> 24 == 0 {
        // Colour under alpha 0 is 0.
        result = select(under >> 24 == 0, 0u32, under);
    } else if above >> 24 < 255 && !(bare && under >> 24 == 0) {
        let of_canvas = f32::cast_from(above >> 24) / 255.0;
        let mut transmittance = 1.0 - of_canvas;
        let of_stroke = transmittance * (f32::cast_from(stroke) / 255.0);
        transmittance -= of_stroke;
        let of_shadow = transmittance * shadow;
        transmittance -= of_shadow;
        let of_background = transmittance * (f32::cast_from(under >> 24) / 255.0);
        transmittance -= of_background;
        let alpha = 1.0 - transmittance;
        let coverage = byte(unit(alpha));
        result = 0u32;
        if coverage > 0 {
            result = coverage << 24;
            for channel in 0u32..3u32 {
                let shift = 8 * channel;
                let sum = of_canvas * light(linear, above, shift)
                    + of_stroke * light(linear, layers.stroke_color, shift)
                    + of_shadow * light(linear, layers.shadow_color, shift)
                    + of_background * light(linear, under, shift);
                result += byte(encoded(unit(sum / alpha))) << shift;
            }
        }
    }
    output[at as usize] = result;
}

/// Composites a stroke (u32, 0..=255), a shadow (f32, 0..=1) and a background (u32, packed RGBA8) under `canvas` (u32
/// `[H, W]`, packed RGBA8), on their device. Each is `[H, W]`, or `[1, 1]` for one value: 0 for an absent layer, a
/// colour for a plain background.
///
/// # Panics
/// When a layer has neither of the two shapes.
#[must_use]
pub fn dst_over(
    canvas: Tensor<2, Int>,
    stroke: Tensor<2, Int>,
    shadow: Tensor<2>,
    background: Tensor<2, Int>,
    paint: Paint,
) -> Tensor<2, Int> {
    let [height, width] = canvas.dims();
    let ([canvas, stroke, shadow, background], layers) = layers::arguments(canvas, stroke, shadow, background, paint);
    let output = empty_like(&canvas, [height, width], DType::U32);
    let linear = upload_table(&canvas, exact_linear_of_encoded8());
    let (count, dim) = launch_grid(width, height);
    dst_over_kernel::launch(
        &output.client,
        count,
        dim,
        canvas.into_buffer_arg(),
        stroke.into_buffer_arg(),
        shadow.into_buffer_arg(),
        background.into_buffer_arg(),
        linear.into_buffer_arg(),
        output.clone().into_buffer_arg(),
        layers,
    );
    tensor_of(output)
}
