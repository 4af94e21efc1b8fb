//! Register-tiled micro-kernels of the convolutions, attention and the sigmoid, generic over the SIMD vector.
//! [`super::dispatch`] compiles them for each instruction set.

#![allow(
    unsafe_op_in_unsafe_fn,
    reason = "every line is a raw load, store or intrinsic; the contract is stated once on each row type"
)]

use super::simd::Simd;

/// One row of output pixels by one block of output channels of a dense convolution.
///
/// # Safety
/// For each non-null `rows[r]`, `(width - 1) · pixel_stride + taps` values are readable; `weights` holds
/// `kernel_rows · taps · vectors · LANES` values and `bias` `vectors · LANES`; `output` and `residual` (unless null)
/// are valid for the used channels at each of the row's pixels.
pub(super) struct DenseRow {
    /// First tap of the first output pixel in each kernel row; null for a row outside the picture.
    pub(super) rows: [*const f32; 3],
    /// Number of valid `rows`.
    pub(super) kernel_rows: usize,
    /// Consecutive values under one kernel row: columns · channels.
    pub(super) taps: usize,
    /// Values between the inputs of neighbouring output pixels.
    pub(super) pixel_stride: usize,
    pub(super) width: usize,
    /// `[kernel row][tap][channel of the block]`.
    pub(super) weights: *const f32,
    /// `[channel of the block]`.
    pub(super) bias: *const f32,
    /// Valid channels in the block's last vector.
    pub(super) last_lanes: usize,
    /// The block's first channel of the first output pixel.
    pub(super) output: *mut f32,
    /// Values between neighbouring output pixels.
    pub(super) output_stride: usize,
    /// Added before the activation: the block's first channel of output pixel 0. May be null, or `output` itself.
    pub(super) residual: *const f32,
    /// Values between neighbouring residual pixels.
    pub(super) residual_stride: usize,
    /// Output pixel `q` uses residual pixel `q >> residual_shift`: 1 is nearest ×2 upsampling.
    pub(super) residual_shift: u32,
    /// Results are clamped to this interval.
    pub(super) bounds: (f32, f32),
}

/// Computes `row` in tiles of `PIXELS` pixels by `VECTORS` vectors of channels.
#[inline(always)]
pub(super) unsafe fn dense_row<S: Simd, const PIXELS: usize, const VECTORS: usize>(row: &DenseRow) {
    let mut at = 0;
    while at + PIXELS <= row.width {
        dense_tile::<S, PIXELS, VECTORS>(row, at);
        at += PIXELS;
    }
    while at + 4 <= row.width {
        dense_tile::<S, 4, VECTORS>(row, at);
        at += 4;
    }
    while at < row.width {
        dense_tile::<S, 1, VECTORS>(row, at);
        at += 1;
    }
}

/// Taps in one iteration of tiles of up to eight pixels: their addresses differ by constants, so a pixel's address is
/// computed once for all. The addresses of more pixels would not fit into the general registers.
const UNROLLED_TAPS: usize = 4;

