//! The reduced grid of a blurred shadow: coverage averaged over squares of pixels, and sampled bilinearly.
//!
//! A wide blur has no detail, so it runs on a grid whose cells are squares of `k` by `k` pixels:
//!
//! ```text
//! grid(column, row) = Σ coverage / (255 k²)       over the pixels of the cell
//! ```
//!
//! Coverage counts inside of its bounds; beyond them it is 0, except for an [extension](Cells::extension), where it is that of
//! the nearest pixel inside. A border of empty cells lies around the grid, for the blur. Sampled, the grid is 0 outside.
//!
//! Coverage: 0..=255. Grid and samples: f32 in 0..=1. The twins differ by rounding, at most 1e-5.

pub mod cpu;
#[cfg(feature = "gpu")]
pub mod gpu;

/// The cells of a grid, in pixels of the canvas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cells {
    /// Left, upper, right and lower bound of the coverage; the last two are exclusive. Not empty.
    pub bounds: [u32; 4],
    /// Pixels by which it continues beyond them.
    pub extension: [u32; 4],
    /// Pixels on a side of a cell.
    pub cell: usize,
    /// Empty cells on each side of the grid.
    pub border: usize,
}

impl Cells {
    /// Columns and rows of the grid, with its border.
    #[must_use]
    pub fn size(&self) -> [usize; 2] {
        [0, 1].map(|low| {
            let length = self.bounds[low + 2] - self.bounds[low] + self.extension[low] + self.extension[low + 2];
            (length as usize).div_ceil(self.cell) + 2 * self.border
        })
    }

    /// The pixel with which the first column begins, or the first row: without the border, it may lie beyond the canvas.
    #[must_use]
    pub fn start(&self) -> [i64; 2] {
        [0, 1].map(|low| i64::from(self.bounds[low]) - i64::from(self.extension[low]))
    }
}

/// Where a grid lies on the canvas.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placement {
    /// Pixels on a side of a cell.
    pub cell: f32,
    /// Position of the grid's corner, with its border, on the canvas.
    pub left: f32,
    /// The same, downwards.
    pub top: f32,
}
