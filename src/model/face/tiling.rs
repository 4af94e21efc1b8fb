//! Detects small faces in overlapping tiles of a large picture.
//!
//! Akyon, Altinuc and Temizel, "Slicing Aided Hyper Inference and Fine-tuning for Small Object Detection", ICIP 2022.
//! The whole picture is another pass. A face that is cut by a tile's border is found in the next tile, or in that pass.

use super::SIDE;
use super::decode::non_maximum_suppression;
use super::detector::{FaceDetector, detect_at};
use crate::image::{Face, Frame, Rect, Size};
use crate::model::SegmentError;

/// Longest side of a picture without tiles.
const MAX_UNTILED: u32 = 1280;

/// Side of a tile while [`MAX_TILES`] suffice; tiles of larger pictures are larger.
const TILE_SIDE: u32 = 1024;

/// Maximum tiles of a picture. Each is a pass of 225 million multiply-adds.
const MAX_TILES: usize = 36;

/// Tiles overlap by at least a fourth of their side, 256 pixels.
const OVERLAP: u32 = 4;

/// Tiles overlap by at least one `LARGEST_FACE`th of the longest side: a face too small for the pass over the whole
/// picture (under a 28th) is whole in a tile, with a margin.
const LARGEST_FACE: u32 = 24;

/// Distance from a tile's border, in pixels of the network's input, within which a box counts as cut.
const MARGIN: f32 = 2.0;

/// The faces that score at least `threshold` in tiles of `frame`, after non-maximum suppression, best first.
pub(super) fn detect(frame: &Frame, detector: &dyn FaceDetector, threshold: f32) -> Result<Vec<Face>, SegmentError> {
    let size = frame.size();
    if size.longest() <= MAX_UNTILED {
        return Ok(Vec::new());
    }
    let mut faces = Vec::new();
    // Sequential: a pass is parallel in itself, and takes the memory of one tile and one slot of the device.
    for tile in tiles(size) {
        let copy = frame.cropped(tile, 1, |len| frame.buffer(len));
        let found = detect_at(&copy, detector, SIDE, threshold)?;
        faces.extend(found.iter().filter(|face| is_whole(face, tile, size)).map(|face| moved(face, tile)));
    }
    Ok(non_maximum_suppression(faces))
}

/// The tiles that cover a picture, row by row, at most [`MAX_TILES`].
fn tiles(size: Size) -> Vec<Rect> {
    let longest = size.longest();
    // So that tiles overlap by at most half.
    let mut side = TILE_SIDE.max(longest.div_ceil(LARGEST_FACE / 2));
    loop {
        let overlap = (side / OVERLAP).max(longest / LARGEST_FACE);
        let [columns, rows] = [size.width, size.height].map(|length| spans(length, side, overlap));
        if columns.len() * rows.len() <= MAX_TILES {
            let row = |&(top, height): &(u32, u32)| {
                let tile = move |&(left, width): &(u32, u32)| Rect { left, top, width, height };
                columns.iter().map(tile)
            };
            return rows.iter().flat_map(row).collect();
        }
        side += side / 8;
    }
}

/// Start and length of the fewest spans of `side` pixels that cover `length` evenly and overlap by at least `overlap`.
fn spans(length: u32, side: u32, overlap: u32) -> Vec<(u32, u32)> {
    if length <= side {
        return vec![(0, length)];
    }
    let last = length - side;
    let steps = last.div_ceil(side - overlap);
    let first = |step: u32| (u64::from(last) * u64::from(step) / u64::from(steps)) as u32;
    (0..=steps).map(|step| (first(step), side)).collect()
}

/// Whether a face in a tile keeps clear of the borders inside a picture of `size`.
fn is_whole(face: &Face, tile: Rect, size: Size) -> bool {
    let margin = tile.size().longest() as f32 * MARGIN / SIDE as f32;
    let axis = |low: f32, high: f32, first: u32, length: u32, side: u32| {
        (first == 0 || low > margin) && (first + length == side || high < length as f32 - margin)
    };
    axis(face.left, face.right, tile.left, tile.width, size.width)
        && axis(face.top, face.bottom, tile.top, tile.height, size.height)
}

