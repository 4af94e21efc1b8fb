//! Shared parts of the convolutions' kernels: the positions of a work item's pixels, their taps, and the stored values.

use super::super::Activation;
use super::{VECTOR, Window};
use crate::device::scalar;
use burn::backend::TensorMetadata;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

pub(super) type Four = Vector<f32, Const<4>>;

/// Work items of a cube.
const CUBE: usize = 64;

#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(super) struct Sizes {
    /// Input pixels in a row, and rows.
    pub(super) width: u32,
    pub(super) height: u32,
    /// Output pixels in a row, rows, and pixels of the whole batch.
    pub(super) columns: u32,
    pub(super) rows: u32,
    pub(super) pixels: u32,
    /// Vectors of an input and of an output pixel.
    pub(super) vectors_in: u32,
    pub(super) vectors_out: u32,
}

/// The sizes of a convolution of `input` to `output`, both `[N, H, W, C]`, and its launch grid.
pub(super) fn sizes(input: &CubeTensor, output: &CubeTensor) -> (SizesLaunch, (CubeCount, CubeDim)) {
    let [_, height, width, channels_in] = input.shape().dims();
    let [batch, rows, columns, channels_out] = output.shape().dims();
    let (pixels, vectors_out) = (batch * rows * columns, channels_out / VECTOR);
    let sizes = SizesLaunch::new(
        scalar(width),
        scalar(height),
        scalar(columns),
        scalar(rows),
        scalar(pixels),
        scalar(channels_in / VECTOR),
        scalar(vectors_out),
    );
    (sizes, grid(pixels, vectors_out))
}

/// The launch grid with one work item for each vector of each four of `pixels`.
pub(super) fn grid(pixels: usize, vectors: usize) -> (CubeCount, CubeDim) {
    let cubes = (pixels.div_ceil(VECTOR) * vectors).div_ceil(CUBE);
    // Two dimensions, because one is limited to 65 535 cubes.
    let rows = cubes.div_ceil(1 << 15);
    let count = |cubes: usize| u32::try_from(cubes).expect("a batch fits in 32 bits");
    (CubeCount::Static(count(cubes.div_ceil(rows)), count(rows), 1), CubeDim::new_1d(CUBE as u32))
}

/// Start of a window: column and row, which may be outside of the picture, and the picture's first pixel.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Corner {
    left: i32,
    top: i32,
    picture: u32,
}

/// The input pixel under a tap: its index, and 1 inside or 0 outside of the picture.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Tap {
    pub(super) pixel: u32,
    pub(super) inside: f32,
}

#[cube]
impl Corner {
    /// The corner of output `pixel` of the batch; past the last pixel, the last pixel's corner.
    pub(super) fn of(pixel: u32, sizes: &Sizes, #[comptime] window: Window) -> Corner {
        let pixel = min(pixel, sizes.pixels - 1);
        let column = pixel % sizes.columns;
        let row = pixel / sizes.columns;
        let stride = comptime!(window.stride as u32);
        let overhang = comptime!(window.overhang() as i32);
        Corner {
            left: i32::cast_from(column * stride) - overhang,
            top: i32::cast_from(row % sizes.rows * stride) - overhang,
            picture: row / sizes.rows * sizes.height * sizes.width,
        }
    }

    /// The tap `right` columns right of this corner and `down` rows below.
    pub(super) fn tap(&self, right: u32, down: u32, sizes: &Sizes) -> Tap {
        let x = self.left + i32::cast_from(right);
        let y = self.top + i32::cast_from(down);
        let within_row = x >= i32::new(0) && x < i32::cast_from(sizes.width);
        let inside = within_row && y >= i32::new(0) && y < i32::cast_from(sizes.height);
        let pixel = self.picture + u32::cast_from(y) * sizes.width + u32::cast_from(x);
        Tap { pixel: select(inside, pixel, 0u32), inside: select(inside, f32::new(1.0), f32::new(0.0)) }
    }
}

#[cube]
pub(super) fn activated(sum: Four, #[comptime] activation: Activation) -> Four {
    if comptime!(activation == Activation::Linear) {
        sum
    } else if comptime!(activation == Activation::Relu) {
        max(sum, Four::new(0.0))
    } else {
        min(max(sum, Four::new(0.0)), Four::new(6.0))
    }
}
