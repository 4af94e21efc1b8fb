//! Very thin and small pictures: a cutout or no subject, and an unknown band of the usual width.

use crate::support::segmenter;
use backdrop::image::{Buffer, Frame, RawMask, Rect, Size, Trimap};
use backdrop::matting::clean::clean_without_colors;
use backdrop::matting::{self, Hair, NoSubject, Options, trimap};

/// The network's grid.
const GRID: Size = Size::new(384, 384);
const SHAPES: [(u32, u32); 10] =
    [(1, 1), (64, 1), (1, 64), (4096, 1), (1, 4096), (2, 4096), (1920, 2), (3, 5), (16, 16), (700, 7)];

/// The mask of a subject in the first half along the longer axis.
fn half(size: Size) -> RawMask {
    segmenter::mask(GRID, |x, y| if (if size.width >= size.height { x } else { y }) < 192 { 1.0 } else { 0.0 })
}

fn frame(size: Size) -> Frame {
    let is_subject = |x: u32, y: u32| if size.width >= size.height { 2 * x < size.width } else { 2 * y < size.height };
    let color = |x, y| if is_subject(x, y) { [220, 120, 40, 255] } else { [30, 160, 60, 255] };
    let pixels: Vec<u8> = (0..size.height).flat_map(|y| (0..size.width).flat_map(move |x| color(x, y))).collect();
    Frame::new(size, Buffer::from(pixels))
}

#[test]
fn the_unknown_band_of_a_thin_picture_has_the_usual_width() {
    for (width, height) in SHAPES {
        let size = Size::new(width, height);
        let longest = size.longest() as f32;
        let trimap = trimap::from_mask(&clean_without_colors(&half(size)).expect("a subject"), size, None);
        let unknown = trimap.labels().iter().filter(|&&label| label == Trimap::UNKNOWN).count();
        // Two cells to either side of the edge, at least 1.5 pixels, and one cell or pixel of bilinear interpolation.
        let band = 2.0 * (2.0 * longest / 384.0).max(1.5) + (longest / 384.0).max(1.0) + 1.0;
        let lines = size.area() as f32 / longest;
        assert!(
            unknown as f32 <= band * lines,
            "{size}: {unknown} unknown pixels, not {band} in each of {lines} lines"
        );
    }
}

#[test]
fn thin_pictures_are_cut_out_with_all_options() {
    for (width, height) in SHAPES {
        let size = Size::new(width, height);
        let hair = Hair { region: Rect { left: 0, top: 0, width, height }, reach: 40.0 };
        let plain = Options { despill: 1.0, decontaminate: true, ..Options::default() };
        for options in [plain, Options { opaque: true, ..plain }, Options { hair: Some(hair), ..plain }] {
            match matting::cut_out(frame(size), &half(size), &options) {
                Ok(cutout) => assert_eq!(cutout.frame().size(), size),
                Err(NoSubject) => assert!(size.area() < 64, "{size}: half of it is subject"),
            }
        }
        let everything = segmenter::mask(GRID, |_, _| 1.0);
        let whole = matting::cut_out(frame(size), &everything, &Options::default()).expect("a subject");
        assert_eq!(
            whole.frame().pixels(),
            frame(size).pixels(),
            "{size}: a subject that fills the picture is the picture"
        );
    }
}
