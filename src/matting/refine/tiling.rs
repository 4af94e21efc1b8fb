//! Plans the parts of a picture to segment again from its first mask.

use super::part::{ENOUGH, Part, Scope};
use crate::image::{RawMask, Rect, Size};
use crate::matting::clean::clear_uncertain_parts;
use backdrop_kernels::recycled::Recycled;

/// Margin around the subject's box, as a share of its longer side.
const PADDING: f64 = 0.12;
/// Maximum share of the picture for a padded box; a larger box would add no resolution.
const MOST: f64 = 0.95;
/// Share of a tile that the next tile also covers.
const OVERLAP: f64 = 0.4;

/// The parts of a picture of `size` to segment again: the subject's box, and its tiles in which `mask` has an edge. At
/// most 17; none without more resolution than `mask`. Parts are not empty and lie inside the picture.
#[must_use]
pub fn plan(mask: &RawMask, size: Size, scope: Scope) -> Vec<Part> {
    let grid = mask.size();
    let values = likely(mask);
    let Some(cells) = subject_box(&values, grid) else { return Vec::new() };
    let subject = padded(cells, grid, size, PADDING);
    let mut parts = Vec::new();
    let has_more_detail = size.width > grid.width || size.height > grid.height;
    let share = cells.size().area() as f64 / grid.area() as f64;
    if has_more_detail && scope.includes(share) && (subject.size().area() as f64) < MOST * size.area() as f64 {
        parts.push(Part::subject(subject));
    }
    let most = scope.most_tiles();
    let [across, down] =
        [(subject.width, grid.width), (subject.height, grid.height)].map(|side| tiles_along(side, most));
    if across * down > 1 {
        let columns = places(subject.left, subject.width, across);
        for (top, height) in places(subject.top, subject.height, down) {
            let row = columns.iter().map(|&(left, width)| Rect { left, top, width, height });
            parts.extend(row.filter(|&tile| has_edge(&values, grid, size, tile)).map(Part::tile));
        }
    }
    parts
}

/// Upper bound of the pixels [cropped](super::cropped) from a picture of `size` for any mask, with overlaps.
#[must_use]
pub fn most_pixels(size: Size, scope: Scope) -> usize {
    // A reduced crop keeps less than twice `ENOUGH` on its shorter side.
    let reduced = |width: f64, height: f64| f64::min(width * height, 2.0 * f64::from(ENOUGH) * width.max(height));
    let (width, height) = (f64::from(size.width), f64::from(size.height));
    let subject = reduced(width, height);
    let tiles = match scope.most_tiles() {
        1 => 0.0,
        most => {
            let most = f64::from(most);
            // Each tile is rounded up to whole pixels.
            let longest = |side: f64| side / (1.0 + (most - 1.0) * (1.0 - OVERLAP)) + 1.0;
            most * most * reduced(longest(width), longest(height))
        }
    };
    (subject + tiles).ceil() as usize
}

/// Number of tiles that cover a side of `pixels` without being smaller than the network's `side`.
fn tiles_along((pixels, side): (u32, u32), most: u32) -> u32 {
    let more = (f64::from(pixels) / f64::from(side.max(1)) - 1.0) / (1.0 - OVERLAP);
    (1.0 + more.max(0.0)).min(f64::from(most)) as u32
}

/// Start and length of `count` overlapping tiles of equal length.
fn places(first: u32, pixels: u32, count: u32) -> Vec<(u32, u32)> {
    let length = (f64::from(pixels) / (1.0 + f64::from(count - 1) * (1.0 - OVERLAP))).ceil() as u32;
    let length = length.min(pixels);
    // The first tile starts and the last tile ends with the box, despite rounding.
    let start = |at: u32| first + ((pixels - length) * at).checked_div(count - 1).unwrap_or(0);
    (0..count).map(|at| (start(at), length)).collect()
}

/// The values of `mask` without small components that cleaning will remove, and that would enlarge the subject's box.
pub(super) fn likely(mask: &RawMask) -> Recycled<Vec<f32>> {
    let mut values = Recycled::copy_of(mask.values());
    clear_uncertain_parts(&mut values, mask.size().width as usize);
    values
}

/// Bounds in cells of the likely subject.
pub(super) fn subject_box(values: &[f32], grid: Size) -> Option<Rect> {
    let columns = grid.width as usize;
    let mut bounds: Option<[u32; 4]> = None;
    for (at, _) in values.iter().enumerate().filter(|(_, value)| **value >= 0.5) {
        let [x, y] = [(at % columns) as u32, (at / columns) as u32];
        let [left, top, right, bottom] = bounds.unwrap_or([x, y, x, y]);
        bounds = Some([left.min(x), top.min(y), right.max(x), bottom.max(y)]);
    }
    let [left, top, right, bottom] = bounds?;
    Some(Rect { left, top, width: right - left + 1, height: bottom - top + 1 })
}

/// The pixels of a box of cells, with a cell and a `margin` on each side, as a share of its longer side.
pub(super) fn padded(cells: Rect, grid: Size, size: Size, margin: f64) -> Rect {
    let cell = [f64::from(size.width) / f64::from(grid.width), f64::from(size.height) / f64::from(grid.height)];
    let [left, right] = [cells.left, cells.left + cells.width].map(|edge| f64::from(edge) * cell[0]);
    let [top, bottom] = [cells.top, cells.top + cells.height].map(|edge| f64::from(edge) * cell[1]);
    let padding = margin * f64::max(right - left, bottom - top) + f64::max(cell[0], cell[1]);
    let [left, top] = [left, top].map(|edge| (edge - padding).max(0.0) as u32);
    let end = |edge: f64, most: u32| ((edge + padding).ceil() as u32).min(most);
    let (right, bottom) = (end(right, size.width), end(bottom, size.height));
    Rect { left, top, width: right - left, height: bottom - top }
}

