//! Bilinear interpolation on the GPU: a work item for each pixel.

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::{DType, Int, Tensor};
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::Tap;
use crate::device::{empty_like, host_floats, host_int_tensor, launch_grid, scalar, upload_table, words_of_bytes};
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

/// The kernel as a burn operation.
#[backend_extension(Flex, Cube)]
pub trait Bilinear: Backend {
    /// `samples`: f32 `[rows, columns, 4]`. Returns u32 `[H, W]`, a tap for each row and column.
    fn bilinear(samples: FloatTensor<Self>, columns: Vec<Tap>, rows: Vec<Tap>) -> IntTensor<Self>;
}

impl Bilinear for Flex {
    fn bilinear(samples: FloatTensor<Self>, columns: Vec<Tap>, rows: Vec<Tap>) -> IntTensor<Self> {
        let [_, grid_width, _] = samples.shape().dims();
        let samples = host_floats(samples);
        let (samples, _) = samples.as_chunks::<4>();
        let (width, height) = (columns.len(), rows.len());
        let (transparent, mut line) = (vec![0; 4 * width], Vec::new());
        let mut pixels = vec![0; 4 * width * height];
        for (to, row) in pixels.chunks_exact_mut(4 * width).zip(rows) {
            super::cpu::row(samples, grid_width, (&columns, row), &transparent, &mut line, to);
        }
        host_int_tensor(words_of_bytes(&pixels), [height, width])
    }
}

impl Bilinear for CubeBackend {
    fn bilinear(samples: FloatTensor<Self>, columns: Vec<Tap>, rows: Vec<Tap>) -> IntTensor<Self> {
        let samples: CubeTensor = into_contiguous(samples);
        let [_, grid_width, _] = samples.shape().dims();
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
        output
    }
}

/// The pixels (u32 `[H, W]`) of a canvas between the cells of `samples` (f32 `[rows, columns, 4]`), on their device.
#[must_use]
pub fn bilinear(samples: Tensor<3>, columns: Vec<Tap>, rows: Vec<Tap>) -> Tensor<2, Int> {
    Tensor::from_dispatch(<Dispatch as Bilinear>::bilinear(samples.into_dispatch(), columns, rows))
}
