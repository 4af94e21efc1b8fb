//! Merges the first mask with masks of the picture's parts on a finer grid.

use super::part::Part;
use crate::image::{RawMask, Size};
use crate::matting::chamfer::{STRAIGHT, edge_distance};
use backdrop_kernels::mask_upsample::cpu::Upsampled;
use backdrop_kernels::recycled::Recycled;
use rayon::prelude::*;
use std::ops::Range;

/// Pixels of a cell, unless `FINEST` makes the grid coarser or the first mask's grid is finer. Finer cells would make
/// the unknown band thinner than the network's accuracy outside of enlarged parts.
const CELL_PX: f64 = 1.5;
/// Maximum cells along either side.
const FINEST: u32 = 1536;
/// Weight of the mask of a part relative to the first mask.
const WEIGHT: f32 = 0.5;
/// Distance from the first mask's edge, in its cells, at which a tile's weight becomes 0. Full up to half of it.
const REACH_CELLS: f32 = 6.0;
/// A tile that contradicts the first mask in more than this share of the cells away from the edge is ignored.
const MOST_WRONG: f64 = 0.03;
/// Share of a tile over which its weight fades in from its border, where the network has least context.
const FADE: f32 = 0.25;

/// `mask` merged with the masks of `parts` of the picture of `size`, on a grid that is never coarser: of at most 1536
/// cells along either side, and with cells no smaller than the parts'. Without parts `mask` itself.
///
/// # Panics
/// When a part lies outside the picture.
#[must_use]
pub fn merged(mask: RawMask, size: Size, parts: &[(Part, RawMask)]) -> RawMask {
    if parts.is_empty() {
        return mask;
    }
    let grid = grid(mask.size(), size, parts);
    let mut values = stretched(&mask, grid);
    for part in parts.iter().filter(|(part, _)| part.subject) {
        Placed::new(part, size, grid).each_row(&mut values, grid, |value, new, _| *value += WEIGHT * (new - *value));
    }
    let tiles: Vec<_> =
        parts.iter().filter(|(part, _)| !part.subject).map(|part| Placed::new(part, size, grid)).collect();
    if !tiles.is_empty() {
        let reach = REACH_CELLS * grid.width as f32 / mask.size().width as f32;
        let near = nearness(&values, grid, reach);
        let mut sums = vec![[0.0f32; 2]; values.len()];
        for tile in tiles.iter().filter(|tile| !tile.contradicts(&values, &near, grid)) {
            tile.each_row(&mut sums, grid, |[sum, weight], new, fade| {
                *sum += fade * new;
                *weight += fade;
            });
        }
        values.par_iter_mut().zip(sums).zip(near).for_each(|((value, [sum, weight]), near)| {
            if weight > 0.0 {
                *value += WEIGHT * near * (sum / weight - *value);
            }
        });
    }
    RawMask::new(grid, values).expect("weighted means of probabilities are probabilities").with_edge(mask.edge())
}

/// The finer grid. Its cells are no smaller than the cells of the part with the highest resolution.
fn grid(coarse: Size, size: Size, parts: &[(Part, RawMask)]) -> Size {
    let finest = |cells: fn(&RawMask) -> u32, pixels: fn(&Part) -> u32| {
        parts.iter().map(|(part, mask)| f64::from(cells(mask)) / f64::from(pixels(part))).fold(0.0, f64::max)
    };
    let cells = |pixels: u32, coarse: u32, finest: f64| {
        let per_pixel = f64::min(finest, 1.0 / CELL_PX);
        ((f64::from(pixels) * per_pixel) as u32).min(FINEST).max(coarse)
    };
    Size::new(
        cells(size.width, coarse.width, finest(|mask| mask.size().width, |part| part.rect.width)),
        cells(size.height, coarse.height, finest(|mask| mask.size().height, |part| part.rect.height)),
    )
}

/// A grid that is never coarser than the grids of `mask` and of the parts; the values of `mask` on it, and the values with the parts.
pub(super) fn replaced(mask: &RawMask, size: Size, parts: &[(Part, RawMask)]) -> (Size, [Recycled<Vec<f32>>; 2]) {
    let grid = grid(mask.size(), size, parts);
    let before = stretched(mask, grid);
    let mut values = Recycled::copy_of(&before);
    for part in parts {
        Placed::new(part, size, grid).each_row(&mut values, grid, |value, new, _| *value = new);
    }
    (grid, [before, values])
}

