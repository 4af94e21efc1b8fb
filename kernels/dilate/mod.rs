//! Anti-aliased dilation of a coverage plane by a radius, through an exact Euclidean distance transform.
//!
//! Meijster, Roerdink and Hesselink, "A General Algorithm for Computing Distance Transforms in Linear Time", 2000: for
//! each pixel the nearest *seed* `q`, a pixel that is at least half covered: first the nearest seed of each column,
//! then the nearest of these along the row. Among equally near seeds it is the leftmost, and in one column the upper
//! one.
//!
//! The distance of the shape's edge from pixel `p` follows from the coverage of a pixel `k` on the edge. With `n` the
//! direction from `k` to `p`, coverage `c` is the area that a straight edge across `n` cuts off the pixel's square at
//! `s(c, n)` beyond its centre (Gustavson and Strand, "Anti-Aliased Euclidean Distance Transform", 2011; `c - ½` along
//! an axis):
//!
//! ```text
//! distance(p) = min over k of |p - k| - s(c_k, n)
//! result(p)   = area of p cut off by an edge across n that passes radius - distance(p) beyond its centre
//! ```
//!
//! The minimum is found by walking from `q` along seeds and adjacent covered pixels.
//!
//! Joins are round. Straight edges along the axes move by exactly `radius`, sloped ones within 16 of 255 (30 for a
//! radius below 2). A disc grows to the anti-aliased disc that is larger by `radius`, within 5 of 255 on average over its
//! rim and 16 at most (9 and 48 for a radius below 2).
//! Faint coverage that touches no seed is not part of the shape, and may be missing from the result.
//!
//! Input and output: coverage `[height, width]`, 255 for 1; radius in pixels, 0..=1024. Border rule: zero outside. The
//! twins differ by at most 4 steps of 255, and by more than one only where two pixels of the edge are equally near up
//! to rounding and the walk takes the other one.

pub mod cpu;
#[cfg(feature = "gpu")]
pub mod gpu;

/// The largest radius in pixels; larger ones are limited to it.
pub const MAX_RADIUS: f32 = 1024.0;

/// Minimum coverage of a seed.
pub const SEED: u8 = 128;

/// Squared distances between a pixel and its seed beyond which the result is 0 or 1 at any coverage of the edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Up to this the result is 1: the edge is not before the seed's centre, and half a diagonal covers a pixel.
    pub(crate) near: i64,
    /// From this on the result is 0: the edge is at most √2 nearer than the seed, diagonally, and half a diagonal away.
    pub(crate) far: i64,
    /// Rows and columns within which seeds matter.
    pub(crate) reach: usize,
}

impl Limits {
    pub(crate) fn new(radius: f32) -> Self {
        let squared = |distance: f32| f64::from(distance).powi(2);
        Self {
            near: if radius < 0.7072 { -1 } else { squared(radius - 0.7072) as i64 },
            far: squared(radius + 2.1215).ceil() as i64,
            reach: radius as usize + 4,
        }
    }
}
