//! The grid of a shadow on the GPU: one work item a cell, then one a pixel.

use burn::tensor::{DType, Int, Tensor};
use cubecl::prelude::*;

use super::{Cells, Placement};
use crate::device::{buffer_of, empty_like, launch_grid, scalar, tensor_of};

#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Squares {
    // Length of a row of the coverage's plane.
    row: u32,
    // Size in cells, with the border.
    columns: u32,
    rows: u32,
    border: u32,
    cell: u32,
    // Start of the first cell, end of the extended coverage, and the coverage's bounds.
    left: i32,
    top: i32,
    right: i32,
    bottom: i32,
    first_column: i32,
    last_column: i32,
    first_row: i32,
    last_row: i32,
    // Position of the coverage in a word, in bits.
    shift: u32,
}

#[cube(launch)]
fn cells_kernel(coverage: &[u32], grid: &mut [f32], squares: &Squares) {
    let column = ABSOLUTE_POS_X;
    let row = ABSOLUTE_POS_Y;
    if column >= squares.columns || row >= squares.rows {
        terminate!();
    }
    let mut sum = 0u32;
    let inside = column >= squares.border
        && row >= squares.border
        && column < squares.columns - squares.border
        && row < squares.rows - squares.border;
    if inside {
        let left = squares.left + i32::cast_from((column - squares.border) * squares.cell);
        let top = squares.top + i32::cast_from((row - squares.border) * squares.cell);
        for down in 0..squares.cell {
            let y = top + i32::cast_from(down);
            if y < squares.bottom {
                let y = u32::cast_from(min(max(y, squares.first_row), squares.last_row));
                for across in 0..squares.cell {
                    let x = left + i32::cast_from(across);
                    if x < squares.right {
                        let x = u32::cast_from(min(max(x, squares.first_column), squares.last_column));
                        sum += (coverage[(y * squares.row + x) as usize] >> squares.shift) & 255;
                    }
                }
            }
        }
    }
    let pixels = f32::cast_from(squares.cell * squares.cell);
    grid[(row * squares.columns + column) as usize] = f32::cast_from(sum) / (255.0 * pixels);
}

#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Sampled {
    columns: i32,
    rows: i32,
    cell: f32,
    left: f32,
    top: f32,
    width: u32,
    height: u32,
}

/// The value of a cell; 0 outside of the grid.
#[cube]
fn value(grid: &[f32], column: i32, row: i32, over: &Sampled) -> f32 {
    let mut value = f32::new(0.0);
    if column >= 0 && row >= 0 && column < over.columns && row < over.rows {
        value = grid[u32::cast_from(row * over.columns + column) as usize];
    }
    value
}

#[cube(launch)]
fn samples_kernel(grid: &[f32], samples: &mut [f32], over: &Sampled) {
    let x = ABSOLUTE_POS_X;
    let y = ABSOLUTE_POS_Y;
    if x >= over.width || y >= over.height {
        terminate!();
    }
    let down = (f32::cast_from(y) + 0.5 - over.top) / over.cell - 0.5;
    let above = f32::floor(down);
    let share = down - above;
    // From one cell before the first.
    let step = f32::new(1.0) / over.cell;
    let across = (f32::new(0.5) - over.left) / over.cell + 0.5 + f32::cast_from(x) * step;
    let mut sample = f32::new(0.0);
    let is_inside = above + 1.0 >= 0.0
        && above < f32::cast_from(over.rows)
        && across >= 0.0
        && across < f32::cast_from(over.columns + 1);
    if is_inside {
        let row = i32::cast_from(above);
        let column = i32::cast_from(across);
        let aside = across - f32::cast_from(column);
        let before = (f32::new(1.0) - share) * value(grid, column - 1, row, over)
            + share * value(grid, column - 1, row + 1, over);
        let after =
            (f32::new(1.0) - share) * value(grid, column, row, over) + share * value(grid, column, row + 1, over);
        sample = (f32::new(1.0) - aside) * before + aside * after;
    }
    samples[(y * over.width + x) as usize] = sample;
}

/// Where the coverage of a pixel is in its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// It is the word: a plane of 0..=255.
    Word,
    /// It is the alpha of packed RGBA8.
    Alpha,
}

impl Coverage {
    const fn shift(self) -> u32 {
        match self {
            Self::Word => 0,
            Self::Alpha => 24,
        }
    }
}

/// The grid of `coverage` (u32 `[H, W]`): f32 `[rows, columns, 1]`, on its device.
#[must_use]
pub fn cells(coverage: Tensor<2, Int>, within: Coverage, cells: Cells) -> Tensor<3> {
    let [_, width] = coverage.dims();
    let coverage = buffer_of(coverage);
    let [columns, rows] = cells.size();
    let grid = empty_like(&coverage, [rows, columns, 1], DType::F32);
    let small = |at: i64| i32::try_from(at).expect("pictures fit in 32 bits");
    let [left, top] = cells.start();
    let end = |low: usize| small(i64::from(cells.bounds[low]) + i64::from(cells.extension[low]));
    let squares = SquaresLaunch::new(
        scalar(width),
        scalar(columns),
        scalar(rows),
        scalar(cells.border),
        scalar(cells.cell),
        small(left),
        small(top),
        end(2),
        end(3),
        small(cells.bounds[0].into()),
        small(i64::from(cells.bounds[2]) - 1),
        small(cells.bounds[1].into()),
        small(i64::from(cells.bounds[3]) - 1),
        within.shift(),
    );
    let (count, dim) = launch_grid(columns, rows);
    cells_kernel::launch(&grid.client, count, dim, coverage.into_buffer_arg(), grid.clone().into_buffer_arg(), squares);
    tensor_of(grid)
}

/// The samples of `grid` (f32 `[rows, columns, 1]`) for each pixel of a canvas: f32 `[height, width]`, on its device.
#[must_use]
pub fn samples(grid: Tensor<3>, at: Placement, height: usize, width: usize) -> Tensor<2> {
    let [rows, columns, _] = grid.dims();
    let grid = buffer_of(grid);
    let samples = empty_like(&grid, [height, width], DType::F32);
    let small = |cells: usize| i32::try_from(cells).expect("pictures fit in 32 bits");
    let Placement { cell, left, top } = at;
    let over = SampledLaunch::new(small(columns), small(rows), cell, left, top, scalar(width), scalar(height));
    let (count, dim) = launch_grid(width, height);
    samples_kernel::launch(
        &samples.client,
        count,
        dim,
        grid.into_buffer_arg(),
        samples.clone().into_buffer_arg(),
        over,
    );
    tensor_of(samples)
}
