//! Bilinear mask upsampling on the CPU: single values, rows, or a whole picture of eight bits.

use super::Axis;
use crate::recycled::Recycled;
use rayon::prelude::*;
use std::ops::Range;

const ROWS: usize = 32;

/// A plane on a grid, to be read at the pixels of a picture.
#[derive(Clone, Debug)]
pub struct Upsampled<'a> {
    values: &'a [f32],
    columns: usize,
    across: Recycled<Vec<(u32, u32, f32)>>,
    down: Axis,
}

impl<'a> Upsampled<'a> {
    /// `values` (`rows` by `columns`) upsampled to `width` by `height` pixels.
    ///
    /// # Panics
    /// When `values` is not `columns * rows` long or empty.
    #[must_use]
    pub fn new(values: &'a [f32], (columns, rows): (usize, usize), (width, height): (usize, usize)) -> Self {
        assert!(values.len() == columns * rows && !values.is_empty(), "a value for each cell");
        let axis = Axis::new(columns, width);
        let across = (0..width).map(|x| {
            let (first, second, weight) = axis.locate(x);
            (first as u32, second as u32, weight)
        });
        let across = Recycled::collected(across);
        Self { values, columns, across, down: Axis::new(rows, height) }
    }

    /// The value at pixel (`x`, `y`).
    #[must_use]
    #[inline]
    pub fn at(&self, x: usize, y: usize) -> f32 {
        let (above, below, weight) = self.down.locate(y);
        let (left, right, along) = self.across[x];
        let mix = |row: usize| {
            let row = &self.values[row * self.columns..][..self.columns];
            row[left as usize] + along * (row[right as usize] - row[left as usize])
        };
        let (above, below) = (mix(above), mix(below));
        above + weight * (below - above)
    }

    /// The cells for pixel row `y`: interpolated vertically, horizontally still on the grid.
    pub fn mix_rows(&self, y: usize, mixed: &mut Vec<f32>) {
        let (above, below, weight) = self.down.locate(y);
        let row = |row: usize| &self.values[row * self.columns..][..self.columns];
        mixed.clear();
        mixed.extend(row(above).iter().zip(row(below)).map(|(above, below)| above + weight * (below - above)));
    }

    /// The value at pixel `x` of a row from [`Self::mix_rows`].
    #[must_use]
    #[inline]
    pub fn along(&self, mixed: &[f32], x: usize) -> f32 {
        let (left, right, along) = self.across[x];
        mixed[left as usize] + along * (mixed[right as usize] - mixed[left as usize])
    }

    /// The spans of a row's pixels between two cells, left to right, with the two cells.
    pub fn spans(&self) -> impl Iterator<Item = (Range<usize>, usize, usize)> + '_ {
        let mut start = 0;
        self.across.chunk_by(|a, b| a.0 == b.0 && a.1 == b.1).map(move |span| {
            let here = start..start + span.len();
            start = here.end;
            (here, span[0].0 as usize, span[0].1 as usize)
        })
    }
}

/// Fills `picture` (`width` pixels a row), eight bits a pixel.
pub fn fill(plane: &Upsampled<'_>, picture: &mut [u8], width: usize) {
    let byte = |value: f32| (value * 255.0 + 0.5) as u8;
    picture.par_chunks_mut(width * ROWS).enumerate().for_each(|(chunk, rows)| {
        let mut mixed = Vec::with_capacity(plane.columns);
        for (row, pixels) in rows.chunks_mut(width).enumerate() {
            plane.mix_rows(chunk * ROWS + row, &mut mixed);
            for (span, first, second) in plane.spans() {
                if byte(mixed[first]) == byte(mixed[second]) {
                    pixels[span].fill(byte(mixed[first]));
                } else {
                    for x in span {
                        pixels[x] = byte(plane.along(&mixed, x));
                    }
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fill_matches_the_value_at_each_pixel() {
        for (columns, rows, width, height) in
            [(1, 1, 1, 1), (1, 1, 5, 3), (8, 6, 1, 40), (8, 6, 31, 17), (31, 17, 8, 6)]
        {
            let values: Vec<f32> = (0..columns * rows).map(|at| ((at * 7) % 5) as f32 / 4.0).collect();
            let plane = Upsampled::new(&values, (columns, rows), (width, height));
            let mut picture = vec![0; width * height];
            fill(&plane, &mut picture, width);
            for (at, &pixel) in picture.iter().enumerate() {
                let exact = plane.at(at % width, at / width) * 255.0;
                assert!((f32::from(pixel) - exact).abs() <= 0.51, "{width}×{height} at {at}: {pixel} for {exact}");
            }
        }
    }

    #[test]
    fn a_grid_of_the_pictures_size_is_unchanged() {
        let values: Vec<f32> = (0..12).map(|at| at as f32 / 11.0).collect();
        let plane = Upsampled::new(&values, (4, 3), (4, 3));
        assert!((0..12).all(|at| plane.at(at % 4, at / 4) == values[at]));
    }
}
