//! Counts consecutive failures of a GPU's networks, to distinguish a GPU that is lost from work that it cannot do.

use crate::model::SegmentError;

/// Failures in a row with which a GPU counts as one that cannot be used. A GPU that its driver reports as lost fails everything, and at
/// once; work that is too large for its memory comes between work that is not.
const MOST_FAILURES: u32 = 3;

/// How many times in a row the networks failed on a GPU.
#[derive(Debug, Default)]
pub(super) struct Failures(u32);

impl Failures {
    /// The `outcome` of the next work on the GPU, where the last of [`MOST_FAILURES`] in a row is [`SegmentError::Unusable`].
    pub(super) fn counted<T>(&mut self, outcome: Result<T, SegmentError>) -> Result<T, SegmentError> {
        match outcome {
            Err(SegmentError::Device(reason)) if self.0 + 1 < MOST_FAILURES => {
                self.0 += 1;
                Err(SegmentError::Device(reason))
            }
            Err(SegmentError::Device(reason) | SegmentError::Unusable(reason)) => {
                self.0 = 0;
                Err(SegmentError::Unusable(reason))
            }
            Ok(done) => {
                self.0 = 0;
                Ok(done)
            }
        }
    }
}
