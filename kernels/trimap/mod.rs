//! What the network's mask makes certain, and the unknown band between.
//!
//! ```text
//! low(c)  = min of the mask over the disc of radius r around cell c
//! high(c) = max of the mask over the same disc
//! ```
//!
//! A pixel is foreground where `low`, read bilinearly at its centre, is at least [`Params::foreground`], background
//! where `high` is at most [`Params::background`], else unknown. So the band is `r` cells to either side of a sharp edge,
//! as wide as the ramp of an unsure one, and closed over flat interiors. `r` is in cells of the grid because that is
//! what limits where the network can put an edge; the band grows with the picture by itself.
//!
//! Input: f32 `[rows, columns]` in 0..=1. Output: u8 `[height, width]`, 0, 128 or 255. Border rule: the disc is clipped
//! at the border of the grid.

pub mod cpu;
#[cfg(feature = "gpu")]
pub mod gpu;

/// Surely background.
pub const BACKGROUND: u8 = 0;
/// Between the two.
pub const UNKNOWN: u8 = 128;
/// Surely subject.
pub const FOREGROUND: u8 = 255;

/// Radius and thresholds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// Radius of the disc, in cells.
    pub radius: f32,
    /// Mask above which all of the disc must lie for foreground.
    pub foreground: f32,
    /// Mask below which all of the disc must lie for background.
    pub background: f32,
}

impl Params {
    /// Where the disc reaches: `(dx, dy)` with `dx² + dy² ≤ r²`.
    #[must_use]
    pub fn disc(&self) -> Vec<(i32, i32)> {
        let reach = self.radius.max(0.0) as i32;
        let inside = |&(dx, dy): &(i32, i32)| (dx * dx + dy * dy) as f32 <= self.radius * self.radius;
        (-reach..=reach).flat_map(|dy| (-reach..=reach).map(move |dx| (dx, dy))).filter(inside).collect()
    }
}
