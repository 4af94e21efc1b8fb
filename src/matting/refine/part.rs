//! The parts of a picture that are segmented again.

use crate::image::Rect;

/// Crops are reduced by whole factors, to at least this on the shorter side. The network's input has 384 pixels.
pub(super) const ENOUGH: u32 = 512;

/// Reduction of a part's crop along either axis.
pub(super) fn factor(part: Rect) -> u32 {
    (part.width.min(part.height) / ENOUGH).max(1)
}

/// `part` without the last columns and rows that fill no square of [`factor`] pixels: fewer than eight in 4096. The
/// mask of the crop covers exactly this rectangle.
fn whole_squares(part: Rect) -> Rect {
    let factor = factor(part);
    Rect { width: part.width / factor * factor, height: part.height / factor * factor, ..part }
}

/// Which parts are segmented again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The subject's box where it covers less than half of the picture.
    SmallSubject,
    /// The subject's box.
    Subject,
    /// The subject's box, and tiles along its edge.
    Tiles,
}

impl Scope {
    /// Maximum tiles across and down; a single tile would show no more than the box.
    pub(super) const fn most_tiles(self) -> u32 {
        match self {
            Self::SmallSubject | Self::Subject => 1,
            Self::Tiles => 4,
        }
    }

    /// Whether a box that covers `share` of the picture, 0 to 1, is segmented again. For subjects of more than half of
    /// the picture a second pass has no measurable gain.
    pub(super) fn includes(self, share: f64) -> bool {
        self != Self::SmallSubject || share < 0.5
    }
}

/// A part of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Rectangle in pixels: a whole number of the squares that [`cropped`](super::cropped) averages.
    pub rect: Rect,
    /// Whether it holds the whole subject. Its mask then counts everywhere, else only along the edge.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_whole_squares_and_lose_less_than_one() {
        for (width, height) in [(4, 3), (1023, 1023), (1535, 4095), (4095, 4000), (5003, 1601)] {
            let part = Rect { left: 7, top: 9, width, height };
            let (before, after) = (factor(part), whole_squares(part));
            assert_eq!(factor(after), before);
            assert_eq!((after.width % before, after.height % before), (0, 0));
            assert!(width - after.width < before && height - after.height < before);
        }
    }

    #[test]
    fn crops_are_reduced_by_whole_factors_to_no_less_than_the_network_uses() {
        let factor_of = |width, height| factor(Rect { left: 0, top: 0, width, height });
        assert_eq!(
            [factor_of(4, 3), factor_of(1023, 4000), factor_of(1024, 1024), factor_of(5000, 1600)],
            [1, 1, 2, 3]
        );
    }
}
