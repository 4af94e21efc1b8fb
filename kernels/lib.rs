//! The compute kernels of Backdrop, one folder each.
//!
//! `mod.rs` has the formula and the paper, `cpu.rs` plain Rust, `gpu.rs` the GPU twin, if any.

#![allow(
    clippy::needless_range_loop,
    reason = "loops with constant bounds over arrays of registers; iterators would hide the bounds"
)]

pub mod bilinear;
pub mod conv;
pub mod coverage;
#[cfg(feature = "gpu")]
pub mod device;
pub mod dilate;
pub mod dst_over;
pub mod edge;
pub mod enhance;
mod f32x8;
pub mod flat_over;
pub mod foreground;
pub mod gaussian;
pub mod interpolation;
pub mod laplacian;
#[cfg(feature = "gpu")]
pub mod layers;
pub mod light_wrap;
pub mod linear_alpha;
pub mod mask_upsample;
pub mod model_input;
pub mod noise;
#[cfg(feature = "gpu")]
pub mod parity;
pub mod prolongation;
pub mod pull_push;
pub mod pyramid;
pub mod recycled;
pub mod resample;
pub mod shadow_grid;
pub mod srgb;
mod stripes;
#[cfg(feature = "gpu")]
mod sums;
pub mod temporal_prior;
pub mod trimap;
pub mod watchdog;