#[inline(always)]
unsafe fn dense_tile<S: Simd, const PIXELS: usize, const VECTORS: usize>(row: &DenseRow, at: usize) {
    let mut sums = [[S::splat(0.0); VECTORS]; PIXELS];
    for vector in 0..VECTORS {
        let bias = S::load(row.bias.add(vector * S::LANES));
        for sum in &mut sums {
            sum[vector] = bias;
        }
    }
    let stride = row.pixel_stride;
    let mut weights = row.weights;
    for kernel_row in 0..row.kernel_rows {
        let input = row.rows[kernel_row];
        if input.is_null() {
            weights = weights.add(row.taps * VECTORS * S::LANES);
            continue;
        }
        let (mut input, mut left) = (input.add(at * stride), row.taps);
        while PIXELS <= 8 && left >= UNROLLED_TAPS {
            dense_taps::<S, PIXELS, VECTORS, UNROLLED_TAPS>(input, stride, weights, &mut sums);
            input = input.add(UNROLLED_TAPS);
            weights = weights.add(UNROLLED_TAPS * VECTORS * S::LANES);
            left -= UNROLLED_TAPS;
        }
        while left > 0 {
            dense_taps::<S, PIXELS, VECTORS, 1>(input, stride, weights, &mut sums);
            input = input.add(1);
            weights = weights.add(VECTORS * S::LANES);
            left -= 1;
        }
    }
    let (low, high) = (S::splat(row.bounds.0), S::splat(row.bounds.1));
    let partial = row.last_lanes < S::LANES;
    if !row.residual.is_null() {
        for pixel in 0..PIXELS {
            let from = row.residual.add(((at + pixel) >> row.residual_shift) * row.residual_stride);
            for vector in 0..VECTORS {
                let from = from.add(vector * S::LANES);
                let value =
                    if partial && vector + 1 == VECTORS { S::load_first(from, row.last_lanes) } else { S::load(from) };
                sums[pixel][vector] = S::add(sums[pixel][vector], value);
            }
        }
    }
    for pixel in 0..PIXELS {
        let to = row.output.add((at + pixel) * row.output_stride);
        for vector in 0..VECTORS {
            let to = to.add(vector * S::LANES);
            let value = S::clamp(sums[pixel][vector], low, high);
            if partial && vector + 1 == VECTORS {
                S::store_first(to, value, row.last_lanes);
            } else {
                S::store(to, value);
            }
        }
    }
}

/// Adds the products of `TAPS` taps, in order.
#[inline(always)]
unsafe fn dense_taps<S: Simd, const PIXELS: usize, const VECTORS: usize, const TAPS: usize>(
    input: *const f32,
    stride: usize,
    weights: *const f32,
    sums: &mut [[S::Vector; VECTORS]; PIXELS],
) {
    for tap in 0..TAPS {
        let mut weight = [S::splat(0.0); VECTORS];
        for vector in 0..VECTORS {
            weight[vector] = S::load(weights.add((tap * VECTORS + vector) * S::LANES));
        }
        for pixel in 0..PIXELS {
            let value = S::splat(*input.add(pixel * stride + tap));
            for vector in 0..VECTORS {
                sums[pixel][vector] = S::multiply_add(value, weight[vector], sums[pixel][vector]);
            }
        }
    }
}

/// Side of the largest depthwise kernel.
pub(super) const MAX_SIZE: usize = 5;

/// One row of output pixels of a depthwise convolution.
///
/// # Safety
/// `size` is 3 or 5. For each non-null `rows[r]` of the first `size`,
/// `(width - 1) · pixel_stride + (size - 1) · tap_stride + channels` values are readable; `weights` holds `size · size`
/// and `bias` one times `weight_stride` values, a multiple of `LANES` that is at least `channels`; `output` is valid
/// for `width · channels` values.
pub(super) struct DepthwiseRow {
    pub(super) size: usize,
    /// First tap of the first output pixel in each kernel row; null for a row outside the picture.
    pub(super) rows: [*const f32; MAX_SIZE],
    /// Values between the inputs of neighbouring output pixels.
    pub(super) pixel_stride: usize,
    /// Values between neighbouring columns of the kernel.
    pub(super) tap_stride: usize,
    pub(super) width: usize,
    pub(super) channels: usize,
    /// `[kernel row · size + kernel column][channel]`.
    pub(super) weights: *const f32,
    /// Values between neighbouring taps' weights.
    pub(super) weight_stride: usize,
    /// `[channel]`.
    pub(super) bias: *const f32,
    /// First channel of the first output pixel; pixels are packed.
    pub(super) output: *mut f32,
    pub(super) bounds: (f32, f32),
}

