//! Trimaps on the GPU: two kernels for the minimum and maximum filters on the grid, and one for the labels.
//!
//! The filters run over windows along the lines, then over the chords that the windows cover. Labels are u32.

use burn::tensor::{DType, Int, Tensor};
use cubecl::prelude::*;

use super::{BACKGROUND, Chords, FOREGROUND, Params, UNKNOWN};
use crate::device::{buffer_of, empty_like, launch_grid, scalar, step, tensor_of, upload_table};
use crate::mask_upsample::gpu::{Stretch, stretch, stretched};

#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Lines {
    columns: u32,
    rows: u32,
    // Cells of a line, and step from cell to cell.
    length: u32,
    step: u32,
    // Number of lines, and step from line to line.
    lines: u32,
    stride: u32,
}

/// Lowest and highest value of the windows of each level around each cell: `levels` consecutive planes.
#[cube(launch)]
fn windows_kernel(mask: &[f32], half_widths: &[u32], low: &mut [f32], high: &mut [f32], over: &Lines, levels: u32) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= over.columns || y >= over.rows {
        terminate!();
    }
    let at = y * over.columns + x;
    let place = at / over.step % over.length;
    let line = at - place * over.step;
    let mut lowest = mask[at as usize];
    let mut highest = mask[at as usize];
    for level in 0..levels {
        let half_width = half_widths[level as usize];
        for distance in 0..half_width + 1 {
            // Indices outside the grid are clamped to its border, which is then in the window.
            let before = place - min(place, distance);
            let after = min(place + distance, over.length - 1);
            let one = mask[(line + before * over.step) as usize];
            let other = mask[(line + after * over.step) as usize];
            lowest = min(lowest, min(one, other));
            highest = max(highest, max(one, other));
        }
        let to = (level * over.rows * over.columns + at) as usize;
        low[to] = lowest;
        high[to] = highest;
    }
}

/// Lowest and highest value over the chords around each cell. `chords`: level, distance and shift of each.
#[cube(launch)]
fn extremes_kernel(
    low_windows: &[f32],
    high_windows: &[f32],
    chords: &[u32],
    raised: &[f32],
    low: &mut [f32],
    high: &mut [f32],
    over: &Lines,
    count: u32,
    // 1, or 0 for a plane of a single value.
    raised_step: u32,
) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= over.columns || y >= over.rows {
        terminate!();
    }
    let at = y * over.columns + x;
    let place = at / over.step % over.length;
    let line = at / over.stride % over.lines;
    // The windows of the first level are single cells.
    let mut lowest = low_windows[at as usize];
    let mut highest = high_windows[at as usize];
    for chord in 0..count {
        let level = chords[(3 * chord) as usize];
        let distance = chords[(3 * chord + 1) as usize];
        let shift = chords[(3 * chord + 2) as usize];
        let before = place - min(place, shift);
        let after = min(place + shift, over.length - 1);
        for side in 0u32..2u32 {
            let above = select(distance <= line, line - min(line, distance), over.lines);
            let from = select(side == 0, above, line + distance);
            if from < over.lines {
                let start = level * over.rows * over.columns + from * over.stride;
                let first = (start + before * over.step) as usize;
                let middle = (start + place * over.step) as usize;
                let third = (start + after * over.step) as usize;
                lowest = min(lowest, min(low_windows[middle], min(low_windows[first], low_windows[third])));
                highest = max(highest, max(high_windows[middle], max(high_windows[first], high_windows[third])));
            }
        }
    }
    low[at as usize] = lowest;
    high[at as usize] = max(highest, raised[(at * raised_step) as usize]);
}

#[cube(launch)]
fn label_kernel(low: &[f32], high: &[f32], labels: &mut [u32], over: &Stretch, foreground: f32, background: f32) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= over.width || y >= over.height {
        terminate!();
    }
    let mut label = u32::cast_from(UNKNOWN);
    if stretched(low, x, y, over) >= foreground {
        label = u32::cast_from(FOREGROUND);
    } else if stretched(high, x, y, over) <= background {
        label = u32::cast_from(BACKGROUND);
    }
    labels[(y * over.width + x) as usize] = label;
}

/// The trimap of a picture of `width` × `height` from its `mask` (f32 `[rows, columns]`): u32 `[height, width]`, on the
/// mask's device. The highest value around a cell counts as at least `raised` (the mask's shape, or `[1, 1]`): where
/// that exceeds the threshold, background becomes unknown.
#[must_use]
pub fn trimap(mask: Tensor<2>, raised: Tensor<2>, height: usize, width: usize, params: Params) -> Tensor<2, Int> {
    let [rows, columns] = mask.dims();
    let mask = buffer_of(mask);
    let raised = buffer_of(raised);
    let raised_step = step(&raised);
    let Chords { down, half_widths, chords } = Chords::new(params.radii, [columns, rows]);
    let levels = half_widths.len();
    let half_widths: Vec<u32> = half_widths.into_iter().map(scalar).collect();
    let chords = chords.into_iter().flat_map(|chord| [chord.level, chord.distance, chord.shift]);
    let chords: Vec<u32> = chords.map(scalar).collect();
    let low_windows = empty_like(&mask, [levels, rows, columns], DType::F32);
    let high_windows = empty_like(&mask, [levels, rows, columns], DType::F32);
    let low = empty_like(&mask, [rows, columns], DType::F32);
    let high = empty_like(&mask, [rows, columns], DType::F32);
    let labels = empty_like(&mask, [height, width], DType::U32);
    let client = mask.client.clone();
    let [length, stride_along, lines, stride] =
        if down { [rows, columns, columns, 1] } else { [columns, 1, rows, columns] };
    let over = || {
        LinesLaunch::new(
            scalar(columns),
            scalar(rows),
            scalar(length),
            scalar(stride_along),
            scalar(lines),
            scalar(stride),
        )
    };
    let (count, dim) = launch_grid(columns, rows);
    windows_kernel::launch(
        &client,
        count,
        dim,
        mask.clone().into_buffer_arg(),
        upload_table(&mask, &half_widths).into_buffer_arg(),
        low_windows.clone().into_buffer_arg(),
        high_windows.clone().into_buffer_arg(),
        over(),
        scalar(levels),
    );
    let (count, dim) = launch_grid(columns, rows);
    extremes_kernel::launch(
        &client,
        count,
        dim,
        low_windows.into_buffer_arg(),
        high_windows.into_buffer_arg(),
        upload_table(&mask, &chords).into_buffer_arg(),
        raised.into_buffer_arg(),
        low.clone().into_buffer_arg(),
        high.clone().into_buffer_arg(),
        over(),
        scalar(chords.len() / 3),
        raised_step,
    );
    let (count, dim) = launch_grid(width, height);
    label_kernel::launch(
        &client,
        count,
        dim,
        low.into_buffer_arg(),
        high.into_buffer_arg(),
        labels.clone().into_buffer_arg(),
        stretch((columns, rows), (width, height)),
        params.foreground,
        params.background,
    );
    tensor_of(labels)
}
