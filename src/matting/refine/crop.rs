//! Crops a part of a picture for the network, reduced by a whole factor.

use super::part::{Part, factor};
use crate::image::{BufferPool, Frame};

/// The pixels of `frame` inside `part`, in a buffer from `buffers`, reduced by a whole factor that leaves at most 1023
/// pixels on the shorter side.
///
/// # Panics
/// When `part` is empty or reaches beyond the frame. Parts of [`plan`](super::plan) for the frame's size do not.
#[must_use]
pub fn cropped(frame: &Frame, part: Part, buffers: &BufferPool) -> Frame {
    frame.cropped(part.rect, factor(part.rect), |len| buffers.take(len))
}
