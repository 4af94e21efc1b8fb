//! Seeds: pixels that the caller marks as subject or background, by strokes or points.

use crate::image::Trimap;

/// The caller's marks, in pixels of the upright picture. None by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seeds {
    /// Strokes of a brush, at the picture's size: foreground becomes subject, unknown is left to the mask.
    pub strokes: Option<Trimap>,
    /// Column and row of points on the subject.
    pub subject: Vec<[u32; 2]>,
    /// Column and row of points on the background.
    pub background: Vec<[u32; 2]>,
}

impl Seeds {
    /// Whether nothing is marked.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.strokes.is_none() && self.subject.is_empty() && self.background.is_empty()
    }
}
