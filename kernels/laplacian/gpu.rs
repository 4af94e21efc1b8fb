//! The matting Laplacian on the GPU: one pixel of its product with a plane, for the solver's kernels.
//!
//! Two kernels: fit the line of every window, then sum the residuals of the fits at every pixel. Nothing is stored
//! between two products, because a window's covariance costs less to compute than to read.
//!
//! GPUs have no f64, and f32 is not enough: where the colours of a window lie on a line (every grey edge) the
//! determinant is ten orders of magnitude below its terms. But colours are integers. With `M = 81 · 255² Σ`, a matrix
//! of integers below 2²¹, the cofactors and the determinant of `M` are exact in 64-bit integers, and
//!
//! ```text
//! det(M + r) = det M + r · (sum of the principal minors) + r² · trace M + r³        r = 9 · 255² ε
//! ```
//!
//! has no negative term, so it is accurate in f32, and so are the other minors. They give the rows of `W`, where
//! `(M + r)⁻¹ = Wᵀ W`. The inverse, rounded to 32 bits, would not be positive where a window has two colours;
//! `Wᵀ (W v)` errs only in directions that the window's colours do not have. Windows store their line as its value at
//! the centre's colour, so that the second kernel, too, multiplies with exact differences of integers.

use cubecl::prelude::*;

use super::EPSILON;

/// `r` above: the ridge in units of 8-bit colour.
const RIDGE: f32 = 9.0 * 255.0 * 255.0 * EPSILON;

/// A 64-bit integer in two's complement.
#[derive(CubeType, Clone, Copy)]
struct Wide {
    high: u32,
    low: u32,
}

#[cube]
fn product(a: i32, b: i32) -> Wide {
    Wide { high: u32::cast_from(a.mul_hi(b)), low: u32::cast_from(a) * u32::cast_from(b) }
}

#[cube]
fn plus(a: &Wide, b: &Wide) -> Wide {
    let low = a.low + b.low;
    let carry = u32::cast_from(low < a.low);
    Wide { high: a.high + b.high + carry, low }
}

#[cube]
fn minus(a: &Wide, b: &Wide) -> Wide {
    let borrow = u32::cast_from(a.low < b.low);
    Wide { high: a.high - b.high - borrow, low: a.low - b.low }
}

/// The product, which fits in 64 bits.
#[cube]
fn times(a: &Wide, b: i32) -> Wide {
    let low = u32::cast_from(b);
    let high = u32::cast_from(b >> 31);
    Wide { high: a.low.mul_hi(low) + a.low * high + a.high * low, low: a.low * low }
}

#[cube]
fn rounded(a: &Wide) -> f32 {
    // By magnitude: in two's complement a small negative number is the difference of two large ones.
    let negative = (a.high >> 31) == 1;
    let zero = Wide { high: 0u32, low: 0u32 };
    let negated = minus(&zero, a);
    let high = select(negative, negated.high, a.high);
    let low = select(negative, negated.low, a.low);
    let magnitude = f32::cast_from(high) * 4_294_967_296.0 + f32::cast_from(low);
    select(negative, 0.0 - magnitude, magnitude)
}

#[cube]
fn minor(a: i32, b: i32, c: i32, d: i32) -> Wide {
    minus(&product(a, d), &product(b, c))
}

#[cube]
fn channel(pixel: u32, shift: u32) -> i32 {
    i32::cast_from((pixel >> shift) & 255)
}

/// The window around a pixel: sums of colours, and `W` (`(M + r)⁻¹ = Wᵀ W`), lower triangle, row after row.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Window {
    sum_r: i32,
    sum_g: i32,
    sum_b: i32,
    w_0: f32,
    w_10: f32,
    w_11: f32,
    w_20: f32,
    w_21: f32,
    w_22: f32,
}

