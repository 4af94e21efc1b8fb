//! The matte of a clip's previous frame as a prior of the current matte.
//!
//! *Warped*: the coverage at pixel `p` of the unknown band is the previous matte's at `p + f(p)` (Catmull-Rom). The
//! motion `f` and the weight are on the network's grid, and bilinear between its cells. Known pixels have weight 0.
//!
//! *Toward*: closed-form matting starts from `s + w (e - s)`, where `s` is the coarser level's solution, `e` the
//! expected coverage and `w` its weight. *Blended*: its solution `s` is moved towards `e` by `w (1 - |e - s| / 128)`,
//! and not at all where they are 128 of 255 or more apart: that is not noise, but an edge at an unexpected position.
//!
//! Mattes: coverage `[H, W]`, 0..=255. Motion: f32 `[rows, columns]`, in cells. Weights: f32 `[rows, columns]` in 0..=1.

pub mod cpu;
#[cfg(feature = "gpu")]
pub mod gpu;

/// Difference from which coverages are unrelated.
pub const UNRELATED: u8 = 128;
