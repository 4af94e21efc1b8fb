//! Lanczos resampling of straight RGBA8, in linear light with premultiplied alpha.
//!
//! Lanczos with three lobes, widened when shrinking (fast_image_resize), on 16-bit samples. Premultiplied, because a
//! colour's weight is its coverage: otherwise black under alpha 0 darkens every edge. Linear, because a filter sums
//! light, and encoded values are not proportional to light.
//!
//! A 4096×4096 picture is 128 MB in 16 bits, so it is resampled in strips of output rows. A strip's source rows include
//! the filter's reach above and below, so that strips have no seams. The first pass, along the rows, runs on blocks of
//! source rows: of a strongly reduced picture the second pass then holds short rows only. Blocks change no value,
//! because all have the same filter and sums are whole numbers.

use crate::image::color::{encoded8_of_linear16, linear16_of_encoded8};
use crate::image::{Rect, Size};
use backdrop_kernels::resample::cpu::{premultiplied, straight};
use backdrop_kernels::resample::{LOBES, Part};
use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::U16x4;
use fast_image_resize::{FilterType, ResizeAlg, ResizeOptions, Resizer};
use rayon::prelude::*;

/// Maximum output rows of a strip: rows converted twice (six times the scale) are below a tenth, and halving 4096
/// columns needs 5 MB.
const STRIP_ROWS: u32 = 64;
/// Source rows of a block: the rows of a strip at a quarter of the size.
const BLOCK_ROWS: usize = 288;

/// `rect` as a part of a picture.
pub(super) fn part(rect: Rect) -> Part {
    let Rect { left, top, width, height } = rect;
    Part { left: left.into(), top: top.into(), width: width.into(), height: height.into() }
}

/// Resamples `from` of `source` onto `place` of `canvas`; the rest of the canvas is unchanged.
///
/// The filter also reads pixels around `from`, so the result equals a crop of the resampled whole.
pub(super) fn resample_part(
    source: &[u8],
    source_size: Size,
    from: Rect,
    canvas: &mut [u8],
    canvas_size: Size,
    place: Rect,
) {
    let strips = Strips::new(source, source_size, part(from), place.size());
    let rows = strip_rows(part(from), place.size());
    resample_in_strips(strips, canvas, canvas_size, place, rows);
}

/// Source pixels per output pixel along a row and along a column, for `part` resampled to `to`.
fn scales(part: Part, to: Size) -> [f64; 2] {
    [part.width / f64::from(to.width), part.height / f64::from(to.height)]
}

/// Output rows of a strip of `part` resampled to `to`. Fewer when the height is reduced much more than the width, as of
/// a stretched picture, because the first pass keeps every source row.
pub(super) fn strip_rows(part: Part, to: Size) -> u32 {
    let [across, down] = scales(part, to);
    // Sides are whole pixels and never reduced exactly alike.
    let excess = down / across.max(1.0) / 2.0;
    (f64::from(STRIP_ROWS) / excess).clamp(1.0, f64::from(STRIP_ROWS)) as u32
}

/// Upper bound on a strip's memory between the passes, in pixels of four bytes, for `part` of a picture of `size`.
pub(super) fn most_strip_pixels(size: Size, part: Part, to: Size) -> usize {
    let [_, down] = scales(part, to);
    // Both ends may lie inside a pixel.
    let rows = f64::from(strip_rows(part, to)) * down + 2.0 * (reach(down) + 1.0);
    2 * to.width as usize * (rows.ceil() as usize).min(size.height as usize)
}

/// Source pixels that the filter reads to each side of an interval, at `scale` source pixels per output pixel.
fn reach(scale: f64) -> f64 {
    LOBES * scale.max(1.0) + 1.0
}

