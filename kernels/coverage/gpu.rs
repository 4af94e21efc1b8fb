//! Coverage of packed pictures on the GPU.

use burn::backend::tensor::IntTensor;
use burn::backend::{Backend, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::{DType, Int, Tensor, TensorData};
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::{Fill, cpu};
use crate::device::{empty_like, host_int_tensor, host_words, launch_grid, scalar};

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

/// The kernels as burn operations.
#[backend_extension(Flex, Cube)]
pub trait Coverage: Backend {
    /// `picture`: u32 `[height, width]`. Returns u32 `[height, ⌈width / 4⌉]`.
    fn bytes(picture: IntTensor<Self>, height: usize, width: usize) -> IntTensor<Self>;

    /// `picture`: u32 `[height, W]`. Returns u32 `[height, 2]`.
    fn extents(picture: IntTensor<Self>, height: usize, least: u32) -> IntTensor<Self>;

    /// `picture` and `most`: u32 `[H, W]`. Returns u32 `[H, W]`.
    fn clipped(picture: IntTensor<Self>, most: IntTensor<Self>) -> IntTensor<Self>;

    /// `picture` and `source`: u32 `[H, W]`; `fills`: u32 `[count]`. Returns u32 `[H, W]`.
    fn filled(picture: IntTensor<Self>, source: IntTensor<Self>, fills: IntTensor<Self>) -> IntTensor<Self>;
}

impl Coverage for Flex {
    fn bytes(picture: IntTensor<Self>, height: usize, width: usize) -> IntTensor<Self> {
        let words = host_words(picture);
        host_int_tensor(words.chunks(width).flat_map(cpu::bytes).collect(), [height, width.div_ceil(4)])
    }

    fn extents(picture: IntTensor<Self>, height: usize, least: u32) -> IntTensor<Self> {
        let words = host_words(picture);
        let extents = words.chunks(words.len() / height).flat_map(|row| cpu::extent(row, least));
        host_int_tensor(extents.collect(), [height, 2])
    }

    fn clipped(picture: IntTensor<Self>, most: IntTensor<Self>) -> IntTensor<Self> {
        let shape = picture.shape();
        let pixels = host_words(picture).into_iter().zip(host_words(most));
        host_int_tensor(pixels.map(|(pixel, most)| cpu::clipped(pixel, most)).collect(), shape)
    }

    fn filled(picture: IntTensor<Self>, source: IntTensor<Self>, fills: IntTensor<Self>) -> IntTensor<Self> {
        let (shape, mut pixels) = (picture.shape(), host_words(picture));
        cpu::fill(&mut pixels, &host_words(source), &host_words(fills));
        host_int_tensor(pixels, shape)
    }
}

impl Coverage for CubeBackend {
    fn bytes(picture: IntTensor<Self>, height: usize, width: usize) -> IntTensor<Self> {
        let picture: CubeTensor = into_contiguous(picture);
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
        output
    }

    fn extents(picture: IntTensor<Self>, height: usize, least: u32) -> IntTensor<Self> {
        let picture: CubeTensor = into_contiguous(picture);
        let [_, width] = picture.shape().dims();
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
            least,
        );
        output
    }

    fn clipped(picture: IntTensor<Self>, most: IntTensor<Self>) -> IntTensor<Self> {
        let picture: CubeTensor = into_contiguous(picture);
        let most: CubeTensor = into_contiguous(most);
        let [height, width] = picture.shape().dims();
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
        output
    }

    fn filled(picture: IntTensor<Self>, source: IntTensor<Self>, fills: IntTensor<Self>) -> IntTensor<Self> {
        let picture: CubeTensor = into_contiguous(picture);
        let source: CubeTensor = into_contiguous(source);
        let fills: CubeTensor = into_contiguous(fills);
        let [height, width] = picture.shape().dims();
        let filled = fills.shape().num_elements();
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
        let (count, dim) = launch_grid(LIST_ROW, filled.div_ceil(LIST_ROW));
        fill_kernel::launch(
            &client,
            count,
            dim,
            source.into_buffer_arg(),
            fills.into_buffer_arg(),
            output.clone().into_buffer_arg(),
            scalar(LIST_ROW),
            scalar(filled),
        );
        output
    }
}

/// The alpha of `picture` (u32 `[H, W]`), four to a word: u32 `[H, ⌈W / 4⌉]`, on its device.
#[must_use]
pub fn bytes(picture: Tensor<2, Int>) -> Tensor<2, Int> {
    let [height, width] = picture.dims();
    Tensor::from_dispatch(<Dispatch as Coverage>::bytes(picture.into_dispatch(), height, width))
}

/// The extents of coverage of at least `least` in each row of `picture` (u32 `[H, W]`): u32 `[H, 2]`, on its device.
#[must_use]
pub fn extents(picture: Tensor<2, Int>, least: u8) -> Tensor<2, Int> {
    let [height, _] = picture.dims();
    Tensor::from_dispatch(<Dispatch as Coverage>::extents(picture.into_dispatch(), height, least.into()))
}

/// `picture` (u32 `[H, W]`) with its coverage limited to `most` (u32 `[H, W]`, 0..=255), on its device.
#[must_use]
pub fn clipped(picture: Tensor<2, Int>, most: Tensor<2, Int>) -> Tensor<2, Int> {
    Tensor::from_dispatch(<Dispatch as Coverage>::clipped(picture.into_dispatch(), most.into_dispatch()))
}

/// `picture` (u32 `[H, W]`), a cutout of `source`, after `fills`, on its device.
#[must_use]
pub fn filled(picture: Tensor<2, Int>, source: Tensor<2, Int>, fills: &[Fill]) -> Tensor<2, Int> {
    if fills.is_empty() {
        return picture;
    }
    let words: Vec<u32> = fills.iter().map(|fill| fill.word()).collect();
    let device = picture.device();
    let fills = Tensor::<1, Int>::from_data(TensorData::new(words, [fills.len()]), (&device, DType::U32));
    let (picture, source, fills) = (picture.into_dispatch(), source.into_dispatch(), fills.into_dispatch());
    Tensor::from_dispatch(<Dispatch as Coverage>::filled(picture, source, fills))
}