/// The window around (`x`, `y`), which must not lie at the border.
#[cube]
pub(super) fn window(picture: &[u32], x: u32, y: u32, width: u32) -> Window {
    let mut sum_r = 0i32;
    let mut sum_g = 0i32;
    let mut sum_b = 0i32;
    let mut rr = 0i32;
    let mut rg = 0i32;
    let mut rb = 0i32;
    let mut gg = 0i32;
    let mut gb = 0i32;
    let mut bb = 0i32;
    for row in 0u32..3u32 {
        for column in 0u32..3u32 {
            let pixel = picture[((y + row - 1) * width + x + column - 1) as usize];
            let r = channel(pixel, 0u32);
            let g = channel(pixel, 8u32);
            let b = channel(pixel, 16u32);
            sum_r += r;
            sum_g += g;
            sum_b += b;
            rr += r * r;
            rg += r * g;
            rb += r * b;
            gg += g * g;
            gb += g * b;
            bb += b * b;
        }
    }
    let m_rr = 9 * rr - sum_r * sum_r;
    let m_rg = 9 * rg - sum_r * sum_g;
    let m_rb = 9 * rb - sum_r * sum_b;
    let m_gg = 9 * gg - sum_g * sum_g;
    let m_gb = 9 * gb - sum_g * sum_b;
    let m_bb = 9 * bb - sum_b * sum_b;

    // Cofactors of M + r: integers, plus the ridge's terms.
    let f_rr = f32::cast_from(m_rr);
    let f_gg = f32::cast_from(m_gg);
    let f_bb = f32::cast_from(m_bb);
    let c_rr = minor(m_gg, m_gb, m_gb, m_bb);
    let c_rg = minor(m_rb, m_rg, m_bb, m_gb);
    let c_rb = minor(m_rg, m_rb, m_gg, m_gb);
    let c_gg = minor(m_rr, m_rb, m_rb, m_bb);
    let c_gb = minor(m_rb, m_rr, m_gb, m_rg);
    let c_bb = rounded(&minor(m_rr, m_rg, m_rg, m_gg));
    let first = times(&c_rr, m_rr);
    let second = times(&c_rg, m_rg);
    let third = times(&c_rb, m_rb);
    let determinant = rounded(&plus(&plus(&first, &second), &third))
        + RIDGE * (rounded(&c_rr) + rounded(&c_gg) + c_bb)
        + RIDGE * RIDGE * (f_rr + f_gg + f_bb)
        + RIDGE * RIDGE * RIDGE;
    let c_rb = rounded(&c_rb) - RIDGE * f32::cast_from(m_rb);
    let c_gb = rounded(&c_gb) - RIDGE * f32::cast_from(m_gb);
    let c_bb = c_bb + RIDGE * (f_rr + f_gg) + RIDGE * RIDGE;

    let corner = f_rr + RIDGE;
    let w_0 = 1.0 / f32::sqrt(corner);
    let w_1 = 1.0 / (f32::sqrt(corner) * f32::sqrt(c_bb));
    let w_2 = 1.0 / (f32::sqrt(c_bb) * f32::sqrt(determinant));
    Window {
        sum_r,
        sum_g,
        sum_b,
        w_0,
        w_10: (0.0 - f32::cast_from(m_rg)) * w_1,
        w_11: corner * w_1,
        w_20: c_rb * w_2,
        w_21: c_gb * w_2,
        w_22: c_bb * w_2,
    }
}

/// `|W (9 I - Σ I)|²` of a pixel in a window: nine times the pixel's weight in the window's line there, less one.
#[cube]
pub(super) fn leverage(over: &Window, pixel: u32) -> f32 {
    let r = f32::cast_from(9 * channel(pixel, 0u32) - over.sum_r);
    let g = f32::cast_from(9 * channel(pixel, 8u32) - over.sum_g);
    let b = f32::cast_from(9 * channel(pixel, 16u32) - over.sum_b);
    let u_0 = over.w_0 * r;
    let u_1 = over.w_10 * r + over.w_11 * g;
    let u_2 = over.w_20 * r + over.w_21 * g + over.w_22 * b;
    u_0 * u_0 + u_1 * u_1 + u_2 * u_2
}

