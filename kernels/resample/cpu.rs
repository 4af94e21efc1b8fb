//! Lanczos resampling on the CPU, rows, then columns: the GPU twin's reference.

use rayon::prelude::*;

use super::{Axis, Part};
use crate::srgb::{encoded8_of_linear16, linear16_of_encoded8};

/// `part` of `picture` (rows of `width` packed RGBA8 pixels), resampled to `columns` × `rows` pixels.
///
/// # Panics
/// When the picture is not whole rows, or has no pixel.
#[must_use]
pub fn resample(picture: &[u8], width: usize, part: Part, [columns, rows]: [usize; 2]) -> Vec<u8> {
    let (pixels, rest) = picture.as_chunks::<4>();
    assert!(rest.is_empty() && pixels.len().is_multiple_of(width), "a picture is made of whole rows");
    let across = Axis::new(width, (part.left, part.width), columns);
    let down = Axis::new(pixels.len() / width, (part.top, part.height), rows);
    let (top, height) = down.inputs();
    let linear = linear16_of_encoded8();
    let mut narrowed = vec![[0.0f32; 4]; columns * height];
    narrowed.par_chunks_mut(columns).zip(pixels[top * width..].par_chunks(width)).for_each(|(row, source)| {
        for (x, output) in row.iter_mut().enumerate() {
            let weights = &across.weights[x * across.taps..][..across.taps];
            let mut sum = [0.0; 4];
            for (&pixel, weight) in source[across.first[x] as usize..].iter().zip(weights) {
                let sample = premultiplied(pixel, linear);
                sum.iter_mut().zip(sample).for_each(|(sum, sample)| *sum += weight * f32::from(sample));
            }
            *output = sum.map(|sum| whole(sum) as f32);
        }
    });
    let encoded = encoded8_of_linear16();
    let mut resampled = vec![0; 4 * columns * rows];
    resampled.par_chunks_mut(4 * columns).enumerate().for_each(|(y, output)| {
        let weights = &down.weights[y * down.taps..][..down.taps];
        for (x, pixel) in output.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let mut sum = [0.0f32; 4];
            for (tap, &weight) in weights.iter().enumerate() {
                let sample = &narrowed[(down.first[y] as usize - top + tap) * columns + x];
                sum.iter_mut().zip(sample).for_each(|(sum, sample)| *sum += weight * sample);
            }
            *pixel = straight(sum.map(whole), encoded);
        }
    });
    resampled
}

/// A sample in whole 65535ths, clamped: the filter's negative lobes can over- and undershoot.
fn whole(sum: f32) -> u32 {
    (sum + 0.5).clamp(0.0, 65535.0) as u32
}

/// Converts a straight sRGB pixel to premultiplied light in 65535ths. `linear` is [`linear16_of_encoded8`], whose every
/// access would check its initialisation.
#[must_use]
#[inline]
pub fn premultiplied([red, green, blue, alpha]: [u8; 4], linear: &[u16; 256]) -> [u16; 4] {
    let light = |value: u8| ((u32::from(linear[usize::from(value)]) * u32::from(alpha) + 127) / 255) as u16;
    [light(red), light(green), light(blue), u16::from(alpha) * 257]
}

/// Converts premultiplied light in 65535ths to straight sRGB. `encoded` is [`encoded8_of_linear16`].
#[must_use]
#[inline]
pub fn straight([red, green, blue, alpha]: [u32; 4], encoded: &[u8; 65536]) -> [u8; 4] {
    let coverage = ((alpha + 128) / 257) as u8;
    if coverage == 0 {
        return [0; 4];
    }
    // The filter's negative lobes can leave more colour than coverage: clamped to white.
    let value = |light: u32| encoded[((light * 65535 + alpha / 2) / alpha).min(65535) as usize];
    [value(red), value(green), value(blue), coverage]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole_picture(picture: &[u8], width: usize, to: [usize; 2]) -> Vec<u8> {
        let height = picture.len() / 4 / width;
        let part = Part { left: 0.0, top: 0.0, width: width as f64, height: height as f64 };
        resample(picture, width, part, to)
    }

    #[test]
    fn a_part_of_whole_pixels_at_the_same_size_is_a_crop() {
        let picture: Vec<u8> = (0..9 * 8 * 4).map(|at| if at % 4 == 3 { 255 } else { (at * 91 % 256) as u8 }).collect();
        let part = Part { left: 2.0, top: 3.0, width: 5.0, height: 4.0 };
        let crop: Vec<u8> = picture.chunks(36).skip(3).take(4).flat_map(|row| &row[8..28]).copied().collect();
        assert_eq!(resample(&picture, 9, part, [5, 4]), crop);
    }

    #[test]
    fn linear_light_is_averaged_not_encoded_values() {
        // Half black, half white: half the light is 188, not 128.
        let picture: Vec<u8> = (0..64).flat_map(|x| if x % 2 == 0 { [0, 0, 0, 255] } else { [255; 4] }).collect();
        let resampled = whole_picture(&picture, 64, [2, 1]);
        assert!(resampled[0].abs_diff(188) <= 3, "{resampled:?}");
    }

    #[test]
    fn colour_under_alpha_0_does_not_bleed() {
        let picture: Vec<u8> = (0..64).flat_map(|x| if x < 32 { [255, 0, 0, 255] } else { [0, 255, 0, 0] }).collect();
        for pixel in whole_picture(&picture, 64, [8, 1]).as_chunks::<4>().0 {
            assert!(pixel[3] == 0 || pixel[1] == 0, "green came through: {pixel:?}");
        }
    }
}
