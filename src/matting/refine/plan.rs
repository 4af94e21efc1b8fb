//! Which parts of a picture are worth a second look.

use super::super::ghosts;
use super::{Again, ENOUGH, Part};
use crate::image::{Mask, Rect, Size};

/// How much of the subject's longer side is added around its box.
const PADDING: f64 = 0.12;
/// A box above this share of the picture would show what was seen already.
const MOST: f64 = 0.95;
/// Share of a tile that its neighbour covers too.
const OVERLAP: f64 = 0.4;

/// The parts of a picture of `size` to look at again: the subject's box, and tiles of it that `mask` has an edge in. At
/// most 17; none where they would show no more than `mask` was made from. All lie inside the picture and have pixels.
#[must_use]
pub fn plan(mask: &Mask, size: Size, again: Again) -> Vec<Part> {
    // A stray patch that is not going to be kept would make the subject's box as large as the picture.
    let mut mask = mask.clone();
    ghosts::clear(&mut mask);
    let mask = &mask;
    let Some(subject) = subject_box(mask, size) else { return Vec::new() };
    let mut parts = Vec::new();
    let sees_more = size.width > mask.size.width || size.height > mask.size.height;
    if sees_more && (subject.size().area() as f64) < MOST * size.area() as f64 {
        parts.push(Part::subject(subject));
    }
    let most = again.tiles();
    let [across, down] =
        [(subject.width, mask.size.width), (subject.height, mask.size.height)].map(|side| tiles_along(side, most));
    if across * down > 1 {
        let columns = places(subject.left, subject.width, across);
        for (top, height) in places(subject.top, subject.height, down) {
            let row = columns.iter().map(|&(left, width)| Rect { left, top, width, height });
            parts.extend(row.filter(|&tile| has_edge(mask, size, tile)).map(Part::tile));
        }
    }
    parts
}

/// Pixels that are [cropped](super::cropped) from a picture of `size` at most, whatever its mask is: of the box, and of the
/// tiles with their overlaps.
#[must_use]
pub fn most_pixels(size: Size, again: Again) -> usize {
    // What is shrunk keeps less than twice what is enough on its shorter side.
    let shrunk = |width: f64, height: f64| f64::min(width * height, 2.0 * f64::from(ENOUGH) * width.max(height));
    let (width, height) = (f64::from(size.width), f64::from(size.height));
    let subject = f64::min(MOST * width * height, shrunk(width, height));
    let tiles = match again.tiles() {
        1 => 0.0,
        most => {
            let most = f64::from(most);
            // Each tile is rounded up to whole pixels.
            let longest = |side: f64| side / (1.0 + (most - 1.0) * (1.0 - OVERLAP)) + 1.0;
            most * most * shrunk(longest(width), longest(height))
        }
    };
    (subject + tiles).ceil() as usize
}

/// How many tiles cover a side of `pixels` when a tile is not to be smaller than the network's `side`.
fn tiles_along((pixels, side): (u32, u32), most: u32) -> u32 {
    let more = (f64::from(pixels) / f64::from(side.max(1)) - 1.0) / (1.0 - OVERLAP);
    (1.0 + more.max(0.0)).min(f64::from(most)) as u32
}

/// Where `count` tiles of equal length that overlap begin, and how long they are.
fn places(first: u32, pixels: u32, count: u32) -> Vec<(u32, u32)> {
    let length = (f64::from(pixels) / (1.0 + f64::from(count - 1) * (1.0 - OVERLAP))).ceil() as u32;
    let length = length.min(pixels);
    // The first begins and the last ends where the box does, whatever rounding does between.
    let start = |at: u32| first + ((pixels - length) * at).checked_div(count - 1).unwrap_or(0);
    (0..count).map(|at| (start(at), length)).collect()
}

