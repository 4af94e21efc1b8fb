//! The hard edge of a subject that is opaque all over, as products are.
//!
//! Catalogue photos have burnt-out white around the product, and light mixes before it is encoded: a pixel that is half
//! black and half white reads 188 of 255, and more where the white is brighter than 255. Its solved coverage is a
//! quarter, so before such white the edge lies further out ([`crossing`]).

use crate::image::{AlphaMatte, Frame};

/// Coverage of 255 up to which a pixel is background.
const BACKGROUND: u8 = 5;

/// Coverage at which an opaque subject ends: one half, and less before white background, the flatter the less.
pub(in crate::matting) fn crossing(frame: &Frame, matte: &AlphaMatte) -> f32 {
    spread(frame, matte).filter(|&(darkest, _)| darkest >= WHITE).map_or(MIDDLE, |(_, spread)| {
        let busy = ((spread as f32 - FLAT) / (BUSY - FLAT)).clamp(0.0, 1.0);
        LOWEST + busy * (MIDDLE - LOWEST)
    })
}

const MIDDLE: f32 = 0.5;
const LOWEST: f32 = 0.2;
/// Burnt-out white: the median of every channel is at least `WHITE`.
const WHITE: usize = 252;
/// Steps of 255 within which nine tenths of a flat and of a textured background lie around the middle colour.
const FLAT: f32 = 6.0;
const BUSY: f32 = 12.0;
/// A block (of this share of the longer side) is near the edge when it holds some of the subject.
const BLOCK: f32 = 0.03;
/// Pixels around the subject that ringing may have changed.
const RINGING: usize = 2;
/// About the number of columns or rows of the sampling grid, and the minimum number of samples.
const GRID: usize = 1024;
const FEWEST: usize = 64;

/// The darkest channel of the median colour of the background near the edge, and the distance from that colour within
/// which nine tenths of the background lie, in steps of 255.
fn spread(frame: &Frame, matte: &AlphaMatte) -> Option<(usize, usize)> {
    let [width, height] = [matte.size().width as usize, matte.size().height as usize];
    let longest = width.max(height);
    let block = ((BLOCK * longest as f32) as usize).max(2);
    let step = longest.div_ceil(GRID).max(1);
    let columns = width.div_ceil(block);
    let rows = height.div_ceil(block);
    let mut subject = vec![false; columns * rows];
    for (y, line) in matte.coverage().chunks_exact(width).enumerate() {
        for (cell, part) in subject[y / block * columns..][..columns].iter_mut().zip(line.chunks(block)) {
            *cell = *cell || part.iter().any(|&value| value > BACKGROUND);
        }
    }
    let near = |column: usize, row: usize| {
        let rows = row.saturating_sub(1)..=(row + 1).min(rows - 1);
        let columns_near = column.saturating_sub(1)..=(column + 1).min(columns - 1);
        rows.into_iter().any(|row| columns_near.clone().any(|column| subject[row * columns + column]))
    };
    let nothing = |x: usize, y: usize| matte.coverage()[y * width + x] <= BACKGROUND;
    let clear = |x: usize, y: usize| {
        let [left, right] = [x.saturating_sub(RINGING), (x + RINGING).min(width - 1)];
        let [above, below] = [y.saturating_sub(RINGING), (y + RINGING).min(height - 1)];
        nothing(x, y) && nothing(left, y) && nothing(right, y) && nothing(x, above) && nothing(x, below)
    };
    let (pixels, _) = frame.pixels().as_chunks::<4>();
    let places = (0..height).step_by(step).flat_map(|y| (0..width).step_by(step).map(move |x| (x, y)));
    let beside = places.filter(|&(x, y)| near(x / block, y / block) && clear(x, y));
    let colours: Vec<[u8; 4]> = beside.map(|(x, y)| pixels[y * width + x]).collect();
    let mut histograms = [[0usize; 256]; 3];
    for colour in &colours {
        histograms.iter_mut().zip(colour).for_each(|(histogram, &value)| histogram[usize::from(value)] += 1);
    }
    let count = colours.len();
    if count < FEWEST {
        return None;
    }
    let median = histograms.map(|histogram| quantile(&histogram, count.div_ceil(2)));
    let mut deviations = [0usize; 256];
    for colour in &colours {
        let apart = median.iter().zip(colour).map(|(median, value)| median.abs_diff(usize::from(*value)));
        deviations[apart.max().unwrap_or(0)] += 1;
    }
    let darkest = median.into_iter().min().unwrap_or(0);
    Some((darkest, quantile(&deviations, (count * 9).div_ceil(10))))
}

/// The lowest value up to which the histogram holds `count`.
fn quantile(histogram: &[usize; 256], count: usize) -> usize {
    let mut sum = 0;
    let reached = histogram.iter().position(|&here| {
        sum += here;
        sum >= count
    });
    reached.unwrap_or(255)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Size;

    const SIZE: Size = Size::new(200, 160);

    /// A block of `subject` on `ground`, with a hole of colour `hole` in the matte.
    fn holed(subject: [u8; 3], ground: [u8; 3], hole: [u8; 3]) -> (Frame, AlphaMatte) {
        let grain = |x: u32, y: u32| (x.wrapping_mul(2_654_435_761).wrapping_add(y * 40_503) >> 13) as u8 % 5;
        let (mut pixels, mut coverage) = (Vec::new(), Vec::new());
        for (x, y) in (0..SIZE.height).flat_map(|y| (0..SIZE.width).map(move |x| (x, y))) {
            let inside = (40..160).contains(&x) && (30..130).contains(&y);
            let open = (90..110).contains(&x) && (70..90).contains(&y);
            let [red, green, blue] = if open {
                hole
            } else if inside {
                subject
            } else {
                ground
            };
            pixels.extend([red, green, blue].map(|value| value.saturating_sub(grain(x, y))));
            pixels.push(255);
            coverage.push(if inside && !open { 255 } else { 0 });
        }
        (Frame::new(SIZE, pixels.into()), AlphaMatte::new(SIZE, coverage))
    }

    #[test]
    fn the_edge_lies_further_out_before_flat_white_only() {
        let (grey, matte) = holed([200, 40, 40], [248; 3], [200, 40, 40]);
        assert!((crossing(&grey, &matte) - MIDDLE).abs() < 1e-6);
        let (mut busy, matte) = holed([200, 40, 40], [255; 3], [200, 40, 40]);
        assert!((crossing(&busy, &matte) - LOWEST).abs() < 1e-6);
        for (at, pixel) in busy.pixels_mut().as_chunks_mut::<4>().0.iter_mut().enumerate() {
            pixel[1] = pixel[1].saturating_sub(if at % 5 == 0 { 60 } else { 0 });
        }
        assert!((crossing(&busy, &matte) - MIDDLE).abs() < 1e-6);
    }

    #[test]
    fn without_background_or_subject_nothing_changes_and_nothing_panics() {
        for (width, height) in [(1, 1), (1, 300), (300, 1), (2, 2), (40, 30)] {
            let size = Size::new(width, height);
            let frame = Frame::new(size, vec![200; size.area() * 4].into());
            for value in [0, 100, 255] {
                let matte = AlphaMatte::new(size, vec![value; size.area()]);
                assert!((crossing(&frame, &matte) - MIDDLE).abs() < 1e-6);
            }
        }
    }
}
