//! The compute kernels of Backdrop: each with its formula and paper (`mod.rs`), its plain-Rust form (`cpu.rs`), and
//! where it runs on a GPU the twin (`gpu.rs`).

pub mod foreground;
mod lanes;
pub mod laplacian;
pub mod mask_upsample;
pub mod trimap;
