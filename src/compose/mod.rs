//! From a cutout to a finished picture: sizes, and later backgrounds, shadows, outlines.

use crate::image::{Composite, Cutout, Size};

/// The output size that was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resize {
    /// Exact width; alone it preserves the aspect.
    pub width: Option<u32>,
    /// Exact height; alone it preserves the aspect.
    pub height: Option<u32>,
    /// The longer side is at most this; never enlarges.
    pub max_dim: Option<u32>,
}

impl Resize {
    /// The canvas that `source` ends on.
    #[must_use]
    pub fn output(&self, _source: Size) -> Size {
        unimplemented!("compose")
    }
}

/// Resizes a cutout onto its output canvas: linear light, premultiplied, Lanczos; an exact box is fitted inside
/// and padded with transparency.
#[must_use]
pub fn flatten(_cutout: Cutout, _resize: &Resize) -> Composite {
    unimplemented!("compose")
}