fn resample_in_strips(mut strips: Strips<'_>, canvas: &mut [u8], canvas_size: Size, place: Rect, strip_rows: u32) {
    let canvas_row = canvas_size.width as usize * 4;
    for first in (0..place.height).step_by(strip_rows as usize) {
        let rows = strip_rows.min(place.height - first);
        let top = (place.top + first) as usize;
        let left = place.left as usize * 4;
        let width = place.width as usize;
        canvas[top * canvas_row..(top + rows as usize) * canvas_row]
            .par_chunks_mut(canvas_row)
            .zip(strips.rows(first, rows).par_chunks(width))
            .for_each(|(to, from)| unpremultiply_row(from, &mut to[left..left + width * 4]));
    }
}

/// Resamples a part of a picture, a few output rows at a time.
pub(super) struct Strips<'a> {
    source: &'a [u8],
    size: Size,
    part: Part,
    to: Size,
    resizer: Resizer,
    /// A block of source rows.
    linear: Vec<U16x4>,
    /// The source rows of a strip after the first pass.
    narrowed: Vec<U16x4>,
    resized: Vec<U16x4>,
}

impl<'a> Strips<'a> {
    /// Strips of `part` of `source`, resampled to `to`. The part must lie inside the source.
    pub(super) fn new(source: &'a [u8], size: Size, part: Part, to: Size) -> Self {
        let (linear, narrowed, resized) = (Vec::new(), Vec::new(), Vec::new());
        Self { source, size, part, to, resizer: Resizer::new(), linear, narrowed, resized }
    }

    /// The output rows `first..first + rows`, in premultiplied linear light.
    pub(super) fn rows(&mut self, first: u32, rows: u32) -> &[U16x4] {
        let Self { source, size, part, to, resizer, linear, narrowed, resized } = self;
        let [across, down] = scales(*part, *to);
        let top = part.top + f64::from(first) * down;
        let vertical = Span::new(top, f64::from(rows) * down, down, size.height);
        let horizontal = Span::new(part.left, part.width, across, size.width);

        let (width, narrow) = (horizontal.len(), to.width as usize);
        let source_row = size.width as usize * 4;
        let needed = &source[vertical.first as usize * source_row..vertical.last as usize * source_row];
        let columns = horizontal.first as usize * 4..horizontal.last as usize * 4;
        narrowed.resize(vertical.len() * narrow, U16x4::default());
        let blocks = needed.chunks(BLOCK_ROWS * source_row).zip(narrowed.chunks_mut(BLOCK_ROWS * narrow));
        for (from, to) in blocks {
            let rows = from.len() / source_row;
            linear.resize(rows * width, U16x4::default());
            linear
                .par_chunks_mut(width)
                .zip(from.par_chunks(source_row))
                .for_each(|(to, from)| premultiply_row(&from[columns.clone()], to));
            let part = Part { left: horizontal.offset, top: 0.0, width: horizontal.length, height: rows as f64 };
            convolve(resizer, (&linear[..], width), (to, narrow), part);
        }

        resized.resize(rows as usize * narrow, U16x4::default());
        let part = Part { left: 0.0, top: vertical.offset, width: narrow as f64, height: vertical.length };
        convolve(resizer, (&narrowed[..], narrow), (&mut resized[..], narrow), part);
        resized
    }
}

/// Resamples `part` of the pixels `from` to all pixels of `to`; each is given with its row length.
fn convolve(resizer: &mut Resizer, from: (&[U16x4], usize), to: (&mut [U16x4], usize), part: Part) {
    let size = |pixels: usize, width: usize| (width as u32, (pixels / width) as u32);
    let ((width, height), (to_width, to_height)) = (size(from.0.len(), from.1), size(to.0.len(), to.1));
    let from = TypedImageRef::new(width, height, from.0).expect("as many pixels as rows times columns");
    let mut to =
        TypedImage::from_pixels_slice(to_width, to_height, to.0).expect("as many pixels as rows times columns");
    let options = ResizeOptions::new()
        .resize_alg(ResizeAlg::Convolution(FilterType::Lanczos3))
        .crop(part.left, part.top, part.width, part.height)
        .use_alpha(false);
    resizer.resize_typed(&from, &mut to, &options).expect("the part lies inside of its rows");
}