/// Converts a face in a tile to pixels of the picture.
fn moved(face: &Face, tile: Rect) -> Face {
    let (left, top) = (tile.left as f32, tile.top as f32);
    Face {
        left: face.left + left,
        top: face.top + top,
        right: face.right + left,
        bottom: face.bottom + top,
        landmarks: face.landmarks.map(|[x, y]| [x + left, y + top]),
        score: face.score,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_are_few_and_cover_a_picture_of_any_shape() {
        for (width, height) in [
            (1281, 1281),
            (1300, 600),
            (3000, 3000),
            (4096, 4096),
            (4864, 4864),
            (6000, 4000),
            (12_000, 9000),
            (16_384, 16_384),
            (16_384, 1024),
            (16_384, 10),
            (1, 5000),
        ] {
            let size = Size::new(width, height);
            let tiles = tiles(size);
            assert!(tiles.len() <= MAX_TILES, "{size}: {} tiles", tiles.len());
            let whole = |first: fn(&Rect) -> (u32, u32), length: u32| {
                let mut spans: Vec<(u32, u32)> = tiles.iter().map(first).collect();
                spans.sort_unstable();
                spans.dedup();
                let (last, side) = spans[spans.len() - 1];
                assert_eq!((spans[0].0, last + side), (0, length), "{size}");
                // A face that is too small in the whole picture, with margins, fits into one of two neighbouring tiles.
                let face = (size.longest() as f32 / 28.0 + 2.0 * MARGIN * side as f32 / SIDE as f32) as u32;
                for pair in spans.windows(2) {
                    let overlap = pair[0].0 + side - pair[1].0;
                    assert!(overlap >= face, "{size}: an overlap of {overlap} for a face of {face}");
                    assert!(overlap >= side / OVERLAP, "{size}: an overlap of {overlap}");
                }
                spans.len()
            };
            let columns = whole(|tile| (tile.left, tile.width), width);
            let rows = whole(|tile| (tile.top, tile.height), height);
            assert_eq!(tiles.len(), columns * rows, "{size}");
            let most = TILE_SIDE.max(size.longest() / 4);
            assert!(tiles.iter().all(|tile| tile.size().longest() <= most), "{size}: {:?}", tiles[0]);
        }
        assert_eq!(tiles(Size::new(3000, 3000)).len(), 16);
        let large = tiles(Size::new(4864, 4864));
        assert_eq!((large.len(), large[0].width), (36, TILE_SIDE), "the largest square with tiles of this side");
    }

    #[test]
    fn faces_at_a_border_inside_the_picture_are_cut() {
        let size = Size::new(2000, 2000);
        let [first, middle] = [0, 488].map(|left| Rect { left, top: 0, width: 1024, height: 1024 });
        let face = |left: f32, top: f32| Face {
            left,
            top,
            right: left + 50.0,
            bottom: top + 60.0,
            landmarks: [[left, top]; 5],
            score: 0.5,
        };
        assert!(is_whole(&face(-5.0, -5.0), first, size), "the borders of the picture do not count");
        assert!(is_whole(&face(500.0, 500.0), first, size));
        assert!(!is_whole(&face(970.0, 500.0), first, size));
        assert!(!is_whole(&face(500.0, 960.0), first, size));
        assert!(!is_whole(&face(5.0, 500.0), middle, size));
        let last = Rect { left: 976, top: 976, ..first };
        assert!(is_whole(&face(990.0, 990.0), last, size));
        let there = moved(&face(5.0, 6.0), last);
        assert_eq!([there.left, there.top, there.right, there.bottom], [981.0, 982.0, 1031.0, 1042.0]);
        assert_eq!(there.landmarks[4], [981.0, 982.0]);
    }
}
