//! Foreground estimation: one relaxation step of the foreground and background colours of partly covered pixels.
//!
//! Germer, Uelwer, Conrad and Harmeling, "Fast Multi-Level Foreground Estimation", ICPR 2020: `F` and `B` reproduce the
//! picture, `I = α F + (1 - α) B`, and are smooth, most of all across edges of alpha. For one pixel with its four
//! neighbours' colours fixed, the minimum is a 2×2 system, which is solved in closed form. With
//!
//! ```text
//! w_n = ω + |α - α_n|          weight of neighbour n
//! S   = Σ w_n
//! F̄   = Σ w_n F_n / S          and B̄ likewise
//! ```
//!
//! it is `F = F̄ + α d` and `B = B̄ + (1 - α) d`, where `d = (I - α F̄ - (1 - α) B̄) / (α² + (1 - α)² + S)` is the
//! residual of the neighbours' colours. (In the paper's form the determinant cancels to a few bits.)
//!
//! All pixels are updated from the previous step's colours (Jacobi), so the order of work does not matter.
//! Planes are f32 `[height, width]` in 0..=1. Border rule: a neighbour outside is the pixel itself.

pub mod cpu;
#[cfg(feature = "gpu")]
pub mod gpu;

/// ω: weight of smoothness where alpha is flat.
pub const SMOOTHNESS: f32 = 1e-5;

/// Steps on a level of [`SMALL`] pixels a side at most, and on a larger one.
const STEPS_SMALL: usize = 10;
const STEPS: usize = 2;
/// Longest side of a small level.
const SMALL: usize = 32;

/// Steps on a level of this width and height.
#[must_use]
pub const fn steps([width, height]: [usize; 2]) -> usize {
    if width <= SMALL && height <= SMALL { STEPS_SMALL } else { STEPS }
}
