//! Lanczos resampling in linear light with premultiplied alpha.
//!
//! Lanczos with three lobes (Duchon, "Lanczos Filtering in One and Two Dimensions", 1979), stretched by the factor
//! when the picture shrinks. Two passes, along the rows, then along the columns: each output is the weighted mean of
//! the inputs under it. Light adds up where it is linear, and colour counts by its coverage, so samples are decoded
//! from sRGB and multiplied by alpha before the first pass; after the second they are divided and encoded.
//!
//! Input and output: packed RGBA8, sRGB, straight alpha. The window is clipped at the border and its weights are
//! normalised to add up to 1. Colour under alpha 0 is 0. The twins differ by at most one step of 255.
//!
//! For pictures on the GPU. Those in host memory are resized by `fast_image_resize`, which does the same with SIMD; the CPU
//! twin here is the reference that the GPU twin is tested against.

pub mod cpu;
#[cfg(feature = "gpu")]
pub mod gpu;

/// Lobes of the filter on each side.
const LOBES: f64 = 3.0;

/// Filter taps of each output along one axis, computed once and used by both twins.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Inputs under each output; shorter windows are padded with weight 0.
    pub taps: usize,
    /// First input of each output.
    pub first: Vec<u32>,
    /// `taps` weights for each output, which add up to 1.
    pub weights: Vec<f32>,
}

impl Axis {
    /// The plan for `from` inputs and `to` outputs.
    ///
    /// # Panics
    /// When either is 0 or beyond 32 bits.
    #[must_use]
    pub fn new(from: usize, to: usize) -> Self {
        assert!(from > 0 && to > 0, "an axis has at least one sample");
        let scale = from as f64 / to as f64;
        let stretch = scale.max(1.0);
        let reach = LOBES * stretch;
        let windows: Vec<(usize, Vec<f64>)> = (0..to)
            .map(|output| {
                let centre = (output as f64 + 0.5) * scale;
                let first = (centre - reach).floor().max(0.0) as usize;
                let end = ((centre + reach).ceil() as usize).min(from);
                let weights: Vec<f64> =
                    (first..end).map(|input| lanczos((input as f64 + 0.5 - centre) / stretch)).collect();
                let sum: f64 = weights.iter().sum();
                (first, weights.into_iter().map(|weight| weight / sum).collect())
            })
            .collect();
        let taps = windows.iter().map(|(_, weights)| weights.len()).max().unwrap_or(0);
        let mut plan = Self { taps, first: Vec::with_capacity(to), weights: Vec::with_capacity(taps * to) };
        for (first, weights) in windows {
            // Windows cut at the far border are shifted back, so that no padded tap reads beyond it.
            let start = first.min(from.saturating_sub(taps));
            plan.first.push(u32::try_from(start).expect("pictures fit in 32 bits"));
            let before = std::iter::repeat_n(0.0, first - start);
            let after = std::iter::repeat_n(0.0, taps - (first - start) - weights.len());
            plan.weights.extend(before.chain(weights.into_iter().map(|weight| weight as f32)).chain(after));
        }
        plan
    }
}

fn lanczos(x: f64) -> f64 {
    if x == 0.0 {
        return 1.0;
    }
    if x.abs() >= LOBES {
        return 0.0;
    }
    let angle = std::f64::consts::PI * x;
    LOBES * angle.sin() * (angle / LOBES).sin() / (angle * angle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_add_up_to_one_and_stay_inside() {
        for (from, to) in [(1, 1), (1, 7), (7, 1), (100, 33), (33, 100), (4096, 384)] {
            let axis = Axis::new(from, to);
            assert_eq!(axis.first.len(), to);
            for (first, weights) in axis.first.iter().zip(axis.weights.chunks(axis.taps)) {
                assert!(*first as usize + axis.taps <= from, "{from} → {to}");
                let sum: f32 = weights.iter().sum();
                assert!((sum - 1.0).abs() < 1e-5, "{from} → {to}: {sum}");
            }
        }
    }

    #[test]
    fn the_same_size_changes_nothing() {
        let axis = Axis::new(9, 9);
        for (output, weights) in axis.weights.chunks(axis.taps).enumerate() {
            let own = output - axis.first[output] as usize;
            assert!((weights[own] - 1.0).abs() < 1e-6);
        }
    }
}
