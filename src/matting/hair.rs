//! Widens the trimap's unknown band outwards around a head, for hair.
//!
//! The network's mask ends well before strands of hair do, and certain background is never solved. Around a head the
//! band therefore grows outwards by the reach of hair, and not inwards, where skin is certain subject.

use crate::image::{Rect, Size};
use backdrop_kernels::recycled::Recycled;
use backdrop_kernels::trimap::{Params, cpu};

/// Limit of the widening in cells of the mask's grid. Colours do not determine a wider band: with 12 cells, portraits
/// before plain backgrounds had grey haze around the hair, with 5 they do not.
const MOST_CELLS: f32 = 5.0;

/// A region with hair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hair {
    /// The head and its surroundings, in pixels of the picture.
    pub region: Rect,
    /// Distance that hair can stand off from certain subject, in pixels of the picture.
    pub reach: f32,
}

/// Ranges of columns and rows of a grid, without their ends.
type Part = [(usize, usize); 2];

impl Hair {
    /// Raises `high` (the highest value of `values` around each cell of `grid`) inside the region to the highest value
    /// within reach. `size`: of the picture. `cell_px`: the shorter side of a cell, in pixels of the picture.
    pub(super) fn widen(&self, values: &[f32], grid: (usize, usize), size: Size, cell_px: f32, high: &mut [f32]) {
        let radius = self.reach / cell_px;
        // `min` would turn a reach of NaN into the limit.
        if radius.is_nan() || radius < 1.0 {
            return;
        }
        let radius = radius.min(MOST_CELLS);
        let [columns, rows] = self.cells(grid, size);
        let margin = radius.ceil() as usize;
        let around =
            |(first, last): (usize, usize), side: usize| (first.saturating_sub(margin), (last + margin).min(side));
        let (across, down) = (around(columns, grid.0), around(rows, grid.1));
        let part = Recycled::collected(
            (down.0..down.1).flat_map(|y| values[y * grid.0..][across.0..across.1].iter().copied()),
        );
        let (wide, tall) = (across.1 - across.0, down.1 - down.0);
        let disc = Params { radii: [radius; 2], foreground: 1.0, background: 0.0 };
        let (_, highest) = cpu::extremes(&part, (wide, tall), &disc);
        for y in rows.0..rows.1 {
            let from = &highest[(y - down.0) * wide..][columns.0 - across.0..columns.1 - across.0];
            let to = &mut high[y * grid.0..][columns.0..columns.1];
            to.iter_mut().zip(from).for_each(|(high, from)| *high = high.max(*from));
        }
    }

    fn cells(&self, grid: (usize, usize), size: Size) -> Part {
        let axis = |first: u32, length: u32, of: u32, cells: usize| {
            let cell = |at: u64, up: u64| ((at * cells as u64 + up) / u64::from(of.max(1))) as usize;
            let first = u64::from(first);
            let low = cell(first, 0).min(cells);
            (low, cell(first + u64::from(length), u64::from(of.max(1)) - 1).min(cells).max(low))
        };
        [
            axis(self.region.left, self.region.width, size.width, grid.0),
            axis(self.region.top, self.region.height, size.height, grid.1),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::{RawMask, Trimap};
    use crate::matting::clean::{CleanMask, clean_without_colors};
    use crate::matting::trimap::from_mask;

    const SIZE: Size = Size::new(400, 400);

    fn mask() -> CleanMask {
        let size = Size::new(100, 100);
        let values = (0..size.area()).map(|at| if at % 100 < 50 { 1.0 } else { 0.0 }).collect::<Vec<f32>>();
        clean_without_colors(&RawMask::new(size, values).expect("probabilities")).expect("a subject")
    }

    fn band(hair: Option<Hair>, row: usize) -> (usize, usize) {
        let trimap = from_mask(&mask(), SIZE, hair.as_ref());
        let unknown = |x: &usize| trimap.labels()[row * 400 + x] == Trimap::UNKNOWN;
        ((0..400).find(unknown).expect("a band"), (0..400).rfind(unknown).expect("a band"))
    }

    #[test]
    fn the_band_grows_outwards_in_the_region_and_nowhere_else() {
        let hair = Hair { region: Rect { left: 100, top: 0, width: 200, height: 200 }, reach: 18.0 };
        let usual = band(None, 100);
        let wide = band(Some(hair), 100);
        assert_eq!(wide.0, usual.0, "not inwards");
        assert!((13..=24).contains(&(wide.1 - 200)), "{wide:?}");
        assert_eq!(band(Some(hair), 300), band(None, 300));
    }

    #[test]
    fn a_reach_is_bounded_and_invalid_ones_change_nothing() {
        let region = Rect { left: 0, top: 0, width: 400, height: 400 };
        let far = band(Some(Hair { region, reach: 1e9 }), 50);
        assert!((far.1 as f32) < 200.0 + 4.0 * (MOST_CELLS + 2.0), "{far:?}");
        for reach in [f32::NAN, -5.0, 0.0, 3.0] {
            assert_eq!(band(Some(Hair { region, reach }), 50), band(None, 50), "{reach}");
        }
        let outside = Rect { left: 5000, top: 7000, width: u32::MAX, height: u32::MAX };
        assert_eq!(band(Some(Hair { region: outside, reach: 30.0 }), 50), band(None, 50));
    }
}
