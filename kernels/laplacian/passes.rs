//! The vectorised loops: window statistics, the matrix's entries, its product, and the updates of conjugate gradients.
//!
//! Sums over pixels are kept in eight lanes and added in a fixed order, so they do not depend on the instruction set.

use super::runs::{UnknownRun, WindowRun};
use super::{EPSILON, WINDOW_AREA};
use crate::f32x8::{F32x8, LANES};
use multiversion::multiversion;

/// Negated entries of `L` of eight pixels with the 5×5 pixels around each, row after row; zero for the pixel itself.
pub(super) type Entries = [[f32; LANES]; 25];

/// A scalar product: one f64 sum for each lane.
struct Total([f64; LANES]);

impl Total {
    const ZERO: Self = Self([0.0; LANES]);

    #[inline(always)]
    fn add(&mut self, terms: F32x8) {
        for lane in 0..LANES {
            self.0[lane] += f64::from(terms.0[lane]);
        }
    }

    fn sum(&self) -> f64 {
        self.0.iter().sum()
    }
}

#[inline(always)]
fn line<const LEN: usize>(plane: &[f32], at: usize) -> &[f32; LEN] {
    match plane[at..].first_chunk() {
        Some(line) => line,
        None => panic!("planes are padded to whole blocks"),
    }
}

/// Eight values of a line from `at` on.
#[inline(always)]
fn lanes<const LEN: usize>(line: &[f32; LEN], at: usize) -> F32x8 {
    F32x8::load(line, at)
}

#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
pub(super) fn split_channels(pixels: &[[u8; 4]], red: &mut [f32], green: &mut [f32], blue: &mut [f32]) {
    for (((pixel, red), green), blue) in pixels.iter().zip(red).zip(green).zip(blue) {
        let packed = u32::from_le_bytes(*pixel);
        *red = (packed & 255) as f32;
        *green = (packed >> 8 & 255) as f32;
        *blue = (packed >> 16 & 255) as f32;
    }
}

/// The inverse of Cholesky's triangle of `M / 81 + ridge`, for eight windows: `M` is exact, and f64 loses nothing of it
/// where the colours of a window lie on a line.
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

