//! Resampling of straight RGBA8 in linear light with premultiplied alpha.
//!
//! Lanczos with three lobes, widened when shrinking (fast_image_resize), on 16-bit premultiplied linear light.
//! Premultiplied, because a colour must weigh as much as it covers: else black under alpha 0 darkens every edge.
//! Linear, because a filter sums light, and encoded values are not light.
//!
//! A 4096×4096 picture is 128 MB in 16 bits, so it is done in strips of output rows. A strip's source rows are
//! converted together with the filter's reach above and below, which makes the seams invisible.

use crate::image::color::{encoded8_of_linear16, linear16_of_encoded8};
use crate::image::{Rect, Size};
use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::U16x4;
use fast_image_resize::{FilterType, ResizeAlg, ResizeOptions, Resizer};
use rayon::prelude::*;

/// Lobes of the filter on each side.
const LOBES: f64 = 3.0;
/// Output rows of one strip: enough that the rows converted twice (six times the scale) stay below a tenth, few
/// enough that halving 4096 columns needs 5 MB.
const STRIP_ROWS: u32 = 64;

/// Resamples all of `source` onto `place` of `canvas`; the rest of the canvas is left as it is.
pub(super) fn resample(source: &[u8], source_size: Size, canvas: &mut [u8], canvas_size: Size, place: Rect) {
    resample_in_strips(source, source_size, canvas, canvas_size, place, STRIP_ROWS);
}

fn resample_in_strips(source: &[u8], size: Size, canvas: &mut [u8], canvas_size: Size, place: Rect, strip_rows: u32) {
    let source_row = size.width as usize * 4;
    let canvas_row = canvas_size.width as usize * 4;
    let scale = f64::from(size.height) / f64::from(place.height);
    let reach = LOBES * scale.max(1.0) + 1.0;
    let mut resizer = Resizer::new();
    let (mut linear, mut resized) = (Vec::new(), Vec::new());

    for first_row in (0..place.height).step_by(strip_rows as usize) {
        let rows = strip_rows.min(place.height - first_row);
        let (top, bottom) = (f64::from(first_row) * scale, f64::from(first_row + rows) * scale);
        let first = (top - reach).floor().max(0.0) as u32;
        let last = ((bottom + reach).ceil() as u32).min(size.height);

        linear.resize((last - first) as usize * size.width as usize, U16x4::default());
        let needed = &source[first as usize * source_row..last as usize * source_row];
        linear
            .par_chunks_mut(size.width as usize)
            .zip(needed.par_chunks(source_row))
            .for_each(|(to, from)| premultiply_row(from, to));

        resized.clear();
        resized.resize(rows as usize * place.width as usize, U16x4::default());
        let from = TypedImageRef::new(size.width, last - first, &linear).expect("as many pixels as rows times columns");
        let mut to = TypedImage::from_pixels_slice(place.width, rows, &mut resized)
            .expect("as many pixels as rows times columns");
        let offset = top - f64::from(first);
        // Rounding may push the last strip's bottom past the last row by less than a billionth of a pixel.
        let height = (bottom - top).min(f64::from(last - first) - offset);
        let options = ResizeOptions::new()
            .resize_alg(ResizeAlg::Convolution(FilterType::Lanczos3))
            .crop(0.0, offset, f64::from(size.width), height)
            .use_alpha(false);
        resizer.resize_typed(&from, &mut to, &options).expect("the strip lies inside its own rows");

        let top_row = (place.top + first_row) as usize;
        let left = place.left as usize * 4;
        let width = place.width as usize;
        canvas[top_row * canvas_row..(top_row + rows as usize) * canvas_row]
            .par_chunks_mut(canvas_row)
            .zip(resized.par_chunks(width))
            .for_each(|(to, from)| unpremultiply_row(from, &mut to[left..left + width * 4]));
    }
}

fn premultiply_row(from: &[u8], to: &mut [U16x4]) {
    let linear = linear16_of_encoded8();
    for (&[r, g, b, a], to) in from.as_chunks::<4>().0.iter().zip(to) {
        let alpha = u32::from(a);
        let premultiplied = |encoded: u8| ((u32::from(linear[usize::from(encoded)]) * alpha + 127) / 255) as u16;
        *to = U16x4::new([premultiplied(r), premultiplied(g), premultiplied(b), u16::from(a) * 257]);
    }
}

fn unpremultiply_row(from: &[U16x4], to: &mut [u8]) {
    let encoded = encoded8_of_linear16();
    for (from, to) in from.iter().zip(to.as_chunks_mut::<4>().0) {
        let [r, g, b, alpha] = from.0.map(u32::from);
        let alpha8 = ((alpha + 128) / 257) as u8;
        *to = if alpha8 == 0 {
            [0; 4]
        } else {
            // The filter's negative lobes may leave more colour than coverage: light cannot exceed white.
            let straight = |light: u32| encoded[((light * 65535 + alpha / 2) / alpha).min(65535) as usize];
            [straight(r), straight(g), straight(b), alpha8]
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            resample_in_strips(&pixels, source, &mut canvas, target, Rect::whole(target), rows);
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
    fn the_light_under_low_coverage_is_kept() {
        let mut row = [U16x4::default()];
        premultiply_row(&[255, 128, 0, 3], &mut row);
        let mut back = [0; 4];
        unpremultiply_row(&row, &mut back);
        assert_eq!([back[0], back[2], back[3]], [255, 0, 3]);
        assert!(back[1].abs_diff(128) <= 1);
    }
}
