//! Trimaps on the CPU: minimum and maximum filters by chords on the grid, then the labels of the picture.

use super::{BACKGROUND, Chord, Chords, FOREGROUND, Params, UNKNOWN};
use crate::mask_upsample::cpu::Upsampled;
use crate::recycled::Recycled;
use rayon::prelude::*;

const ROWS: usize = 32;

type Plane = Recycled<Vec<f32>>;

/// Lowest and highest value of `values` (`rows` by `columns`) over the ellipse around each cell.
#[must_use]
pub fn extremes(values: &[f32], (columns, rows): (usize, usize), params: &Params) -> (Plane, Plane) {
    let chords = Chords::new(params.radii, [columns, rows]);
    if values.is_empty() {
        (Plane::copy_of(values), Plane::copy_of(values))
    } else if chords.down {
        let lines = transposed(values, columns);
        let (low, high) = (along(&lines, rows, &chords, f32::min), along(&lines, rows, &chords, f32::max));
        (transposed(&low, rows), transposed(&high, rows))
    } else {
        (along(values, columns, &chords, f32::min), along(values, columns, &chords, f32::max))
    }
}

/// The opening of `values` (`rows` by `columns`) by a disc of `radius` cells.
#[must_use]
pub fn opened(values: &[f32], (columns, rows): (usize, usize), radius: f32) -> Plane {
    if values.is_empty() {
        return Plane::copy_of(values);
    }
    // The chords of a disc are equal along rows and columns.
    let chords = Chords::new([radius; 2], [columns, rows]);
    let (length, lines) =
        if chords.down { (rows, transposed(values, columns)) } else { (columns, Plane::copy_of(values)) };
    let opened = along(&along(&lines, length, &chords, f32::min), length, &chords, f32::max);
    if chords.down { transposed(&opened, rows) } else { opened }
}

/// The extreme by `pick` (minimum or maximum) over the chords along the lines of `values`, each of `length` cells.
fn along(values: &[f32], length: usize, chords: &Chords, pick: impl Fn(f32, f32) -> f32 + Sync) -> Plane {
    let lines = values.len() / length;
    let mut picked = Plane::copy_of(values);
    let (mut wide, mut before) = (None::<Plane>, 0);
    for (level, &half_width) in chords.half_widths.iter().enumerate() {
        let windows = wide.as_ref().map_or(values, |wide| &wide[..]);
        if half_width > before {
            let mut wider = Plane::copy_of(windows);
            let shift = half_width - before;
            wider
                .par_chunks_mut(length)
                .zip(windows.par_chunks(length))
                .for_each(|(wider, line)| pick_three(wider, line, shift, &pick));
            (wide, before) = (Some(wider), half_width);
        }
        let windows = wide.as_ref().map_or(values, |wide| &wide[..]);
        let of_level = || chords.chords.iter().filter(|chord| chord.level == level);
        picked.par_chunks_mut(length).enumerate().for_each(|(line, picked)| {
            for &Chord { distance, shift, .. } in of_level() {
                let above = line.checked_sub(distance);
                let below = Some(line + distance).filter(|&below| distance > 0 && below < lines);
                for from in above.into_iter().chain(below) {
                    pick_three(picked, &windows[from * length..][..length], shift, &pick);
                }
            }
        });
    }
    picked
}

/// Updates each cell of `picked` with three cells of `line`: at its index, and `shift` before and after it (clamped).
fn pick_three(picked: &mut [f32], line: &[f32], shift: usize, pick: impl Fn(f32, f32) -> f32) {
    let pick_each = |picked: &mut [f32], from: &[f32]| {
        picked.iter_mut().zip(from).for_each(|(picked, &value)| *picked = pick(*picked, value));
    };
    let pick_one = |picked: &mut [f32], value: f32| picked.iter_mut().for_each(|picked| *picked = pick(*picked, value));
    pick_each(picked, line);
    if shift == 0 {
        return;
    }
    let (length, shift) = (line.len(), shift.min(line.len()));
    pick_one(&mut picked[..shift], line[0]);
    pick_each(&mut picked[shift..], line);
    pick_each(&mut picked[..length - shift], &line[shift..]);
    pick_one(&mut picked[length - shift..], line[length - 1]);
}