/// The source pixels along an axis that an interval of the output needs.
struct Span {
    first: u32,
    /// One after the last pixel.
    last: u32,
    /// Start of the interval relative to `first`.
    offset: f64,
    length: f64,
}

impl Span {
    /// The span of `length` pixels from `start`, of `side` in all, at `scale` source pixels per output pixel.
    fn new(start: f64, length: f64, scale: f64, side: u32) -> Self {
        let reach = reach(scale);
        let first = ((start - reach).floor().max(0.0) as u32).min(side - 1);
        let last = ((start + length + reach).ceil() as u32).clamp(first + 1, side);
        let all = f64::from(last - first);
        let offset = (start - f64::from(first)).clamp(0.0, all);
        // Rounding may push the end past the last pixel by less than a billionth of a pixel.
        let mut length = length.min(all - offset);
        while offset + length > all {
            length = length.next_down();
        }
        Self { first, last, offset, length }
    }

    const fn len(&self) -> usize {
        (self.last - self.first) as usize
    }
}

fn premultiply_row(from: &[u8], to: &mut [U16x4]) {
    let linear = linear16_of_encoded8();
    for (&pixel, to) in from.as_chunks::<4>().0.iter().zip(to) {
        *to = U16x4::new(premultiplied(pixel, linear));
    }
}

