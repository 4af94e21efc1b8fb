//! Lanczos resampling in linear light with premultiplied alpha.
//!
//! Lanczos with three lobes (Duchon, "Lanczos Filtering in One and Two Dimensions", 1979), stretched by the factor when
//! the picture shrinks. Two passes, along the rows, then along the columns: each output is the weighted mean of its
//! inputs. Light adds up where it is linear, and colour counts by its coverage, so samples are decoded from sRGB and
//! multiplied by alpha before the first pass, and divided and encoded after the second. Between the passes samples are
//! whole 65535ths of 0..=1, as in `fast_image_resize`, which resamples pictures on the host.
//!
//! Input and output: packed RGBA8, sRGB, straight alpha. A [`Part`] of the input, in fractional pixels, becomes the output;
//! the filter also reads pixels around the part. Windows are clipped at the border of the picture and their weights are
//! normalised to add up to 1. Colour under alpha 0 is 0. The twins differ by at most one step of 255.
//!
//! The CPU twin is the GPU twin's reference.

pub mod cpu;
#[cfg(feature = "gpu")]
pub mod gpu;

/// Lobes of the filter on each side.
pub const LOBES: f64 = 3.0;

/// A part of a picture, in fractional pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// First column.
    pub left: f64,
    /// First row.
    pub top: f64,
    /// Columns, more than 0.
    pub width: f64,
    /// Rows, more than 0.
    pub height: f64,
}

/// Filter taps of each output along one axis, used by both twins.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Inputs under each output; shorter windows are padded with weight 0.
    pub taps: usize,
    /// First input of each output, in ascending order.
    pub first: Vec<u32>,
    /// `taps` weights for each output, which add up to 1.
    pub weights: Vec<f32>,
}

impl Axis {
    /// The taps of `to` outputs for `length` inputs from `start` on, of `from` inputs in all.
    ///
    /// # Panics
    /// When `from` or `to` is 0 or beyond 32 bits.
    #[must_use]
    pub fn new(from: usize, (start, length): (f64, f64), to: usize) -> Self {
        assert!(from > 0 && to > 0, "an axis has at least one sample");
        let scale = length / to as f64;
        let stretch = scale.max(1.0);
        let reach = LOBES * stretch;
        let windows: Vec<(usize, Vec<f64>)> = (0..to)
            .map(|output| {
                let centre = start + (output as f64 + 0.5) * scale;
                let first = ((centre - reach).floor().max(0.0) as usize).min(from - 1);
                let end = ((centre + reach).ceil() as usize).clamp(first + 1, from);
                let weights: Vec<f64> =
                    (first..end).map(|input| lanczos((input as f64 + 0.5 - centre) / stretch)).collect();
                let sum: f64 = weights.iter().sum();
                (first, weights.into_iter().map(|weight| weight / sum).collect())
            })
            .collect();
        let taps = windows.iter().map(|(_, weights)| weights.len()).max().unwrap_or(0);
        let mut plan = Self { taps, first: Vec::with_capacity(to), weights: Vec::with_capacity(taps * to) };
        for (first, weights) in windows {
            // Windows cut at the far border are shifted back, so that no padding tap reads beyond it.
            let start = first.min(from.saturating_sub(taps));
            plan.first.push(u32::try_from(start).expect("pictures fit in 32 bits"));
            let before = std::iter::repeat_n(0.0, first - start);
            let after = std::iter::repeat_n(0.0, taps - (first - start) - weights.len());
            plan.weights.extend(before.chain(weights.into_iter().map(|weight| weight as f32)).chain(after));
        }
        plan
    }

    /// The first needed input, and the number of needed inputs.
    #[must_use]
    pub fn inputs(&self) -> (usize, usize) {
        let [first, last] = [self.first.first(), self.first.last()].map(|at| at.map_or(0, |&at| at as usize));
        (first, last + self.taps - first)
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
        let whole = [(1, 1), (1, 7), (7, 1), (100, 33), (33, 100), (4096, 384)]
            .map(|(from, to)| (from, (0.0, from as f64), to));
        let parts = [(100, (12.5, 40.25), 7), (100, (90.0, 10.0), 30), (9, (0.0, 1.5), 4)];
        for (from, part, to) in whole.into_iter().chain(parts) {
            let axis = Axis::new(from, part, to);
            assert_eq!(axis.first.len(), to);
            assert!(axis.first.is_sorted(), "{from} → {to}");
            for (first, weights) in axis.first.iter().zip(axis.weights.chunks(axis.taps)) {
                assert!(*first as usize + axis.taps <= from, "{from} → {to}");
                let sum: f32 = weights.iter().sum();
                assert!((sum - 1.0).abs() < 1e-5, "{from} → {to}: {sum}");
            }
            let (first, count) = axis.inputs();
            assert!(first + count <= from, "{from} → {to}");
        }
    }
}
