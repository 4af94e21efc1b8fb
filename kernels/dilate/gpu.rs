//! Dilation of a packed picture's alpha on the GPU: a work item for each column, then for each pixel to search its row.

use burn::tensor::{DType, Int, Tensor};
use cubecl::prelude::*;

use super::cpu::{LEAST_GAIN, MAX_STEPS};
use super::{Limits, MAX_RADIUS, SEED};
use crate::device::{buffer_of, empty_like, launch_grid, scalar, tensor_of};
use crate::srgb::gpu::{byte, unit};

/// No seed within reach in this column.
const NONE: i32 = 0x7FFF;

#[cube(launch)]
fn columns_kernel(picture: &[u32], offsets: &mut [i32], width: u32, height: u32, reach: i32) {
    let x = ABSOLUTE_POS_X;
    if x >= width || ABSOLUTE_POS_Y > 0 {
        terminate!();
    }
    let mut away = i32::cast_from(NONE);
    for y in 0..height {
        let at = (y * width + x) as usize;
        away = select(picture[at] >> 24 >= u32::cast_from(SEED), 0i32, min(away + 1, NONE));
        offsets[at] = away;
    }
    away = i32::cast_from(NONE);
    for from_below in 0..height {
        let at = ((height - 1 - from_below) * width + x) as usize;
        away = select(picture[at] >> 24 >= u32::cast_from(SEED), 0i32, min(away + 1, NONE));
        let above = offsets[at];
        let nearest = select(away < above, away, -above);
        offsets[at] = select(min(away, above) > reach, i32::cast_from(NONE), nearest);
    }
}

#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Shape {
    width: u32,
    height: u32,
    radius: f32,
    near: i32,
    far: i32,
    steps: u32,
}

#[derive(CubeType, Clone, Copy)]
struct Direction {
    long: f32,
    short: f32,
    length: f32,
}

#[cube]
fn direction(x: i32, y: i32, column: i32, row: i32) -> Direction {
    let across = f32::cast_from(max(x - column, column - x));
    let down = f32::cast_from(max(y - row, row - y));
    let (longer, shorter) = (max(across, down), min(across, down));
    let mut long = f32::new(1.0);
    let mut short = f32::new(0.0);
    let mut length = f32::new(0.0);
    if longer > 0.0 {
        length = f32::sqrt(longer * longer + shorter * shorter);
        long = longer / length;
        short = shorter / length;
    }
    Direction { long, short, length }
}

#[cube]
fn edge_distance(away: &Direction, covered: f32) -> f32 {
    let corner = 0.5 * away.short / away.long;
    let reach = 0.5 * (away.long + away.short);
    let mut beyond = (covered - 0.5) * away.long;
    if covered < corner {
        beyond = f32::sqrt(2.0 * away.long * away.short * covered) - reach;
    } else if covered > 1.0 - corner {
        beyond = reach - f32::sqrt(2.0 * away.long * away.short * (1.0 - covered));
    }
    away.length - beyond
}

#[cube]
fn share_within(away: &Direction, beyond: f32) -> f32 {
    let left = 0.5 * (away.long + away.short) - f32::abs(beyond);
    let mut cut = 0.5 - f32::abs(beyond) / away.long;
    if left <= 0.0 {
        cut = f32::new(0.0);
    } else if left < away.short {
        cut = left * left / (2.0 * away.long * away.short);
    }
    select(beyond < 0.0, cut, 1.0 - cut)
}

/// Coverage of a pixel, 0 outside.
#[cube]
fn covered(picture: &[u32], column: i32, row: i32, shape: &Shape) -> u32 {
    // A step to the left of column 0 wraps to a column beyond the last one.
    let x = u32::cast_from(column);
    let y = u32::cast_from(row);
    let mut covered = 0u32;
    if x < shape.width && y < shape.height {
        covered = picture[(y * shape.width + x) as usize] >> 24;
    }
    covered
}

