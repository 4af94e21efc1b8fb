//! Foreground relaxation on the GPU, a level at a time.
//!
//! Colours are packed as in pictures, u32 `[2, H, W]`: foreground, then background. On larger levels a work item takes
//! both steps, and recomputes its neighbours' first step from the coarser level: cheaper than planes of f32 in memory.

#![allow(clippy::collapsible_if, reason = "the outer condition is one of the kernel's compilation")]

use burn::tensor::{DType, Int, Tensor};
use cubecl::prelude::*;

use super::{SMOOTHNESS, STEPS, steps};
use crate::device::{buffer_of, empty_like, launch_grid, scalar, tensor_of};
use crate::prolongation::gpu::beside;
use crate::srgb::gpu::{byte, unit};

const _: () = assert!(STEPS == 2, "a work item takes two steps");

/// A step of 8-bit colour, and a sixteenth of it.
const UNIT: f32 = 1.0 / 255.0;
const SIXTEENTH: f32 = 1.0 / (16.0 * 255.0);

#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Sizes {
    width: u32,
    height: u32,
    columns: u32,
    rows: u32,
}

#[derive(CubeType, Clone, Copy)]
struct Colour {
    red: f32,
    green: f32,
    blue: f32,
}

/// Foreground and background of a pixel.
#[derive(CubeType, Clone, Copy)]
struct Pair {
    front: Colour,
    back: Colour,
}

/// The four neighbours of a pixel, and their weights. Outside the picture the neighbour is the pixel itself.
#[derive(CubeType, Clone, Copy)]
struct Around {
    above: u32,
    below: u32,
    left: u32,
    right: u32,
    w_above: f32,
    w_below: f32,
    w_left: f32,
    w_right: f32,
}

#[cube]
fn alpha(coverage: &[u32], x: u32, y: u32, width: u32) -> f32 {
    f32::cast_from(coverage[(y * width + x) as usize]) * UNIT
}

#[cube]
fn around(coverage: &[u32], x: u32, y: u32, sizes: &Sizes) -> Around {
    let above = y - min(y, 1u32);
    let below = min(y + 1, sizes.height - 1);
    let left = x - min(x, 1u32);
    let right = min(x + 1, sizes.width - 1);
    let a = alpha(coverage, x, y, sizes.width);
    Around {
        above,
        below,
        left,
        right,
        w_above: SMOOTHNESS + f32::abs(a - alpha(coverage, x, above, sizes.width)),
        w_below: SMOOTHNESS + f32::abs(a - alpha(coverage, x, below, sizes.width)),
        w_left: SMOOTHNESS + f32::abs(a - alpha(coverage, left, y, sizes.width)),
        w_right: SMOOTHNESS + f32::abs(a - alpha(coverage, right, y, sizes.width)),
    }
}

/// A colour of pixel (`x`, `y`) from the coarser level's colours, which begin at `first`: bilinear.
#[cube]
fn started(coarser: &[u32], first: u32, x: u32, y: u32, sizes: &Sizes) -> Colour {
    let near = first + y / 2 * sizes.columns;
    let far = first + beside(y, sizes.rows) * sizes.columns;
    let parent = x / 2;
    let next = beside(x, sizes.columns);
    let a = coarser[(near + parent) as usize];
    let b = coarser[(far + parent) as usize];
    let c = coarser[(near + next) as usize];
    let d = coarser[(far + next) as usize];
    // Two channels at a time, each in sixteen bits.
    let even = 9 * (a & 0x00ff_00ff) + 3 * (b & 0x00ff_00ff) + 3 * (c & 0x00ff_00ff) + (d & 0x00ff_00ff);
    let green = 9 * ((a >> 8) & 255) + 3 * ((b >> 8) & 255) + 3 * ((c >> 8) & 255) + ((d >> 8) & 255);
    Colour {
        red: f32::cast_from(even & 0xffff) * SIXTEENTH,
        green: f32::cast_from(green) * SIXTEENTH,
        blue: f32::cast_from(even >> 16) * SIXTEENTH,
    }
}

#[cube]
fn mixed(over: &Around, above: &Colour, below: &Colour, left: &Colour, right: &Colour) -> Colour {
    let sum = over.w_above + over.w_below + over.w_left + over.w_right;
    Colour {
        red: (over.w_above * above.red + over.w_below * below.red + over.w_left * left.red + over.w_right * right.red)
            / sum,
        green: (over.w_above * above.green
            + over.w_below * below.green
            + over.w_left * left.green
            + over.w_right * right.green)
            / sum,
        blue: (over.w_above * above.blue
            + over.w_below * below.blue
            + over.w_left * left.blue
            + over.w_right * right.blue)
            / sum,
    }
}

