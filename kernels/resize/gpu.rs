//! Lanczos resampling on the GPU: a kernel for each pass, one work item for each output.

use burn::backend::tensor::IntTensor;
use burn::backend::{Backend, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::{DType, Int, Shape, Tensor};
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::Axis;
use crate::device::{empty_like, host_int_tensor, host_words, launch_grid, scalar, upload_table};
use crate::srgb::exact_linear_of_encoded8;
use crate::srgb::gpu::{byte, encoded, unit};

#[cube(launch)]
fn rows_kernel(
    picture: &[u32],
    linear: &[f32],
    first: &[u32],
    weights: &[f32],
    output: &mut [f32],
    width: u32,
    height: u32,
    columns: u32,
    taps: u32,
) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= columns || y >= height {
        terminate!();
    }
    let mut red = f32::new(0.0);
    let mut green = f32::new(0.0);
    let mut blue = f32::new(0.0);
    let mut coverage = f32::new(0.0);
    let start = y * width + first[x as usize];
    for tap in 0..taps {
        let pixel = picture[(start + tap) as usize];
        let weight = weights[(x * taps + tap) as usize];
        let alpha = f32::cast_from(pixel >> 24) / 255.0;
        red += weight * (linear[(pixel & 255) as usize] * alpha);
        green += weight * (linear[((pixel >> 8) & 255) as usize] * alpha);
        blue += weight * (linear[((pixel >> 16) & 255) as usize] * alpha);
        coverage += weight * alpha;
    }
    let at = ((y * columns + x) * 4) as usize;
    output[at] = red;
    output[at + 1] = green;
    output[at + 2] = blue;
    output[at + 3] = coverage;
}

#[cube(launch)]
fn columns_kernel(
    rows: &[f32],
    first: &[u32],
    weights: &[f32],
    output: &mut [u32],
    columns: u32,
    height: u32,
    taps: u32,
) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= columns || y >= height {
        terminate!();
    }
    let mut red = f32::new(0.0);
    let mut green = f32::new(0.0);
    let mut blue = f32::new(0.0);
    let mut coverage = f32::new(0.0);
    let start = first[y as usize];
    for tap in 0..taps {
        let weight = weights[(y * taps + tap) as usize];
        let at = (((start + tap) * columns + x) * 4) as usize;
        red += weight * rows[at];
        green += weight * rows[at + 1];
        blue += weight * rows[at + 2];
        coverage += weight * rows[at + 3];
    }
    let alpha = byte(unit(coverage));
    let mut packed = 0u32;
    if alpha > 0 {
        packed = byte(encoded(unit(red / coverage)))
            + (byte(encoded(unit(green / coverage))) << 8)
            + (byte(encoded(unit(blue / coverage))) << 16)
            + (alpha << 24);
    }
    output[(y * columns + x) as usize] = packed;
}

/// The kernel as a burn operation.
#[backend_extension(Flex, Cube, Fusion)]
pub trait Resize: Backend {
    /// `picture`: u32 `[H, W]`. Returns u32 `[height, width]`.
    #[fusion(dtype = picture, shape = Shape::new([*height, *width]))]
    fn resize(picture: IntTensor<Self>, height: usize, width: usize) -> IntTensor<Self>;
}

impl Resize for Flex {
    fn resize(picture: IntTensor<Self>, height: usize, width: usize) -> IntTensor<Self> {
        let [rows, columns] = picture.shape().dims();
        let pixels: Vec<u8> = host_words(picture).into_iter().flat_map(u32::to_le_bytes).collect();
        let (across, down) = (Axis::new(columns, width), Axis::new(rows, height));
        let resized = super::cpu::resize(&pixels, columns, rows, &across, &down);
        let words = resized.as_chunks::<4>().0.iter().map(|pixel| u32::from_le_bytes(*pixel)).collect();
        host_int_tensor(words, [height, width])
    }
}

impl Resize for CubeBackend {
    fn resize(picture: IntTensor<Self>, height: usize, width: usize) -> IntTensor<Self> {
        let picture: CubeTensor = into_contiguous(picture);
        let [source_rows, source_columns] = picture.shape().dims();
        let (across, down) = (Axis::new(source_columns, width), Axis::new(source_rows, height));
        let client = picture.client.clone();
        let rows = empty_like(&picture, [source_rows, width, 4], DType::F32);
        let output = empty_like(&picture, [height, width], DType::U32);
        let (count, dim) = launch_grid(width, source_rows);
        rows_kernel::launch(
            &client,
            count,
            dim,
            picture.clone().into_buffer_arg(),
            upload_table(&picture, exact_linear_of_encoded8()).into_buffer_arg(),
            upload_table(&picture, &across.first).into_buffer_arg(),
            upload_table(&picture, &across.weights).into_buffer_arg(),
            rows.clone().into_buffer_arg(),
            scalar(source_columns),
            scalar(source_rows),
            scalar(width),
            scalar(across.taps),
        );
        let (count, dim) = launch_grid(width, height);
        columns_kernel::launch(
            &client,
            count,
            dim,
            rows.into_buffer_arg(),
            upload_table(&picture, &down.first).into_buffer_arg(),
            upload_table(&picture, &down.weights).into_buffer_arg(),
            output.clone().into_buffer_arg(),
            scalar(width),
            scalar(height),
            scalar(down.taps),
        );
        output
    }
}

/// Resizes `picture` (u32 `[H, W]`, packed RGBA8) to u32 `[height, width]`, on its device.
#[must_use]
pub fn resize(picture: Tensor<2, Int>, height: usize, width: usize) -> Tensor<2, Int> {
    Tensor::from_dispatch(<Dispatch as Resize>::resize(picture.into_dispatch(), height, width))
}
