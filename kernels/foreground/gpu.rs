//! Foreground relaxation on the GPU, one step over whole planes.
//!
//! Both colours are in one tensor, f32 `[2, H, W, 3]`: foreground, then background.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::{DType, Tensor};
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::SMOOTHNESS;
use super::cpu::Tile;
use crate::device::{empty_like, host_floats, host_tensor, launch_grid, scalar};
use crate::srgb::gpu::unit;

#[cube(launch)]
fn relax_kernel(picture: &[f32], alpha: &[f32], colours: &[f32], next: &mut [f32], width: u32, height: u32) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= width || y >= height {
        terminate!();
    }
    // A neighbour outside is the pixel itself.
    let here = y * width + x;
    let above = select(y == 0, here, here - width);
    let below = select(y + 1 == height, here, here + width);
    let left = select(x == 0, here, here - 1);
    let right = select(x + 1 == width, here, here + 1);

    let a = alpha[here as usize];
    let rest = 1.0 - a;
    let w_above = SMOOTHNESS + f32::abs(a - alpha[above as usize]);
    let w_below = SMOOTHNESS + f32::abs(a - alpha[below as usize]);
    let w_left = SMOOTHNESS + f32::abs(a - alpha[left as usize]);
    let w_right = SMOOTHNESS + f32::abs(a - alpha[right as usize]);
    let sum = w_above + w_below + w_left + w_right;
    let share = 1.0 / (a * a + rest * rest + sum);
    let plane = width * height * 3;
    for channel in 0u32..3u32 {
        let n_above = (above * 3 + channel) as usize;
        let n_below = (below * 3 + channel) as usize;
        let n_left = (left * 3 + channel) as usize;
        let n_right = (right * 3 + channel) as usize;
        let to_back = plane as usize;
        let foreground = (w_above * colours[n_above]
            + w_below * colours[n_below]
            + w_left * colours[n_left]
            + w_right * colours[n_right])
            / sum;
        let background = (w_above * colours[n_above + to_back]
            + w_below * colours[n_below + to_back]
            + w_left * colours[n_left + to_back]
            + w_right * colours[n_right + to_back])
            / sum;
        let at = (here * 3 + channel) as usize;
        let unexplained = (picture[at] - a * foreground - rest * background) * share;
        next[at] = unit(foreground + a * unexplained);
        next[at + to_back] = unit(background + rest * unexplained);
    }
}

/// The kernel as a burn operation.
#[backend_extension(Flex, Cube, Fusion)]
pub trait Relax: Backend {
    /// `picture`: f32 `[H, W, 3]`; `alpha`: f32 `[H, W]`; `colours`: f32 `[2, H, W, 3]`. Returns f32 `[2, H, W, 3]`.
    #[fusion(dtype = colours, shape = colours)]
    fn relax(picture: FloatTensor<Self>, alpha: FloatTensor<Self>, colours: FloatTensor<Self>) -> FloatTensor<Self>;
}

impl Relax for Flex {
    fn relax(picture: FloatTensor<Self>, alpha: FloatTensor<Self>, colours: FloatTensor<Self>) -> FloatTensor<Self> {
        let [height, width] = alpha.shape().dims();
        let (picture, alpha, colours) = (host_floats(picture), host_floats(alpha), host_floats(colours));
        let triple = |values: &[f32], pixel: usize| [values[3 * pixel], values[3 * pixel + 1], values[3 * pixel + 2]];
        let (front, back) = colours.split_at(3 * width * height);
        let mut tile = Tile::default();
        tile.resize(width, height);
        let places = || (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
        for (pixel, place) in places().enumerate() {
            tile.set(place, alpha[pixel], triple(&picture, pixel), triple(front, pixel), triple(back, pixel));
        }
        tile.relax(1);
        let mut next: Vec<f32> = places().flat_map(|place| tile.colours(place).0).collect();
        next.extend(places().flat_map(|place| tile.colours(place).1));
        host_tensor(next, [2, height, width, 3])
    }
}

impl Relax for CubeBackend {
    fn relax(picture: FloatTensor<Self>, alpha: FloatTensor<Self>, colours: FloatTensor<Self>) -> FloatTensor<Self> {
        let picture: CubeTensor = into_contiguous(picture);
        let alpha: CubeTensor = into_contiguous(alpha);
        let colours: CubeTensor = into_contiguous(colours);
        let [height, width] = alpha.shape().dims();
        let next = empty_like(&colours, [2, height, width, 3], DType::F32);
        let (count, dim) = launch_grid(width, height);
        relax_kernel::launch(
            &next.client,
            count,
            dim,
            picture.into_buffer_arg(),
            alpha.into_buffer_arg(),
            colours.into_buffer_arg(),
            next.clone().into_buffer_arg(),
            scalar(width),
            scalar(height),
        );
        next
    }
}

/// One relaxation step of `colours` (f32 `[2, H, W, 3]`, foreground and background) towards explaining `picture` (f32
/// `[H, W, 3]`) with `alpha` (f32 `[H, W]`), on their device.
#[must_use]
pub fn relax(picture: Tensor<3>, alpha: Tensor<2>, colours: Tensor<4>) -> Tensor<4> {
    let next = <Dispatch as Relax>::relax(picture.into_dispatch(), alpha.into_dispatch(), colours.into_dispatch());
    Tensor::from_dispatch(next)
}
