//! Gaussian blur on the CPU by running sums over blocks of lines, along the rows, then along the columns.

use super::{BOXES, Border, ExtendedBox};
use crate::stripes::stripes;
use multiversion::multiversion;
use rayon::prelude::*;

const LINES: usize = 16;

/// Columns of one task: several blocks, which limits the number of tasks.
const STRIPE: usize = 8 * LINES;

type Line = [f32; LINES];

/// Adding and subtracting 1.5 · 2²⁸ rounds an f64 below 2²⁷ to a multiple of 2⁻²⁴.
const TO_STEPS: f64 = 1.5 * 268_435_456.0;

/// Blurs `samples` (row-major, `width` a row) in place by `sigma` pixels. A `sigma` of 0 or less changes nothing.
///
/// Takes a block of 16 lines for each thread in addition to the samples, longer by twice the [`reach`](super::reach).
///
/// # Panics
/// When the samples are not whole rows, or have no channel or more than 16.
pub fn blur<const C: usize>(samples: &mut [[f32; C]], width: usize, sigma: f32, border: Border) {
    const { assert!(C > 0 && C <= LINES, "a block has room for every channel") };
    if samples.is_empty() || sigma.is_nan() || sigma <= 0.0 {
        return;
    }
    assert_eq!(samples.len() % width, 0, "a plane is made of whole rows");
    let filter = ExtendedBox::new(sigma);
    let reach = filter.reach();
    let rows = LINES / C;
    samples.par_chunks_mut(width * rows).for_each_init(Vec::new, |block, band| {
        block.clear();
        block.resize(width + 2 * reach, [0.0; LINES]);
        for (row, pixels) in band.chunks_exact(width).enumerate() {
            for (line, pixel) in block[reach..].iter_mut().zip(pixels) {
                line[row * C..][..C].copy_from_slice(pixel);
            }
        }
        blur_lines(block, &filter, border);
        for (row, pixels) in band.chunks_exact_mut(width).enumerate() {
            for (line, pixel) in block.iter().zip(pixels) {
                pixel.copy_from_slice(&line[row * C..][..C]);
            }
        }
    });
    let height = samples.len() / width;
    let tasks = stripes(samples.as_flattened_mut(), width * C, STRIPE);
    tasks.into_par_iter().for_each_init(Vec::new, |block, mut stripe| {
        let columns = stripe[0].len();
        for first in (0..columns).step_by(LINES) {
            let here = first..(first + LINES).min(columns);
            block.clear();
            block.resize(height + 2 * reach, [0.0; LINES]);
            for (line, row) in block[reach..].iter_mut().zip(&stripe) {
                line[..here.len()].copy_from_slice(&row[here.clone()]);
            }
            blur_lines(block, &filter, border);
            for (line, row) in block.iter().zip(&mut stripe) {
                row[here.clone()].copy_from_slice(&line[..here.len()]);
            }
        }
    });
}

/// Blurs a block whose samples have a border of the reach at both ends. The result starts at 0.
fn blur_lines(block: &mut [Line], filter: &ExtendedBox, border: Border) {
    let reach = filter.reach();
    let end = block.len() - reach;
    let (before, after) = match border {
        Border::Zero => ([0.0; LINES], [0.0; LINES]),
        Border::Clamp => (block[reach], block[end - 1]),
    };
    block[..reach].fill(before);
    block[end..].fill(after);
    round(block);
    let mut length = block.len();
    for _ in 0..BOXES {
        filter_lines(&mut block[..length], filter.radius, filter.end, 1.0 / filter.sum());
        length -= 2 * (filter.radius + 1);
    }
}

#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
fn round(block: &mut [Line]) {
    for line in block {
        for lane in 0..LINES {
            line[lane] = ((f64::from(line[lane]) + TO_STEPS) - TO_STEPS) as f32;
        }
    }
}

