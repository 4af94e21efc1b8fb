//! Lanczos resampling on the GPU: a kernel for each pass, one work item for each output.

use burn::tensor::{DType, Int, Tensor};
use cubecl::prelude::*;

use super::{Axis, Part};
use crate::device::{buffer_of, empty_like, launch_grid, scalar, tensor_of, upload_table};
use crate::srgb::gpu::{byte, encoded};
use crate::srgb::linear16_of_encoded8;

/// A sample in whole 65535ths.
#[cube]
fn whole(sum: f32) -> u32 {
    u32::cast_from(min(max(sum + 0.5, f32::new(0.0)), f32::new(65535.0)))
}

/// Premultiplied light of one channel of `pixel`, in 65535ths.
#[cube]
fn light(linear: &[u32], pixel: u32, shift: u32) -> f32 {
    f32::cast_from((linear[((pixel >> shift) & 255) as usize] * (pixel >> 24) + 127) / 255)
}

#[cube(launch)]
fn rows_kernel(
    picture: &[u32],
    linear: &[u32],
    first: &[u32],
    weights: &[f32],
    output: &mut [f32],
    width: u32,
    top: u32,
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
    let start = (top + y) * width + first[x as usize];
    for tap in 0..taps {
        let pixel = picture[(start + tap) as usize];
        let weight = weights[(x * taps + tap) as usize];
        red += weight * light(linear, pixel, 0u32);
        green += weight * light(linear, pixel, 8u32);
        blue += weight * light(linear, pixel, 16u32);
        coverage += weight * f32::cast_from((pixel >> 24) * 257);
    }
    let at = ((y * columns + x) * 4) as usize;
    output[at] = f32::cast_from(whole(red));
    output[at + 1] = f32::cast_from(whole(green));
    output[at + 2] = f32::cast_from(whole(blue));
    output[at + 3] = f32::cast_from(whole(coverage));
}

/// Encoded straight value of premultiplied `light` under `alpha`, both in 65535ths.
#[cube]
fn straight(light: u32, alpha: u32) -> u32 {
    let light = min((light * 65535 + alpha / 2) / alpha, 65535u32);
    byte(encoded(f32::cast_from(light) / 65535.0))
}

#[cube(launch)]
fn columns_kernel(
    rows: &[f32],
    first: &[u32],
    weights: &[f32],
    output: &mut [u32],
    columns: u32,
    top: u32,
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
    let start = first[y as usize] - top;
    for tap in 0..taps {
        let weight = weights[(y * taps + tap) as usize];
        let at = (((start + tap) * columns + x) * 4) as usize;
        red += weight * rows[at];
        green += weight * rows[at + 1];
        blue += weight * rows[at + 2];
        coverage += weight * rows[at + 3];
    }
    let alpha = whole(coverage);
    let covered = (alpha + 128) / 257;
    let mut packed = 0u32;
    if covered > 0 {
        packed = straight(whole(red), alpha)
            + (straight(whole(green), alpha) << 8)
            + (straight(whole(blue), alpha) << 16)
            + (covered << 24);
    }
    output[(y * columns + x) as usize] = packed;
}

/// `part` of `picture` (u32 `[H, W]`, packed RGBA8), resampled to u32 `[rows, columns]`, on its device.
#[must_use]
pub fn resample(picture: Tensor<2, Int>, part: Part, rows: usize, columns: usize) -> Tensor<2, Int> {
    let [picture_rows, width] = picture.dims();
    let picture = buffer_of(picture);
    let across = Axis::new(width, (part.left, part.width), columns);
    let down = Axis::new(picture_rows, (part.top, part.height), rows);
    let (top, height) = down.inputs();
    let client = picture.client.clone();
    let narrowed = empty_like(&picture, [height, columns, 4], DType::F32);
    let output = empty_like(&picture, [rows, columns], DType::U32);
    let linear: Vec<u32> = linear16_of_encoded8().iter().copied().map(u32::from).collect();
    let (count, dim) = launch_grid(columns, height);
    rows_kernel::launch(
        &client,
        count,
        dim,
        picture.clone().into_buffer_arg(),
        upload_table(&picture, &linear).into_buffer_arg(),
        upload_table(&picture, &across.first).into_buffer_arg(),
        upload_table(&picture, &across.weights).into_buffer_arg(),
        narrowed.clone().into_buffer_arg(),
        scalar(width),
        scalar(top),
        scalar(height),
        scalar(columns),
        scalar(across.taps),
    );
    let (count, dim) = launch_grid(columns, rows);
    columns_kernel::launch(
        &client,
        count,
        dim,
        narrowed.into_buffer_arg(),
        upload_table(&picture, &down.first).into_buffer_arg(),
        upload_table(&picture, &down.weights).into_buffer_arg(),
        output.clone().into_buffer_arg(),
        scalar(columns),
        scalar(top),
        scalar(rows),
        scalar(down.taps),
    );
    tensor_of(output)
}
