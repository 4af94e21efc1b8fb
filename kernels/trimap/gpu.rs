//! The GPU twin: a kernel for the extremes on the grid, one for the labels of the picture. Labels are u32 here,
//! because a GPU has no smaller word.

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::{DType, Int, Shape, Tensor};
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::cpu::{extremes, label};
use super::{BACKGROUND, FOREGROUND, Params, UNKNOWN};
use crate::device::{cover, empty_like, host_floats, host_int_tensor, scalar, table};
use crate::mask_upsample::cpu::Upsampled;
use crate::mask_upsample::gpu::{Stretch, stretch, stretched};

#[cube(launch)]
fn extremes_kernel(
    mask: &[f32],
    disc: &[i32],
    low: &mut [f32],
    high: &mut [f32],
    columns: u32,
    rows: u32,
    places: u32,
) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= columns || y >= rows {
        terminate!();
    }
    let at = (y * columns + x) as usize;
    let mut lowest = mask[at];
    let mut highest = mask[at];
    for place in 0..places {
        // A step to the left of column 0 wraps to a column beyond the last one.
        let column = u32::cast_from(i32::cast_from(x) + disc[(2 * place) as usize]);
        let row = u32::cast_from(i32::cast_from(y) + disc[(2 * place + 1) as usize]);
        if column < columns && row < rows {
            let value = mask[(row * columns + column) as usize];
            lowest = min(lowest, value);
            highest = max(highest, value);
        }
    }
    low[at] = lowest;
    high[at] = highest;
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

/// The kernel as a burn operation.
#[backend_extension(Flex, Cube, Fusion)]
pub trait Trimap: Backend {
    /// `mask`: f32 `[rows, columns]`. Returns u32 `[height, width]`.
    #[fusion(dtype = DType::U32, shape = Shape::new([*height, *width]))]
    fn trimap(mask: FloatTensor<Self>, height: usize, width: usize, params: Params) -> IntTensor<Self>;
}

impl Trimap for Flex {
    fn trimap(mask: FloatTensor<Self>, height: usize, width: usize, params: Params) -> IntTensor<Self> {
        let [rows, columns] = mask.shape().dims();
        let (low, high) = extremes(&host_floats(mask), (columns, rows), &params);
        let over = |values| Upsampled::new(values, (columns, rows), (width, height));
        let mut labels = vec![0; width * height];
        label(&over(&low), &over(&high), &params, &mut labels, width);
        host_int_tensor(labels.into_iter().map(u32::from).collect(), [height, width])
    }
}

impl Trimap for CubeBackend {
    fn trimap(mask: FloatTensor<Self>, height: usize, width: usize, params: Params) -> IntTensor<Self> {
        let mask: CubeTensor = into_contiguous(mask);
        let [rows, columns] = mask.shape().dims();
        let disc: Vec<i32> = params.disc().into_iter().flat_map(|(dx, dy)| [dx, dy]).collect();
        let low = empty_like(&mask, [rows, columns], DType::F32);
        let high = empty_like(&mask, [rows, columns], DType::F32);
        let labels = empty_like(&mask, [height, width], DType::U32);
        let client = mask.client.clone();
        let (count, dim) = cover(columns, rows);
        extremes_kernel::launch(
            &client,
            count,
            dim,
            mask.clone().into_buffer_arg(),
            table(&mask, &disc).into_buffer_arg(),
            low.clone().into_buffer_arg(),
            high.clone().into_buffer_arg(),
            scalar(columns),
            scalar(rows),
            scalar(disc.len() / 2),
        );
        let (count, dim) = cover(width, height);
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
        labels
    }
}

/// The trimap of a picture of `width` × `height` from its `mask` (f32 `[rows, columns]`): u32 `[height, width]`, on
/// the device that the mask lies on.
#[must_use]
pub fn trimap(mask: Tensor<2>, height: usize, width: usize, params: Params) -> Tensor<2, Int> {
    Tensor::from_dispatch(<Dispatch as Trimap>::trimap(mask.into_dispatch(), height, width, params))
}
