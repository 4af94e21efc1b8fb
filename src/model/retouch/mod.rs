//! The auxiliary networks behind one interface: face detection, face restoration and upscaling, on the CPU or on a GPU.

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
