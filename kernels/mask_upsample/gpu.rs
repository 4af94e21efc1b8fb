//! Bilinear mask upsampling on the GPU: one work item for each pixel of the picture.
//!
//! The output is f32 for the trimap on the device, and is rounded to eight bits only at the end.

use burn::tensor::{DType, Tensor};
use cubecl::prelude::*;

use crate::device::{buffer_of, empty_like, launch_grid, scalar, tensor_of};

/// Sizes of the grid and of the upsampled picture, and their ratios.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(crate) struct Stretch {
    pub(crate) columns: u32,
    pub(crate) rows: u32,
    pub(crate) width: u32,
    pub(crate) height: u32,
    // Divided on the host: a GPU's inexact quotient could move a label across the trimap's threshold.
    across: f32,
    down: f32,
}

/// The argument of a kernel for `columns` × `rows` cells over `width` × `height` pixels.
pub(crate) fn stretch((columns, rows): (usize, usize), (width, height): (usize, usize)) -> StretchLaunch {
    StretchLaunch::new(
        scalar(columns),
        scalar(rows),
        scalar(width),
        scalar(height),
        columns as f32 / width as f32,
        rows as f32 / height as f32,
    )
}

/// Position of pixel `at` on an axis of `cells`, `step` cells per pixel.
#[cube]
fn place(at: u32, cells: u32, step: f32) -> f32 {
    let place = (f32::cast_from(at) + 0.5) * step - 0.5;
    min(max(place, f32::new(0.0)), f32::cast_from(cells - 1))
}

#[cube]
pub(crate) fn stretched(grid: &[f32], x: u32, y: u32, over: &Stretch) -> f32 {
    stretched_from(grid, 0u32, x, y, over)
}

/// The value at pixel (`x`, `y`) of the grid that begins with element `first` of `grids`.
#[cube]
pub(crate) fn stretched_from(grids: &[f32], first: u32, x: u32, y: u32, over: &Stretch) -> f32 {
    let across = place(x, over.columns, over.across);
    let down = place(y, over.rows, over.down);
    let left = u32::cast_from(across);
    let above = u32::cast_from(down);
    let right = min(left + 1, over.columns - 1);
    let below = min(above + 1, over.rows - 1);
    // Vertically first, for the roundings of the CPU twin.
    let upper = first + above * over.columns;
    let lower = first + below * over.columns;
    let upper_left = grids[(upper + left) as usize];
    let upper_right = grids[(upper + right) as usize];
    let lower_left = grids[(lower + left) as usize];
    let lower_right = grids[(lower + right) as usize];
    let weight = down - f32::cast_from(above);
    let near = upper_left + weight * (lower_left - upper_left);
    let far = upper_right + weight * (lower_right - upper_right);
    near + (across - f32::cast_from(left)) * (far - near)
}

#[cube(launch)]
fn mask_upsample_kernel(mask: &[f32], output: &mut [f32], over: &Stretch) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= over.width || y >= over.height {
        terminate!();
    }
    output[(y * over.width + x) as usize] = stretched(mask, x, y, over);
}

/// Upsamples `mask` (f32 `[rows, columns]`) to f32 `[height, width]`, on its device.
#[must_use]
pub fn mask_upsample(mask: Tensor<2>, height: usize, width: usize) -> Tensor<2> {
    let [rows, columns] = mask.dims();
    let mask = buffer_of(mask);
    let output = empty_like(&mask, [height, width], DType::F32);
    let (count, dim) = launch_grid(width, height);
    mask_upsample_kernel::launch(
        &output.client,
        count,
        dim,
        mask.into_buffer_arg(),
        output.clone().into_buffer_arg(),
        stretch((columns, rows), (width, height)),
    );
    tensor_of(output)
}