fn transposed(values: &[f32], columns: usize) -> Plane {
    let rows = values.len() / columns;
    let mut transposed = Plane::for_overwrite(values.len());
    transposed.par_chunks_mut(rows).enumerate().for_each(|(column, line)| {
        line.iter_mut().zip(values[column..].iter().step_by(columns)).for_each(|(cell, &value)| *cell = value);
    });
    transposed
}

/// Computes the labels of a picture row by row, from the upsampled extremes.
#[derive(Debug)]
pub struct Labeller<'a> {
    /// The lowest value around each pixel.
    pub low: Upsampled<'a>,
    /// The highest value around each pixel.
    pub high: Upsampled<'a>,
    /// The thresholds.
    pub params: Params,
}

/// A row of cells: scratch of [`Labeller::row`].
#[derive(Debug, Default)]
pub struct Cells {
    low: Vec<f32>,
    high: Vec<f32>,
    classes: Vec<u8>,
}

impl Labeller<'_> {
    fn class(&self, low: f32, high: f32) -> u8 {
        if low >= self.params.foreground {
            FOREGROUND
        } else if high <= self.params.background {
            BACKGROUND
        } else {
            UNKNOWN
        }
    }

    /// Writes the labels of row `y`.
    pub fn row(&self, y: usize, cells: &mut Cells, labels: &mut [u8]) {
        let Cells { low, high, classes } = cells;
        self.low.mix_rows(y, low);
        self.high.mix_rows(y, high);
        classes.clear();
        classes.extend(low.iter().zip(&*high).map(|(&low, &high)| self.class(low, high)));
        for (span, first, second) in self.low.spans() {
            // A bilinear value between two cells of one class stays in the class.
            if classes[first] == classes[second] {
                labels[span].fill(classes[first]);
            } else {
                for x in span {
                    labels[x] = self.class(self.low.along(low, x), self.high.along(high, x));
                }
            }
        }
    }
}

