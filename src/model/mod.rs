//! The networks: weights, normalisation, and the two ways to run them (our CPU kernels, burn on a GPU).

#[cfg(feature = "gpu")]
pub mod burn_net;
pub mod device;
mod face;
pub mod fgnet_cpu;
#[cfg(feature = "gpu")]
pub mod gpu;
mod pack;
mod restore;
mod retouch;
mod segment;
mod upscale;
pub mod weights;

#[cfg(feature = "gpu")]
pub use retouch::GpuRetoucher;
pub use retouch::{CpuRetoucher, FACE_SIDE, FaceCrop, Factor, Retoucher};
pub use segment::CpuSegmenter;

use crate::image::{Frame, InvalidMask, RawMask};

/// Why a batch failed.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    /// The device refused, was lost, or answered nonsense.
    #[error("the device failed: {0}")]
    Device(String),
}

impl From<InvalidMask> for SegmentError {
    fn from(error: InvalidMask) -> Self {
        Self::Device(error.to_string())
    }
}

/// A loaded segmentation network on one device. Lives on the device thread.
pub trait Segmenter: Send {
    /// Name and version of the weights, as told in `x-service-model`.
    fn model(&self) -> &str;
    /// The device, in words.
    fn device(&self) -> String;
    /// One mask for each frame, in order. A batch of N gives what N batches of one give.
    ///
    /// # Errors
    /// [`SegmentError`] when the device fails; the whole batch then failed.
    fn segment(&mut self, frames: &[&Frame]) -> Result<Vec<RawMask>, SegmentError>;
}
