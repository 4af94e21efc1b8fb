//! `engine=product-v1`: hard edges without background colour; closed holes.

use backdrop::image::{Frame, RawMask, Size};
use backdrop::matting::{self, Options};

const SIZE: Size = Size::new(400, 300);
const GRID: Size = Size::new(200, 150);

/// Coverage of a disc with an edge of three pixels.
fn disc(x: f32, y: f32, radius: f32) -> f32 {
    ((radius - f32::hypot(x - 200.0, y - 150.0)) / 3.0 + 0.5).clamp(0.0, 1.0)
}

/// A dark disc before flat white, and a mask of it.
fn photographed() -> (Frame, RawMask) {
    let pixel = |at: usize| {
        let (x, y) = ((at % 400) as f32 + 0.5, (at / 400) as f32 + 0.5);
        let value = |colour: f32| (colour * disc(x, y, 90.0) + 255.0 * (1.0 - disc(x, y, 90.0)) + 0.5) as u8;
        [value(60.0), value(40.0), value(90.0), 255]
    };
    let cell = |at: usize| {
        let (x, y) = ((at % 200) as f32 * 2.0 + 1.0, (at / 200) as f32 * 2.0 + 1.0);
        // A hole that the mask is certain of, where the picture shows only subject.
        let hole = f32::hypot(x - 180.0, y - 150.0) < 12.0;
        if hole { 0.0 } else { ((90.0 - f32::hypot(x - 200.0, y - 150.0)) / 6.0 + 0.5).clamp(0.0, 1.0) }
    };
    let frame = Frame::new(SIZE, (0..SIZE.area()).flat_map(pixel).collect::<Vec<u8>>().into());
    (frame, RawMask::new(GRID, (0..GRID.area()).map(cell).collect::<Vec<f32>>()).expect("probabilities"))
}

fn cut(opaque: bool) -> Frame {
    let (frame, mask) = photographed();
    matting::cut_out(frame, &mask, &Options { opaque, ..Options::default() }).unwrap().into_frame()
}

/// The number of partly covered pixels.
fn partly_covered(frame: &Frame) -> usize {
    frame.pixels().as_chunks::<4>().0.iter().filter(|pixel| pixel[3] > 0 && pixel[3] < 255).count()
}

#[test]
fn an_opaque_disc_has_a_hard_edge_without_the_white_background() {
    let (soft, hard) = (cut(false), cut(true));
    assert!(partly_covered(&hard) * 10 < partly_covered(&soft) * 7);
    for pixel in hard.pixels().as_chunks::<4>().0.iter().filter(|pixel| pixel[3] > 0) {
        let off = pixel.iter().zip([60u8, 40, 90]).map(|(value, subject)| value.abs_diff(subject)).max();
        assert!(off <= Some(60), "{pixel:?}");
    }
}

#[test]
fn a_hole_without_background_in_it_is_closed() {
    for opaque in [true, false] {
        assert_eq!(cut(opaque).pixel(180, 150), [60, 40, 90, 255], "opaque: {opaque}");
    }
}