/// A step of one channel: shares out the difference of `value` from the mixture of the neighbours' means.
#[cube]
fn moved(mean: f32, front: f32, back: f32, value: u32, a: f32, by: f32) -> f32 {
    let value = f32::cast_from(value & 255) * UNIT;
    unit(mean + by * (value - a * front - (1.0 - a) * back))
}

/// A step of a pixel, from the means of its neighbours' colours.
#[cube]
fn relaxed(pixel: u32, a: f32, over: &Around, front: &Colour, back: &Colour) -> Pair {
    let rest = 1.0 - a;
    let sum = over.w_above + over.w_below + over.w_left + over.w_right;
    let share = 1.0 / (a * a + rest * rest + sum);
    let of_front = a * share;
    let of_back = rest * share;
    Pair {
        front: Colour {
            red: moved(front.red, front.red, back.red, pixel, a, of_front),
            green: moved(front.green, front.green, back.green, pixel >> 8, a, of_front),
            blue: moved(front.blue, front.blue, back.blue, pixel >> 16, a, of_front),
        },
        back: Colour {
            red: moved(back.red, front.red, back.red, pixel, a, of_back),
            green: moved(back.green, front.green, back.green, pixel >> 8, a, of_back),
            blue: moved(back.blue, front.blue, back.blue, pixel >> 16, a, of_back),
        },
    }
}

/// Pixel (`x`, `y`) after the first step.
#[cube]
fn once(picture: &[u32], coverage: &[u32], coarser: &[u32], x: u32, y: u32, sizes: &Sizes) -> Pair {
    let over = around(coverage, x, y, sizes);
    let back = sizes.columns * sizes.rows;
    let front = mixed(
        &over,
        &started(coarser, 0u32, x, over.above, sizes),
        &started(coarser, 0u32, x, over.below, sizes),
        &started(coarser, 0u32, over.left, y, sizes),
        &started(coarser, 0u32, over.right, y, sizes),
    );
    let back = mixed(
        &over,
        &started(coarser, back, x, over.above, sizes),
        &started(coarser, back, x, over.below, sizes),
        &started(coarser, back, over.left, y, sizes),
        &started(coarser, back, over.right, y, sizes),
    );
    let at = (y * sizes.width + x) as usize;
    relaxed(picture[at], alpha(coverage, x, y, sizes.width), &over, &front, &back)
}

#[cube]
fn packed(colour: &Colour) -> u32 {
    byte(colour.red) | (byte(colour.green) << 8) | (byte(colour.blue) << 16)
}

/// Both steps of a level. With `only_partial` only the partly covered pixels.
#[cube(launch)]
fn relax_twice_kernel(
    picture: &[u32],
    coverage: &[u32],
    coarser: &[u32],
    colours: &mut [u32],
    sizes: &Sizes,
    #[comptime] only_partial: bool,
) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= sizes.width || y >= sizes.height {
        terminate!();
    }
    let at = (y * sizes.width + x) as usize;
    if comptime!(only_partial) {
        if coverage[at] == 0 || coverage[at] == 255 {
            terminate!();
        }
    }
    let over = around(coverage, x, y, sizes);
    let above = once(picture, coverage, coarser, x, over.above, sizes);
    let below = once(picture, coverage, coarser, x, over.below, sizes);
    let left = once(picture, coverage, coarser, over.left, y, sizes);
    let right = once(picture, coverage, coarser, over.right, y, sizes);
    let front = mixed(&over, &above.front, &below.front, &left.front, &right.front);
    let back = mixed(&over, &above.back, &below.back, &left.back, &right.back);
    let pair = relaxed(picture[at], alpha(coverage, x, y, sizes.width), &over, &front, &back);
    colours[at] = packed(&pair.front);
    colours[at + (sizes.width * sizes.height) as usize] = packed(&pair.back);
}

/// Initial values of a small level. `values`: `[2, 3, H, W]`.
#[cube(launch)]
fn start_kernel(coarser: &[u32], values: &mut [f32], sizes: &Sizes) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= sizes.width || y >= sizes.height {
        terminate!();
    }
    let front = started(coarser, 0u32, x, y, sizes);
    let back = started(coarser, sizes.columns * sizes.rows, x, y, sizes);
    store(values, &front, y * sizes.width + x, sizes.width * sizes.height);
    store(values, &back, y * sizes.width + x + 3 * sizes.width * sizes.height, sizes.width * sizes.height);
}

