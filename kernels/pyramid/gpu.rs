//! Halving on the GPU: one work item for each pixel of the half.

use burn::tensor::{DType, Int, Tensor};
use cubecl::prelude::*;

use super::{Mix, half_size};
use crate::device::{buffer_of, empty_like, launch_grid, scalar, tensor_of};
use crate::trimap::UNKNOWN;

#[cube(launch)]
fn halve_kernel(plane: &[u32], half: &mut [u32], width: u32, height: u32, #[comptime] mix: Mix) {
    let half_width = width - width / 2;
    let half_height = height - height / 2;
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= half_width || y >= half_height {
        terminate!();
    }
    let left = 2 * x;
    let right = min(left + 1, width - 1);
    let above = 2 * y * width;
    let below = min(2 * y + 1, height - 1) * width;
    let a = plane[(above + left) as usize];
    let b = plane[(above + right) as usize];
    let c = plane[(below + left) as usize];
    let d = plane[(below + right) as usize];
    let at = (y * half_width + x) as usize;
    if comptime!(mix == Mix::Colour) {
        // Two channels at a time, each in sixteen bits.
        let even = (a & 0x00ff_00ff) + (b & 0x00ff_00ff) + (c & 0x00ff_00ff) + (d & 0x00ff_00ff) + 0x0002_0002;
        let odd = ((a >> 8) & 0x00ff_00ff)
            + ((b >> 8) & 0x00ff_00ff)
            + ((c >> 8) & 0x00ff_00ff)
            + ((d >> 8) & 0x00ff_00ff)
            + 0x0002_0002;
        half[at] = ((even >> 2) & 0x00ff_00ff) | (((odd >> 2) & 0x00ff_00ff) << 8);
    } else if comptime!(mix == Mix::Coverage) {
        half[at] = (a + b + c + d + 2) / 4;
    } else {
        let agree = a == b && a == c && a == d;
        half[at] = select(agree, a, u32::cast_from(UNKNOWN));
    }
}

/// Half of `plane` (u32 `[H, W]`: packed RGBA8, coverage or labels), on its device.
#[must_use]
pub fn halve(plane: Tensor<2, Int>, mix: Mix) -> Tensor<2, Int> {
    let [height, width] = plane.dims();
    let plane = buffer_of(plane);
    let [half_width, half_height] = half_size([width, height]);
    let half = empty_like(&plane, [half_height, half_width], DType::U32);
    let (count, dim) = launch_grid(half_width, half_height);
    halve_kernel::launch(
        &half.client,
        count,
        dim,
        plane.into_buffer_arg(),
        half.clone().into_buffer_arg(),
        scalar(width),
        scalar(height),
        mix,
    );
    tensor_of(half)
}
