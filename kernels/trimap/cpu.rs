//! Trimaps on the CPU.

use super::{BACKGROUND, FOREGROUND, Params, UNKNOWN};
use crate::mask_upsample::cpu::Upsampled;
use rayon::prelude::*;

/// Rows that one task labels.
const ROWS: usize = 32;

/// Lowest and highest value of `values` (`rows` by `columns`) over the disc around each cell.
#[must_use]
pub fn extremes(values: &[f32], (columns, rows): (usize, usize), params: &Params) -> (Vec<f32>, Vec<f32>) {
    let disc = params.disc();
    let one_row = |y: usize| {
        let (mut low, mut high) =
            (values[y * columns..][..columns].to_vec(), values[y * columns..][..columns].to_vec());
        for &(dx, dy) in &disc {
            let Some(from) = y.checked_add_signed(dy as isize).filter(|&from| from < rows) else { continue };
            let row = &values[from * columns..][..columns];
            // The part of the row whose neighbour at dx exists.
            let (skip, shift) = ((-dx).max(0) as usize, dx.max(0) as usize);
            if skip.max(shift) >= columns {
                continue;
            }
            let reach = columns - skip.max(shift);
            for ((low, high), &value) in
                low[skip..][..reach].iter_mut().zip(&mut high[skip..][..reach]).zip(&row[shift..])
            {
                *low = low.min(value);
                *high = high.max(value);
            }
        }
        (low, high)
    };
    let rows: Vec<_> = (0..rows).into_par_iter().map(one_row).collect();
    let mut planes = (Vec::with_capacity(values.len()), Vec::with_capacity(values.len()));
    for (low, high) in rows {
        planes.0.extend(low);
        planes.1.extend(high);
    }
    planes
}

/// Fills `labels` (`width` a row) from the extremes, both stretched over the picture.
pub fn label(low: &Upsampled<'_>, high: &Upsampled<'_>, params: &Params, labels: &mut [u8], width: usize) {
    let class = |low: f32, high: f32| {
        if low >= params.foreground {
            FOREGROUND
        } else if high <= params.background {
            BACKGROUND
        } else {
            UNKNOWN
        }
    };
    labels.par_chunks_mut(width * ROWS).enumerate().for_each(|(chunk, rows)| {
        let (mut low_row, mut high_row) = (Vec::new(), Vec::new());
        let mut cells: Vec<u8> = Vec::new();
        for (row, pixels) in rows.chunks_mut(width).enumerate() {
            let y = chunk * ROWS + row;
            low.mix_rows(y, &mut low_row);
            high.mix_rows(y, &mut high_row);
            cells.clear();
            cells.extend(low_row.iter().zip(&high_row).map(|(&low, &high)| class(low, high)));
            for (span, first, second) in low.spans() {
                // Between two cells of one class a bilinear value cannot leave it.
                if cells[first] == cells[second] {
                    pixels[span].fill(cells[first]);
                } else {
                    for x in span {
                        pixels[x] = class(low.along(&low_row, x), high.along(&high_row, x));
                    }
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> (Vec<f32>, usize, usize) {
        let (columns, rows) = (23, 17);
        let inside = |at: usize| (at % columns).abs_diff(11).pow(2) + (at / columns).abs_diff(8).pow(2) < 30;
        ((0..columns * rows).map(|at| if inside(at) { 1.0 } else { 0.0 }).collect(), columns, rows)
    }

    #[test]
    fn extremes_are_those_of_the_disc_clipped_at_the_border() {
        let params = Params { radius: 2.3, foreground: 0.9, background: 0.1 };
        let (columns, rows) = (7, 5);
        let values: Vec<f32> = (0..columns * rows).map(|at| ((at * 11) % 13) as f32 / 12.0).collect();
        let (low, high) = extremes(&values, (columns, rows), &params);
        for at in 0..values.len() {
            let near = |other: &usize| {
                let (dx, dy) = ((other % columns).abs_diff(at % columns), (other / columns).abs_diff(at / columns));
                (dx * dx + dy * dy) as f32 <= params.radius * params.radius
            };
            let around = (0..values.len()).filter(near).map(|other| values[other]);
            assert_eq!((low[at], high[at]), (around.clone().fold(9.0, f32::min), around.fold(-9.0, f32::max)), "{at}");
        }
    }

    #[test]
    fn labels_follow_the_thresholds_at_every_pixel() {
        let (values, columns, rows) = grid();
        let params = Params { radius: 1.0, foreground: 0.9, background: 0.1 };
        let (low, high) = extremes(&values, (columns, rows), &params);
        for (width, height) in [(1, 1), (23, 17), (100, 31), (5, 64)] {
            let low = Upsampled::new(&low, (columns, rows), (width, height));
            let high = Upsampled::new(&high, (columns, rows), (width, height));
            let mut labels = vec![7; width * height];
            label(&low, &high, &params, &mut labels, width);
            for (at, &label) in labels.iter().enumerate() {
                let (low, high) = (low.at(at % width, at / width), high.at(at % width, at / width));
                // Within rounding of a threshold either side will do.
                match label {
                    FOREGROUND => assert!(low >= 0.9 - 1e-5),
                    BACKGROUND => assert!(high <= 0.1 + 1e-5),
                    other => assert!(other == UNKNOWN && low < 0.9 + 1e-5 && high > 0.1 - 1e-5),
                }
            }
        }
    }
}
