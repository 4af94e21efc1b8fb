//! The vectorised loops of the product: window statistics, line fits, and the sum of residuals at each pixel.

use super::runs::{UnknownRun, WindowRun};
use super::{EPSILON, WINDOW_AREA};
use crate::f32x8::{F32x8, LANES};
use multiversion::multiversion;

/// Per window: the whitening `W`, lower triangle row after row, and 1/9; or zeros where it does not exist.
pub(super) type WindowBlock = [[f32; LANES]; 7];

/// Mean colour and whitening of the window whose three rows start at `rows`. In f64: they are computed once and used in
/// every product.
pub(super) fn statistics(colours: [&[f32]; 3], rows: [usize; 3]) -> ([f32; 3], [f32; 6]) {
    let area = f64::from(WINDOW_AREA);
    let mut mean = [0.0f64; 3];
    for (channel, mean) in mean.iter_mut().enumerate() {
        let sum: f64 =
            rows.iter().flat_map(|&row| &colours[channel][row..row + 3]).map(|&value| f64::from(value)).sum();
        *mean = sum / area;
    }
    let mut covariance = [0.0f64; 6];
    for row in rows {
        for at in row..row + 3 {
            let [x, y, z] = std::array::from_fn(|channel| f64::from(colours[channel][at]) - mean[channel]);
            for (sum, product) in covariance.iter_mut().zip([x * x, x * y, x * z, y * y, y * z, z * z]) {
                *sum += product;
            }
        }
    }
    let [xx, xy, xz, yy, yz, zz] = covariance.map(|sum| sum / area);
    let ridge = f64::from(EPSILON) / area;
    let (xx, yy, zz) = (xx + ridge, yy + ridge, zz + ridge);
    // Cholesky's factor, lower triangle, and its inverse by forward substitution.
    let c00 = xx.sqrt();
    let (c10, c20) = (xy / c00, xz / c00);
    let c11 = (yy - c10 * c10).sqrt();
    let c21 = (yz - c20 * c10) / c11;
    let c22 = (zz - c20 * c20 - c21 * c21).sqrt();
    let (w00, w11, w22) = (1.0 / c00, 1.0 / c11, 1.0 / c22);
    let w10 = -c10 * w00 * w11;
    let w21 = -c21 * w11 * w22;
    let w20 = -(c20 * w00 + c21 * w10) * w22;
    (mean.map(|value| value as f32), [w00, w10, w11, w20, w21, w22].map(|value| value as f32))
}

#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
#[expect(clippy::too_many_arguments, reason = "the planes of one kernel")]
pub(super) fn fit(
    runs: &[WindowRun],
    plane: &[f32],
    colours: [&[f32]; 3],
    centres: [&[f32]; 3],
    whitening: &[WindowBlock],
    start: usize,
    slopes: [&mut [f32]; 3],
    means: &mut [f32],
) {
    let [red, green, blue] = slopes;
    for run in runs {
        for step in (0..run.len as usize).step_by(LANES) {
            let window = run.at as usize + step;
            let [x, y, z] = centres;
            let centre = [F32x8::load(x, window), F32x8::load(y, window), F32x8::load(z, window)];
            let mut sum = F32x8::ZERO;
            let mut covariance = [F32x8::ZERO; 3];
            for row in run.pixels {
                for dx in 0..3 {
                    let at = row as usize + step + dx;
                    let value = F32x8::load(plane, at);
                    sum = sum + value;
                    for channel in 0..3 {
                        let colour = F32x8::load(colours[channel], at);
                        covariance[channel] = covariance[channel] + value * (colour - centre[channel]);
                    }
                }
            }
            let [w00, w10, w11, w20, w21, w22, ninth] = &whitening[window / LANES];
            let (w00, w10, w11) = (F32x8(*w00), F32x8(*w10), F32x8(*w11));
            let (w20, w21, w22, ninth) = (F32x8(*w20), F32x8(*w21), F32x8(*w22), F32x8(*ninth));
            let [x, y, z] = covariance;
            let (x, y, z) = (x * ninth, y * ninth, z * ninth);
            let (x, y, z) = (w00 * x, w10 * x + w11 * y, w20 * x + w21 * y + w22 * z);
            let at = window - start;
            (w00 * x + w10 * y + w20 * z).store(red, at);
            (w11 * y + w21 * z).store(green, at);
            (w22 * z).store(blue, at);
            (sum * ninth).store(means, at);
        }
    }
}

#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
#[expect(clippy::too_many_arguments, reason = "the planes of one kernel")]
pub(super) fn gather(
    runs: &[UnknownRun],
    plane: &[f32],
    colours: [&[f32]; 3],
    centres: [&[f32]; 3],
    slopes: [&[f32]; 3],
    means: &[f32],
    counts: &[f32],
    start: usize,
    product: &mut [f32],
) {
    for run in runs {
        for step in (0..run.len as usize).step_by(LANES) {
            let pixel = run.pixel as usize + step;
            let value = F32x8::load(plane, pixel);
            let [x, y, z] = colours;
            let colour = [F32x8::load(x, pixel), F32x8::load(y, pixel), F32x8::load(z, pixel)];
            let mut fitted = F32x8::ZERO;
            for row in run.windows {
                for dx in 0..3 {
                    let at = row as usize + step + dx;
                    fitted = fitted + F32x8::load(means, at);
                    for channel in 0..3 {
                        let offset = colour[channel] - F32x8::load(centres[channel], at);
                        fitted = fitted + F32x8::load(slopes[channel], at) * offset;
                    }
                }
            }
            let at = run.at as usize + step;
            (F32x8::load(counts, at) * value - fitted).store(product, at - start);
        }
    }
}
