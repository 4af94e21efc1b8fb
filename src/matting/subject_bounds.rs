//! Bounds of the subject from the clean mask alone, for crops that need no matte.
//!
//! The mask is read bilinearly at the centres of pixels along every row and column of the network's grid. The bounds
//! hold the pixels that are not certain background, and one more cell to each side. On 82 development photos half of
//! the sides lie at most 0.1 cells inside of the matte's bounds, a tenth more than 1.2 cells inside, and a tenth a cell
//! or more outside.

use super::error::NoSubject;
use super::guide::Guide;
use super::options::Options;
use super::trimap::BACKGROUND;
use crate::image::{Frame, Rect};
use backdrop_kernels::mask_upsample::Axis;

/// The bounds of the subject of `frame`, from its clean mask.
///
/// # Errors
/// [`NoSubject`] when too little of the mask is likely subject, and for a trimap.
pub fn subject_bounds<'a>(frame: &Frame, guide: impl Into<Guide<'a>>, options: &Options) -> Result<Rect, NoSubject> {
    let mask = guide.into().cleaned(frame, options)?.ok_or(NoSubject)?;
    let size = frame.size();
    let (columns, rows) = (mask.size().width as usize, mask.size().height as usize);
    let value = |column: usize, row: usize| mask.values()[row * columns + column];
    let across = (0..rows).filter_map(|row| possible(columns, size.width, |column| value(column, row)));
    let down = (0..columns).filter_map(|column| possible(rows, size.height, |row| value(column, row)));
    let joined = |a: [u32; 2], b: [u32; 2]| [a[0].min(b[0]), a[1].max(b[1])];
    let (Some([left, right]), Some([top, bottom])) = (across.reduce(joined), down.reduce(joined)) else {
        return Err(NoSubject);
    };
    let cell = [size.width.div_ceil(mask.size().width), size.height.div_ceil(mask.size().height)];
    let (left, right) = (left.saturating_sub(cell[0]), (right + cell[0]).min(size.width - 1));
    let (top, bottom) = (top.saturating_sub(cell[1]), (bottom + cell[1]).min(size.height - 1));
    Ok(Rect { left, top, width: right + 1 - left, height: bottom + 1 - top })
}

/// The first and last of `pixels` at which the interpolated `value`s of the `cells` are above [`BACKGROUND`].
fn possible(cells: usize, pixels: u32, value: impl Fn(usize) -> f32) -> Option<[u32; 2]> {
    if (0..cells).all(|cell| value(cell) <= BACKGROUND) {
        return None;
    }
    let axis = Axis::new(cells, pixels as usize);
    let is_possible = |&pixel: &u32| {
        let (first, second, weight) = axis.locate(pixel as usize);
        value(first) + weight * (value(second) - value(first)) > BACKGROUND
    };
    Some([(0..pixels).find(is_possible)?, (0..pixels).rev().find(is_possible)?])
}

#[cfg(test)]
mod tests {
    use super::possible;

    #[test]
    fn bounds_lie_where_the_line_between_two_cells_leaves_the_background() {
        let cells = [0.0, 0.0, 1.0, 1.0, 0.6, 0.0];
        // Eight pixels a cell: a tenth is crossed between the centres 11.5 and 19.5, and again before 43.5.
        assert_eq!(possible(6, 48, |cell| cells[cell]), Some([13, 42]));
        assert_eq!(possible(6, 6, |cell| cells[cell]), Some([2, 4]));
        assert_eq!(possible(6, 48, |_| 0.1), None);
        assert_eq!(possible(1, 9, |_| 0.5), Some([0, 8]));
    }
}