/// Distance to the edge by the pixel at (`column`, `row`) if it belongs to the shape, else more than every distance.
#[cube]
fn distance_by(picture: &[u32], x: i32, y: i32, column: i32, row: i32, shape: &Shape) -> f32 {
    let here = covered(picture, column, row, shape);
    let mut most = here;
    if here > 0 && here < u32::cast_from(SEED) {
        for neighbour in 0..9i32 {
            most = max(most, covered(picture, column + neighbour % 3 - 1, row + neighbour / 3 - 1, shape));
        }
    }
    let mut distance = f32::new(1e9);
    if here > 0 && most >= u32::cast_from(SEED) {
        distance = edge_distance(&direction(x, y, column, row), f32::cast_from(here) / 255.0);
    }
    distance
}

#[cube(launch)]
fn rows_kernel(picture: &[u32], offsets: &[i32], output: &mut [u32], shape: &Shape) {
    if ABSOLUTE_POS_X >= shape.width || ABSOLUTE_POS_Y >= shape.height {
        terminate!();
    }
    let x = i32::cast_from(ABSOLUTE_POS_X);
    let y = i32::cast_from(ABSOLUTE_POS_Y);
    let width = i32::cast_from(shape.width);
    let start = ABSOLUTE_POS_Y * shape.width;
    let at = (start + ABSOLUTE_POS_X) as usize;

    // The leftmost of the nearest seeds.
    let mut squared = shape.far;
    let mut column = x;
    let mut offset = offsets[at];
    if offset != NONE {
        squared = min(offset * offset, shape.far);
    }
    let mut away = 1i32;
    while away * away <= squared && away < width {
        if away <= x {
            let left = offsets[(start + u32::cast_from(x - away)) as usize];
            if left != NONE && left * left + away * away <= squared {
                squared = left * left + away * away;
                column = x - away;
                offset = left;
            }
        }
        if x + away < width {
            let right = offsets[(start + u32::cast_from(x + away)) as usize];
            if right != NONE && right * right + away * away < squared {
                squared = right * right + away * away;
                column = x + away;
                offset = right;
            }
        }
        away += 1;
    }

    let mut result = 0u32;
    if squared <= shape.near {
        result = 255u32;
    } else if squared < shape.far {
        // Walks along the edge to its nearest pixel.
        let mut row = y + offset;
        let mut nearest = distance_by(picture, x, y, column, row, shape);
        let mut left = shape.steps;
        while left > 0 {
            let mut least = nearest - LEAST_GAIN;
            let mut step = 4i32;
            for neighbour in 0..9i32 {
                let there = distance_by(picture, x, y, column + neighbour % 3 - 1, row + neighbour / 3 - 1, shape);
                if there < least {
                    least = there;
                    step = neighbour;
                }
            }
            left -= 1;
            if step == 4 {
                left = 0u32;
            } else {
                nearest = least;
                column += step % 3 - 1;
                row += step / 3 - 1;
            }
        }
        result = byte(unit(share_within(&direction(x, y, column, row), shape.radius - nearest)));
    }
    output[at] = result;
}

/// Coverage (u32 `[H, W]`, 0..=255) of everything within `radius` > 0 pixels of what `picture` (u32 `[H, W]`, packed RGBA8)
/// covers, on its device.
#[must_use]
pub fn dilate(picture: Tensor<2, Int>, radius: f32) -> Tensor<2, Int> {
    let [height, width] = picture.dims();
    let picture = buffer_of(picture);
    let limits = Limits::new(radius.min(MAX_RADIUS));
    let small = |squared: i64| i32::try_from(squared).expect("the radius is limited");
    let client = picture.client.clone();
    let offsets = empty_like(&picture, [height, width], DType::I32);
    let output = empty_like(&picture, [height, width], DType::U32);
    let (count, dim) = launch_grid(width, 1);
    columns_kernel::launch(
        &client,
        count,
        dim,
        picture.clone().into_buffer_arg(),
        offsets.clone().into_buffer_arg(),
        scalar(width),
        scalar(height),
        small(limits.reach as i64),
    );
    let shape = ShapeLaunch::new(
        scalar(width),
        scalar(height),
        radius.min(MAX_RADIUS),
        small(limits.near),
        small(limits.far),
        MAX_STEPS,
    );
    let (count, dim) = launch_grid(width, height);
    rows_kernel::launch(
        &client,
        count,
        dim,
        picture.into_buffer_arg(),
        offsets.into_buffer_arg(),
        output.clone().into_buffer_arg(),
        shape,
    );
    tensor_of(output)
}
