//! The compute kernels of Backdrop: each with its formula and paper (`mod.rs`), its plain-Rust form (`cpu.rs`), and
//! where it runs on a GPU the twin (`gpu.rs`).

pub mod conv;
#[cfg(feature = "gpu")]
pub mod device;
pub mod foreground;
mod lanes;
pub mod laplacian;
pub mod mask_upsample;
pub mod model_input;
#[cfg(feature = "gpu")]
pub mod parity;
pub mod resize;
pub mod trimap;
