//! Anti-aliased dilation of a coverage plane by a radius, through an exact Euclidean distance transform.
//!
//! Meijster, Roerdink and Hesselink, "A General Algorithm for Computing Distance Transforms in Linear Time", 2000,
//! gives for each pixel the nearest *seed*, which is a pixel that is at least half covered: first the nearest one of
//! each column, then, along the row, the nearest of those, `q`. Among equally near ones that is the leftmost, and the
//! upper of two in one column.
//!
//! The distance of the shape's edge from pixel `p` follows from the coverage of a pixel `k` on it. With `n` the direction
//! from `k` to `p`, coverage `c` is the area that a straight edge across `n` cuts off the pixel's square if it passes at
//! `s(c, n)` beyond the centre (Gustavson and Strand, "Anti-Aliased Euclidean Distance Transform", 2011; `c - ½` along an axis).
//! So
//!
//! ```text
//! distance(p) = min over k of |p - k| - s(c_k, n)
//! result(p)   = area of p cut off by an edge across n that passes radius - distance(p) beyond its centre
//! ```
//!
//! where the minimum is found by walking from `q` along seeds and the covered pixels beside them.
//!
//! Joins are round. Straight edges along the axes move by exactly `radius`, sloped ones within 16 of 255 (30 for a
//! radius below 2). A disc grows to the anti-aliased disc that is larger by `radius`, within 5 of 255 on average over its
//! rim and 16 at most (9 and 48 for a radius below 2).
//! Faint coverage that touches no seed is not part of the shape, and may be missing from the result.
//!
//! Input and output: coverage `[height, width]`, 255 standing for 1; radius in pixels, 0..=1024. Border rule: zero
//! outside. The twins differ by at most 4 steps of 255, and by more than one only where two pixels of the edge are
//! as near up to rounding and the walk takes the other one.

pub mod cpu;
#[cfg(feature = "gpu")]
pub mod gpu;

/// The largest radius, in pixels; beyond it, it counts as this.
pub const MAX_RADIUS: f32 = 1024.0;

/// Coverage from which a pixel is a seed.
pub const SEED: u8 = 128;

/// Squared distances between a pixel and its seed at which the result is 0 or 1 whatever the edge's coverage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Up to this the result is 1: the edge is not before a seed's centre, and half a diagonal covers a pixel.
    pub(crate) near: i64,
    /// From this on it is 0, half a diagonal away: the edge is at most √2 nearer, diagonally beside a seed.
    pub(crate) far: i64,
    /// Rows and columns beyond which no seed matters.
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
