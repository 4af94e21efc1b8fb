//! Contrast-limited adaptive histogram equalisation (CLAHE) of the network's input.
//!
//! Zuiderveld, "Contrast Limited Adaptive Histogram Equalization", Graphics Gems IV, 1994: the picture is divided into
//! tiles; each tile's clipped cumulative histogram maps its grey values, and between tile centres the mapped values are
//! interpolated bilinearly. Luminance alone is mapped; its gain is added to all three channels, so that hues stay.
//!
//! It works in floats at the network's input size, a small square that the picture is stretched to. Means over many
//! pixels keep fractions of a level there, the only contrast of a flat picture; the cost does not depend on the
//! picture's size; and the network does not resample the copy again, which would cost half a point of precision (ECSSD,
//! a copy larger by a third).

use crate::image::{Buffer, Frame, Size};
use backdrop_kernels::model_input::cpu::model_input;
use rayon::prelude::*;

/// Side of the copy where the network's input size is unknown.
pub const DEFAULT_SIDE: u32 = 384;
const TILES: usize = 4;
/// Most that a bin may hold, as a multiple of an even share. The steepest stretch is `CLIP` + 1.
const CLIP: f32 = 8.0;
const BINS: usize = 256;

/// The mapping of a tile: its value at the ends of all bins, 0..=255.
type Curve = [f32; BINS + 1];

/// An equalised copy of `frame`, laid over white, as a square of `side` pixels (at least one for each tile).
///
/// `frame`: not empty. The bytes do not depend on the number of threads.
#[must_use]
pub fn equalized(frame: &Frame, side: u32) -> Frame {
    let Size { width, height } = frame.size();
    let side = (side as usize).max(TILES);
    let mut values = vec![0.0; side * side * 3];
    model_input(frame.pixels(), width as usize, height as usize, side, 0, &mut values);
    let colours = values.as_chunks::<3>().0;
    let luminances: Vec<f32> = colours.par_iter().map(luminance).collect();
    let curves: Vec<Curve> = (0..TILES * TILES).into_par_iter().map(|tile| curve(&luminances, side, tile)).collect();
    let between: Vec<(usize, f32)> = (0..side).map(|at| between_tiles(at, side)).collect();
    let mut pixels = vec![0; side * side * 4];
    pixels.par_chunks_mut(side * 4).enumerate().for_each(|(y, row)| {
        let (above, down) = between[y];
        for (x, pixel) in row.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let (left, right) = between[x];
            let luminance = luminances[y * side + x];
            let (bin, within) = bin_of(luminance);
            let stretched = |row: usize, column: usize| {
                let curve = &curves[row * TILES + column];
                mix(curve[bin], curve[bin + 1], within)
            };
            let upper = mix(stretched(above, left), stretched(above, left + 1), right);
            let lower = mix(stretched(above + 1, left), stretched(above + 1, left + 1), right);
            let gain = mix(upper, lower, down) - luminance;
            let [red, green, blue] = colours[y * side + x].map(|value| (level(value) + gain).round() as u8);
            *pixel = [red, green, blue, 255];
        }
    });
    let side = u32::try_from(side).expect("it was 32 bits, or is a small constant");
    Frame::new(Size::new(side, side), Buffer::from(pixels))
}

fn level(value: f32) -> f32 {
    (value + 1.0) * 127.5
}

/// Rec. 601 luma, 0..=255, of three channels in -1..=1.
fn luminance([red, green, blue]: &[f32; 3]) -> f32 {
    level(0.299 * red + 0.587 * green + 0.114 * blue).clamp(0.0, 255.0)
}

/// The bin of a luminance, and its position in the bin, 0..=1.
///
/// Whole levels lie in the middle of their bins: at an end, rounding would put one colour into different bins of two
/// tiles, eight levels apart after mapping.
fn bin_of(luminance: f32) -> (usize, f32) {
    let shifted = luminance + 0.5;
    let bin = (shifted as usize).min(BINS - 1);
    (bin, shifted - bin as f32)
}

fn mix(one: f32, other: f32, share: f32) -> f32 {
    one + (other - one) * share
}

