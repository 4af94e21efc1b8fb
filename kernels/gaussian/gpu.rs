//! Gaussian blur on the GPU: the three boxes as one filter, along the rows, then along the columns.
//!
//! One work item a sample: running sums would leave most of a GPU idle.

use burn::tensor::{DType, Tensor};
use cubecl::prelude::*;

use super::{Border, ExtendedBox};
use crate::device::{buffer_of, empty_like, launch_grid, scalar, tensor_of, upload_table};

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

/// Blurs `samples` (f32 `[H, W, C]`) by `sigma` pixels, on their device. A `sigma` of 0 or less changes nothing.
#[must_use]
pub fn gaussian(samples: Tensor<3>, sigma: f32, border: Border) -> Tensor<3> {
    if sigma.is_nan() || sigma <= 0.0 {
        return samples;
    }
    let [height, width, channels] = samples.dims();
    let samples = buffer_of(samples);
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
    tensor_of(blurred)
}
