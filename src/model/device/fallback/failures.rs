//! Counts consecutive failures of a GPU's networks, to distinguish a lost GPU from work that it cannot do.

use crate::model::SegmentError;

/// Consecutive failures after which a GPU counts as unusable. A GPU that its driver reports as lost fails every call at
/// once; work that is too large for its memory alternates with work that succeeds.
const MOST_FAILURES: u32 = 3;

/// Number of consecutive failures of the networks on a GPU.
#[derive(Debug, Default)]
pub(super) struct Failures(u32);

impl Failures {
    /// Counts the `outcome` of work. The [`MOST_FAILURES`]th failure in a row becomes [`SegmentError::Unusable`].
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
