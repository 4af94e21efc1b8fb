//! The layers beneath a canvas on the GPU (stroke, shadow, background), for `dst_over` and `flat_over`. Their planes
//! have the canvas's size, or one value.

use burn::tensor::{Int, Tensor};
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use crate::device::{scalar, step};

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

/// Panics unless the planes of the layers have the dimensions of `canvas`, or one value.
pub(crate) fn check(canvas: &Tensor<2, Int>, stroke: &Tensor<2, Int>, shadow: &Tensor<2>, background: &Tensor<2, Int>) {
    for layer in [stroke.dims(), shadow.dims(), background.dims()] {
        assert!(layer == canvas.dims() || layer == [1, 1], "a layer is as large as the canvas, or one value");
    }
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

/// The argument for a canvas of `width` × `height` with the planes `stroke`, `shadow` and `background`.
pub(crate) fn argument(
    [height, width]: [usize; 2],
    [stroke, shadow, background]: [&CubeTensor; 3],
    paint: Paint,
) -> LayersLaunch {
    let opaque = |[red, green, blue]: [u8; 3]| u32::from_le_bytes([red, green, blue, 255]);
    LayersLaunch::new(
        scalar(width),
        scalar(height),
        step(stroke),
        step(shadow),
        step(background),
        opaque(paint.stroke),
        opaque(paint.shadow),
        paint.opacity,
    )
}
