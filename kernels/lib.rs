//! The compute kernels of Backdrop: each with its formula and paper (`mod.rs`), its plain-Rust form (`cpu.rs`), and
//! where it runs on a GPU the twin (`gpu.rs`).

#![allow(
    clippy::needless_range_loop,
    reason = "loops with constant bounds over arrays of registers; iterators would hide the bounds"
)]

pub mod beneath;
pub mod conv;
#[cfg(feature = "gpu")]
pub mod device;
pub mod dilate;
pub mod foreground;
pub mod gaussian;
mod lanes;
pub mod laplacian;
pub mod mask_upsample;
pub mod model_input;
pub mod noise;
#[cfg(feature = "gpu")]
pub mod parity;
pub mod pull_push;
pub mod resize;
mod srgb;
mod stripes;
pub mod trimap;
