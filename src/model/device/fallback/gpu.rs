//! The interface of a GPU that loads the networks.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "gpu")]
use crate::model::device::adapter::Adapter;
use crate::model::weights::Weights;
use crate::model::{Retoucher, SegmentError, Segmenter};

/// A GPU that loads the networks; a trait, so that tests can substitute a failing one.
pub trait Gpu: fmt::Display + Send + Sync {
    /// Loads the segmentation network and tests it, ready for batches of up to `max_batch`.
    ///
    /// # Errors
    /// [`SegmentError::Unusable`] when the GPU cannot be opened or fails its self-test.
    fn segmenter(&self, weights: &Weights, max_batch: usize) -> Result<Box<dyn Segmenter>, SegmentError>;

    /// The auxiliary networks. Each is loaded and tested on first use, and then fails with [`SegmentError::Unusable`].
    fn retoucher(&self) -> Arc<dyn Retoucher>;

    /// Time limit of loading and testing, which compile all shaders.
    fn load_limit(&self) -> Duration {
        Duration::from_secs(1800)
    }

    /// Wait before a failed GPU is tested again. It doubles after each failed test.
    fn retry_after(&self) -> Duration {
        Duration::from_secs(300)
    }
}

#[cfg(feature = "gpu")]
impl Gpu for Adapter {
    fn segmenter(&self, weights: &Weights, max_batch: usize) -> Result<Box<dyn Segmenter>, SegmentError> {
        Ok(Box::new(crate::model::GpuSegmenter::start(self, weights, max_batch)?))
    }

    fn retoucher(&self) -> Arc<dyn Retoucher> {
        Arc::new(crate::model::GpuRetoucher::new(self, self.load_limit()))
    }
}
