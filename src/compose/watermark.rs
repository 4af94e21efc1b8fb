//! Draws watermarks in the lower right corner and stamps (label texts) in the lower left one.
//!
//! [`MarkArea`] and [`text::render`] give sizes and margins. Marks are composited source-over in encoded values, like
//! every flat layer, with coverage times opacity: full coverage replaces the canvas and none keeps it, bit for bit.

use super::mark_area::{Corner, MarkArea};
use super::resample::resample_part;
use super::{Mark, Scene, Watermark, text};
use crate::image::{Frame, Rect, Size};
use backdrop_kernels::flat_over::cpu::FrontToBack;
use rayon::prelude::*;
use std::borrow::Cow;

/// Draws the marks of `scene` over `canvas`; `mark` is the picture of a [`Mark::Picture`].
pub(super) fn draw_marks(canvas: &mut Frame, scene: &Scene, mark: Option<&Frame>) {
    if let Some(watermark) = &scene.watermark {
        draw(canvas, watermark, mark);
    }
    if let Some(word) = scene.stamp {
        stamp(canvas, word);
    }
}

/// Draws a word over the lower left corner of `canvas`.
fn stamp(canvas: &mut Frame, word: &str) {
    if canvas.size().area() > 0 {
        let mark = text::render(word, canvas.size());
        let place = MarkArea::on(canvas.size()).place(mark.size(), Corner::Left);
        composite_over(canvas, &mark, place, 1.0);
    }
}

/// Draws a watermark over `canvas`; `mark` is the picture of a [`Mark::Picture`].
fn draw(canvas: &mut Frame, watermark: &Watermark, mark: Option<&Frame>) {
    if watermark.opacity.is_nan() || watermark.opacity <= 0.0 || canvas.size().area() == 0 {
        return;
    }
    let area = MarkArea::on(canvas.size());
    let mark = match (&watermark.mark, mark) {
        (Mark::Text(line), _) => Cow::Owned(text::render(line, canvas.size())),
        (Mark::Picture, Some(picture)) if picture.size().area() > 0 => scaled(picture, area.picture(picture.size())),
        (Mark::Picture, Some(_) | None) => return,
    };
    composite_over(canvas, &mark, area.place(mark.size(), Corner::Right), watermark.opacity);
}

fn scaled(picture: &Frame, size: Size) -> Cow<'_, Frame> {
    if size == picture.size() {
        return Cow::Borrowed(picture);
    }
    let mut pixels = vec![0; size.area() * 4];
    let whole = Rect::whole(picture.size());
    resample_part(picture.pixels(), picture.size(), whole, &mut pixels, size, Rect::whole(size));
    Cow::Owned(Frame::new(size, pixels.into()))
}

/// Composites a mark at its final size into `place`.
fn composite_over(canvas: &mut Frame, mark: &Frame, place: Rect, opacity: f32) {
    let row = canvas.size().width as usize;
    let (left, width) = (place.left as usize, place.width as usize);
    let opacity = opacity.min(1.0);
    let (pixels, _) = canvas.pixels_mut().as_chunks_mut::<4>();
    let (marks, _) = mark.pixels().as_chunks::<4>();
    let rows = pixels.par_chunks_mut(row).skip(place.top as usize).zip(marks.par_chunks(width));
    rows.for_each(|(row, marks)| {
        for (pixel, &mark) in row[left..left + width].iter_mut().zip(marks) {
            *pixel = mixed(*pixel, mark, opacity);
        }
    });
}