#[cube]
fn store(values: &mut [f32], colour: &Colour, at: u32, plane: u32) {
    values[at as usize] = colour.red;
    values[(at + plane) as usize] = colour.green;
    values[(at + 2 * plane) as usize] = colour.blue;
}

#[cube]
fn load(values: &[f32], at: u32, plane: u32) -> Colour {
    Colour { red: values[at as usize], green: values[(at + plane) as usize], blue: values[(at + 2 * plane) as usize] }
}

#[cube(launch)]
fn relax_kernel(picture: &[u32], coverage: &[u32], values: &[f32], next: &mut [f32], sizes: &Sizes) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= sizes.width || y >= sizes.height {
        terminate!();
    }
    let over = around(coverage, x, y, sizes);
    let at = y * sizes.width + x;
    let plane = sizes.width * sizes.height;
    let above = over.above * sizes.width + x;
    let below = over.below * sizes.width + x;
    let left = y * sizes.width + over.left;
    let right = y * sizes.width + over.right;
    let front = mixed(
        &over,
        &load(values, above, plane),
        &load(values, below, plane),
        &load(values, left, plane),
        &load(values, right, plane),
    );
    let back = mixed(
        &over,
        &load(values, above + 3 * plane, plane),
        &load(values, below + 3 * plane, plane),
        &load(values, left + 3 * plane, plane),
        &load(values, right + 3 * plane, plane),
    );
    let pair = relaxed(picture[at as usize], alpha(coverage, x, y, sizes.width), &over, &front, &back);
    store(next, &pair.front, at, plane);
    store(next, &pair.back, at + 3 * plane, plane);
}

#[cube(launch)]
fn pack_kernel(values: &[f32], colours: &mut [u32], sizes: &Sizes) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= sizes.width || y >= sizes.height {
        terminate!();
    }
    let at = y * sizes.width + x;
    let plane = sizes.width * sizes.height;
    colours[at as usize] = packed(&load(values, at, plane));
    colours[(at + plane) as usize] = packed(&load(values, at + 3 * plane, plane));
}

/// The colours of a level (u32 `[2, H, W]`, foreground and background) that explain `picture` (packed, u32 `[H, W]`)
/// with `coverage` (u32 `[H, W]`), initialised by the `coarser` level, on their device. With `only_partial` the colours
/// of other than partly covered pixels are undefined.
#[must_use]
pub fn relax(
    picture: Tensor<2, Int>,
    coverage: Tensor<2, Int>,
    coarser: Tensor<3, Int>,
    only_partial: bool,
) -> Tensor<3, Int> {
    let [height, width] = picture.dims();
    let [_, rows, columns] = coarser.dims();
    let picture = buffer_of(picture);
    let coverage = buffer_of(coverage);
    let coarser = buffer_of(coarser);
    let sizes = || SizesLaunch::new(scalar(width), scalar(height), scalar(columns), scalar(rows));
    let colours = empty_like(&picture, [2, height, width], DType::U32);
    let client = picture.client.clone();
    let (count, dim) = launch_grid(width, height);
    let steps = steps([width, height]);
    if steps == STEPS {
        relax_twice_kernel::launch(
            &client,
            count,
            dim,
            picture.into_buffer_arg(),
            coverage.into_buffer_arg(),
            coarser.into_buffer_arg(),
            colours.clone().into_buffer_arg(),
            sizes(),
            only_partial,
        );
        return tensor_of(colours);
    }
    let mut values = empty_like(&picture, [2, 3, height, width], DType::F32);
    let mut next = empty_like(&picture, [2, 3, height, width], DType::F32);
    start_kernel::launch(
        &client,
        count.clone(),
        dim,
        coarser.into_buffer_arg(),
        values.clone().into_buffer_arg(),
        sizes(),
    );
    for _ in 0..steps {
        relax_kernel::launch(
            &client,
            count.clone(),
            dim,
            picture.clone().into_buffer_arg(),
            coverage.clone().into_buffer_arg(),
            values.clone().into_buffer_arg(),
            next.clone().into_buffer_arg(),
            sizes(),
        );
        std::mem::swap(&mut values, &mut next);
    }
    pack_kernel::launch(&client, count, dim, values.into_buffer_arg(), colours.clone().into_buffer_arg(), sizes());
    tensor_of(colours)
}
