//! The vectorised loops of the product and of the solver: window statistics, line fits, the sum of residuals at each pixel,
//! and the updates of conjugate gradients.
//!
//! Sums over pixels are kept in eight lanes along a run and added in a fixed order, so they do not depend on the instruction
//! set.

use super::runs::{UnknownRun, WindowRun};
use super::{EPSILON, WINDOW_AREA};
use crate::f32x8::{F32x8, LANES};
use multiversion::multiversion;

/// Per window: the whitening `W`, lower triangle row after row, and 1/9; or zeros where it does not exist.
pub(super) type WindowBlock = [[f32; LANES]; 7];

/// Splits packed RGBA into planes of 8-bit steps.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
pub(super) fn split_channels(pixels: &[[u8; 4]], red: &mut [f32], green: &mut [f32], blue: &mut [f32]) {
    for (((pixel, red), green), blue) in pixels.iter().zip(red).zip(green).zip(blue) {
        let packed = u32::from_le_bytes(*pixel);
        *red = (packed & 255) as f32;
        *green = (packed >> 8 & 255) as f32;
        *blue = (packed >> 16 & 255) as f32;
    }
}

/// The inverse of Cholesky's triangle of `M / 81 + ridge`, eight windows at once: `M` is exact, and in f64 nothing of it is
/// lost where the colours of a window lie on a line.
#[inline(always)]
fn whiten(scatter: &[F32x8; 6]) -> [F32x8; 6] {
    let ridge = f64::from(EPSILON) * 255.0 * 255.0 / f64::from(WINDOW_AREA);
    let scale = 1.0 / f64::from(WINDOW_AREA * WINDOW_AREA);
    let mut whitening = [F32x8::ZERO; 6];
    for lane in 0..LANES {
        let xx = f64::from(scatter[0].0[lane]) * scale + ridge;
        let xy = f64::from(scatter[1].0[lane]) * scale;
        let xz = f64::from(scatter[2].0[lane]) * scale;
        let yy = f64::from(scatter[3].0[lane]) * scale + ridge;
        let yz = f64::from(scatter[4].0[lane]) * scale;
        let zz = f64::from(scatter[5].0[lane]) * scale + ridge;
        let w00 = 1.0 / xx.sqrt();
        let (c10, c20) = (xy * w00, xz * w00);
        let w11 = 1.0 / (yy - c10 * c10).sqrt();
        let c21 = (yz - c20 * c10) * w11;
        let w22 = 1.0 / (zz - c20 * c20 - c21 * c21).sqrt();
        let w10 = -c10 * w00 * w11;
        let w21 = -c21 * w11 * w22;
        let w20 = -(c20 * w00 + c21 * w10) * w22;
        whitening[0].0[lane] = w00 as f32;
        whitening[1].0[lane] = w10 as f32;
        whitening[2].0[lane] = w11 as f32;
        whitening[3].0[lane] = w20 as f32;
        whitening[4].0[lane] = w21 as f32;
        whitening[5].0[lane] = w22 as f32;
    }
    whitening
}

/// Mean colour and whitening of every window of a picture of `size`, and the diagonal of `L` at the pixels, to which each
/// window adds its part.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
pub(super) fn statistics(
    runs: &[WindowRun],
    [width, height]: [usize; 2],
    colours: [&[f32]; 3],
    means: [&mut [f32]; 3],
    whitening: &mut [WindowBlock],
    diagonal: &mut [f32],
) {
    let [red_means, green_means, blue_means] = means;
    let nine = F32x8::splat(WINDOW_AREA);
    let one = F32x8::splat(1.0);
    for run in runs {
        if run.y < 1 || run.y + 2 > height as i32 {
            continue;
        }
        for step in (0..run.len as usize).step_by(LANES) {
            let mut sums = [F32x8::ZERO; 3];
            let mut squares = [F32x8::ZERO; 6];
            for row in run.pixels {
                for dx in 0..3 {
                    let at = row as usize + step + dx;
                    let (x, y, z) =
                        (F32x8::load(colours[0], at), F32x8::load(colours[1], at), F32x8::load(colours[2], at));
                    sums[0] = sums[0] + x;
                    sums[1] = sums[1] + y;
                    sums[2] = sums[2] + z;
                    squares[0] = squares[0] + x * x;
                    squares[1] = squares[1] + x * y;
                    squares[2] = squares[2] + x * z;
                    squares[3] = squares[3] + y * y;
                    squares[4] = squares[4] + y * z;
                    squares[5] = squares[5] + z * z;
                }
            }
            // Whole numbers below 2²³: exact.
            let [x, y, z] = sums;
            let scatter = [
                squares[0] * nine - x * x,
                squares[1] * nine - x * y,
                squares[2] * nine - x * z,
                squares[3] * nine - y * y,
                squares[4] * nine - y * z,
                squares[5] * nine - z * z,
            ];
            let mut exists = F32x8::ZERO;
            for lane in 0..LANES {
                let x = run.x + (step + lane) as i32;
                exists.0[lane] = if x >= 1 && x + 2 <= width as i32 { 1.0 } else { 0.0 };
            }
            let ninth = exists / nine;
            let (x, y, z) = (x * ninth, y * ninth, z * ninth);
            let mut block = whiten(&scatter);
            for row in &mut block {
                *row = *row * exists;
            }
            let [w00, w10, w11, w20, w21, w22] = block;
            for row in run.pixels {
                for dx in 0..3 {
                    let at = row as usize + step + dx;
                    let (r, g, b) = (
                        F32x8::load(colours[0], at) - x,
                        F32x8::load(colours[1], at) - y,
                        F32x8::load(colours[2], at) - z,
                    );
                    let (r, g, b) = (w00 * r, w10 * r + w11 * g, w20 * r + w21 * g + w22 * b);
                    let spread = r * r + g * g + b * b;
                    let part = exists - (one + spread) * ninth;
                    (F32x8::load(diagonal, at) + part).store(diagonal, at);
                }
            }
            let window = run.at as usize + step;
            x.store(red_means, window);
            y.store(green_means, window);
            z.store(blue_means, window);
            whitening[window / LANES] = [w00.0, w10.0, w11.0, w20.0, w21.0, w22.0, ninth.0];
        }
    }
}