/// The bounds of what `mask` thinks subject, padded, in pixels.
fn subject_box(mask: &Mask, size: Size) -> Option<Rect> {
    let columns = mask.size.width as usize;
    let (mut bounds, mut any) = ([usize::MAX, usize::MAX, 0, 0], false);
    for (at, _) in mask.values.iter().enumerate().filter(|(_, value)| **value >= 0.5) {
        let (x, y) = (at % columns, at / columns);
        bounds = [bounds[0].min(x), bounds[1].min(y), bounds[2].max(x + 1), bounds[3].max(y + 1)];
        any = true;
    }
    let cell =
        [f64::from(size.width) / f64::from(mask.size.width), f64::from(size.height) / f64::from(mask.size.height)];
    let [left, top, right, bottom] = [
        bounds[0] as f64 * cell[0],
        bounds[1] as f64 * cell[1],
        bounds[2] as f64 * cell[0],
        bounds[3] as f64 * cell[1],
    ];
    let padding = PADDING * f64::max(right - left, bottom - top) + f64::max(cell[0], cell[1]);
    let [left, top] = [left, top].map(|edge| (edge - padding).max(0.0) as u32);
    let end = |edge: f64, most: u32| ((edge + padding).ceil() as u32).min(most);
    let (right, bottom) = (end(right, size.width), end(bottom, size.height));
    (any && right > left && bottom > top).then(|| Rect { left, top, width: right - left, height: bottom - top })
}

/// Whether the mask changes sides in the middle of `tile`, which is where the tile will count.
fn has_edge(mask: &Mask, size: Size, tile: Rect) -> bool {
    let span = |first: u32, length: u32, cells: u32, pixels: u32| {
        let scale = f64::from(cells) / f64::from(pixels);
        let end = (f64::from(first + length) * scale).ceil() as usize;
        (f64::from(first) * scale) as usize..end.min(cells as usize)
    };
    let columns = span(tile.left, tile.width, mask.size.width, size.width);
    let mut rows = span(tile.top, tile.height, mask.size.height, size.height);
    let side = |x: usize, y: usize| mask.values[y * mask.size.width as usize + x] >= 0.5;
    let first = side(columns.start, rows.start);
    rows.any(|y| columns.clone().any(|x| side(x, y) != first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Again::{Subject, Tiles};

    /// A block of `mask` cells on a grid of 96.
    fn block(columns: std::ops::Range<u32>, rows: std::ops::Range<u32>) -> Mask {
        let value = |at: u32| if columns.contains(&(at % 96)) && rows.contains(&(at / 96)) { 1.0 } else { 0.0 };
        Mask { size: Size::new(96, 96), values: (0..96 * 96).map(value).collect() }
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
            assert!(tile.width >= 96 && tile.height >= 96, "{tile:?} shows less than the network can see");
        }
    }

    #[test]
    fn tiles_without_an_edge_are_not_looked_at() {
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
            for (parts, again) in [(&parts, Tiles), (&of_subject, Subject)] {
                let shrunk = |part: &Part| {
                    let factor = super::super::factor(part.rect) as usize;
                    (part.rect.width as usize / factor) * (part.rect.height as usize / factor)
                };
                let pixels: usize = parts.iter().map(shrunk).sum();
                assert!(pixels <= most_pixels(size, again), "{size}: {pixels}");
            }
            for Part { rect: part, .. } in parts {
                let fits = part.left + part.width <= size.width && part.top + part.height <= size.height;
                assert!(fits && part.width > 0 && part.height > 0, "{part} in {size}");
            }
        }
    }

    #[test]
    fn without_a_subject_or_without_more_to_see_there_is_nothing_to_do() {
        assert_eq!(plan(&block(0..0, 0..0), Size::new(4096, 4096), Tiles), []);
        assert_eq!(plan(&block(40..50, 40..50), Size::new(96, 96), Tiles), []);
        assert_eq!(plan(&block(40..50, 40..50), Size::new(60, 80), Tiles), []);
        assert_eq!(plan(&block(40..50, 40..50), Size::new(97, 96), Tiles).len(), 1);
    }
}
