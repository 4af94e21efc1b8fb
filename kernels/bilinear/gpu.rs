//! Bilinear interpolation on the GPU: a work item for each pixel.

use burn::tensor::{DType, Int, Tensor};
use cubecl::prelude::*;

use super::Tap;
use crate::device::{buffer_of, empty_like, launch_grid, scalar, tensor_of, upload_table};
use crate::srgb::gpu::{byte, encoded, unit};

#[cube]
fn mixed(first: f32, second: f32, share: f32) -> f32 {
    first + share * (second - first)
}

/// `cells`: the first and second cell of each column, then of each row. `shares`: weights of columns and rows.
#[cube(launch)]
fn bilinear_kernel(
    samples: &[f32],
    cells: &[u32],
    shares: &[f32],
    output: &mut [u32],
    grid_width: u32,
    width: u32,
    height: u32,
) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= width || y >= height {
        terminate!();
    }
    let left = cells[(2 * x) as usize];
    let right = cells[(2 * x + 1) as usize];
    let above = cells[(2 * (width + y)) as usize] * grid_width;
    let below = cells[(2 * (width + y) + 1) as usize] * grid_width;
    let across = shares[x as usize];
    let down = shares[(width + y) as usize];
    let mut packed = 0xFF00_0000u32;
    for channel in 0u32..3u32 {
        let first = mixed(
            samples[(4 * (above + left) + channel) as usize],
            samples[(4 * (below + left) + channel) as usize],
            down,
        );
        let second = mixed(
            samples[(4 * (above + right) + channel) as usize],
            samples[(4 * (below + right) + channel) as usize],
            down,
        );
        let light = f32::cast_from(u32::cast_from(unit(mixed(first, second, across)) * 65535.0 + 0.5)) / 65535.0;
        packed += byte(encoded(light)) << (8 * channel);
    }
    output[(y * width + x) as usize] = packed;
}

/// The pixels (u32 `[H, W]`) of a canvas between the cells of `samples` (f32 `[rows, columns, 4]`), on their device.
#[must_use]
pub fn bilinear(samples: Tensor<3>, columns: Vec<Tap>, rows: Vec<Tap>) -> Tensor<2, Int> {
    let [_, grid_width, _] = samples.dims();
    let samples = buffer_of(samples);
    let (width, height) = (columns.len(), rows.len());
    let taps = || columns.iter().chain(&rows);
    let cells: Vec<u32> = taps().flat_map(|tap| [tap.first, tap.second]).collect();
    let shares: Vec<f32> = taps().map(|tap| tap.share).collect();
    let output = empty_like(&samples, [height, width], DType::U32);
    let (count, dim) = launch_grid(width, height);
    bilinear_kernel::launch(
        &output.client,
        count,
        dim,
        samples.clone().into_buffer_arg(),
        upload_table(&samples, &cells).into_buffer_arg(),
        upload_table(&samples, &shares).into_buffer_arg(),
        output.clone().into_buffer_arg(),
        scalar(grid_width),
        scalar(width),
        scalar(height),
    );
    tensor_of(output)
}