#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
pub(super) fn fit(
    runs: &[WindowRun],
    plane: &[f32],
    colours: [&[f32]; 3],
    centres: [&[f32]; 3],
    whitening: &[WindowBlock],
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
            (w00 * x + w10 * y + w20 * z).store(red, window);
            (w11 * y + w21 * z).store(green, window);
            (w22 * z).store(blue, window);
            (sum * ninth).store(means, window);
        }
    }
}

/// `product = weights · plane - fitted` over the unknown pixels, and its scalar product with `plane`.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
#[expect(clippy::too_many_arguments, reason = "the planes of one kernel")]
pub(super) fn gather(
    runs: &[UnknownRun],
    plane: &[f32],
    colours: [&[f32]; 3],
    centres: [&[f32]; 3],
    slopes: [&[f32]; 3],
    means: &[f32],
    weights: &[f32],
    product: &mut [f32],
) -> f64 {
    let mut total = 0.0;
    for run in runs {
        let mut sum = F32x8::ZERO;
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
            let here = F32x8::load(weights, at) * value - fitted;
            here.store(product, at);
            sum = sum + here * value;
        }
        total += sum.total();
    }
    total
}

/// The first residual `pull - product`, and from it the first direction; returns the energy.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
pub(super) fn begin(
    runs: &[UnknownRun],
    scale: &[f32],
    product: &[f32],
    residual: &mut [f32],
    direction: &mut [f32],
) -> f64 {
    let mut total = 0.0;
    for run in runs {
        let mut sum = F32x8::ZERO;
        for step in (0..run.len as usize).step_by(LANES) {
            let at = run.at as usize + step;
            let left = F32x8::load(residual, at) - F32x8::load(product, at);
            let ahead = left * F32x8::load(scale, at);
            left.store(residual, at);
            ahead.store(direction, run.pixel as usize + step);
            sum = sum + left * ahead;
        }
        total += sum.total();
    }
    total
}

/// Moves `alpha` by `length` along `direction`; returns the energy of the new residual.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
pub(super) fn advance(
    runs: &[UnknownRun],
    length: f32,
    scale: &[f32],
    product: &[f32],
    direction: &[f32],
    alpha: &mut [f32],
    residual: &mut [f32],
) -> f64 {
    let length = F32x8::splat(length);
    let mut total = 0.0;
    for run in runs {
        let mut sum = F32x8::ZERO;
        for step in (0..run.len as usize).step_by(LANES) {
            let (at, pixel) = (run.at as usize + step, run.pixel as usize + step);
            (F32x8::load(alpha, pixel) + length * F32x8::load(direction, pixel)).store(alpha, pixel);
            let left = F32x8::load(residual, at) - length * F32x8::load(product, at);
            left.store(residual, at);
            sum = sum + left * left * F32x8::load(scale, at);
        }
        total += sum.total();
    }
    total
}

/// The next direction: the preconditioned residual and `keep` of the last one.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
pub(super) fn turn(runs: &[UnknownRun], keep: f32, scale: &[f32], residual: &[f32], direction: &mut [f32]) {
    let keep = F32x8::splat(keep);
    for run in runs {
        for step in (0..run.len as usize).step_by(LANES) {
            let (at, pixel) = (run.at as usize + step, run.pixel as usize + step);
            let ahead = F32x8::load(residual, at) * F32x8::load(scale, at) + keep * F32x8::load(direction, pixel);
            ahead.store(direction, pixel);
        }
    }
}
