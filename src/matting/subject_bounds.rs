//! Bounds of the subject from the clean mask alone, for crops that need no matte.
//!
//! Along every row and column of the network's grid the mask is read bilinearly at the centres of pixels; the bounds are those
//! of the pixels that are at least as likely subject as [`LIKELY`].

use super::clean::{self, Seeds};
use super::error::NoSubject;
use super::options::Options;
use crate::image::{Frame, RawMask, Rect};
use backdrop_kernels::mask_upsample::Axis;

/// Probability from which a pixel belongs to the subject.
const LIKELY: f32 = 0.5;

/// The bounds of the subject of `frame`, without a matte.
///
/// # Errors
/// [`NoSubject`] when too little of the mask is likely subject.
pub fn subject_bounds(frame: &Frame, mask: &RawMask, options: &Options) -> Result<Rect, NoSubject> {
    let mask = clean::clean_with_colors(frame, mask, &Seeds::default(), options.decontaminate)?;
    let size = frame.size();
    let (columns, rows) = (mask.size().width as usize, mask.size().height as usize);
    let value = |column: usize, row: usize| mask.values()[row * columns + column];
    let across = (0..rows).filter_map(|row| likely(columns, size.width, |column| value(column, row)));
    let down = (0..columns).filter_map(|column| likely(rows, size.height, |row| value(column, row)));
    let joined = |a: [u32; 2], b: [u32; 2]| [a[0].min(b[0]), a[1].max(b[1])];
    let (Some([left, right]), Some([top, bottom])) = (across.reduce(joined), down.reduce(joined)) else {
        return Err(NoSubject);
    };
    Ok(Rect { left, top, width: right + 1 - left, height: bottom + 1 - top })
}

/// The first and the last of `pixels` at which the line through `cells` values is at least [`LIKELY`].
fn likely(cells: usize, pixels: u32, value: impl Fn(usize) -> f32) -> Option<[u32; 2]> {
    if (0..cells).all(|cell| value(cell) < LIKELY) {
        return None;
    }
    let axis = Axis::new(cells, pixels as usize);
    let is_likely = |&pixel: &u32| {
        let (first, second, weight) = axis.locate(pixel as usize);
        value(first) + weight * (value(second) - value(first)) >= LIKELY
    };
    Some([(0..pixels).find(is_likely)?, (0..pixels).rev().find(is_likely)?])
}

#[cfg(test)]
mod tests {
    use super::likely;

    #[test]
    fn bounds_lie_where_the_line_between_two_cells_crosses_one_half() {
        let cells = [0.0, 0.0, 1.0, 1.0, 0.6, 0.0];
        // Eight pixels a cell: centres at 4, 12, … ; one half is reached between 12 and 20, and a sixth past 36.
        assert_eq!(likely(6, 48, |cell| cells[cell]), Some([16, 36]));
        assert_eq!(likely(6, 6, |cell| cells[cell]), Some([2, 4]));
        assert_eq!(likely(6, 48, |_| 0.4), None);
        assert_eq!(likely(1, 9, |_| 0.5), Some([0, 8]));
    }
}
