//! Trimaps: definite foreground, definite background and the unknown band, from the network's mask.
//!
//! ```text
//! low(c)  = min of the mask over the ellipse (dx / rx)² + (dy / ry)² ≤ 1 around cell c
//! high(c) = max of the mask over the same ellipse
//! ```
//!
//! A pixel is foreground where `low`, read bilinearly at its centre, is at least [`Params::foreground`], background
//! where `high` is at most [`Params::background`], else unknown. So the band is `rx` or `ry` cells to either side of a
//! sharp edge, as wide as the ramp of a soft edge, and empty over flat interiors. The radii are in cells of the grid,
//! the resolution at which the network places edges; the band scales with the picture.
//!
//! The ellipse is processed by chords ([`Chords`]), with three reads for any chord: at most 228 for a cell, and 14 for
//! the usual radii of two cells. Radii are limited to [`MAX_RADIUS`].
//!
//! Input: f32 `[rows, columns]` in 0..=1. Output: u8 `[height, width]`: 0, 128, 255. Ellipses are clipped at the
//! border.

mod chords;
pub mod cpu;
#[cfg(feature = "gpu")]
pub mod gpu;

pub use chords::{Chord, Chords, MAX_RADIUS};

/// Definite background.
pub const BACKGROUND: u8 = 0;
/// Unknown.
pub const UNKNOWN: u8 = 128;
/// Definite foreground.
pub const FOREGROUND: u8 = 255;

/// Radii and thresholds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// Radii of the ellipse across and down, in cells, up to [`MAX_RADIUS`].
    pub radii: [f32; 2],
    /// Minimum mask value over the whole ellipse for foreground.
    pub foreground: f32,
    /// Maximum mask value over the whole ellipse for background.
    pub background: f32,
}
