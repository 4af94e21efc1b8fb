//! Crops a part of a picture for the network, reduced by a whole factor.

use super::part::Part;
use crate::image::{BufferPool, Frame, Rect};

/// Crops are reduced by whole factors, but not to less than this on their shorter side: the network's input has 384 pixels.
pub(super) const ENOUGH: u32 = 512;

/// How many pixels along either side become one.
pub(super) fn factor(part: Rect) -> u32 {
    (part.width.min(part.height) / ENOUGH).max(1)
}

/// `part` without the columns and rows at its end that fill no square of [`factor`] pixels: fewer than eight in 4096. The
/// mask of its crop covers exactly this.
pub(super) fn whole_squares(part: Rect) -> Rect {
    let factor = factor(part);
    Rect { width: part.width / factor * factor, height: part.height / factor * factor, ..part }
}

/// The pixels of `frame` inside `part`, in a buffer from `buffers`, reduced where there are many: no shorter side is longer
/// than 1023 pixels.
///
/// # Panics
/// When `part` reaches beyond the frame or is empty; no part that [`plan`](super::plan) returns for its size does.
#[must_use]
pub fn cropped(frame: &Frame, part: Part, buffers: &BufferPool) -> Frame {
    frame.cropped(part.rect, factor(part.rect), |len| buffers.take(len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_whole_squares_that_are_as_large_as_before() {
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
