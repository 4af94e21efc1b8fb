//! Mean colour of the pixels of each cell of the mask's grid.

use crate::image::{Frame, Size};
use rayon::prelude::*;

/// Samples of a cell along each side.
const SAMPLES: usize = 4;

/// Writes the mean colour of every `wanted` cell, from samples spread evenly over its area.
pub(super) fn sample(frame: &Frame, grid: Size, wanted: impl Fn(usize) -> bool + Sync, colors: &mut [[u8; 3]]) {
    let [width, height] = [frame.size().width as usize, frame.size().height as usize];
    let [columns, rows] = [grid.width as usize, grid.height as usize];
    let (pixels, _) = frame.pixels().as_chunks::<4>();
    let across: Vec<[u32; SAMPLES]> = (0..columns).map(|column| places(column, columns, width)).collect();
    colors.par_chunks_mut(columns).enumerate().with_min_len(16).for_each(|(y, colors)| {
        let down = places(y, rows, height).map(|row| &pixels[row as usize * width..][..width]);
        for (x, (color, across)) in colors.iter_mut().zip(&across).enumerate() {
            if !wanted(y * columns + x) {
                continue;
            }
            let mut sums = [0u32; 3];
            for row in down {
                for &column in across {
                    let [red, green, blue, _] = row[column as usize];
                    sums = [sums[0] + u32::from(red), sums[1] + u32::from(green), sums[2] + u32::from(blue)];
                }
            }
            let count = (SAMPLES * SAMPLES) as u32;
            *color = sums.map(|sum| ((sum + count / 2) / count) as u8);
        }
    });
}

fn places(cell: usize, cells: usize, pixels: usize) -> [u32; SAMPLES] {
    std::array::from_fn(|sample| ((2 * (cell * SAMPLES + sample) + 1) * pixels / (2 * SAMPLES * cells)) as u32)
}

/// Squared distance between two colours, in steps of 255.
pub(super) fn difference(one: [u8; 3], other: [u8; 3]) -> f32 {
    let squares = one.iter().zip(other).map(|(&one, other)| i32::from(one) - i32::from(other)).map(|d| d * d);
    squares.sum::<i32>() as f32
}
