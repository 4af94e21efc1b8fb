//! Fractal and cellular noise on the GPU, one work item a sample. The hashes are the CPU's to the bit.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::{DType, Shape, Tensor};
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::cpu;
use super::{ACROSS, AMPLITUDE, DOWN, Fbm, MIX, NEXT_OCTAVE, PER_HALF, PER_NUMBER, TURN};
use crate::device::{empty_like, host_floats, host_tensor, launch_grid, scalar, upload_table};

#[cube]
fn mixed(lattice: u32) -> u32 {
    let first = (lattice ^ (lattice >> 15u32)) * u32::cast_from(MIX[0]);
    let second = (first ^ (first >> 12u32)) * u32::cast_from(MIX[1]);
    second ^ (second >> 15u32)
}

#[cube]
fn signed(half: u32) -> f32 {
    f32::cast_from(i32::cast_from(half) - 32768i32) * PER_HALF
}

#[cube]
fn corner(hash: u32, dx: f32, dy: f32) -> f32 {
    signed(hash & 0xFFFFu32) * dx + signed(hash >> 16u32) * dy
}

#[cube]
fn fade(t: f32) -> f32 {
    t * t * t * (t * (t * 6.0 - 15.0) + 10.0)
}

#[cube]
fn gradient_at(x: f32, y: f32, seed: u32) -> f32 {
    let left = f32::floor(x);
    let top = f32::floor(y);
    let fx = x - left;
    let fy = y - top;
    let west = u32::cast_from(i32::cast_from(left)) * u32::cast_from(ACROSS);
    let north = u32::cast_from(i32::cast_from(top)) * u32::cast_from(DOWN);
    let east = west + u32::cast_from(ACROSS);
    let south = north + u32::cast_from(DOWN);
    let nw = corner(mixed((west ^ north) ^ seed), fx, fy);
    let ne = corner(mixed((east ^ north) ^ seed), fx - 1.0, fy);
    let sw = corner(mixed((west ^ south) ^ seed), fx, fy - 1.0);
    let se = corner(mixed((east ^ south) ^ seed), fx - 1.0, fy - 1.0);
    let across = fade(fx);
    let upper = nw + across * (ne - nw);
    let lower = sw + across * (se - sw);
    (upper + fade(fy) * (lower - upper)) * AMPLITUDE
}

#[cube(launch)]
fn noise_kernel(places: &[f32], weights: &[f32], output: &mut [f32], width: u32, height: u32, octaves: u32, seed: u32) {
    let column = ABSOLUTE_POS_X;
    let row = ABSOLUTE_POS_Y;
    if column >= width || row >= height {
        terminate!();
    }
    let at = row * width + column;
    let mut x = places[(2 * at) as usize];
    let mut y = places[(2 * at + 1) as usize];
    let mut own = seed;
    let mut sum = f32::new(0.0);
    for octave in 0..octaves {
        sum += weights[octave as usize] * gradient_at(x, y, own);
        let turned = TURN[0] * x - TURN[1] * y;
        y = TURN[1] * x + TURN[0] * y;
        x = turned;
        own += u32::cast_from(NEXT_OCTAVE);
    }
    output[at as usize] = sum;
}

#[cube(launch)]
fn cells_kernel(places: &[f32], output: &mut [f32], width: u32, height: u32, jitter: f32, seed: u32) {
    let column = ABSOLUTE_POS_X;
    let row = ABSOLUTE_POS_Y;
    if column >= width || row >= height {
        terminate!();
    }
    let at = row * width + column;
    let x = places[(2 * at) as usize];
    let y = places[(2 * at + 1) as usize];
    let left = f32::floor(x);
    let top = f32::floor(y);
    let mut nearest = f32::new(9.0);
    let mut second = f32::new(9.0);
    let mut own = 0u32;
    for place in 0u32..9u32 {
        let dx = i32::cast_from(place % 3u32) - 1i32;
        let dy = i32::cast_from(place / 3u32) - 1i32;
        let across = u32::cast_from(i32::cast_from(left) + dx) * u32::cast_from(ACROSS);
        let down = u32::cast_from(i32::cast_from(top) + dy) * u32::cast_from(DOWN);
        let hash = mixed((across ^ down) ^ seed);
        let to_x = left + f32::cast_from(dx) + 0.5 + 0.5 * jitter * signed(hash & 0xFFFFu32) - x;
        let to_y = top + f32::cast_from(dy) + 0.5 + 0.5 * jitter * signed(hash >> 16u32) - y;
        let squared = to_x * to_x + to_y * to_y;
        if squared < nearest {
            second = nearest;
            nearest = squared;
            own = hash;
        } else {
            second = min(second, squared);
        }
    }
    output[(3 * at) as usize] = f32::sqrt(nearest);
    output[(3 * at + 1) as usize] = f32::sqrt(second);
    output[(3 * at + 2) as usize] = f32::cast_from(mixed(own) >> 8u32) * PER_NUMBER;
}