/// The line of a window: slopes per 8-bit step of colour, and the value at the centre's colour.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Line {
    pub(super) red: f32,
    pub(super) green: f32,
    pub(super) blue: f32,
    pub(super) level: f32,
}

/// The line of the window around (`x`, `y`), which must not lie at the border.
#[cube]
pub(super) fn fit(picture: &[u32], plane: &[f32], x: u32, y: u32, width: u32) -> Line {
    let over = window(picture, x, y, width);
    let centre = (y * width + x) as usize;
    // Relative to the centre's value, which does not change the covariance but its rounding.
    let base = plane[centre];
    let mut total = f32::new(0.0);
    let mut v_r = f32::new(0.0);
    let mut v_g = f32::new(0.0);
    let mut v_b = f32::new(0.0);
    for row in 0u32..3u32 {
        for column in 0u32..3u32 {
            let at = ((y + row - 1) * width + x + column - 1) as usize;
            let pixel = picture[at];
            let value = plane[at] - base;
            total += value;
            v_r += value * f32::cast_from(9 * channel(pixel, 0u32) - over.sum_r);
            v_g += value * f32::cast_from(9 * channel(pixel, 8u32) - over.sum_g);
            v_b += value * f32::cast_from(9 * channel(pixel, 16u32) - over.sum_b);
        }
    }
    let u_0 = over.w_0 * v_r;
    let u_1 = over.w_10 * v_r + over.w_11 * v_g;
    let u_2 = over.w_20 * v_r + over.w_21 * v_g + over.w_22 * v_b;
    let red = over.w_0 * u_0 + over.w_10 * u_1 + over.w_20 * u_2;
    let green = over.w_11 * u_1 + over.w_21 * u_2;
    let blue = over.w_22 * u_2;

    let pixel = picture[centre];
    let ahead = red * f32::cast_from(9 * channel(pixel, 0u32) - over.sum_r)
        + green * f32::cast_from(9 * channel(pixel, 8u32) - over.sum_g)
        + blue * f32::cast_from(9 * channel(pixel, 16u32) - over.sum_b);
    Line { red, green, blue, level: base + (total + ahead) / 9.0 }
}

/// The product at (`x`, `y`): the residuals of its windows. `lines`: four planes, of red, green, blue and levels.
#[cube]
pub(super) fn residuals(picture: &[u32], plane: &[f32], lines: &[f32], x: u32, y: u32, width: u32, height: u32) -> f32 {
    let at = (y * width + x) as usize;
    let next = (height * width) as usize;
    let value = plane[at];
    let pixel = picture[at];
    let r = channel(pixel, 0u32);
    let g = channel(pixel, 8u32);
    let b = channel(pixel, 16u32);
    let mut sum = f32::new(0.0);
    for row in 0u32..3u32 {
        for column in 0u32..3u32 {
            // The window's centre is one less; windows that would leave the picture do not exist.
            let wy = y + row;
            let wx = x + column;
            if wy >= 2 && wx >= 2 && wy < height && wx < width {
                let window = ((wy - 1) * width + wx - 1) as usize;
                let centre = picture[window];
                sum += value
                    - lines[window + 3 * next]
                    - lines[window] * f32::cast_from(r - channel(centre, 0u32))
                    - lines[window + next] * f32::cast_from(g - channel(centre, 8u32))
                    - lines[window + 2 * next] * f32::cast_from(b - channel(centre, 16u32));
            }
        }
    }
    sum
}

/// Writes a line into the four planes, each of `next` values.
#[cube]
pub(super) fn store(lines: &mut [f32], line: &Line, at: usize, next: usize) {
    lines[at] = line.red;
    lines[at + next] = line.green;
    lines[at + 2 * next] = line.blue;
    lines[at + 3 * next] = line.level;
}
