//! The networks: weights, and their execution by the CPU kernels or by burn on a GPU.

pub mod added;
#[cfg(feature = "gpu")]
pub mod burn_net;
pub mod device;
mod face;
pub mod onnx;
mod pack;
mod restore_cpu;
mod retouch;
mod segment;
mod upscale;
mod upscale_factor;
pub mod weights;

pub use face::FaceSearch;
#[cfg(feature = "gpu")]
pub use retouch::GpuRetoucher;
pub use retouch::{CpuRetoucher, FACE_SIDE, FaceCrop, Retoucher};
#[cfg(feature = "gpu")]
pub use segment::GpuSegmenter;
pub use segment::{CpuSegmenter, Precision, SegmentError, Segmenter, UnsupportedPrecision};
pub use upscale::{Band, Enlargement};
pub use upscale_factor::Factor;
