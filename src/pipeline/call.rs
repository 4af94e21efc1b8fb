//! How one run of the pipeline is scheduled and bounded: lane, deadline, limits of its input files.

use crate::codec::Limits;
use crate::engine::Lane;
use std::time::Instant;

/// How a picture is treated, whatever its recipe.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The queue's lane: which pictures are processed first.
    pub lane: Lane,
    /// When the caller stops waiting.
    pub deadline: Instant,
    /// Limits of the input files.
    pub limits: Limits,
}
