//! A comparison sheet as a PNG: before, after and difference on a checkerboard, one row per picture.

use super::compare::premultiplied;
use super::set::output_folder;
use crate::support::pictures::encoded;
use backdrop::image::{Buffer, Frame, OutputFormat, Size};
use std::fs;
use std::path::PathBuf;

const CELL: u32 = 240;
const MARGIN: u32 = 8;
/// Factor of the shown differences.
const GAIN: u8 = 8;
const PAPER: u8 = 96;

/// Writes `NAME.png` with a row of three cells for each pair, in `columns`; returns its path.
pub(super) fn write(name: &str, pairs: &[(Frame, Frame)], columns: u32) -> PathBuf {
    let rows = u32::try_from(pairs.len()).expect("few").div_ceil(columns);
    let size = Size::new(columns * 3 * (CELL + MARGIN) + MARGIN, rows * (CELL + MARGIN) + MARGIN);
    let mut sheet = Frame::new(size, Buffer::from([PAPER, PAPER, PAPER, 255].repeat(size.area())));
    for (index, (before, after)) in (0..).zip(pairs) {
        let (column, row) = (index % columns * 3, index / columns);
        let top = MARGIN + row * (CELL + MARGIN);
        for (place, cell) in (column..).zip([before, after, &difference(before, after)]) {
            draw(&mut sheet, MARGIN + place * (CELL + MARGIN), top, cell);
        }
    }
    let path = output_folder().join(format!("{name}.png"));
    fs::create_dir_all(path.parent().expect("a folder")).expect("the target directory is writable");
    fs::write(&path, encoded(sheet, OutputFormat::Png, 100)).expect("writable");
    path
}

/// Absolute differences times [`GAIN`]; red where only one of the frames has a pixel.
fn difference(before: &Frame, after: &Frame) -> Frame {
    let (one, other) = (before.size(), after.size());
    let size = Size::new(one.width.max(other.width), one.height.max(other.height));
    let pixel = |x: u32, y: u32| {
        let inside = |size: Size| x < size.width && y < size.height;
        if !inside(one) || !inside(other) {
            return [255, 0, 0, 255];
        }
        let (one, other) = (premultiplied(before.pixel(x, y)), premultiplied(after.pixel(x, y)));
        let off: [u8; 4] = std::array::from_fn(|channel| one[channel].abs_diff(other[channel]).saturating_mul(GAIN));
        [off[0].max(off[3]), off[1].max(off[3]), off[2].max(off[3]), 255]
    };
    let pixels = (0..size.height).flat_map(|y| (0..size.width).flat_map(move |x| pixel(x, y)));
    Frame::new(size, Buffer::from(pixels.collect::<Vec<u8>>()))
}

/// Draws a picture into a cell, subsampled if it is too large.
fn draw(sheet: &mut Frame, left: u32, top: u32, picture: &Frame) {
    let Size { width, height } = picture.size();
    let step = f64::from(width.max(height).max(CELL)) / f64::from(CELL);
    let stride = sheet.size().width;
    for y in 0..CELL {
        for x in 0..CELL {
            let from = [x, y].map(|at| (f64::from(at) * step) as u32);
            if from[0] >= width || from[1] >= height {
                continue;
            }
            let [r, g, b, alpha] = premultiplied(picture.pixel(from[0], from[1]));
            let ground = if (x / 12 + y / 12).is_multiple_of(2) { 255 } else { 208 };
            let [_, _, under, _] = premultiplied([0, 0, ground, 255 - alpha]);
            let at = ((top + y) * stride + left + x) as usize * 4;
            for (channel, value) in [r, g, b].into_iter().enumerate() {
                sheet.pixels_mut()[at + channel] = value.saturating_add(under);
            }
        }
    }
}
