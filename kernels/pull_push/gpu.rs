//! Pull-push on the GPU: one kernel per level and direction, one work item a sample.
//!
//! The largest weight is reduced on the device, so that nothing is read back.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::{DType, Tensor};
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use crate::device::{empty_like, host_floats, host_tensor, launch_grid, scalar};

/// One step of the maximum's reduction: the largest of each 2 × 2 weights. `stride` values a weight.
#[cube(launch)]
fn largest_kernel(weights: &[f32], output: &mut [f32], width: u32, height: u32, columns: u32, rows: u32, stride: u32) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= columns || y >= rows {
        terminate!();
    }
    let right = min(2 * x + 1, width - 1);
    let below = min(2 * y + 1, height - 1);
    let last = stride - 1;
    let upper = max(
        weights[((2 * y * width + 2 * x) * stride + last) as usize],
        weights[((2 * y * width + right) * stride + last) as usize],
    );
    let lower = max(
        weights[((below * width + 2 * x) * stride + last) as usize],
        weights[((below * width + right) * stride + last) as usize],
    );
    output[(y * columns + x) as usize] = max(upper, lower);
}

#[cube(launch)]
fn scale_kernel(samples: &[f32], largest: &[f32], output: &mut [f32], width: u32, height: u32) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= width || y >= height {
        terminate!();
    }
    let largest = largest[0];
    let by = select(largest > 0.0, largest, f32::new(1.0));
    let at = (4 * (y * width + x)) as usize;
    for channel in 0..4usize {
        output[at + channel] = samples[at + channel] / by;
    }
}

#[cube(launch)]
fn pull_kernel(samples: &[f32], output: &mut [f32], width: u32, height: u32, columns: u32, rows: u32) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= columns || y >= rows {
        terminate!();
    }
    let mut red = f32::new(0.0);
    let mut green = f32::new(0.0);
    let mut blue = f32::new(0.0);
    let mut weight = f32::new(0.0);
    for below in 0u32..4u32 {
        let column = 2 * x + (below & 1);
        let row = 2 * y + (below >> 1);
        if column < width && row < height {
            let at = (4 * (row * width + column)) as usize;
            red += samples[at];
            green += samples[at + 1];
            blue += samples[at + 2];
            weight += samples[at + 3];
        }
    }
    let scale = 1.0 / max(weight, f32::new(1.0));
    let at = (4 * (y * columns + x)) as usize;
    output[at] = red * scale;
    output[at + 1] = green * scale;
    output[at + 2] = blue * scale;
    output[at + 3] = weight * scale;
}

/// The neighbour, in the level above, of the sample that contains a sample, on its side.
#[cube]
fn second(at: u32, above: u32) -> u32 {
    let first = at / 2;
    let before = select(first == 0, 0u32, first - 1);
    select(at == 2 * first, before, min(first + 1, above - 1))
}

#[cube(launch)]
fn push_kernel(samples: &[f32], above: &[f32], output: &mut [f32], width: u32, height: u32, columns: u32, rows: u32) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= width || y >= height {
        terminate!();
    }
    let at = (4 * (y * width + x)) as usize;
    let lacking = max(1.0 - samples[at + 3], f32::new(0.0));
    let near = y / 2 * columns;
    let far = second(y, rows) * columns;
    let first = x / 2;
    let next = second(x, columns);
    for channel in 0u32..3u32 {
        let near_first = above[(4 * (near + first) + channel) as usize];
        let near_next = above[(4 * (near + next) + channel) as usize];
        let far_first = above[(4 * (far + first) + channel) as usize];
        let far_next = above[(4 * (far + next) + channel) as usize];
        let mixed = 0.75 * (0.75 * near_first + 0.25 * near_next) + 0.25 * (0.75 * far_first + 0.25 * far_next);
        let here = at + channel as usize;
        output[here] = samples[here] + lacking * mixed;
    }
    output[at + 3] = samples[at + 3];
}

#[cube(launch)]
fn finish_kernel(samples: &[f32], largest: &[f32], output: &mut [f32], width: u32, height: u32) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= width || y >= height {
        terminate!();
    }
    let at = (4 * (y * width + x)) as usize;
    output[at] = samples[at];
    output[at + 1] = samples[at + 1];
    output[at + 2] = samples[at + 2];
    output[at + 3] = select(largest[0] > 0.0, f32::new(1.0), f32::new(0.0));
}

