//! Coverage of packed pictures on the GPU.

use burn::tensor::{DType, Int, Tensor};
use cubecl::prelude::*;

use super::Fill;
use crate::device::{buffer_of, empty_like, launch_grid, scalar, tensor_of, upload_table};

/// Work items in a row of a list's launch grid, because the list may be longer than one dimension allows.
const LIST_ROW: usize = 4096;

#[cube(launch)]
fn bytes_kernel(picture: &[u32], output: &mut [u32], width: u32, height: u32, columns: u32) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= columns || y >= height {
        terminate!();
    }
    let mut word = 0u32;
    for byte in 0u32..4u32 {
        if 4 * x + byte < width {
            word |= (picture[(y * width + 4 * x + byte) as usize] >> 24) << (8 * byte);
        }
    }
    output[(y * columns + x) as usize] = word;
}

#[cube(launch)]
fn extents_kernel(picture: &[u32], output: &mut [u32], width: u32, height: u32, least: u32) {
    let y = ABSOLUTE_POS_X;
    if y >= height || ABSOLUTE_POS_Y > 0 {
        terminate!();
    }
    let mut first = width;
    let mut end = 0u32;
    for x in 0..width {
        if picture[(y * width + x) as usize] >> 24 >= least {
            first = min(first, x);
            end = x + 1;
        }
    }
    output[(2 * y) as usize] = select(end == 0, 0u32, first);
    output[(2 * y + 1) as usize] = end;
}

#[cube(launch)]
fn clip_kernel(picture: &[u32], most: &[u32], output: &mut [u32], width: u32, height: u32) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= width || y >= height {
        terminate!();
    }
    let at = (y * width + x) as usize;
    output[at] = (picture[at] & 0x00ff_ffff) | (min(picture[at] >> 24, most[at]) << 24);
}

#[cube(launch)]
fn copy_kernel(picture: &[u32], output: &mut [u32], width: u32, height: u32) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= width || y >= height {
        terminate!();
    }
    let at = (y * width + x) as usize;
    output[at] = picture[at];
}

#[cube(launch)]
fn fill_kernel(source: &[u32], fills: &[u32], output: &mut [u32], row: u32, count: u32) {
    let index = ABSOLUTE_POS_Y * row + ABSOLUTE_POS_X;
    if ABSOLUTE_POS_X >= row || index >= count {
        terminate!();
    }
    let fill = fills[index as usize];
    let at = (fill >> 1) as usize;
    output[at] = select(fill & 1 == 1, source[at] | 0xff00_0000, 0u32);
}

/// The alpha of `picture` (u32 `[H, W]`), four to a word: u32 `[H, ⌈W / 4⌉]`, on its device.
#[must_use]
pub fn bytes(picture: Tensor<2, Int>) -> Tensor<2, Int> {
    let [height, width] = picture.dims();
    let picture = buffer_of(picture);
    let columns = width.div_ceil(4);
    let output = empty_like(&picture, [height, columns], DType::U32);
    let (count, dim) = launch_grid(columns, height);
    bytes_kernel::launch(
        &output.client,
        count,
        dim,
        picture.into_buffer_arg(),
        output.clone().into_buffer_arg(),
        scalar(width),
        scalar(height),
        scalar(columns),
    );
    tensor_of(output)
}

/// The extents of coverage of at least `least` in each row of `picture` (u32 `[H, W]`): u32 `[H, 2]`, on its device.
#[must_use]
pub fn extents(picture: Tensor<2, Int>, least: u8) -> Tensor<2, Int> {
    let [height, width] = picture.dims();
    let picture = buffer_of(picture);
    let output = empty_like(&picture, [height, 2], DType::U32);
    let (count, dim) = launch_grid(height, 1);
    extents_kernel::launch(
        &output.client,
        count,
        dim,
        picture.into_buffer_arg(),
        output.clone().into_buffer_arg(),
        scalar(width),
        scalar(height),
        u32::from(least),
    );
    tensor_of(output)
}

/// `picture` (u32 `[H, W]`) with its coverage limited to `most` (u32 `[H, W]`, 0..=255), on its device.
#[must_use]
pub fn clipped(picture: Tensor<2, Int>, most: Tensor<2, Int>) -> Tensor<2, Int> {
    let [height, width] = picture.dims();
    let picture = buffer_of(picture);
    let most = buffer_of(most);
    let output = empty_like(&picture, [height, width], DType::U32);
    let (count, dim) = launch_grid(width, height);
    clip_kernel::launch(
        &output.client,
        count,
        dim,
        picture.into_buffer_arg(),
        most.into_buffer_arg(),
        output.clone().into_buffer_arg(),
        scalar(width),
        scalar(height),
    );
    tensor_of(output)
}

/// `picture` (u32 `[H, W]`), a cutout of `source`, after `fills`, on its device.
#[must_use]
pub fn filled(picture: Tensor<2, Int>, source: Tensor<2, Int>, fills: &[Fill]) -> Tensor<2, Int> {
    if fills.is_empty() {
        return picture;
    }
    let words: Vec<u32> = fills.iter().map(|fill| fill.word()).collect();
    let [height, width] = picture.dims();
    let picture = buffer_of(picture);
    let source = buffer_of(source);
    let list = upload_table(&picture, &words);
    let client = picture.client.clone();
    let output = empty_like(&picture, [height, width], DType::U32);
    let (count, dim) = launch_grid(width, height);
    copy_kernel::launch(
        &client,
        count,
        dim,
        picture.into_buffer_arg(),
        output.clone().into_buffer_arg(),
        scalar(width),
        scalar(height),
    );
    let (count, dim) = launch_grid(LIST_ROW, fills.len().div_ceil(LIST_ROW));
    fill_kernel::launch(
        &client,
        count,
        dim,
        source.into_buffer_arg(),
        list.into_buffer_arg(),
        output.clone().into_buffer_arg(),
        scalar(LIST_ROW),
        scalar(fills.len()),
    );
    tensor_of(output)
}
