//! Flat layers on the GPU, over whole planes: one work item a pixel.

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::{DType, Int, Tensor};
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::cpu::over;
use crate::device::{bytes_of_words, empty_like, host_int_tensor, host_words, launch_grid, words_of_bytes};
use crate::dst_over::cpu::Row;
use crate::layers::{self, HostLayers, Layers, Paint};
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

/// The kernel as a burn operation.
#[backend_extension(Flex, Cube)]
pub trait FlatOver: Backend {
    /// `canvas`: u32 `[H, W]`; `stroke`: u32, `shadow`: f32, `background`: u32, each `[H, W]`, or `[1, 1]` for the
    /// same everywhere. Returns u32 `[H, W]`.
    fn flat_over(
        canvas: IntTensor<Self>,
        stroke: IntTensor<Self>,
        shadow: FloatTensor<Self>,
        background: IntTensor<Self>,
        paint: Paint,
    ) -> IntTensor<Self>;
}

impl FlatOver for Flex {
    fn flat_over(
        canvas: IntTensor<Self>,
        stroke: IntTensor<Self>,
        shadow: FloatTensor<Self>,
        background: IntTensor<Self>,
        paint: Paint,
    ) -> IntTensor<Self> {
        let [height, width] = canvas.shape().dims();
        let pixels = bytes_of_words(&host_words(canvas));
        let layers = HostLayers::new([height, width], stroke, shadow, background, paint);
        let mut output = Vec::with_capacity(pixels.len());
        let mut mixed = Vec::new();
        for (y, pixels) in pixels.chunks_exact(4 * width).enumerate() {
            let Row { stroke, shadow, background } = layers.row(y);
            // Nothing of the row before shows under opaque pixels.
            mixed.clear();
            let _ = over(pixels, stroke, shadow, background, &mut mixed);
            output.extend_from_slice(&mixed);
        }
        host_int_tensor(words_of_bytes(&output), [height, width])
    }
}

impl FlatOver for CubeBackend {
    fn flat_over(
        canvas: IntTensor<Self>,
        stroke: IntTensor<Self>,
        shadow: FloatTensor<Self>,
        background: IntTensor<Self>,
        paint: Paint,
    ) -> IntTensor<Self> {
        let canvas: CubeTensor = into_contiguous(canvas);
        let stroke: CubeTensor = into_contiguous(stroke);
        let shadow: CubeTensor = into_contiguous(shadow);
        let background: CubeTensor = into_contiguous(background);
        let [height, width] = canvas.shape().dims();
        let layers = layers::argument([height, width], [&stroke, &shadow, &background], paint);
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
        output
    }
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
    layers::check(&canvas, &stroke, &shadow, &background);
    Tensor::from_dispatch(<Dispatch as FlatOver>::flat_over(
        canvas.into_dispatch(),
        stroke.into_dispatch(),
        shadow.into_dispatch(),
        background.into_dispatch(),
        paint,
    ))
}
