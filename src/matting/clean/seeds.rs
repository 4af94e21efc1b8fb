//! Seeds: pixels that the caller marks as subject or background, by strokes or points.

use crate::image::Trimap;

/// What the caller has marked, in pixels of the upright picture. Nothing by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seeds {
    /// Strokes of a brush, of the picture's size: foreground stays, background goes, unknown is left to the mask.
    pub strokes: Option<Trimap>,
    /// Pixels, as column and row, that are subject with what is around them.
    pub subject: Vec<[u32; 2]>,
    /// Pixels that are background with what is around them.
    pub background: Vec<[u32; 2]>,
}

impl Seeds {
    /// Whether nothing is marked.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.strokes.is_none() && self.subject.is_empty() && self.background.is_empty()
    }
}