fn stretched(mask: &RawMask, grid: Size) -> Recycled<Vec<f32>> {
    let from = Upsampled::new(mask.values(), extent(mask.size()), extent(grid));
    let columns = grid.width as usize;
    let mut values = Recycled::for_overwrite(grid.area());
    values.par_chunks_mut(columns).enumerate().for_each(|(y, row)| {
        row.iter_mut().enumerate().for_each(|(x, value)| *value = from.at(x, y));
    });
    values
}

const fn extent(size: Size) -> (usize, usize) {
    (size.width as usize, size.height as usize)
}

/// Weight of a tile at each cell: 1 at the edge of `values`, 0 from `reach` cells on.
fn nearness(values: &[f32], grid: Size, reach: f32) -> Vec<f32> {
    let distance = edge_distance(values.len(), grid.width as usize, |at| values[at] >= 0.5, |_| false);
    let step = f32::from(STRAIGHT);
    distance.into_iter().map(|distance| (2.0 - 2.0 * f32::from(distance) / (step * reach)).clamp(0.0, 1.0)).collect()
}

/// The mask of a part, with its place on the finer grid.
struct Placed<'a> {
    columns: Range<usize>,
    rows: Range<usize>,
    mask: Upsampled<'a>,
}

impl<'a> Placed<'a> {
    fn new((part, mask): &'a (Part, RawMask), size: Size, grid: Size) -> Self {
        let span = |first: u32, length: u32, cells: u32, pixels: u32| {
            let cell = |pixel: u32| (f64::from(pixel) * f64::from(cells) / f64::from(pixels)).round() as usize;
            let start = cell(first).min(cells as usize - 1);
            start..cell(first + length).clamp(start + 1, cells as usize)
        };
        let columns = span(part.rect.left, part.rect.width, grid.width, size.width);
        let rows = span(part.rect.top, part.rect.height, grid.height, size.height);
        let mask = Upsampled::new(mask.values(), extent(mask.size()), (columns.len(), rows.len()));
        Self { columns, rows, mask }
    }

    /// Calls `change(cell, new, fade)` for each cell of a plane on the finer grid that the part covers.
    fn each_row<T: Send>(&self, plane: &mut [T], grid: Size, change: impl Fn(&mut T, f32, f32) + Sync) {
        let rows = plane.par_chunks_mut(grid.width as usize).skip(self.rows.start).take(self.rows.len());
        rows.enumerate().for_each(|(y, row)| {
            let down = fade(y, self.rows.len());
            for (x, cell) in row[self.columns.clone()].iter_mut().enumerate() {
                change(cell, self.mask.at(x, y), down * fade(x, self.columns.len()));
            }
        });
    }

    fn contradicts(&self, values: &[f32], near: &[f32], grid: Size) -> bool {
        let row = |y: usize| {
            let first = (self.rows.start + y) * grid.width as usize + self.columns.start;
            let far = (0..self.columns.len()).filter(move |&x| near[first + x] <= 0.0);
            far.fold([0usize; 2], |[far, wrong], x| {
                let other = (values[first + x] >= 0.5) != (self.mask.at(x, y) >= 0.5);
                [far + 1, wrong + usize::from(other)]
            })
        };
        let sum = |a: [usize; 2], b: [usize; 2]| [a[0] + b[0], a[1] + b[1]];
        let [far, wrong] = (0..self.rows.len()).into_par_iter().map(row).reduce(|| [0; 2], sum);
        wrong as f64 > MOST_WRONG * far as f64
    }
}

