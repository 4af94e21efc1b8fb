//! Destination over on the GPU, over whole planes: one work item a pixel. It encodes with `pow`, not from a table.

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::{DType, Int, Tensor};
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::cpu::{Row, Shadow, Stroke, Under, row};
use crate::device::{
    bytes_of_words, empty_like, everywhere, host_floats, host_int_tensor, host_words, launch_grid, scalar, step,
    upload_table, words_of_bytes,
};
use crate::srgb::exact_linear_of_encoded8;
use crate::srgb::gpu::{byte, encoded, unit};

/// The colours of the layers that have only one, sRGB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Paint {
    /// Of the stroke.
    pub stroke: [u8; 3],
    /// Of the shadow.
    pub shadow: [u8; 3],
    /// Factor of the shadow's coverage, 0..=1.
    pub opacity: f32,
}

impl Paint {
    /// The stroke's colour as an opaque packed pixel.
    pub(crate) const fn stroke_word(&self) -> u32 {
        let [red, green, blue] = self.stroke;
        u32::from_le_bytes([red, green, blue, 255])
    }

    /// The shadow's colour as an opaque packed pixel.
    pub(crate) const fn shadow_word(&self) -> u32 {
        let [red, green, blue] = self.shadow;
        u32::from_le_bytes([red, green, blue, 255])
    }
}

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
    width: u32,
    height: u32,
    // 1, or 0 for a plane that is one value everywhere.
    stroke_step: u32,
    shadow_step: u32,
    background_step: u32,
    stroke_color: u32,
    shadow_color: u32,
    opacity: f32,
) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= width || y >= height {
        terminate!();
    }
    let at = y * width + x;
    let above = canvas[at as usize];
    let stroke = stroke[(at * stroke_step) as usize];
    let shadow = unit(shadow[(at * shadow_step) as usize] * opacity);
    let under = background[(at * background_step) as usize];
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
                    + of_stroke * light(linear, stroke_color, shift)
                    + of_shadow * light(linear, shadow_color, shift)
                    + of_background * light(linear, under, shift);
                result += byte(encoded(unit(sum / alpha))) << shift;
            }
        }
    }
    output[at as usize] = result;
}

/// The kernel as a burn operation.
#[backend_extension(Flex, Cube, Fusion)]
pub trait DstOver: Backend {
    /// `canvas`: u32 `[H, W]`; `stroke`: u32, `shadow`: f32, `background`: u32, each `[H, W]`, or `[1, 1]` for the
    /// same everywhere. Returns u32 `[H, W]`.
    #[fusion(dtype = canvas, shape = canvas)]
    fn dst_over(
        canvas: IntTensor<Self>,
        stroke: IntTensor<Self>,
        shadow: FloatTensor<Self>,
        background: IntTensor<Self>,
        paint: Paint,
    ) -> IntTensor<Self>;
}

impl DstOver for Flex {
    fn dst_over(
        canvas: IntTensor<Self>,
        stroke: IntTensor<Self>,
        shadow: FloatTensor<Self>,
        background: IntTensor<Self>,
        paint: Paint,
    ) -> IntTensor<Self> {
        let [height, width] = canvas.shape().dims();
        let stroke: Vec<u8> =
            everywhere(host_words(stroke), width * height).into_iter().map(|word| word as u8).collect();
        let shadow = everywhere(host_floats(shadow), width * height);
        let background = bytes_of_words(&everywhere(host_words(background), width * height));
        let mut pixels = bytes_of_words(&host_words(canvas));
        for (y, pixels) in pixels.chunks_exact_mut(4 * width).enumerate() {
            let here = y * width..(y + 1) * width;
            let layers = Row {
                stroke: Some(Stroke { coverage: &stroke[here.clone()], color: paint.stroke }),
                shadow: Some(Shadow { coverage: &shadow[here], color: paint.shadow, opacity: paint.opacity }),
                background: Under::Pixels(&background[4 * y * width..]),
            };
            row(pixels, &layers);
        }
        host_int_tensor(words_of_bytes(&pixels), [height, width])
    }
}

impl DstOver for CubeBackend {
    fn dst_over(
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
        let steps = [step(&stroke), step(&shadow), step(&background)];
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
            scalar(width),
            scalar(height),
            steps[0],
            steps[1],
            steps[2],
            paint.stroke_word(),
            paint.shadow_word(),
            paint.opacity,
        );
        output
    }
}

/// Composites a stroke (u32, 0..=255), a shadow (f32, 0..=1) and a background (u32, packed RGBA8) under `canvas` (u32
/// `[H, W]`, packed RGBA8), on their device. Each is `[H, W]`, or `[1, 1]` for the same everywhere: 0 for an absent layer, a
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
    for layer in [stroke.dims(), shadow.dims(), background.dims()] {
        assert!(layer == canvas.dims() || layer == [1, 1], "a layer is as large as the canvas, or one value");
    }
    Tensor::from_dispatch(<Dispatch as DstOver>::dst_over(
        canvas.into_dispatch(),
        stroke.into_dispatch(),
        shadow.into_dispatch(),
        background.into_dispatch(),
        paint,
    ))
}