/// Composites `mark` over `pixel`, both straight sRGB.
fn mixed(pixel: [u8; 4], mark: [u8; 4], opacity: f32) -> [u8; 4] {
    let above = f32::from(mark[3]) / 255.0 * opacity;
    if above <= 0.0 {
        return pixel;
    }
    if above >= 1.0 {
        return mark;
    }
    let mut layers = FrontToBack::EMPTY;
    layers.add([mark[0], mark[1], mark[2]], above);
    layers.add_pixel(pixel);
    layers.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::tests::{drawn, noise};

    fn frame(size: Size, pixel: impl Fn(u32, u32) -> [u8; 4]) -> Frame {
        drawn(size.width, size.height, pixel)
    }

    fn flat(size: Size, colour: [u8; 4]) -> Frame {
        frame(size, |_, _| colour)
    }

    const PICTURE: Watermark = Watermark { mark: Mark::Picture, opacity: 1.0 };

    fn text(line: &str, opacity: f32) -> Watermark {
        Watermark { mark: Mark::Text(line.to_owned()), opacity }
    }

    fn changed(before: &Frame, after: &Frame) -> Option<Rect> {
        assert_eq!(before.size(), after.size());
        let size = before.size();
        let marks = frame(size, |x, y| if before.pixel(x, y) == after.pixel(x, y) { [0; 4] } else { [255; 4] });
        marks.covered(255)
    }

    #[test]
    fn a_picture_mark_is_a_fifth_of_the_width_with_a_margin_of_a_fiftieth() {
        for ((width, height), (mark_width, mark_height), expected) in [
            ((1000, 800), (100, 50), (780, 680, 200, 100)),
            ((1000, 800), (4000, 2000), (780, 680, 200, 100)),
            ((200, 1000), (30, 30), (156, 956, 40, 40)),
            // Too high: it gets all the height between the margins.
            ((1000, 100), (10, 10), (920, 20, 60, 60)),
            ((1000, 1000), (50, 500), (884, 20, 96, 960)),
            ((1000, 800), (1, 4096), (979, 20, 1, 760)),
            // No space for full margins.
            ((1000, 30), (10, 10), (964, 7, 16, 16)),
            ((8192, 1), (10, 10), (8192 - 164 - 1, 0, 1, 1)),
            ((1, 50), (10, 10), (0, 49, 1, 1)),
            ((1, 1), (300, 200), (0, 0, 1, 1)),
            ((2, 3), (3, 2), (1, 2, 1, 1)),
            // Odd sizes are rounded.
            ((333, 217), (64, 48), (333 - 7 - 67, 217 - 7 - 50, 67, 50)),
        ] {
            let mut canvas = flat(Size::new(width, height), [255; 4]);
            let before = canvas.clone();
            draw(&mut canvas, &PICTURE, Some(&flat(Size::new(mark_width, mark_height), [200, 10, 30, 255])));
            let (left, top, width, height) = expected;
            let place = Rect { left, top, width, height };
            assert_eq!(changed(&before, &canvas), Some(place), "{mark_width}×{mark_height} on {}", before.size());
            assert_eq!(canvas.pixel(left, top), [200, 10, 30, 255]);
        }
    }

    #[test]
    fn an_opaque_mark_of_the_right_size_is_copied_bit_for_bit() {
        let opaque = |x, y| {
            let [red, green, blue, _] = noise(x, y);
            [red, green, blue, 255]
        };
        let mark = frame(Size::new(60, 40), opaque);
        for canvas_pixel in [[0; 4], [255; 4], [1, 2, 3, 77]] {
            let mut canvas = flat(Size::new(300, 200), canvas_pixel);
            draw(&mut canvas, &PICTURE, Some(&mark));
            for (x, y) in (0..40).flat_map(|y| (0..60).map(move |x| (x, y))) {
                assert_eq!(canvas.pixel(300 - 6 - 60 + x, 200 - 6 - 40 + y), mark.pixel(x, y));
            }
        }
    }

    #[test]
    fn without_opacity_without_coverage_and_without_a_mark_nothing_changes() {
        let before = frame(Size::new(200, 150), noise);
        let mark = frame(Size::new(40, 30), noise);
        let same = |watermark: &Watermark, mark: Option<&Frame>| {
            let mut canvas = before.clone();
            draw(&mut canvas, watermark, mark);
            assert_eq!(changed(&before, &canvas), None, "{watermark:?}");
        };
        for opacity in [0.0, -0.0, -1.0, f32::NAN] {
            same(&Watermark { opacity, ..PICTURE }, Some(&mark));
            same(&text("Backdrop", opacity), None);
        }
        same(&PICTURE, None);
        same(&PICTURE, Some(&flat(Size::new(40, 30), [200, 100, 50, 0])));
        same(&text("", 1.0), None);
        same(&text(" \n\t ", 1.0), None);
    }

    #[test]
    fn encoded_values_are_mixed_by_opacity() {
        // Half white over opaque black is 128, as in an editor; over nothing it is white with half coverage.
        for (below, opacity, expected) in [
            ([0, 0, 0, 255], 0.5, [128, 128, 128, 255]),
            ([0, 0, 0, 255], 0.4, [102, 102, 102, 255]),
            ([0, 0, 0, 0], 0.5, [255, 255, 255, 128]),
            ([255, 255, 255, 255], 0.3, [255, 255, 255, 255]),
            ([0, 0, 0, 255], 2.0, [255, 255, 255, 255]),
        ] {
            let mut canvas = flat(Size::new(100, 100), below);
            draw(&mut canvas, &Watermark { opacity, ..PICTURE }, Some(&flat(Size::new(20, 20), [255; 4])));
            assert_eq!(canvas.pixel(90, 90), expected, "{below:?} at {opacity}");
            assert_eq!(canvas.pixel(70, 70), below);
        }
    }

    #[test]
    fn a_text_lies_in_the_same_corner() {
        for (width, height) in [(1000, 800), (400, 900), (900, 300), (64, 64)] {
            let size = Size::new(width, height);
            let before = flat(size, [90, 120, 40, 255]);
            let mut canvas = before.clone();
            draw(&mut canvas, &text("Backdrop", 1.0), None);
            let place = changed(&before, &canvas).expect("a text");
            let margin = (width + 25) / 50;
            // The outline's border is rounded up to whole pixels, so the last pixels may be empty.
            let gaps = [width - place.left - place.width, height - place.top - place.height];
            assert!(gaps.iter().all(|gap| (margin..=margin + 1).contains(gap)), "{gaps:?} on {size}");
            assert!(place.left >= margin);
        }
    }
}