/// Weight of a tile of `cells` cells at its cell `at`, along one axis.
fn fade(at: usize, cells: usize) -> f32 {
    let inside = at.min(cells - 1 - at) as f32 + 0.5;
    (inside / (FADE * cells as f32)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::{EdgeKinds, Rect};

    const SIZE: Size = Size::new(800, 600);

    fn mask(side: u32, value: impl Fn(f32, f32) -> f32) -> RawMask {
        let at = |at: u32| ((at % side) as f32 + 0.5, (at / side) as f32 + 0.5);
        let cells = (0..side * side).map(at).map(|(x, y)| value(x / side as f32, y / side as f32));
        RawMask::new(Size::new(side, side), cells.collect::<Vec<f32>>()).expect("probabilities")
    }

    fn half() -> RawMask {
        mask(96, |x, _| if x < 0.5 { 1.0 } else { 0.0 })
    }

    fn tile(left: u32, top: u32, width: u32, height: u32) -> Part {
        Part::tile(Rect { left, top, width, height })
    }

    #[test]
    fn without_parts_the_mask_stays_as_it_is() {
        assert_eq!(merged(half(), SIZE, &[]), half());
    }

    #[test]
    fn the_kinds_of_the_first_masks_outline_are_kept() {
        let kinds = Some(EdgeKinds::of_logits([2.0, 0.0, 0.0, 0.0]));
        let whole = (Part::subject(Rect::whole(SIZE)), half());
        assert_eq!(merged(half().with_edge(kinds), SIZE, &[whole]).edge(), kinds);
    }

    #[test]
    fn parts_that_agree_change_nothing_but_the_grid() {
        for value in [0.0, 0.3, 1.0] {
            let constant = || mask(384, |_, _| value);
            let parts = [(Part::subject(Rect { left: 50, top: 60, width: 300, height: 200 }), constant())];
            let parts =
                parts.into_iter().chain([(tile(0, 0, 500, 400), constant()), (tile(300, 200, 500, 400), constant())]);
            let fine = merged(constant(), SIZE, &parts.collect::<Vec<_>>());
            assert_eq!(fine.size(), Size::new(533, 400));
            assert!(fine.values().iter().all(|fine| (fine - value).abs() < 1e-6));
        }
    }

    #[test]
    fn a_tile_moves_the_edge_but_not_cells_far_from_it() {
        // In the tile (pixels 200..600) the edge is at 416 instead of 400, and there is a hole far from it.
        let shifted = mask(384, |x, y| {
            let hole = x < 0.1 && (0.45..0.55).contains(&y);
            if x < 0.54 && !hole { 1.0 } else { 0.0 }
        });
        let agreeing = mask(384, |x, _| if x < 0.5 { 1.0 } else { 0.0 });
        let plain = merged(half(), SIZE, &[(tile(200, 100, 400, 400), agreeing)]);
        let fine = merged(half(), SIZE, &[(tile(200, 100, 400, 400), shifted)]);
        let row = |mask: &RawMask| mask.values()[200 * 533..201 * 533].to_vec();
        let (plain, fine) = (row(&plain), row(&fine));
        assert!(fine[271] > plain[271] + 0.3, "{} {}", fine[271], plain[271]);
        assert_eq!(fine[..220], plain[..220], "far inside");
        assert_eq!(fine[310..], plain[310..], "far outside");
    }

    #[test]
    fn a_tile_that_contradicts_certain_cells_is_ignored() {
        let contradicting = mask(384, |x, _| if x > 0.5 { 1.0 } else { 0.0 });
        let fine = merged(half(), SIZE, &[(tile(200, 100, 400, 400), contradicting)]);
        assert!(fine.values()[200 * 533 + 260] > 0.5 && fine.values()[200 * 533 + 273] < 0.5);
    }

    #[test]
    fn the_grid_is_bounded_and_parts_may_be_thinner_than_a_cell() {
        let cases =
            [((4096, 4096), (1536, 1536)), ((4096, 1), (1536, 96)), ((1, 1), (96, 96)), ((300, 600), (200, 400))];
        for ((width, height), (columns, rows)) in cases {
            let size = Size::new(width, height);
            let parts = [(tile(width - 1, height - 1, 1, 1), half()), (Part::subject(Rect::whole(size)), half())];
            let fine = merged(half(), size, &parts);
            assert_eq!(fine.size(), Size::new(columns, rows));
            assert!(fine.values().iter().all(|value| (0.0..=1.0).contains(value)));
        }
    }

    #[test]
    fn cells_are_no_smaller_than_the_parts_cells() {
        let grid_of =
            |side: u32, rect: Rect| merged(half(), SIZE, &[(Part::subject(rect), mask(side, |_, _| 1.0))]).size();
        let rect = Rect { left: 0, top: 0, width: 400, height: 600 };
        assert_eq!(grid_of(384, rect), Size::new(533, 384), "finer across, as fine down as it was");
        assert_eq!(grid_of(100, rect), Size::new(200, 100));
        assert_eq!(grid_of(20, rect), Size::new(96, 96), "never coarser than the first mask");
    }
}
