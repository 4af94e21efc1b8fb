//! Lanczos resampling on the CPU, rows then columns: the reference of the GPU twin.

use rayon::prelude::*;

use super::Axis;
use crate::srgb::{byte, encoded_of_linear, exact_linear_of_encoded8};

/// Resizes `picture` (`height` rows of `width` packed RGBA8 pixels) to the sizes of the two plans.
///
/// # Panics
/// When the picture is not four bytes a pixel.
#[must_use]
pub fn resize(picture: &[u8], width: usize, height: usize, across: &Axis, down: &Axis) -> Vec<u8> {
    assert_eq!(picture.len(), 4 * width * height, "packed RGBA8 is four bytes a pixel");
    let linear = exact_linear_of_encoded8();
    let columns = across.first.len();
    let mut rows = vec![[0.0f32; 4]; columns * height];
    rows.par_chunks_mut(columns).zip(picture.par_chunks(4 * width)).for_each(|(row, source)| {
        let pixels = source.as_chunks::<4>().0;
        for (x, output) in row.iter_mut().enumerate() {
            let weights = &across.weights[x * across.taps..][..across.taps];
            for (pixel, &weight) in pixels[across.first[x] as usize..].iter().zip(weights) {
                let alpha = f32::from(pixel[3]) / 255.0;
                for channel in 0..3 {
                    output[channel] += weight * (linear[usize::from(pixel[channel])] * alpha);
                }
                output[3] += weight * alpha;
            }
        }
    });
    let mut resized = vec![0; 4 * columns * down.first.len()];
    resized.par_chunks_mut(4 * columns).enumerate().for_each(|(y, output)| {
        let weights = &down.weights[y * down.taps..][..down.taps];
        for (x, pixel) in output.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let mut sum = [0.0f32; 4];
            for (tap, &weight) in weights.iter().enumerate() {
                let sample = &rows[(down.first[y] as usize + tap) * columns + x];
                for (sum, sample) in sum.iter_mut().zip(sample) {
                    *sum += weight * sample;
                }
            }
            *pixel = packed(sum);
        }
    });
    resized
}

/// A premultiplied linear pixel as straight sRGB, rounded.
fn packed(premultiplied: [f32; 4]) -> [u8; 4] {
    let [red, green, blue, alpha] = premultiplied;
    let coverage = byte(alpha.clamp(0.0, 1.0));
    if coverage == 0 {
        return [0; 4];
    }
    let [red, green, blue] = [red, green, blue].map(|value| byte(encoded_of_linear((value / alpha).clamp(0.0, 1.0))));
    [red, green, blue, coverage]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_size_gives_the_same_picture() {
        let picture: Vec<u8> = (0..7 * 5 * 4).map(|at| if at % 4 == 3 { 255 } else { (at * 37 % 256) as u8 }).collect();
        assert_eq!(resize(&picture, 7, 5, &Axis::new(7, 7), &Axis::new(5, 5)), picture);
    }

    #[test]
    fn linear_light_is_averaged_not_encoded_values() {
        // Half black, half white: half the light is 188, not 128.
        let picture: Vec<u8> = (0..64).flat_map(|x| if x % 2 == 0 { [0, 0, 0, 255] } else { [255; 4] }).collect();
        let resized = resize(&picture, 64, 1, &Axis::new(64, 2), &Axis::new(1, 1));
        assert!(resized[0].abs_diff(188) <= 3, "{resized:?}");
    }

    #[test]
    fn colour_under_alpha_0_does_not_bleed() {
        let picture: Vec<u8> = (0..64).flat_map(|x| if x < 32 { [255, 0, 0, 255] } else { [0, 255, 0, 0] }).collect();
        let resized = resize(&picture, 64, 1, &Axis::new(64, 8), &Axis::new(1, 1));
        for pixel in resized.as_chunks::<4>().0 {
            assert!(pixel[3] == 0 || pixel[1] == 0, "green came through: {pixel:?}");
        }
    }
}
