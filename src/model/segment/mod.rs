//! Segmentation: pictures in, masks of the subject out, on the CPU or on a GPU.

mod cpu;
mod fgnet_cpu;
#[cfg(feature = "gpu")]
mod gpu;
mod segmenter;

pub use cpu::CpuSegmenter;
#[cfg(feature = "gpu")]
pub use gpu::GpuSegmenter;
pub use segmenter::{SegmentError, Segmenter};