/// One box over each line, where its window lies inside. The result starts at 0: `radius + 1` samples earlier.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
fn filter_lines(block: &mut [Line], radius: usize, end: f64, scale: f64) {
    let mut sum = [0.0f64; LINES];
    for line in &block[1..2 * radius + 2] {
        for lane in 0..LINES {
            sum[lane] += f64::from(line[lane]);
        }
    }
    let window = 2 * (radius + 1);
    for at in 0..block.len() - window {
        let (next, last) = (block[at + 1], block[at + window]);
        let first = &mut block[at];
        for lane in 0..LINES {
            let (entering, leaving) = (f64::from(last[lane]), f64::from(next[lane]));
            let mean = (sum[lane] + end * (f64::from(first[lane]) + entering)) * scale;
            sum[lane] += entering - leaving;
            first[lane] = ((mean + TO_STEPS) - TO_STEPS) as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::reach;
    use super::*;

    const SIGMAS: [f32; 9] = [0.1, 0.5, 0.816_496_6, 1.0, 1.3, 2.0, 5.25, 10.0, 33.3];

    fn noise(length: usize) -> Vec<[f32; 1]> {
        (0..length).map(|at| [((at as u32).wrapping_mul(2_654_435_761) >> 16) as f32 / 65536.0]).collect()
    }

    /// The impulse response in the middle of a row.
    fn response(sigma: f32) -> Vec<f64> {
        let side = 2 * reach(sigma) + 5;
        let mut row = vec![[0.0]; side];
        row[side / 2] = [1.0];
        // The row is repeated above and below, so that no weight is lost.
        blur(&mut row, side, sigma, Border::Clamp);
        row.into_iter().map(|[value]| f64::from(value)).collect()
    }

    #[test]
    fn the_variance_is_sigma_squared_and_the_weights_add_up_to_one() {
        for sigma in SIGMAS {
            let weights = response(sigma);
            let centre = (weights.len() / 2) as f64;
            let sum: f64 = weights.iter().sum();
            let variance: f64 =
                weights.iter().enumerate().map(|(at, weight)| weight * (at as f64 - centre).powi(2)).sum();
            // Each weight is rounded to 2⁻²⁴.
            let expected = f64::from(sigma * sigma);
            assert!((sum - 1.0).abs() < 1e-5, "σ = {sigma}: {sum}");
            assert!((variance / expected - 1.0).abs() < 1e-3, "σ = {sigma}: {variance} for {expected}");
        }
    }

    #[test]
    fn a_blurred_plane_is_a_gaussian_average_of_it() {
        let (width, height, sigma) = (61, 47, 3.0);
        let plane = noise(width * height);
        let mut blurred = plane.clone();
        blur(&mut blurred, width, sigma, Border::Clamp);
        let weights: Vec<f64> = (-12..=12).map(|at| (-f64::from(at * at) / 18.0).exp()).collect();
        let sum: f64 = weights.iter().sum();
        for (x, y) in (0..height).flat_map(|y| (0..width).map(move |x| (x, y))) {
            let mut expected = 0.0;
            for (dy, down) in weights.iter().enumerate() {
                for (dx, across) in weights.iter().enumerate() {
                    let column = (x + dx).saturating_sub(12).min(width - 1);
                    let row = (y + dy).saturating_sub(12).min(height - 1);
                    expected += down * across * f64::from(plane[row * width + column][0]) / (sum * sum);
                }
            }
            let actual = f64::from(blurred[y * width + x][0]);
            assert!((actual - expected).abs() < 0.01, "at {x},{y}: {actual} for {expected}");
        }
    }

    #[test]
    fn the_result_is_zero_beyond_the_reach() {
        for sigma in SIGMAS {
            let reach = reach(sigma);
            let side = 2 * reach + 9;
            let centre = side / 2;
            let mut plane = vec![[0.0, 0.7]; side * side];
            plane[centre * side + centre][0] = 1.0;
            blur(&mut plane, side, sigma, Border::Zero);
            for (at, [value, _]) in plane.iter().enumerate() {
                let away = (at % side).abs_diff(centre).max((at / side).abs_diff(centre));
                assert!(away <= reach || *value == 0.0, "σ = {sigma}: {value} at {away} of {reach}");
            }
            assert!(plane[centre * side + centre - 1][0] > 0.0 || sigma < 0.5, "σ = {sigma} did not blur");
        }
    }

    #[test]
    fn a_constant_stays_under_a_clamped_border_and_fades_under_a_zero_one() {
        for sigma in SIGMAS.into_iter().chain([400.0, 1e9, f32::INFINITY]) {
            let mut plane = vec![[0.3f32, 1.0, 200.0]; 40 * 23];
            blur(&mut plane, 40, sigma, Border::Clamp);
            for pixel in &plane {
                for (value, before) in pixel.iter().zip([0.3, 1.0, 200.0]) {
                    assert!((value / before - 1.0).abs() < 1e-5, "σ = {sigma}: {value}");
                }
            }
        }
        let mut plane = vec![[1.0f32]; 100 * 100];
        blur(&mut plane, 100, 5.0, Border::Zero);
        // At the border half of a pixel's window lies outside, less the pixel itself; far from the border none does.
        assert!((plane[50 * 100][0] - 0.54).abs() < 0.005, "{:?}", plane[50 * 100]);
        assert!((plane[50 * 100 + 50][0] - 1.0).abs() < 1e-6);
    }

    #[test]
    fn samples_blurred_out_of_the_plane_do_not_return() {
        // A plane cut from a larger one that is zero around it.
        let (side, margin) = (20, 40);
        let wide = side + 2 * margin;
        let mut small = noise(side * side);
        let mut large = vec![[0.0]; wide * wide];
        for (y, row) in small.chunks(side).enumerate() {
            large[(y + margin) * wide + margin..][..side].copy_from_slice(row);
        }
        blur(&mut small, side, 6.0, Border::Zero);
        blur(&mut large, wide, 6.0, Border::Zero);
        for (y, row) in small.chunks(side).enumerate() {
            assert_eq!(row, &large[(y + margin) * wide + margin..][..side]);
        }
    }

    #[test]
    fn a_sigma_of_zero_or_less_changes_nothing() {
        for sigma in [0.0, -1.0, f32::NAN] {
            let mut plane = noise(30);
            blur(&mut plane, 6, sigma, Border::Zero);
            assert_eq!((plane, reach(sigma)), (noise(30), 0));
        }
    }
}
