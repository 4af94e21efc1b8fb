//! Crops a part of a picture for the network, reduced by a whole factor.

use super::part::{Part, factor};
use crate::image::{BufferPool, Frame};

/// The pixels of `frame` inside `part`, in a buffer from `buffers`, reduced where there are many: no shorter side is longer
/// than 1023 pixels.
///
/// # Panics
/// When `part` reaches beyond the frame or is empty; no part that [`plan`](super::plan) returns for its size does.
#[must_use]
pub fn cropped(frame: &Frame, part: Part, buffers: &BufferPool) -> Frame {
    frame.cropped(part.rect, factor(part.rect), |len| buffers.take(len))
}
