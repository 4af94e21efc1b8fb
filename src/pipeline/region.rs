//! Restricts a cutout to a region of its source: mask before matting, alpha after it.

use crate::compose::SUBJECT_ALPHA;
use crate::image::{Frame, Mask, Rect, Size};
use crate::matting::NoSubject;

/// `mask`, of a picture of `size`, with no subject outside of `region`: of the cells of its grid those count that overlap
/// it. [`cleared`] is exact to the pixel.
pub(super) fn masked(mut mask: Mask, size: Size, region: Rect) -> Mask {
    let grid = mask.size;
    let inside = |cell: u32, cells: u32, side: u32, first: u32, length: u32| {
        let edge = |cell: u32| f64::from(cell) * f64::from(side) / f64::from(cells.max(1));
        edge(cell) < f64::from(first) + f64::from(length) && edge(cell + 1) > f64::from(first)
    };
    let columns: Vec<_> =
        (0..grid.width).map(|x| inside(x, grid.width, size.width, region.left, region.width)).collect();
    for (y, row) in (0..grid.height).zip(mask.values.chunks_mut(grid.width.max(1) as usize)) {
        let is_row = inside(y, grid.height, size.height, region.top, region.height);
        for (value, is_column) in row.iter_mut().zip(&columns) {
            if !(is_row && *is_column) {
                *value = 0.0;
            }
        }
    }
    mask
}

/// A cutout of which nothing is left outside of `region`, and the bounds of its subject.
pub(super) fn cleared(mut frame: Frame, region: Rect) -> Result<(Frame, Rect), NoSubject> {
    let Rect { left, top, width, height } = region;
    let row = frame.size().width as usize;
    for (y, pixels) in (0..).zip(frame.pixels_mut().chunks_exact_mut(row.max(1) * 4)) {
        if (top..top + height).contains(&y) {
            pixels[..left as usize * 4].fill(0);
            pixels[(left + width) as usize * 4..].fill(0);
        } else {
            pixels.fill(0);
        }
    }
    let subject = frame.covered(SUBJECT_ALPHA).ok_or(NoSubject)?;
    Ok((frame, subject))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Buffer;

    const REGION: Rect = Rect { left: 2, top: 1, width: 3, height: 2 };

    #[test]
    fn nothing_is_left_outside_of_the_region() {
        let size = Size::new(6, 4);
        let frame = Frame::new(size, Buffer::from(vec![200; size.area() * 4]));
        let (frame, subject) = cleared(frame, REGION).expect("there is some");
        assert_eq!(subject, REGION);
        for (x, y) in (0..4).flat_map(|y| (0..6).map(move |x| (x, y))) {
            let inside = (2..5).contains(&x) && (1..3).contains(&y);
            assert_eq!(frame.pixel(x, y), if inside { [200; 4] } else { [0; 4] }, "at {x},{y}");
        }
        let empty = Frame::new(size, Buffer::from(vec![0; size.area() * 4]));
        assert!(cleared(empty, REGION).is_err());
    }

    #[test]
    fn a_cell_of_the_mask_counts_where_it_overlaps_the_region() {
        let mask = Mask { size: Size::new(3, 2), values: vec![1.0; 6] };
        let masked = masked(mask, Size::new(6, 4), REGION);
        // Cells of 2×2 pixels, and the region begins in the middle of the upper ones.
        assert_eq!(masked.values, [0.0, 1.0, 1.0, 0.0, 1.0, 1.0]);
    }
}
