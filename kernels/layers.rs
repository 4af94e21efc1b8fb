//! The layers beneath a canvas on the GPU (stroke, shadow, background), for `dst_over` and `flat_over`. Their planes
//! have the canvas's size, or one value.

use burn::tensor::{Int, Tensor};
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use crate::device::{buffer_of, scalar, step};

/// Colours of the layers of a single colour, sRGB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Paint {
    /// Of the stroke.
    pub stroke: [u8; 3],
    /// Of the shadow.
    pub shadow: [u8; 3],
    /// Factor of the shadow's coverage, 0..=1.
    pub opacity: f32,
}

/// Scalar arguments of a kernel.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(crate) struct Layers {
    pub(crate) width: u32,
    pub(crate) height: u32,
    // 1, or 0 for a plane of a single value.
    pub(crate) stroke_step: u32,
    pub(crate) shadow_step: u32,
    pub(crate) background_step: u32,
    // As opaque packed pixels.
    pub(crate) stroke_color: u32,
    pub(crate) shadow_color: u32,
    pub(crate) opacity: f32,
}

/// The arguments of a kernel: the memory of canvas, stroke, shadow and background, and the scalars.
///
/// # Panics
/// When a layer has neither the dimensions of `canvas` nor one value.
pub(crate) fn arguments(
    canvas: Tensor<2, Int>,
    stroke: Tensor<2, Int>,
    shadow: Tensor<2>,
    background: Tensor<2, Int>,
    paint: Paint,
) -> ([CubeTensor; 4], LayersLaunch) {
    let [height, width] = canvas.dims();
    for layer in [stroke.dims(), shadow.dims(), background.dims()] {
        assert!(layer == [height, width] || layer == [1, 1], "a layer is as large as the canvas, or one value");
    }
    let [canvas, stroke, background] = [canvas, stroke, background].map(buffer_of);
    let shadow = buffer_of(shadow);
    let opaque = |[red, green, blue]: [u8; 3]| u32::from_le_bytes([red, green, blue, 255]);
    let scalars = LayersLaunch::new(
        scalar(width),
        scalar(height),
        step(&stroke),
        step(&shadow),
        step(&background),
        opaque(paint.stroke),
        opaque(paint.shadow),
        paint.opacity,
    );
    ([canvas, stroke, shadow, background], scalars)
}
