//! Restricts a cutout to a region of its source: the mask before matting, the pixels after it.

use super::coverage::Coverage;
use super::window;
use crate::compose::SUBJECT_ALPHA;
use crate::image::{RawMask, Rect, Size, Subject};
use crate::matting::NoSubject;

/// `coverage` without the network's mask outside of `region`, if given. [`cleared`] is exact to the pixel.
pub(super) fn restricted(coverage: Coverage, region: Option<Rect>) -> Coverage {
    match (coverage, region) {
        (Coverage::Network { mask, standard, seeds, window, crop }, Some(region)) => {
            let inside = window::within(region, window).unwrap_or_default();
            let masked = |mask| masked(mask, window.size(), inside);
            Coverage::Network { mask: masked(mask), standard: standard.map(masked), seeds, window, crop }
        }
        (coverage, _) => coverage,
    }
}

/// `mask` with only the cells of its grid that overlap `region`.
fn masked(mask: RawMask, size: Size, region: Rect) -> RawMask {
    let grid = mask.size();
    let inside = |cell: u32, cells: u32, side: u32, first: u32, length: u32| {
        let edge = |cell: u32| f64::from(cell) * f64::from(side) / f64::from(cells.max(1));
        edge(cell) < f64::from(first) + f64::from(length) && edge(cell + 1) > f64::from(first)
    };
    let columns: Vec<_> =
        (0..grid.width).map(|x| inside(x, grid.width, size.width, region.left, region.width)).collect();
    mask.changed(|values| {
        for (y, row) in (0..grid.height).zip(values.chunks_mut(grid.width.max(1) as usize)) {
            let is_row = inside(y, grid.height, size.height, region.top, region.height);
            for (value, is_column) in row.iter_mut().zip(&columns) {
                if !(is_row && *is_column) {
                    *value = 0.0;
                }
            }
        }
    })
}

/// `subject` and its `bounds`, limited to `region`, if given; a cutout is cleared outside of it.
pub(super) fn cleared(subject: Subject, bounds: Rect, region: Option<Rect>) -> Result<(Subject, Rect), NoSubject> {
    let (Some(region), Subject::Cutout(_)) = (region, &subject) else { return Ok((subject, bounds)) };
    let subject = subject.cleared_outside(region);
    let bounds = subject.frame().covered(SUBJECT_ALPHA).ok_or(NoSubject)?;
    Ok((subject, bounds))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGION: Rect = Rect { left: 2, top: 1, width: 3, height: 2 };

    #[test]
    fn a_cell_of_the_mask_counts_where_it_overlaps_the_region() {
        let mask = RawMask::new(Size::new(3, 2), vec![1.0; 6]).expect("probabilities");
        let masked = masked(mask, Size::new(6, 4), REGION);
        // Cells of 2×2 pixels; the region begins in the middle of the upper ones.
        assert_eq!(masked.values(), [0.0, 1.0, 1.0, 0.0, 1.0, 1.0]);
    }
}