/// The kernels as burn operations.
#[backend_extension(Flex, Cube, Fusion)]
pub trait Noise: Backend {
    /// `places`: f32 `[H, W, 2]`. Returns f32 `[H, W]`.
    #[fusion(dtype = DType::F32, shape = Shape::new([places[0], places[1]]))]
    fn noise(places: FloatTensor<Self>, settings: Fbm) -> FloatTensor<Self>;

    /// `places`: f32 `[H, W, 2]`. Returns f32 `[H, W, 3]`: distances to the nearest and second nearest point, its number.
    #[fusion(dtype = DType::F32, shape = Shape::new([places[0], places[1], 3]))]
    fn cells(places: FloatTensor<Self>, jitter: f32, seed: u32) -> FloatTensor<Self>;
}

/// Interleaved coordinates as two vectors.
fn apart(places: &[f32]) -> (Vec<f32>, Vec<f32>) {
    places.as_chunks::<2>().0.iter().map(|&[x, y]| (x, y)).unzip()
}

impl Noise for Flex {
    fn noise(places: FloatTensor<Self>, settings: Fbm) -> FloatTensor<Self> {
        let [height, width, _] = places.shape().dims();
        let (x, y) = apart(&host_floats(places));
        let mut sums = vec![0.0; x.len()];
        cpu::fbm(&x, &y, &settings, &mut sums);
        host_tensor(sums, [height, width])
    }

    fn cells(places: FloatTensor<Self>, jitter: f32, seed: u32) -> FloatTensor<Self> {
        let [height, width, _] = places.shape().dims();
        let (x, y) = apart(&host_floats(places));
        let [mut nearest, mut second, mut own] = [0, 1, 2].map(|_| vec![0.0; x.len()]);
        let mut out = cpu::Cells { nearest: &mut nearest, second: &mut second, own: &mut own };
        cpu::cells(&x, &y, seed, jitter, &mut out);
        let joined =
            nearest.into_iter().zip(second).zip(own).flat_map(|((nearest, second), own)| [nearest, second, own]);
        host_tensor(joined.collect(), [height, width, 3])
    }
}

impl Noise for CubeBackend {
    fn noise(places: FloatTensor<Self>, settings: Fbm) -> FloatTensor<Self> {
        let places: CubeTensor = into_contiguous(places);
        let [height, width, _] = places.shape().dims();
        let weights = settings.weights();
        let output = empty_like(&places, [height, width], DType::F32);
        // A table may not be empty; the kernel then reads no octave.
        let shown = upload_table(&places, if weights.is_empty() { &[0.0] } else { &weights });
        let (count, dim) = launch_grid(width, height);
        noise_kernel::launch(
            &output.client,
            count,
            dim,
            places.into_buffer_arg(),
            shown.into_buffer_arg(),
            output.clone().into_buffer_arg(),
            scalar(width),
            scalar(height),
            scalar(weights.len()),
            settings.seed,
        );
        output
    }

    fn cells(places: FloatTensor<Self>, jitter: f32, seed: u32) -> FloatTensor<Self> {
        let places: CubeTensor = into_contiguous(places);
        let [height, width, _] = places.shape().dims();
        let output = empty_like(&places, [height, width, 3], DType::F32);
        let (count, dim) = launch_grid(width, height);
        cells_kernel::launch(
            &output.client,
            count,
            dim,
            places.into_buffer_arg(),
            output.clone().into_buffer_arg(),
            scalar(width),
            scalar(height),
            jitter,
            seed,
        );
        output
    }
}

/// The fractal sum at each of `places` (f32 `[H, W, 2]`): f32 `[H, W]`, on their device.
#[must_use]
pub fn noise(places: Tensor<3>, settings: Fbm) -> Tensor<2> {
    Tensor::from_dispatch(<Dispatch as Noise>::noise(places.into_dispatch(), settings))
}

/// The cells around each of `places` (f32 `[H, W, 2]`): f32 `[H, W, 3]`, as [`cpu::Cells`] has them.
#[must_use]
pub fn cells(places: Tensor<3>, jitter: f32, seed: u32) -> Tensor<3> {
    Tensor::from_dispatch(<Dispatch as Noise>::cells(places.into_dispatch(), jitter, seed))
}