pub(super) fn unpremultiply_row(from: &[U16x4], to: &mut [u8]) {
    let encoded = encoded8_of_linear16();
    for (from, to) in from.iter().zip(to.as_chunks_mut::<4>().0) {
        *to = straight(from.0.map(u32::from), encoded);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::{Buffer, Frame};

    fn picture(size: Size) -> Vec<u8> {
        let pixel = |x: u32, y: u32| {
            let wave = ((x as f32 * 0.11).sin() * (y as f32 * 0.07).cos() * 100.0 + 128.0) as u8;
            [wave, (x % 251) as u8, (y % 241) as u8, if (x / 40 + y / 30).is_multiple_of(3) { 90 } else { 255 }]
        };
        (0..size.height).flat_map(|y| (0..size.width).flat_map(move |x| pixel(x, y))).collect()
    }

    fn largest_difference(source: Size, target: Size, strip_rows: u32) -> u8 {
        let pixels = picture(source);
        let run = |rows| {
            let mut canvas = vec![0; target.area() * 4];
            let strips = Strips::new(&pixels, source, part(Rect::whole(source)), target);
            resample_in_strips(strips, &mut canvas, target, Rect::whole(target), rows);
            canvas
        };
        let (whole, strips) = (run(u32::MAX), run(strip_rows));
        whole.iter().zip(&strips).map(|(a, b)| a.abs_diff(*b)).max().unwrap_or(0)
    }

    #[test]
    fn strips_show_no_seams() {
        for (source, target) in [
            (Size::new(301, 500), Size::new(150, 249)),
            (Size::new(301, 500), Size::new(30, 50)),
            (Size::new(40, 33), Size::new(121, 100)),
            (Size::new(64, 401), Size::new(64, 400)),
            (Size::new(7, 1), Size::new(70, 10)),
        ] {
            for rows in [1, 7, 64] {
                assert!(largest_difference(source, target, rows) <= 1, "{source} to {target} in strips of {rows}");
            }
        }
    }

    #[test]
    fn passes_in_blocks_equal_passes_over_the_whole_picture() {
        for (source, target) in [
            (Size::new(301, 700), Size::new(30, 70)),
            (Size::new(64, 1000), Size::new(64, 125)),
            (Size::new(40, 300), Size::new(121, 600)),
            (Size::new(50, 600), Size::new(21, 600)),
        ] {
            let pixels = picture(source);
            let mut linear = vec![U16x4::default(); source.area()];
            premultiply_row(&pixels, &mut linear);
            let mut whole = vec![U16x4::default(); target.area()];
            let (from, to) = ((&linear[..], source.width as usize), (&mut whole[..], target.width as usize));
            convolve(&mut Resizer::new(), from, to, part(Rect::whole(source)));
            let mut strips = Strips::new(&pixels, source, part(Rect::whole(source)), target);
            assert!(strips.rows(0, target.height) == whole, "{source} to {target}");
        }
    }

    #[test]
    fn a_strong_reduction_holds_few_pixels() {
        let (source, target) = (Size::new(128, 8192), Size::new(2, 128));
        let pixels = picture(source);
        let mut strips = Strips::new(&pixels, source, part(Rect::whole(source)), target);
        strips.rows(64, 64);
        assert!(strips.linear.capacity() <= BLOCK_ROWS * 128, "{}", strips.linear.capacity());
        // Of each row as many pixels as the result has.
        let most = most_strip_pixels(source, part(Rect::whole(source)), target);
        assert!(strips.narrowed.len() * 2 <= most && most <= 2 * 72 * 128, "{most}");
    }

    #[test]
    fn a_picture_that_is_stretched_has_lower_strips() {
        let rows = |width, height| {
            let (size, to) = (Size::new(4096, 4096), Size::new(width, height));
            let whole = part(Rect::whole(size));
            (strip_rows(whole, to), most_strip_pixels(size, whole, to))
        };
        assert_eq!(rows(64, 64).0, 64);
        assert_eq!(rows(4096, 2048).0, 64);
        // 128 source rows for the output rows, and 6 times 64 around them.
        assert_eq!(rows(4096, 64), (2, 2 * 4096 * (128 + 384 + 4)));
        assert_eq!(rows(8192, 1), (1, 2 * 8192 * 4096));
    }

    #[test]
    fn colours_under_low_coverage_survive_premultiplication() {
        let mut row = [U16x4::default()];
        premultiply_row(&[255, 128, 0, 3], &mut row);
        let mut back = [0; 4];
        unpremultiply_row(&row, &mut back);
        assert_eq!([back[0], back[2], back[3]], [255, 0, 3]);
        assert!(back[1].abs_diff(128) <= 1);
    }

    #[test]
    fn a_resampled_part_equals_a_crop_of_the_resampled_whole() {
        let (source, target) = (Size::new(300, 200), Size::new(150, 100));
        let pixels = picture(source);
        let mut whole = vec![0; target.area() * 4];
        resample_part(&pixels, source, Rect::whole(source), &mut whole, target, Rect::whole(target));
        let whole = Frame::new(target, Buffer::from(whole));
        for (left, top, width, height) in [(0, 0, 150, 100), (20, 33, 41, 9), (149, 99, 1, 1), (0, 50, 150, 50)] {
            let from = Rect { left: 2 * left, top: 2 * top, width: 2 * width, height: 2 * height };
            let canvas_size = Size::new(width + 5, height + 3);
            let mut canvas = vec![7; canvas_size.area() * 4];
            let place = Rect { left: 5, top: 2, width, height };
            resample_part(&pixels, source, from, &mut canvas, canvas_size, place);
            let canvas = Frame::new(canvas_size, Buffer::from(canvas));
            for (x, y) in (0..height).flat_map(|y| (0..width).map(move |x| (x, y))) {
                let (part, of) = (canvas.pixel(x + 5, y + 2), whole.pixel(left + x, top + y));
                assert!(part.iter().zip(of).all(|(part, of)| part.abs_diff(of) <= 1), "{part:?}, {of:?} at {x},{y}");
            }
            assert_eq!([canvas.pixel(4, 2), canvas.pixel(5, 1)], [[7; 4]; 2], "outside of its place");
        }
    }
}
