//! Multi-head self-attention on a GPU. The planes are small (12×12): a work item computes one head at one position, in
//! one pass over the positions that rescales its sums when it finds a larger score (Milakov and Gimelshein, "Online
//! normalizer calculation for softmax", 2018).

use super::VECTOR;
use super::work::{Four, grid};
use crate::device::{buffer_of, empty_like, scalar, tensor_of};
use burn::tensor::{DType, Tensor};
use cubecl::prelude::*;

#[cube(launch)]
fn attention_kernel(
    qkv: &[Four],
    output: &mut [Four],
    positions: u32,
    pictures: u32,
    scale: f32,
    #[comptime] heads: u32,
    #[comptime] width: u32,
) {
    let item = u32::cast_from(ABSOLUTE_POS);
    if item >= pictures * positions * heads {
        terminate!();
    }
    let vectors = heads * width;
    let first = item % heads * width;
    let place = item / heads;
    let picture = place / positions * positions;
    let query = place * 3 * vectors + first;
    let mut sums = Array::<Four>::new(width as usize);
    for vector in 0..width {
        sums[vector as usize] = Four::new(0.0);
    }
    let mut largest = f32::new(-3.0e38);
    let mut total = f32::new(0.0);
    for position in 0..positions {
        let key = (picture + position) * 3 * vectors + vectors + first;
        let mut products = Four::new(0.0);
        for vector in 0..width {
            products += qkv[(query + vector) as usize] * qkv[(key + vector) as usize];
        }
        let sum =
            products.extract(0usize) + products.extract(1usize) + products.extract(2usize) + products.extract(3usize);
        let score = sum * scale;
        let before = largest;
        largest = max(largest, score);
        let kept = f32::exp(before - largest);
        let weight = f32::exp(score - largest);
        total = total * kept + weight;
        for vector in 0..width {
            let value = qkv[(key + vectors + vector) as usize];
            sums[vector as usize] = sums[vector as usize] * Four::new(kept) + value * Four::new(weight);
        }
    }
    for vector in 0..width {
        output[(place * vectors + first + vector) as usize] = sums[vector as usize] / Four::new(total);
    }
}

/// Self-attention over all positions of each picture, on the tensor's device. `qkv`: `[N, H, W, 3·C]`: queries, keys
/// and values, head after head; C is a multiple of four times `heads`. Returns f32 `[N, H, W, C]`.
#[must_use]
pub fn attention(qkv: Tensor<4>, heads: usize) -> Tensor<4> {
    let [batch, height, width, channels] = qkv.dims();
    let qkv = buffer_of(qkv);
    let (channels, positions) = (channels / 3, height * width);
    let output = empty_like(&qkv, [batch, height, width, channels], DType::F32);
    let (count, dim) = grid(VECTOR * batch * positions, heads);
    attention_kernel::launch(
        &output.client,
        count,
        dim,
        qkv.into_buffer_arg(),
        output.clone().into_buffer_arg(),
        scalar(positions),
        scalar(batch),
        1.0 / ((channels / heads) as f32).sqrt(),
        heads as u32,
        (channels / heads / VECTOR) as u32,
    );
    tensor_of(output)
}
