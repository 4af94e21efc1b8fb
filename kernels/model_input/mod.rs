//! The network's input: a picture of any size, resampled to a square of normalised floats.
//!
//! `y = resample(over_white(x)) / 127.5 - 1`, red, green, blue, in encoded sRGB, as in training.
//!
//! Each axis separately: where the picture is larger than the square, the mean over the area of a target pixel
//! (OpenCV's `INTER_AREA`); where it is smaller, linear interpolation between pixel centres (`INTER_LINEAR`: target `i`
//! reads `(i + 0.5) · n / side - 0.5`, clamped to the picture). Nothing is rounded to eight bits before the end, so
//! values differ from OpenCV's by up to half a level. Transparent pixels are composited over white first.

pub mod cpu;
#[cfg(feature = "gpu")]
pub mod gpu;

/// Source pixels of one target pixel along one axis: a weighted first and last one, and any number between them with
/// weight 1. Their sum is multiplied by `scale`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// First source pixel.
    pub first: usize,
    /// Last source pixel; may be the first.
    pub last: usize,
    /// Weight of the first.
    pub first_weight: f32,
    /// Weight of the last; zero if it is the first.
    pub last_weight: f32,
    /// One over the sum of all weights.
    pub scale: f32,
}

/// The spans of a target of `side` pixels over a source of `extent`.
///
/// # Panics
/// When either is zero.
#[must_use]
pub fn spans(extent: usize, side: usize) -> Vec<Span> {
    assert!(extent > 0 && side > 0, "neither the picture nor the target may be empty");
    let ratio = extent as f64 / side as f64;
    (0..side)
        .map(|target| {
            if extent > side {
                // In integers: source pixel borders in units of 1 / side.
                let (start, end) = (target * extent, (target + 1) * extent);
                let (first, last) = (start / side, (end - 1) / side);
                let first_end = ((first + 1) * side).min(end);
                let part = |units: usize| (units as f64 / side as f64) as f32;
                let last_weight = if last == first { 0.0 } else { part(end - last * side) };
                Span { first, last, first_weight: part(first_end - start), last_weight, scale: (1.0 / ratio) as f32 }
            } else {
                let centre = ((target as f64 + 0.5) * ratio - 0.5).clamp(0.0, (extent - 1) as f64);
                let first = centre as usize;
                let last = (first + 1).min(extent - 1);
                let beyond = if last == first { 0.0 } else { (centre - first as f64) as f32 };
                Span { first, last, first_weight: 1.0 - beyond, last_weight: beyond, scale: 1.0 }
            }
        })
        .collect()
}

#[cfg(test)]
mod tests;
