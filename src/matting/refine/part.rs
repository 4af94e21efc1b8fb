//! The parts of a picture that are segmented again.

use super::crop::whole_squares;
use crate::image::Rect;

/// What is segmented again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The subject's box.
    Subject,
    /// The box, and tiles along its edge.
    Tiles,
}

impl Scope {
    /// Tiles across and down at most; a single one would show nothing that the box does not.
    pub(super) const fn most_tiles(self) -> u32 {
        match self {
            Self::Subject => 1,
            Self::Tiles => 4,
        }
    }
}

/// A part of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its rectangle, in pixels: a whole number of those squares that [`cropped`](super::cropped) averages.
    pub rect: Rect,
    /// Whether it holds all of the subject. Its mask then counts everywhere, else only along the edge.
    pub subject: bool,
}

impl Part {
    pub(super) fn subject(rect: Rect) -> Self {
        Self { rect: whole_squares(rect), subject: true }
    }

    pub(super) fn tile(rect: Rect) -> Self {
        Self { rect: whole_squares(rect), subject: false }
    }
}
