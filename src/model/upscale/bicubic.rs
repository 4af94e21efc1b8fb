//! Bicubic enlargement, a row at a time; the network's residual is added to it.
//!
//! Keys, "Cubic Convolution Interpolation for Digital Image Processing" (1981) with a = -1/2. Output pixel `o` is at
//! `(o + 1/2) / factor - 1/2`, as in MATLAB's `imresize`; outside the picture the border is repeated.

use crate::model::Factor;

/// Pixels on every side of a pixel on which its enlargement depends.
pub(super) const REACH: usize = 2;

/// Rows under the filter.
pub(super) const ROWS: usize = 2 * REACH + 1;

/// One sample of an enlarged axis: the first of its four inputs, counted from the pixel that holds it less [`REACH`],
/// and their weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Phase {
    pub(super) first: usize,
    pub(super) weights: [f32; 4],
}

/// The samples that replace each pixel of an axis.
pub(super) fn phases(factor: Factor) -> Vec<Phase> {
    let factor = f64::from(factor.get());
    let phase = |index: f64| {
        let position = (index + 0.5) / factor - 0.5;
        let first = position.floor() - 1.0;
        let weights = std::array::from_fn(|tap| keys(position - first - tap as f64) as f32);
        Phase { first: (first + REACH as f64) as usize, weights }
    };
    (0..factor as u32).map(|index| phase(f64::from(index))).collect()
}

fn keys(x: f64) -> f64 {
    const A: f64 = -0.5;
    let x = x.abs();
    if x <= 1.0 {
        ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        ((x - 5.0) * x + 8.0) * A * x - 4.0 * A
    } else {
        0.0
    }
}

#[inline]
pub(super) fn blend(pixels: [[f32; 4]; 4], weights: [f32; 4]) -> [f32; 4] {
    let [a, b, c, d] = pixels;
    std::array::from_fn(|channel| {
        (a[channel] * weights[0] + b[channel] * weights[1]) + (c[channel] * weights[2] + d[channel] * weights[3])
    })
}
