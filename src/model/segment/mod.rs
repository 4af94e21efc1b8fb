//! Segmentation: pictures in, masks of the subject out, on the CPU or on a GPU.

mod cpu;
mod edge_classifier;
mod fgnet_cpu;
#[cfg(feature = "gpu")]
mod gpu;
mod guide_cpu;
mod precision;
mod segmenter;

pub use cpu::CpuSegmenter;
#[cfg(feature = "gpu")]
pub use gpu::GpuSegmenter;
pub use precision::{Precision, UnsupportedPrecision};
pub use segmenter::{SegmentError, Segmenter};
