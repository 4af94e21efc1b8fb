//! Linear alpha on the GPU, and the finished cutout: packed RGBA8 of a picture, its coverage and its unmixed colours.

use burn::tensor::{DType, Int, Tensor};
use cubecl::prelude::*;

use super::ALIKE;
use crate::device::{buffer_of, empty_like, launch_grid, scalar, tensor_of, upload_table};
use crate::srgb::linear_of_encoded8;

/// Linear light of an encoded value between 0 and 255, by linear interpolation.
#[cube]
fn light_of(light: &[f32], encoded: f32) -> f32 {
    let first = min(u32::cast_from(encoded), 255u32);
    let below = light[first as usize];
    let above = light[min(first + 1, 255u32) as usize];
    below + (above - below) * (encoded - f32::cast_from(first))
}

/// For one channel: the mixture's offset from the background times the subject's, and the subject's squared.
#[derive(CubeType, Clone, Copy)]
struct Way {
    along: f32,
    length: f32,
}

#[cube]
fn way(light: &[f32], front: u32, back: u32, alpha: f32) -> Way {
    let front = front & 255;
    let back = back & 255;
    let mixed = light_of(light, f32::cast_from(front) * alpha + f32::cast_from(back) * (1.0 - alpha));
    let behind = light[back as usize];
    let ahead = light[front as usize] - behind;
    Way { along: (mixed - behind) * ahead, length: ahead * ahead }
}

#[cube(launch)]
fn cutout_kernel(
    picture: &[u32],
    coverage: &[u32],
    unmixed_by: &[u32],
    colours: &[u32],
    light: &[f32],
    cutout: &mut [u32],
    width: u32,
    height: u32,
    #[comptime] in_light: bool,
) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= width || y >= height {
        terminate!();
    }
    let at = (y * width + x) as usize;
    let covered = coverage[at];
    let mut pixel = 0u32;
    if comptime!(!in_light) {
        if covered > 0 {
            let colour = select(unmixed_by[at] == 255, picture[at], colours[at]);
            pixel = (colour & 0x00ff_ffff) | (covered << 24);
        }
    } else if covered == 255 {
        pixel = picture[at] | 0xff00_0000;
    } else if covered > 0 {
        let front = colours[at];
        let back = colours[at + (width * height) as usize];
        let alpha = f32::cast_from(covered) / 255.0;
        let red = way(light, front, back, alpha);
        let green = way(light, front >> 8, back >> 8, alpha);
        let blue = way(light, front >> 16, back >> 16, alpha);
        let along = red.along + green.along + blue.along;
        let length = red.length + green.length + blue.length;
        let in_light = (along + ALIKE * alpha) / (length + ALIKE);
        let corrected = min(max((alpha + in_light) / 2.0, f32::new(0.0)), f32::new(1.0)) * 255.0 + 0.5;
        let corrected = min(max(u32::cast_from(corrected), 1u32), 254u32);
        pixel = (front & 0x00ff_ffff) | (corrected << 24);
    }
    cutout[at] = pixel;
}

/// The packed cutout of `picture` (packed, u32 `[H, W]`) by `coverage` (u32 `[H, W]`), on their device. Where coverage
/// is partial, with the foreground of `colours` (packed, u32 `[2, H, W]`, foreground and background) and coverage in
/// linear light.
#[must_use]
pub fn cut_out(picture: Tensor<2, Int>, coverage: Tensor<2, Int>, colours: Tensor<3, Int>) -> Tensor<2, Int> {
    cutout(picture, coverage.clone(), coverage, colours, true)
}

/// The cutout by the coverage of a hard edge, which is geometry and not light, with the foreground where `unmixed_by`
/// (u32 `[H, W]`, above 0 where `coverage` is) is partial.
#[must_use]
pub fn cut_out_hard(
    picture: Tensor<2, Int>,
    coverage: Tensor<2, Int>,
    unmixed_by: Tensor<2, Int>,
    colours: Tensor<3, Int>,
) -> Tensor<2, Int> {
    cutout(picture, coverage, unmixed_by, colours, false)
}

fn cutout(
    picture: Tensor<2, Int>,
    coverage: Tensor<2, Int>,
    unmixed_by: Tensor<2, Int>,
    colours: Tensor<3, Int>,
    in_light: bool,
) -> Tensor<2, Int> {
    let [height, width] = picture.dims();
    let picture = buffer_of(picture);
    let [coverage, unmixed_by] = [coverage, unmixed_by].map(buffer_of);
    let colours = buffer_of(colours);
    let cutout = empty_like(&picture, [height, width], DType::U32);
    let light = upload_table(&picture, linear_of_encoded8());
    let (count, dim) = launch_grid(width, height);
    cutout_kernel::launch(
        &cutout.client,
        count,
        dim,
        picture.into_buffer_arg(),
        coverage.into_buffer_arg(),
        unmixed_by.into_buffer_arg(),
        colours.into_buffer_arg(),
        light.into_buffer_arg(),
        cutout.clone().into_buffer_arg(),
        scalar(width),
        scalar(height),
        in_light,
    );
    tensor_of(cutout)
}