/// Whether a mask on `grid` crosses one half inside `tile`.
fn has_edge(values: &[f32], grid: Size, size: Size, tile: Rect) -> bool {
    let span = |first: u32, length: u32, cells: u32, pixels: u32| {
        let scale = f64::from(cells) / f64::from(pixels);
        let end = (f64::from(first + length) * scale).ceil() as usize;
        (f64::from(first) * scale) as usize..end.min(cells as usize)
    };
    let columns = span(tile.left, tile.width, grid.width, size.width);
    let mut rows = span(tile.top, tile.height, grid.height, size.height);
    let side = |x: usize, y: usize| values[y * grid.width as usize + x] >= 0.5;
    let first = side(columns.start, rows.start);
    rows.any(|y| columns.clone().any(|x| side(x, y) != first))
}

#[cfg(test)]
mod tests {
    use super::super::part::factor;
    use super::*;
    use Scope::{SmallSubject, Subject, Tiles};

    /// A block of `mask` cells on a grid of 96.
    fn block(columns: std::ops::Range<u32>, rows: std::ops::Range<u32>) -> RawMask {
        let value = |at: u32| if columns.contains(&(at % 96)) && rows.contains(&(at / 96)) { 1.0 } else { 0.0 };
        RawMask::new(Size::new(96, 96), (0..96 * 96).map(value).collect::<Vec<f32>>()).expect("probabilities")
    }

    fn contains(part: Rect, x: u32, y: u32) -> bool {
        (part.left..part.left + part.width).contains(&x) && (part.top..part.top + part.height).contains(&y)
    }

    #[test]
    fn every_pixel_of_the_edge_lies_in_a_tile_and_tiles_overlap() {
        let size = Size::new(960, 720);
        let parts = plan(&block(20..76, 10..86), size, Tiles);
        let tiles: Vec<Rect> = parts.iter().filter(|part| !part.subject).map(|part| part.rect).collect();
        assert!((5..=16).contains(&tiles.len()), "{tiles:?}");
        for (x, y) in (200..760).flat_map(|x| [(x, 75), (x, 644)]).chain((75..645).flat_map(|y| [(200, y), (759, y)])) {
            assert!(tiles.iter().any(|&tile| contains(tile, x, y)), "{x},{y} is in none of {tiles:?}");
        }
        let overlapping = tiles.windows(2).filter(|pair| pair[0].top == pair[1].top);
        for pair in overlapping.filter(|pair| pair[1].left - pair[0].left < pair[0].width) {
            let shared = pair[0].left + pair[0].width - pair[1].left;
            assert!(f64::from(shared) >= 0.3 * f64::from(pair[0].width), "{pair:?}");
        }
        for tile in tiles {
            assert!(tile.width >= 96 && tile.height >= 96, "{tile:?} is smaller than the network's grid");
        }
    }

    #[test]
    fn tiles_without_an_edge_are_left_out() {
        let everything = plan(&block(0..96, 0..96), Size::new(4096, 4096), Tiles);
        assert_eq!(everything, []);
        let ring = plan(&block(2..94, 2..94), Size::new(4096, 4096), Tiles);
        assert_eq!(ring.len(), 12, "{ring:?}");
    }

    #[test]
    fn there_are_never_more_than_seventeen_and_all_lie_inside() {
        let sizes = [(1, 1), (1, 4096), (4096, 1), (3, 2), (96, 96), (97, 40), (640, 427), (4096, 4096), (16384, 30)];
        let masks = [block(0..0, 0..0), block(0..1, 95..96), block(30..70, 20..90), block(0..96, 40..50)];
        for (size, mask) in sizes.iter().flat_map(|size| masks.iter().map(move |mask| (size, mask))) {
            let size = Size::new(size.0, size.1);
            let parts = plan(mask, size, Tiles);
            assert!(parts.len() <= 17, "{size}: {}", parts.len());
            let of_subject: Vec<_> = parts.iter().copied().filter(|part| part.subject).collect();
            assert_eq!(plan(mask, size, Subject), of_subject, "{size}: the same without the tiles");
            let of_small = plan(mask, size, SmallSubject);
            for (parts, scope) in [(&parts, Tiles), (&of_subject, Subject), (&of_small, SmallSubject)] {
                let reduced = |part: &Part| {
                    let factor = factor(part.rect) as usize;
                    (part.rect.width as usize / factor) * (part.rect.height as usize / factor)
                };
                let pixels: usize = parts.iter().map(reduced).sum();
                assert!(pixels <= most_pixels(size, scope), "{size}: {pixels}");
            }
            for Part { rect: part, .. } in parts {
                let fits = part.left + part.width <= size.width && part.top + part.height <= size.height;
                assert!(fits && part.width > 0 && part.height > 0, "{part} in {size}");
            }
        }
    }

    #[test]
    fn a_box_of_half_of_the_picture_is_not_a_small_subject() {
        for (columns, rows, is_small) in
            [(8, 8, true), (96, 47, true), (96, 48, false), (68, 68, false), (90, 90, false)]
        {
            let mask = block(0..columns, 2..2 + rows);
            let parts = plan(&mask, Size::new(960, 960), SmallSubject);
            assert_eq!(!parts.is_empty(), is_small, "{columns} by {rows} of 96 cells");
        }
    }

    #[test]
    fn without_a_subject_or_more_detail_there_are_no_parts() {
        assert_eq!(plan(&block(0..0, 0..0), Size::new(4096, 4096), Tiles), []);
        assert_eq!(plan(&block(40..50, 40..50), Size::new(96, 96), Tiles), []);
        assert_eq!(plan(&block(40..50, 40..50), Size::new(97, 96), Tiles).len(), 1);
    }
}