/// The last tile centred before this row or column, and the share of the next tile. The outermost tiles are repeated.
fn between_tiles(at: usize, side: usize) -> (usize, f32) {
    let place = ((at as f32 + 0.5) * TILES as f32 / side as f32 - 0.5).clamp(0.0, (TILES - 1) as f32);
    let before = (place as usize).min(TILES - 2);
    (before, place - before as f32)
}

fn curve(luminances: &[f32], side: usize, tile: usize) -> Curve {
    let edge = |index: usize| index * side / TILES;
    let (row, column) = (tile / TILES, tile % TILES);
    let (columns, rows) = (edge(column)..edge(column + 1), edge(row)..edge(row + 1));
    let mut histogram = [0_u32; BINS];
    for y in rows.clone() {
        for luminance in &luminances[y * side..][columns.clone()] {
            histogram[bin_of(*luminance).0] += 1;
        }
    }
    let pixels = (rows.len() * columns.len()) as f32;
    let limit = CLIP * pixels / BINS as f32;
    let kept = histogram.map(|count| (count as f32).min(limit));
    let spread = (pixels - kept.iter().sum::<f32>()) / BINS as f32;
    let mut curve = [0.0; BINS + 1];
    let mut sum = 0.0;
    for (end, count) in curve[1..].iter_mut().zip(kept) {
        sum += count + spread;
        *end = sum / pixels * 255.0;
    }
    curve
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::tests::{drawn, noise, on_any_number_of_threads};

    #[test]
    fn faint_waves_gain_contrast_up_to_the_clip_limit() {
        let faint = drawn(640, 480, |x, _| {
            let grey = 100 + ((x % 80).abs_diff(40) * 12 / 40) as u8;
            [grey, grey, grey, 255]
        });
        let equalized = equalized(&faint, 512);
        assert_eq!(equalized.size(), Size::new(512, 512));
        let greys = equalized.pixels().as_chunks::<4>().0.iter().map(|pixel| pixel[1]);
        let (lowest, highest) = greys.fold((255, 0), |(low, high), grey| (grey.min(low), grey.max(high)));
        let gain = f32::from(highest - lowest) / 12.0;
        assert!(gain > 4.0, "{gain}");
        assert!(gain <= CLIP + 1.0, "{gain}: without the limit, noise would be stretched without end");
    }

    #[test]
    fn a_picture_of_one_colour_keeps_it_evenly() {
        for level in [0, 77, 255] {
            let flat = equalized(&drawn(33, 7, |_, _| [level, level, level, 255]), 40);
            let first = flat.pixel(0, 0);
            assert!(flat.pixels().as_chunks::<4>().0.iter().all(|pixel| *pixel == first), "{level}");
        }
    }

    #[test]
    fn hues_stay() {
        let tinted = drawn(300, 200, |x, y| {
            let grey = 100 + ((x + y) % 40) as u8;
            [grey + 20, grey, grey - 20, 255]
        });
        for pixel in equalized(&tinted, 200).pixels().as_chunks::<4>().0 {
            let [red, green, blue, alpha] = *pixel;
            assert_eq!(alpha, 255);
            if red < 255 && blue > 0 {
                assert!(red.abs_diff(green).abs_diff(20) <= 1 && green.abs_diff(blue).abs_diff(20) <= 1, "{pixel:?}");
            }
        }
    }

    #[test]
    fn transparent_pixels_are_laid_over_white() {
        let clear = drawn(64, 64, |_, _| [10, 20, 30, 0]);
        let white = drawn(64, 64, |_, _| [255, 255, 255, 255]);
        assert_eq!(equalized(&clear, 64).pixels(), equalized(&white, 64).pixels());
    }

    #[test]
    fn any_size_gives_the_same_bytes_on_any_number_of_threads() {
        for (width, height, side) in [(1, 1, 1), (1, 900, 384), (700, 3, 5), (513, 511, 383)] {
            let picture = drawn(width, height, |x, y| {
                let [red, green, blue, _] = noise(x, y).map(|value| value / 4 + 90);
                [red, green, blue, 255]
            });
            on_any_number_of_threads(picture.size(), || equalized(&picture, side).into_pixels());
        }
    }
}
