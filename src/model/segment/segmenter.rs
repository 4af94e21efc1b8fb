//! The interface of a loaded segmentation network, and its errors.

use crate::image::{Frame, InvalidMask, RawMask};

/// Why a network gave no result.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    /// The device refused the work, was lost, or returned invalid values.
    #[error("the device failed: {0}")]
    Device(String),
    /// The device cannot be used at all: it cannot be opened, or failed its self-test.
    #[error("the device cannot be used: {0}")]
    Unusable(String),
}

impl SegmentError {
    /// The reason, without its class.
    #[must_use]
    pub fn into_reason(self) -> String {
        match self {
            Self::Device(reason) | Self::Unusable(reason) => reason,
        }
    }
}

impl From<InvalidMask> for SegmentError {
    fn from(error: InvalidMask) -> Self {
        Self::Device(error.to_string())
    }
}

/// A loaded segmentation network on one device. Owned by the device thread.
pub trait Segmenter: Send {
    /// Name and version of the weights, as reported in `x-service-model`.
    fn model(&self) -> &str;
    /// The device, as reported to the operator.
    fn device(&self) -> String;
    /// One mask for each frame, in order. A batch of N gives the same masks as N batches of one.
    ///
    /// # Errors
    /// [`SegmentError`] when the device fails; the whole batch has then failed.
    fn segment(&mut self, frames: &[&Frame]) -> Result<Vec<RawMask>, SegmentError>;
    /// Maximum pictures in one run; a larger run would not save time.
    fn max_batch(&self) -> usize {
        usize::MAX
    }
    /// Frees working memory that a batch of one does not need. Called while no request is in flight.
    fn free_idle_memory(&mut self) {}
}