/// The kernel as a burn operation.
#[backend_extension(Flex, Cube, Fusion)]
pub trait PullPush: Backend {
    /// `samples`: f32 `[H, W, 4]`. Returns f32 `[H, W, 4]`.
    #[fusion(dtype = samples, shape = samples)]
    fn pull_push(samples: FloatTensor<Self>) -> FloatTensor<Self>;
}

impl PullPush for Flex {
    fn pull_push(samples: FloatTensor<Self>) -> FloatTensor<Self> {
        let shape = samples.shape();
        let [_, width, _] = shape.dims();
        let mut values = host_floats(samples);
        super::cpu::fill(values.as_chunks_mut::<4>().0, width);
        host_tensor(values, shape)
    }
}

impl PullPush for CubeBackend {
    fn pull_push(samples: FloatTensor<Self>) -> FloatTensor<Self> {
        let samples: CubeTensor = into_contiguous(samples);
        let [height, width, _] = samples.shape().dims();
        let client = samples.client.clone();
        let largest = largest(&samples, width, height);
        let scaled = empty_like(&samples, [height, width, 4], DType::F32);
        let (count, dim) = launch_grid(width, height);
        scale_kernel::launch(
            &client,
            count,
            dim,
            samples.into_buffer_arg(),
            largest.clone().into_buffer_arg(),
            scaled.clone().into_buffer_arg(),
            scalar(width),
            scalar(height),
        );
        let mut pyramid = vec![(scaled, width, height)];
        while let Some((below, width, height)) = pyramid.last().filter(|(_, width, height)| width * height > 1) {
            let (columns, rows) = (width.div_ceil(2), height.div_ceil(2));
            let level = empty_like(below, [rows, columns, 4], DType::F32);
            let (count, dim) = launch_grid(columns, rows);
            pull_kernel::launch(
                &client,
                count,
                dim,
                below.clone().into_buffer_arg(),
                level.clone().into_buffer_arg(),
                scalar(*width),
                scalar(*height),
                scalar(columns),
                scalar(rows),
            );
            pyramid.push((level, columns, rows));
        }
        let (mut above, mut columns, mut rows) = pyramid.pop().expect("there is a level");
        while let Some((level, width, height)) = pyramid.pop() {
            let filled = empty_like(&level, [height, width, 4], DType::F32);
            let (count, dim) = launch_grid(width, height);
            push_kernel::launch(
                &client,
                count,
                dim,
                level.into_buffer_arg(),
                above.into_buffer_arg(),
                filled.clone().into_buffer_arg(),
                scalar(width),
                scalar(height),
                scalar(columns),
                scalar(rows),
            );
            (above, columns, rows) = (filled, width, height);
        }
        let output = empty_like(&above, [height, width, 4], DType::F32);
        let (count, dim) = launch_grid(width, height);
        finish_kernel::launch(
            &client,
            count,
            dim,
            above.into_buffer_arg(),
            largest.into_buffer_arg(),
            output.clone().into_buffer_arg(),
            scalar(width),
            scalar(height),
        );
        output
    }
}

/// The largest weight of `samples`, as a tensor of one value.
fn largest(samples: &CubeTensor, width: usize, height: usize) -> CubeTensor {
    let (mut weights, mut width, mut height, mut stride) = (samples.clone(), width, height, 4);
    loop {
        let (columns, rows) = (width.div_ceil(2), height.div_ceil(2));
        let level = empty_like(samples, [rows, columns], DType::F32);
        let (count, dim) = launch_grid(columns, rows);
        largest_kernel::launch(
            &level.client,
            count,
            dim,
            weights.into_buffer_arg(),
            level.clone().into_buffer_arg(),
            scalar(width),
            scalar(height),
            scalar(columns),
            scalar(rows),
            stride,
        );
        (weights, width, height, stride) = (level, columns, rows, 1);
        if width * height == 1 {
            return weights;
        }
    }
}

/// Fills `samples` (f32 `[H, W, 4]`: colours multiplied by the weight, and the weight), on their device.
/// Where no weight is above 0 nothing changes; else every weight is 1 afterwards.
///
/// # Panics
/// When a sample is not four values.
#[must_use]
pub fn pull_push(samples: Tensor<3>) -> Tensor<3> {
    assert_eq!(samples.dims()[2], 4, "three channels and a weight");
    Tensor::from_dispatch(<Dispatch as PullPush>::pull_push(samples.into_dispatch()))
}