#[inline(always)]
pub(super) unsafe fn depthwise_row<S: Simd, const PIXELS: usize>(row: &DepthwiseRow) {
    // Only with known size and stride are the loops over taps unrolled and inputs shared between pixels.
    let stride = [1, 2].into_iter().find(|stride| stride * row.tap_stride == row.pixel_stride);
    match (row.size, stride) {
        (3, Some(1)) => depthwise_tiles::<S, PIXELS, 3, 1>(row),
        (3, Some(_)) => depthwise_tiles::<S, PIXELS, 3, 2>(row),
        (3, None) => depthwise_tiles::<S, PIXELS, 3, 3>(row),
        (_, Some(1)) => depthwise_tiles::<S, PIXELS, MAX_SIZE, 1>(row),
        (_, Some(_)) => depthwise_tiles::<S, PIXELS, MAX_SIZE, 2>(row),
        (_, None) => depthwise_tiles::<S, PIXELS, MAX_SIZE, MAX_SIZE>(row),
    }
}

#[inline(always)]
unsafe fn depthwise_tiles<S: Simd, const PIXELS: usize, const SIZE: usize, const STRIDE: usize>(row: &DepthwiseRow) {
    let mut at = 0;
    while at + PIXELS <= row.width {
        depthwise_tile::<S, PIXELS, SIZE, STRIDE>(row, at);
        at += PIXELS;
    }
    while at + 4 <= row.width {
        depthwise_tile::<S, 4, SIZE, STRIDE>(row, at);
        at += 4;
    }
    while at < row.width {
        depthwise_tile::<S, 1, SIZE, STRIDE>(row, at);
        at += 1;
    }
}

#[inline(always)]
unsafe fn depthwise_tile<S: Simd, const PIXELS: usize, const SIZE: usize, const STRIDE: usize>(
    row: &DepthwiseRow,
    at: usize,
) {
    let mut channel = 0;
    while channel + S::LANES <= row.channels {
        depthwise_vector::<S, PIXELS, SIZE, STRIDE, false>(row, at, channel);
        channel += S::LANES;
    }
    if channel < row.channels {
        depthwise_vector::<S, PIXELS, SIZE, STRIDE, true>(row, at, channel);
    }
}

/// With `STRIDE` taps between neighbouring pixels, each input is loaded once for all pixels of the tile that read it.
/// From a `STRIDE` of `SIZE` on, pixels share no input.
#[inline(always)]
unsafe fn depthwise_vector<
    S: Simd,
    const PIXELS: usize,
    const SIZE: usize,
    const STRIDE: usize,
    const PARTIAL: bool,
>(
    row: &DepthwiseRow,
    at: usize,
    channel: usize,
) {
    let lanes = row.channels - channel;
    let mut sums = [S::load(row.bias.add(channel)); PIXELS];
    for kernel_row in 0..SIZE {
        if row.rows[kernel_row].is_null() {
            continue;
        }
        let input = row.rows[kernel_row].add(at * row.pixel_stride + channel);
        let weights = row.weights.add(kernel_row * SIZE * row.weight_stride + channel);
        let (mut weight, mut window) = ([S::splat(0.0); SIZE], [S::splat(0.0); SIZE]);
        for tap in 0..SIZE {
            weight[tap] = S::load(weights.add(tap * row.weight_stride));
        }
        for pixel in 0..PIXELS {
            for tap in 0..SIZE {
                window[tap] = if pixel > 0 && tap + STRIDE < SIZE {
                    window[tap + STRIDE]
                } else {
                    let from = input.add(pixel * row.pixel_stride + tap * row.tap_stride);
                    if PARTIAL { S::load_first(from, lanes) } else { S::load(from) }
                };
                sums[pixel] = S::multiply_add(window[tap], weight[tap], sums[pixel]);
            }
        }
    }
    let (low, high) = (S::splat(row.bounds.0), S::splat(row.bounds.1));
    for pixel in 0..PIXELS {
        let to = row.output.add((at + pixel) * row.channels + channel);
        let value = S::clamp(sums[pixel], low, high);
        if PARTIAL { S::store_first(to, value, lanes) } else { S::store(to, value) }
    }
}

