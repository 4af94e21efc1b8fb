//! Gaussian blur on the GPU: the three boxes as one filter, along the rows, then along the columns.
//!
//! One work item a sample: running sums would leave most of a GPU idle.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::{DType, Tensor};
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::{Border, ExtendedBox};
use crate::device::{empty_like, host_floats, host_tensor, launch_grid, scalar, upload_table};

/// Layout of the lines along one axis.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Lines {
    /// Values in a row of the plane, and rows.
    width: u32,
    height: u32,
    /// Step from sample to sample.
    step: u32,
    length: u32,
    /// 1 for a clamped border, 0 for a zero one.
    clamp: u32,
}

#[cube(launch)]
fn blur_kernel(samples: &[f32], weights: &[f32], output: &mut [f32], lines: &Lines, reach: u32) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= lines.width || y >= lines.height {
        terminate!();
    }
    let at = y * lines.width + x;
    let place = (at / lines.step) % lines.length;
    let start = at - place * lines.step;
    let mut sum = f32::new(0.0);
    for tap in 0..2 * reach + 1 {
        let moved = i32::cast_from(place + tap) - i32::cast_from(reach);
        let inside = u32::cast_from(min(max(moved, i32::new(0)), i32::cast_from(lines.length - 1)));
        if lines.clamp == 1 || i32::cast_from(inside) == moved {
            sum += weights[tap as usize] * samples[(start + inside * lines.step) as usize];
        }
    }
    output[at as usize] = sum;
}

/// The kernel as a burn operation.
#[backend_extension(Flex, Cube)]
pub trait Gaussian: Backend {
    /// `samples`: f32 `[H, W, C]`; `sigma` above 0. Returns f32 `[H, W, C]`.
    fn gaussian(samples: FloatTensor<Self>, sigma: f32, border: Border) -> FloatTensor<Self>;
}

impl Gaussian for Flex {
    fn gaussian(samples: FloatTensor<Self>, sigma: f32, border: Border) -> FloatTensor<Self> {
        let [height, width, channels] = samples.shape().dims();
        let mut values = host_floats(samples);
        for channel in 0..channels {
            let mut plane: Vec<[f32; 1]> =
                values.iter().skip(channel).step_by(channels).map(|value| [*value]).collect();
            super::cpu::blur(&mut plane, width, sigma, border);
            for (value, [blurred]) in values.iter_mut().skip(channel).step_by(channels).zip(plane) {
                *value = blurred;
            }
        }
        host_tensor(values, [height, width, channels])
    }
}

impl Gaussian for CubeBackend {
    fn gaussian(samples: FloatTensor<Self>, sigma: f32, border: Border) -> FloatTensor<Self> {
        let samples: CubeTensor = into_contiguous(samples);
        let [height, width, channels] = samples.shape().dims();
        let filter = ExtendedBox::new(sigma);
        let weights = upload_table(&samples, &filter.weights());
        let clamp = match border {
            Border::Zero => 0,
            Border::Clamp => 1,
        };
        let mut blurred = samples;
        for (step, length) in [(channels, width), (width * channels, height)] {
            let output = empty_like(&blurred, [height, width, channels], DType::F32);
            let (count, dim) = launch_grid(width * channels, height);
            let lines = LinesLaunch::new(scalar(width * channels), scalar(height), scalar(step), scalar(length), clamp);
            blur_kernel::launch(
                &output.client,
                count,
                dim,
                blurred.into_buffer_arg(),
                weights.clone().into_buffer_arg(),
                output.clone().into_buffer_arg(),
                lines,
                scalar(filter.reach()),
            );
            blurred = output;
        }
        blurred
    }
}

/// Blurs `samples` (f32 `[H, W, C]`) by `sigma` pixels, on their device. A `sigma` of 0 or less changes nothing.
#[must_use]
pub fn gaussian(samples: Tensor<3>, sigma: f32, border: Border) -> Tensor<3> {
    if sigma.is_nan() || sigma <= 0.0 {
        return samples;
    }
    Tensor::from_dispatch(<Dispatch as Gaussian>::gaussian(samples.into_dispatch(), sigma, border))
}
