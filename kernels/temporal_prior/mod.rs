//! The matte of a clip's previous frame as prior of the current one's.
//!
//! *Warped*: the coverage at pixel `p` of the unknown band is the previous matte's at `p + f(p)` (Catmull-Rom), where the motion
//! `f` is known on the network's grid and bilinear between its cells, as is the weight of the past. Known pixels have the weight 0.
//!
//! *Toward*: closed-form matting starts from `s + w (e - s)`, where `s` is the coarser level's solution, `e` the expected coverage
//! and `w` its weight. *Blended*: what it solves is moved towards `e` by `w (1 - |e - s| / 128)`, and not at all where the two are
//! 128 of 255 or more apart, which is no noise of matting but an edge elsewhere than expected.
//!
//! Mattes: coverage `[H, W]`, 0..=255. Motion: f32 `[rows, columns]`, in cells. Weights: f32 `[rows, columns]` in 0..=1.

pub mod cpu;
#[cfg(feature = "gpu")]
pub mod gpu;

/// Coverages this far apart are unrelated.
pub const UNRELATED: u8 = 128;