/// `1 / (1 + e^-x)` for each value, within 2e-7 of the exact result.
///
/// No fused operations, so every instruction set gives the same bits.
#[inline(always)]
pub(super) fn sigmoid(values: &mut [f32]) {
    for value in values {
        *value = 1.0 / (1.0 + exp(-*value));
    }
}

pub(super) struct AttentionHead<'a> {
    /// `[position][queries, keys, values]`, each of `channels`.
    pub(super) qkv: &'a [f32],
    /// `[channel of the head][position]`, so that lanes run over positions.
    pub(super) keys: &'a [f32],
    /// Channels of all heads.
    pub(super) channels: usize,
    /// The head's first channel.
    pub(super) first: usize,
    /// Channels of the head.
    pub(super) width: usize,
}

/// Writes the head's channels of `output`, `[position][channels]`. `weights` has room for a value for each position.
///
/// No fused operations, so every instruction set gives the same bits.
#[inline(always)]
pub(super) fn attention(head: &AttentionHead<'_>, weights: &mut [f32], output: &mut [f32]) {
    let AttentionHead { qkv, keys, channels, first, width } = *head;
    let scale = 1.0 / (width as f32).sqrt();
    for (pixel, output) in qkv.chunks_exact(3 * channels).zip(output.chunks_exact_mut(channels)) {
        weights.fill(0.0);
        for (query, keys) in pixel[first..][..width].iter().zip(keys.chunks_exact(weights.len())) {
            let query = query * scale;
            for (weight, key) in weights.iter_mut().zip(keys) {
                *weight += query * key;
            }
        }
        let largest = weights.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        for weight in &mut *weights {
            *weight = exp(*weight - largest);
        }
        let sum: f32 = weights.iter().sum();
        let output = &mut output[first..][..width];
        output.fill(0.0);
        for (pixel, weight) in qkv.chunks_exact(3 * channels).zip(&*weights) {
            for (output, value) in output.iter_mut().zip(&pixel[2 * channels + first..]) {
                *output += weight * value;
            }
        }
        for output in output {
            *output /= sum;
        }
    }
}

/// `e^x` in single precision after Cephes' `expf`: `2^n · e^r` with `|r| ≤ ln 2 / 2`, branch-free so that it vectorises.
#[inline(always)]
fn exp(x: f32) -> f32 {
    // ln 2 in two parts: the first has few bits, so n · HIGH is exact.
    const HIGH: f32 = 0.693_359_4;
    const LOW: f32 = -2.121_944_4e-4;
    // Adding 1.5 · 2^23 leaves the rounded integer in the low bits of the mantissa.
    const ROUND: f32 = 12_582_912.0;
    let x = x.clamp(-87.0, 87.0);
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = x - n * HIGH - n * LOW;
    let p = 1.987_569_1e-4;
    let p = p * r + 1.398_199_9e-3;
    let p = p * r + 8.333_452e-3;
    let p = p * r + 4.166_579_6e-2;
    let p = p * r + 1.666_666_5e-1;
    let p = p * r + 0.5;
    let power = f32::from_bits(shifted.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127) << 23);
    (p * r * r + r + 1.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sigmoid_is_in_range_and_within_2e_7_of_double_precision() {
        let extremes = [f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN];
        let inputs: Vec<f32> = (-40_000..=40_000).map(|i| i as f32 / 400.0).chain(extremes).collect();
        let mut outputs = inputs.clone();
        sigmoid(&mut outputs);
        for (&x, &y) in inputs.iter().zip(&outputs) {
            let exact = 1.0 / (1.0 + (-f64::from(x)).exp());
            assert!((f64::from(y) - exact).abs() < 2e-7, "sigmoid({x}) = {y}, not {exact}");
            assert!((0.0..=1.0).contains(&y), "sigmoid({x}) = {y}");
        }
    }
}
