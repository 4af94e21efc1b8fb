//! The auxiliary networks (face detection, face restoration, upscaling) behind one interface, on the CPU or a GPU.

mod cpu;
mod face_crop;
#[cfg(feature = "gpu")]
mod gpu;
mod retoucher;

pub use cpu::CpuRetoucher;
pub use face_crop::{FACE_SIDE, FaceCrop};
#[cfg(feature = "gpu")]
pub use gpu::GpuRetoucher;
pub use retoucher::Retoucher;
