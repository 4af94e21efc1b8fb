//! Prolongation on the GPU: one work item for each pixel of the finer level.

use burn::tensor::{DType, Int, Tensor};
use cubecl::prelude::*;

use super::DECIDED;
use crate::device::{buffer_of, empty_like, launch_grid, scalar, tensor_of};
use crate::trimap::{BACKGROUND, FOREGROUND, UNKNOWN};

/// A sixteenth of a step of coverage.
const SIXTEENTH: f32 = 1.0 / (16.0 * 255.0);

/// The second nearest parent of pixel `at`, of `parents` in all.
#[cube]
pub(crate) fn beside(at: u32, parents: u32) -> u32 {
    let parent = at / 2;
    select((at & 1) == 0, parent - min(parent, 1u32), min(parent + 1, parents - 1))
}

#[cube(launch)]
fn start_kernel(coarser: &[u32], start: &mut [f32], columns: u32, rows: u32, width: u32, height: u32) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= width || y >= height {
        terminate!();
    }
    let near = y / 2 * columns;
    let far = beside(y, rows) * columns;
    let parent = x / 2;
    let next = beside(x, columns);
    let own = 3 * coarser[(near + parent) as usize] + coarser[(far + parent) as usize];
    let other = 3 * coarser[(near + next) as usize] + coarser[(far + next) as usize];
    start[(y * width + x) as usize] = f32::cast_from(3 * own + other) * SIXTEENTH;
}

#[cube(launch)]
fn decide_kernel(
    coarser: &[u32],
    labels: &[u32],
    decided: &mut [u32],
    columns: u32,
    rows: u32,
    width: u32,
    height: u32,
) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= width || y >= height {
        terminate!();
    }
    let at = (y * width + x) as usize;
    let mut label = labels[at];
    if label == u32::cast_from(UNKNOWN) {
        let mut least = 255u32;
        let mut most = 0u32;
        for row in 0u32..3u32 {
            let from = min(y / 2 + row - min(y / 2 + row, 1u32), rows - 1) * columns;
            for column in 0u32..3u32 {
                let value = coarser[(from + min(x / 2 + column - min(x / 2 + column, 1u32), columns - 1)) as usize];
                least = min(least, value);
                most = max(most, value);
            }
        }
        if most <= u32::cast_from(DECIDED) {
            label = u32::cast_from(BACKGROUND);
        } else if least >= u32::cast_from(255 - DECIDED) {
            label = u32::cast_from(FOREGROUND);
        }
    }
    decided[at] = label;
}

/// Initial alpha of a level of `height` rows of `width` pixels from the coverage of the `coarser` level (u32
/// `[rows, columns]`): f32 `[H, W]`, on its device.
#[must_use]
pub fn start(coarser: Tensor<2, Int>, height: usize, width: usize) -> Tensor<2> {
    let [rows, columns] = coarser.dims();
    let coarser = buffer_of(coarser);
    let start = empty_like(&coarser, [height, width], DType::F32);
    let (count, dim) = launch_grid(width, height);
    start_kernel::launch(
        &start.client,
        count,
        dim,
        coarser.into_buffer_arg(),
        start.clone().into_buffer_arg(),
        scalar(columns),
        scalar(rows),
        scalar(width),
        scalar(height),
    );
    tensor_of(start)
}

/// `labels` (u32 `[H, W]`) after decisions by the `coarser` coverage (u32 `[rows, columns]`), on their device.
#[must_use]
pub fn decide(coarser: Tensor<2, Int>, labels: Tensor<2, Int>) -> Tensor<2, Int> {
    let ([rows, columns], [height, width]) = (coarser.dims(), labels.dims());
    let coarser = buffer_of(coarser);
    let labels = buffer_of(labels);
    let decided = empty_like(&labels, [height, width], DType::U32);
    let (count, dim) = launch_grid(width, height);
    decide_kernel::launch(
        &decided.client,
        count,
        dim,
        coarser.into_buffer_arg(),
        labels.into_buffer_arg(),
        decided.clone().into_buffer_arg(),
        scalar(columns),
        scalar(rows),
        scalar(width),
        scalar(height),
    );
    tensor_of(decided)
}
