//! The grid of a shadow on the CPU: cells by rows in parallel, samples a row at a time.

use super::{Cells, Placement};
use rayon::prelude::*;

/// The grid of the coverage `covers(x, y)`, 0..=255: one value a cell, row after row.
#[must_use]
pub fn cells(covers: impl Fn(u32, u32) -> u8 + Sync, cells: &Cells) -> Vec<[f32; 1]> {
    let Cells { bounds, extension, cell, border } = *cells;
    let [width, height] = cells.size();
    let squared = (cell * cell) as f32;
    let (columns, rows) = (width - 2 * border, height - 2 * border);
    // Start and end, which may lie beyond the canvas, and the clamp to pixels inside the coverage's bounds.
    let axis = |low: usize| {
        let (first, end) = (i64::from(bounds[low]), i64::from(bounds[low + 2]));
        let clamped = move |at: i64| at.clamp(first, end - 1) as u32;
        (first - i64::from(extension[low]), end + i64::from(extension[low + 2]), clamped)
    };
    let ((left, right, column_of), (top, bottom, row_of)) = (axis(0), axis(1));
    let mut grid = vec![[0.0]; width * height];
    grid[border * width..(border + rows) * width].par_chunks_mut(width).enumerate().for_each(|(row, line)| {
        let top = top + (row * cell) as i64;
        let mut sums = vec![0_u32; columns];
        for y in (top..(top + cell as i64).min(bottom)).map(&row_of) {
            for (x, column) in (left..right).map(&column_of).zip(0..) {
                sums[column / cell] += u32::from(covers(x, y));
            }
        }
        for (value, sum) in line[border..].iter_mut().zip(sums) {
            *value = [sum as f32 / (255.0 * squared)];
        }
    });
    grid
}

/// The samples for a row of the canvas from `grid` (`width` cells a row); `None` when all are 0. `line` is scratch.
pub fn row<'a>(
    (grid, width): (&[[f32; 1]], usize),
    Placement { cell, left, top }: Placement,
    y: u32,
    line: &mut Vec<f32>,
    samples: &'a mut [f32],
) -> Option<&'a [f32]> {
    let at = (y as f32 + 0.5 - top) / cell - 0.5;
    let rows = grid.len() / width;
    let above = at.floor();
    if above < -1.0 || above >= rows as f32 {
        return None;
    }
    let share = at - above;
    let grid_row = |row: f32| {
        let start = row as usize * width;
        if row >= 0.0 && row < rows as f32 { &grid[start..start + width] } else { &[] }
    };
    let (first, second) = (grid_row(above), grid_row(above + 1.0));
    // Padded with one zero cell on each side.
    line.clear();
    line.resize(width + 2, 0.0);
    for (line, [value]) in line[1..].iter_mut().zip(first) {
        *line = (1.0 - share) * value;
    }
    if share > 0.0 {
        for (line, [value]) in line[1..].iter_mut().zip(second) {
            *line += share * value;
        }
    }
    let start = (0.5 - left) / cell + 0.5;
    let (step, end) = (1.0 / cell, (width + 1) as f32);
    for (x, sample) in samples.iter_mut().enumerate() {
        let at = start + x as f32 * step;
        *sample = if (0.0..end).contains(&at) {
            // A cast in place of `floor`, which is a function call.
            let left = at as u32;
            let share = at - left as f32;
            (1.0 - share) * line[left as usize] + share * line[left as usize + 1]
        } else {
            0.0
        };
    }
    Some(samples)
}