/// Mean colour of every window of a picture of `size`; its whitening `W`, lower triangle, row after row, and 1/9. Zeros
/// where the window does not exist. The planes begin with window `base`.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
pub(super) fn statistics(
    runs: &[WindowRun],
    base: u32,
    [width, height]: [usize; 2],
    colours: [&[f32]; 3],
    means: [&mut [f32]; 3],
    whitening: [&mut [f32]; 7],
) {
    let [red_means, green_means, blue_means] = means;
    let [w00, w10, w11, w20, w21, w22, ninths] = whitening;
    let nine = F32x8::splat(WINDOW_AREA);
    for run in runs {
        let row_exists = run.y >= 1 && run.y + 2 <= height as i32;
        for step in (0..run.len as usize).step_by(LANES) {
            let mut sums = [F32x8::ZERO; 3];
            let mut squares = [F32x8::ZERO; 6];
            for row in run.pixels {
                let [reds, greens, blues] = colours.map(|plane| line::<10>(plane, row as usize + step));
                for dx in 0..3 {
                    let (x, y, z) = (lanes(reds, dx), lanes(greens, dx), lanes(blues, dx));
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
            // Exact: integers below 2²³.
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
                exists.0[lane] = if row_exists && x >= 1 && x + 2 <= width as i32 { 1.0 } else { 0.0 };
            }
            let ninth = exists / nine;
            let window = (run.at - base) as usize + step;
            (x * ninth).store(red_means, window);
            (y * ninth).store(green_means, window);
            (z * ninth).store(blue_means, window);
            let [a, b, c, d, e, f] = whiten(&scatter);
            (a * exists).store(w00, window);
            (b * exists).store(w10, window);
            (c * exists).store(w11, window);
            (d * exists).store(w20, window);
            (e * exists).store(w21, window);
            (f * exists).store(w22, window);
            ninth.store(ninths, window);
        }
    }
}

/// The sums of the first, the first two, all three, the last two and the last of three: over the windows that hold both
/// of two pixels at distances -2, -1, 0, 1, 2.
#[inline(always)]
fn shared([a, b, c]: [F32x8; 3]) -> [F32x8; 5] {
    let ab = a + b;
    [a, ab, ab + c, b + c, c]
}

/// The rows of `L` at the unknown pixels: negated entries outside the diagonal, and the diagonal, which is their sum.
///
/// With `d = I_j - I_i` and `u_k = W_k (I_i - μ_k)` the entry is `Σ_k (1 + u_k · u_k + W_kᵀ u_k · d) / 9` over the
/// windows that hold both pixels, a rectangle of the nine around `i`. Terms that do not depend on `j` are summed over
/// each rectangle once. The planes of windows begin with window `base`.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
pub(super) fn assemble(
    runs: &[UnknownRun],
    base: u32,
    colours: [&[f32]; 3],
    means: [&[f32]; 3],
    whitening: [&[f32]; 7],
    entries: &mut [Entries],
    diagonal: &mut [f32],
) {
    let one = F32x8::splat(1.0);
    for run in runs {
        for step in (0..run.len as usize).step_by(LANES) {
            let here = colours.map(|plane| F32x8::load(plane, run.pixel as usize + step));
            // By row of windows, quantity (the constant and the three slopes), and horizontal distance.
            let mut sums = [[[F32x8::ZERO; 5]; 4]; 3];
            for (sums, row) in sums.iter_mut().zip(run.windows) {
                let at = (row - base) as usize + step;
                let [reds, greens, blues] = means.map(|plane| line::<10>(plane, at));
                let [w00, w10, w11, w20, w21, w22, ninths] = whitening.map(|plane| line::<10>(plane, at));
                let mut parts = [[F32x8::ZERO; 3]; 4];
                for dx in 0..3 {
                    let (x, y, z) =
                        (here[0] - lanes(reds, dx), here[1] - lanes(greens, dx), here[2] - lanes(blues, dx));
                    let (w00, w10, w11) = (lanes(w00, dx), lanes(w10, dx), lanes(w11, dx));
                    let (w20, w21, w22, ninth) = (lanes(w20, dx), lanes(w21, dx), lanes(w22, dx), lanes(ninths, dx));
                    let (x, y, z) = (w00 * x, w10 * x + w11 * y, w20 * x + w21 * y + w22 * z);
                    parts[0][dx] = (one + x * x + y * y + z * z) * ninth;
                    parts[1][dx] = (w00 * x + w10 * y + w20 * z) * ninth;
                    parts[2][dx] = (w11 * y + w21 * z) * ninth;
                    parts[3][dx] = w22 * z * ninth;
                }
                for quantity in 0..4 {
                    sums[quantity] = shared(parts[quantity]);
                }
            }
            let at = run.at as usize + step;
            let block = &mut entries[at / LANES];
            let mut total = F32x8::ZERO;
            for dx in 0..5 {
                let mut terms = [[F32x8::ZERO; 5]; 4];
                for quantity in 0..4 {
                    terms[quantity] = shared([sums[0][quantity][dx], sums[1][quantity][dx], sums[2][quantity][dx]]);
                }
                for dy in 0..5 {
                    let there = run.around[dy] as usize + step + dx;
                    let mut entry = terms[0][dy];
                    for channel in 0..3 {
                        entry = entry + terms[1 + channel][dy] * (F32x8::load(colours[channel], there) - here[channel]);
                    }
                    if (dy, dx) == (2, 2) {
                        entry = F32x8::ZERO;
                    }
                    total = total + entry;
                    block[5 * dy + dx] = entry.0;
                }
            }
            total.store(diagonal, at);
        }
    }
}

/// `product = weights · plane - entries · plane` over the unknown pixels, and its scalar product with `plane`.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
pub(super) fn multiply(
    runs: &[UnknownRun],
    plane: &[f32],
    entries: &[Entries],
    weights: &[f32],
    product: &mut [f32],
) -> f64 {
    let mut total = Total::ZERO;
    for run in runs {
        for step in (0..run.len as usize).step_by(LANES) {
            let at = run.at as usize + step;
            let block = &entries[at / LANES];
            // A sum for each row: five short chains of additions instead of a long one.
            let mut sums = [F32x8::ZERO; 5];
            for dy in 0..5 {
                let line = line::<12>(plane, run.around[dy] as usize + step);
                for dx in 0..5 {
                    sums[dy] = sums[dy] + F32x8(block[5 * dy + dx]) * lanes(line, dx);
                }
            }
            let value = F32x8::load(plane, run.pixel as usize + step);
            let [a, b, c, d, e] = sums;
            let here = F32x8::load(weights, at) * value - ((a + b) + (c + d) + e);
            here.store(product, at);
            total.add(here * value);
        }
    }
    total.sum()
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
    let mut total = Total::ZERO;
    for run in runs {
        for step in (0..run.len as usize).step_by(LANES) {
            let at = run.at as usize + step;
            let left = F32x8::load(residual, at) - F32x8::load(product, at);
            let ahead = left * F32x8::load(scale, at);
            left.store(residual, at);
            ahead.store(direction, run.pixel as usize + step);
            total.add(left * ahead);
        }
    }
    total.sum()
}

/// Moves `alpha` by `length` along `direction`. Returns the energy of the new residual.
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
    let mut total = Total::ZERO;
    for run in runs {
        for step in (0..run.len as usize).step_by(LANES) {
            let (at, pixel) = (run.at as usize + step, run.pixel as usize + step);
            (F32x8::load(alpha, pixel) + length * F32x8::load(direction, pixel)).store(alpha, pixel);
            let left = F32x8::load(residual, at) - length * F32x8::load(product, at);
            left.store(residual, at);
            total.add(left * left * F32x8::load(scale, at));
        }
    }
    total.sum()
}

/// The next direction: the preconditioned residual plus `keep` times the last direction.
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
