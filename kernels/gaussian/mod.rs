//! Gaussian blur by three extended box filters: the cost does not depend on σ.
//!
//! Gwosdek, Grewenig, Bruhn and Weickert, "Theoretical Foundations of Gaussian Convolution by Extended Box Filtering",
//! SSVM 2011: consecutive box filters approach a Gaussian (central limit theorem), and a box with fractional weights of
//! its two outermost taps can have any variance, not only the variances of boxes of odd length. Three boxes, each with
//!
//! ```text
//! v = σ² / 3                                        variances add up
//! r = ⌊(√(12 v + 1) - 1) / 2⌋                       the longest whole box with no more than that
//! a = (2r + 1) (r (r + 1) - 3 v) / (6 (v - (r + 1)²))  weight of the taps at ±(r + 1), where the others have 1
//! ```
//!
//! divided by `2r + 1 + 2a`. So the variance is σ² exactly, the weights add up to 1, and are zero beyond `3 (r + 1)`
//! pixels, where a Gaussian has fallen to about 1 % of its peak. They differ from a Gaussian's by at most 9 % of its
//! peak (6 % from σ = 5 on: three boxes have a slightly lower peak and wider shoulders).
//!
//! Samples: f32 of a magnitude of at most 2¹⁶, any number of independent channels. Border rule: [`Border`]. Every pass
//! is rounded to multiples of 2⁻²⁴, whose sums in f64 are exact in any order. So mirrored input gives mirrored output,
//! and the result is exactly 0 beyond the reach. The twins differ by at most 1e-5 of the largest sample.

pub mod cpu;
#[cfg(feature = "gpu")]
pub mod gpu;

/// The largest σ in pixels; larger ones are limited to it.
pub const MAX_SIGMA: f32 = 4096.0;

const BOXES: usize = 3;

/// Values outside the plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Border {
    /// Zero.
    Zero,
    /// The nearest sample at the border.
    Clamp,
}

/// One of the boxes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExtendedBox {
    /// Samples with full weight to either side of the centre.
    pub radius: usize,
    /// Weight of the sample after these on either side, relative to 1.
    pub end: f64,
}

impl ExtendedBox {
    /// The box whose threefold application blurs by `sigma` > 0 pixels.
    #[must_use]
    pub fn new(sigma: f32) -> Self {
        let sigma = f64::from(sigma.min(MAX_SIGMA));
        let variance = sigma * sigma / BOXES as f64;
        let radius = ((12.0 * variance + 1.0).sqrt() * 0.5 - 0.5).floor();
        let next = radius + 1.0;
        let end = (2.0 * radius + 1.0) * (radius * next - 3.0 * variance) / (6.0 * (variance - next * next));
        // The square root can be rounded across a whole radius. The end weight is then 0 or 1 up to rounding.
        Self { radius: radius as usize, end: end.clamp(0.0, 1.0) }
    }

    /// Sum of the weights.
    #[must_use]
    pub fn sum(&self) -> f64 {
        (2 * self.radius + 1) as f64 + 2.0 * self.end
    }

    /// The weights of three consecutive boxes, from one end of their reach to the other.
    #[must_use]
    pub fn weights(&self) -> Vec<f32> {
        let mut tap = vec![1.0 / self.sum(); 2 * self.radius + 3];
        for end in [0, 2 * self.radius + 2] {
            tap[end] *= self.end;
        }
        let mut weights = vec![1.0];
        for _ in 0..BOXES {
            let mut wider = vec![0.0; weights.len() + tap.len() - 1];
            for (at, weight) in weights.iter().enumerate() {
                for (wider, tap) in wider[at..].iter_mut().zip(&tap) {
                    *wider += weight * tap;
                }
            }
            weights = wider;
        }
        weights.into_iter().map(|weight: f64| weight as f32).collect()
    }

    /// Pixels beyond which the weights of three consecutive boxes are zero.
    #[must_use]
    pub const fn reach(&self) -> usize {
        BOXES * (self.radius + 1)
    }
}

/// Pixels beyond which a point blurred by `sigma` is exactly zero.
#[must_use]
pub fn reach(sigma: f32) -> usize {
    if sigma > 0.0 { ExtendedBox::new(sigma).reach() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weights_of_the_three_boxes_match_the_blur() {
        for sigma in [0.3, 1.0, 4.7, 20.0] {
            let (weights, reach) = (ExtendedBox::new(sigma).weights(), reach(sigma));
            assert_eq!(weights.len(), 2 * reach + 1);
            let mut row = vec![[0.0]; 2 * reach + 1];
            row[reach] = [1.0];
            cpu::blur(&mut row, 2 * reach + 1, sigma, Border::Clamp);
            for ([blurred], weight) in row.iter().zip(weights) {
                assert!((blurred - weight).abs() < 1e-6, "σ = {sigma}");
            }
        }
    }
}
