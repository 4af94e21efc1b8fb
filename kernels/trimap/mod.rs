//! What the network's mask makes certain, and the unknown band between.
//!
//! ```text
//! low(c)  = min of the mask over the ellipse (dx / rx)² + (dy / ry)² ≤ 1 around cell c
//! high(c) = max of the mask over the same ellipse
//! ```
//!
//! A pixel is foreground where `low`, read bilinearly at its centre, is at least [`Params::foreground`], background
//! where `high` is at most [`Params::background`], else unknown. So the band is `rx` or `ry` cells to either side of a sharp
//! edge, as wide as the ramp of an unsure one, and closed over flat interiors. The radii are in cells of the grid because
//! that is what limits where the network can put an edge; the band grows with the picture by itself.
//!
//! The ellipse is taken chord by chord ([`Chords`]), and of each chord three cells, however long it is. So at most 228 cells are
//! read for a cell, and 14 for the usual radii of two cells, instead of all in the ellipse. No radius is longer than
//! [`MAX_RADIUS`].
//!
//! Input: f32 `[rows, columns]` in 0..=1. Output: u8 `[height, width]`, 0, 128 or 255. Border rule: the ellipse is
//! clipped at the border of the grid.

mod chords;
pub mod cpu;
#[cfg(feature = "gpu")]
pub mod gpu;

pub use chords::{Chord, Chords, MAX_RADIUS};

/// Surely background.
pub const BACKGROUND: u8 = 0;
/// Between the two.
pub const UNKNOWN: u8 = 128;
/// Surely subject.
pub const FOREGROUND: u8 = 255;

/// Radii and thresholds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// Radii of the ellipse across and down, in cells, up to [`MAX_RADIUS`].
    pub radii: [f32; 2],
    /// Mask above which all of the ellipse must lie for foreground.
    pub foreground: f32,
    /// Mask below which all of the ellipse must lie for background.
    pub background: f32,
}
