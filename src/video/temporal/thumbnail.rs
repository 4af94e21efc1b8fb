//! Thumbnails: frames area-averaged to the network's grid, for optical flow and frame comparison.

use crate::image::{Frame, Size};
use multiversion::multiversion;
use rayon::prelude::*;

/// A frame on the network's grid; each cell is the mean of its area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Thumbnail {
    /// Columns and rows of the grid.
    pub(super) size: Size,
    /// Red, green and blue of each cell, row-major.
    pub(super) cells: Vec<u8>,
}

impl Thumbnail {
    pub(super) fn of(frame: &Frame, size: Size) -> Self {
        let (width, columns) = (frame.size().width as usize, size.width as usize);
        let across = windows(width, columns);
        let down = windows(frame.size().height as usize, size.height as usize);
        let mut cells = vec![0; size.area() * 3];
        cells.par_chunks_mut((columns * 3).max(1)).zip(&down).for_each_init(
            || vec![0.0_f32; width * 4],
            |line, (row, window)| {
                mean_row(frame.pixels(), window, &across, line, row.as_chunks_mut().0);
            },
        );
        Self { size, cells }
    }

    /// Bilinear interpolation at (`x`, `y`), in cells from the centre of the first, with border replication.
    #[inline(always)]
    pub(super) fn linear(&self, x: f32, y: f32) -> [f32; 3] {
        let (cells, _) = self.cells.as_chunks::<3>();
        let [width, height] = [self.size.width as usize, self.size.height as usize];
        let (left, top) = (x.floor(), y.floor());
        let (along, down) = (x - left, y - top);
        // The cast clamps negative values to zero.
        let columns = [left as usize, (left + 1.0) as usize].map(|column| column.min(width - 1));
        let rows = [top as usize, (top + 1.0) as usize].map(|row| row.min(height - 1) * width);
        let [a, b] = columns.map(|column| cells[rows[0] + column].map(f32::from));
        let [c, d] = columns.map(|column| cells[rows[1] + column].map(f32::from));
        std::array::from_fn(|i| {
            let (above, below) = (a[i] + along * (b[i] - a[i]), c[i] + along * (d[i] - c[i]));
            above + down * (below - above)
        })
    }

    /// Brightness of each cell, 0 to 255: (R + 2 G + B) / 4.
    pub(super) fn grey(&self) -> Vec<f32> {
        let (cells, _) = self.cells.as_chunks::<3>();
        cells
            .iter()
            .map(|&[red, green, blue]| f32::from(u16::from(red) + 2 * u16::from(green) + u16::from(blue)) / 4.0)
            .collect()
    }
}

/// Writes the means of a row of cells. `down` and `across` are the cells' rows and columns of `pixels`; `line` is
/// scratch of one value for each byte of a row.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
fn mean_row(pixels: &[u8], down: &Window, across: &[Window], line: &mut [f32], cells: &mut [[u8; 3]]) {
    line.fill(0.0);
    for (y, share) in down.parts() {
        let pixels = &pixels[y * line.len()..][..line.len()];
        line.iter_mut().zip(pixels).for_each(|(sum, &value)| *sum += share * f32::from(value));
    }
    let (line, _) = line.as_chunks::<4>();
    for (cell, window) in cells.iter_mut().zip(across) {
        let mut sums = [0.0; 3];
        for (x, share) in window.parts() {
            sums.iter_mut().zip(line[x]).for_each(|(sum, value)| *sum += share * value);
        }
        *cell = sums.map(|sum| (sum + 0.5) as u8);
    }
}

/// The pixels under one cell along one axis; the first and the last are covered partially.
struct Window {
    first: usize,
    shares: [f32; 3],
    last: usize,
}

impl Window {
    /// Each pixel with its weight; the sum of the weights is one.
    fn parts(&self) -> impl Iterator<Item = (usize, f32)> + '_ {
        let Self { first, shares: [start, middle, end], last } = *self;
        (first..=last).map(move |at| {
            let share = if at == first {
                start
            } else if at == last {
                end
            } else {
                middle
            };
            (at, share)
        })
    }
}

/// The windows of `cells` cells over `pixels` pixels. A cell smaller than a pixel averages a whole pixel's width, which
/// is linear interpolation.
fn windows(pixels: usize, cells: usize) -> Vec<Window> {
    let ratio = pixels as f64 / cells as f64;
    let half = ratio.max(1.0) / 2.0;
    let window = |cell: usize| {
        let centre = (cell as f64 + 0.5) * ratio;
        let (start, end) = ((centre - half).max(0.0), (centre + half).min(pixels as f64));
        let first = (start.floor() as usize).min(pixels - 1);
        let last = ((end.ceil() as usize).max(1) - 1).clamp(first, pixels - 1);
        let whole = end - start;
        let shares = if first == last {
            [1.0; 3]
        } else {
            [((first + 1) as f64 - start) / whole, 1.0 / whole, (end - last as f64) / whole]
        };
        Window { first, shares: shares.map(|share| share as f32), last }
    };
    (0..cells).map(window).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Buffer;

    #[test]
    fn a_thumbnail_keeps_flat_colours_and_the_mean_at_any_size() {
        for (width, height) in [(1, 1), (1, 7), (5, 3), (8, 8), (31, 64), (100, 9)] {
            let size = Size::new(width, height);
            let even = Frame::new(size, Buffer::from([10, 200, 77, 255].repeat(size.area())));
            let ramp: Vec<u8> =
                (0..size.area()).flat_map(|at| [(at % 256) as u8, 0, (at / 7 % 256) as u8, 255]).collect();
            let mean = |red: Vec<u8>| red.iter().map(|&value| f64::from(value)).sum::<f64>() / red.len() as f64;
            for grid in [Size::new(8, 8), Size::new(1, 1), Size::new(5, 3)] {
                let copy = Thumbnail::of(&even, grid);
                assert_eq!(copy.cells, [10, 200, 77].repeat(grid.area()), "{size} on {grid}");
                assert_eq!(copy.grey()[0], 121.75);
                if grid.width <= width && grid.height <= height {
                    let copy = Thumbnail::of(&Frame::new(size, Buffer::from(ramp.clone())), grid);
                    let before = mean(ramp.iter().copied().step_by(4).collect());
                    let after = mean(copy.cells.iter().copied().step_by(3).collect());
                    assert!((before - after).abs() <= 0.51, "{size} on {grid}: {before} and {after}");
                }
            }
        }
    }
}