/// Fills `labels` (`width` a row).
pub fn label(labeller: &Labeller<'_>, labels: &mut [u8], width: usize) {
    labels.par_chunks_mut(width * ROWS).enumerate().for_each_init(Recycled::<Cells>::take, |cells, (chunk, rows)| {
        for (row, labels) in rows.chunks_mut(width).enumerate() {
            labeller.row(chunk * ROWS + row, cells, labels);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::super::MAX_RADIUS;
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn grid() -> (Vec<f32>, usize, usize) {
        let (columns, rows) = (23, 17);
        let inside = |at: usize| (at % columns).abs_diff(11).pow(2) + (at / columns).abs_diff(8).pow(2) < 30;
        ((0..columns * rows).map(|at| if inside(at) { 1.0 } else { 0.0 }).collect(), columns, rows)
    }

    fn by_search(values: &[f32], (columns, rows): (usize, usize), [across, down]: [f32; 2]) -> (Vec<f32>, Vec<f32>) {
        let [a, b] = [across, down].map(|radius| f64::from(radius.min(MAX_RADIUS)));
        let extreme = |at: usize| {
            let near = |other: &usize| {
                let (dx, dy) = ((other % columns).abs_diff(at % columns), (other / columns).abs_diff(at / columns));
                (dx as f64 * b).powi(2) + (dy as f64 * a).powi(2) <= (a * b).powi(2) && dx as f64 <= a && dy as f64 <= b
            };
            let around = (0..columns * rows).filter(near).map(|other| values[other]);
            (around.clone().fold(9.0, f32::min), around.fold(-9.0, f32::max))
        };
        (0..values.len()).map(extreme).unzip()
    }

    fn scattered(cells: usize) -> Vec<f32> {
        (0..cells).map(|at| ((at as u32).wrapping_mul(2_654_435_761) >> 20) as f32 / 4096.0).collect()
    }

    #[test]
    fn an_opening_removes_what_is_thinner_than_the_disc() {
        // A square of nine cells with a handle of two.
        let inside = |x: usize, y: usize| {
            (4..13).contains(&x) && (4..13).contains(&y) || (13..25).contains(&x) && (8..10).contains(&y)
        };
        let values: Vec<f32> = (0..30 * 20).map(|at| if inside(at % 30, at / 30) { 0.8 } else { 0.1 }).collect();
        for (values, grid) in [(values.clone(), (30, 20)), (transposed(&values, 30).to_vec(), (20, 30))] {
            let opened = opened(&values, grid, 2.0);
            let kept = opened.iter().filter(|&&value| value == 0.8).count();
            // The disc cuts three cells off each corner.
            assert!((9 * 9 - 12..=9 * 9).contains(&kept), "{kept}");
            assert!(opened.iter().zip(&values).all(|(opened, value)| opened <= value));
        }
    }

    #[test]
    fn extremes_match_a_search_over_the_ellipse_clipped_at_the_border() {
        for grid in [(7, 5), (1, 1), (1, 19), (23, 1), (40, 3), (2, 31), (33, 20)] {
            let values = scattered(grid.0 * grid.1);
            for radii in [
                [2.3, 2.3],
                [9.0, 9.0],
                [7.5, 2.3],
                [0.0, 0.0],
                [2.0, 1.0],
                [1.0, 6.5],
                [4.0, 0.0],
                [13.0, 4.2],
                [3.0, 17.0],
                [576.0, 2.0],
                [2.0, 576.0],
                [576.0, 576.0],
            ] {
                let params = Params { radii, foreground: 0.9, background: 0.1 };
                let (low, high) = extremes(&values, grid, &params);
                let expected = by_search(&values, grid, radii);
                assert_eq!((low.to_vec(), high.to_vec()), expected, "{radii:?} on {grid:?}");
            }
        }
        let params = Params { radii: [2.0; 2], foreground: 0.9, background: 0.1 };
        let (low, high) = extremes(&[], (0, 0), &params);
        assert!(low.is_empty() && high.is_empty());
    }

    #[test]
    fn the_number_of_cells_read_is_bounded_for_all_radii() {
        // Radii of 1.5 pixels on a grid of 384 cells, for sides of 4096 pixels down to 1.
        let grid = 96;
        let values = scattered(grid * grid);
        for [across, down] in [[2.0, 2.0], [9.0, 9.0], [9.0, 576.0], [576.0, 2.0], [36.0, 576.0], [576.0, 576.0]] {
            let chords = Chords::new([across, down], [grid, grid]);
            let reads = AtomicUsize::new(0);
            let counted = |one: f32, other: f32| {
                reads.fetch_add(1, Ordering::Relaxed);
                one.min(other)
            };
            let _ = along(&values, grid, &chords, counted);
            // Three for each chord and for each of the three levels of wider windows.
            let most = 3.0 * (2.0 * across.min(down).min(MAX_RADIUS) + 1.0 + 3.0);
            let reads = reads.into_inner() as f32 / values.len() as f32;
            assert!(reads <= most, "{across} by {down}: {reads} for each cell, not {most}");
        }
    }

    #[test]
    fn labels_follow_the_thresholds_at_every_pixel() {
        let (values, columns, rows) = grid();
        let params = Params { radii: [1.0; 2], foreground: 0.9, background: 0.1 };
        let (low, high) = extremes(&values, (columns, rows), &params);
        for (width, height) in [(1, 1), (23, 17), (100, 31), (5, 64)] {
            let low = Upsampled::new(&low, (columns, rows), (width, height));
            let high = Upsampled::new(&high, (columns, rows), (width, height));
            let mut labels = vec![7; width * height];
            let labeller = Labeller { low, high, params };
            label(&labeller, &mut labels, width);
            let Labeller { low, high, .. } = labeller;
            for (at, &label) in labels.iter().enumerate() {
                let (low, high) = (low.at(at % width, at / width), high.at(at % width, at / width));
                // Within rounding of a threshold both labels are right.
                match label {
                    FOREGROUND => assert!(low >= 0.9 - 1e-5),
                    BACKGROUND => assert!(high <= 0.1 + 1e-5),
                    other => assert!(other == UNKNOWN && low < 0.9 + 1e-5 && high > 0.1 - 1e-5),
                }
            }
        }
    }
}
