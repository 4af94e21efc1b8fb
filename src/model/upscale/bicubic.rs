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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doubled_axis_has_the_weights_of_imresize() {
        let [before, after] = phases(Factor::Two).try_into().expect("two samples for each pixel");
        // imresize([…], 2, 'bicubic'): -0.0234375, 0.2265625, 0.8671875, -0.0703125.
        assert_eq!(before, Phase { first: 0, weights: [-0.023_437_5, 0.226_562_5, 0.867_187_5, -0.070_312_5] });
        assert_eq!(after, Phase { first: 1, weights: [-0.070_312_5, 0.867_187_5, 0.226_562_5, -0.023_437_5] });
    }

    #[test]
    fn every_phase_preserves_a_constant_and_a_ramp() {
        for factor in Factor::ALL {
            for (index, Phase { first, weights }) in phases(factor).into_iter().enumerate() {
                let sum: f32 = weights.iter().sum();
                assert!((sum - 1.0).abs() < 1e-6, "{factor:?}, {index}: {sum}");
                let position: f32 = weights.iter().zip(first..).map(|(weight, at)| weight * at as f32).sum();
                let expected = (index as f32 + 0.5) / factor.get() as f32 - 0.5 + REACH as f32;
                assert!((position - expected).abs() < 1e-6, "{factor:?}, {index}: {position}, not {expected}");
                assert!(first + weights.len() <= ROWS);
            }
        }
    }
}
