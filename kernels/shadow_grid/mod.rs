//! The reduced grid of a blurred shadow: coverage averaged over squares of pixels, and sampled bilinearly.
//!
//! A wide blur has no detail, so it runs on a grid whose cells are squares of `k` by `k` pixels:
//!
//! ```text
//! grid(column, row) = Σ coverage / (255 k²)       over the pixels of the cell
//! ```
//!
//! Coverage outside of its bounds is 0, except in an [extension](Cells::extension), where the nearest pixel inside
//! counts. A border of empty cells around the grid makes room for the blur. Samples outside of the grid are 0.
//!
//! Coverage: 0..=255. Grid and samples: f32 in 0..=1. The twins differ by rounding, at most 1e-5.

pub mod cpu;
#[cfg(feature = "gpu")]
pub mod gpu;

/// The cells of a grid, in pixels of the canvas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cells {
    /// Left, upper, right and lower bound of the coverage; right and lower are exclusive. Not empty.
    pub bounds: [u32; 4],
    /// Pixels by which the coverage continues beyond its bounds.
    pub extension: [u32; 4],
    /// Side of a cell in pixels.
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

    /// First pixel of the first column and of the first row. Without the border it may lie outside of the canvas.
    #[must_use]
    pub fn start(&self) -> [i64; 2] {
        [0, 1].map(|low| i64::from(self.bounds[low]) - i64::from(self.extension[low]))
    }
}

/// Position of a grid on the canvas.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placement {
    /// Side of a cell in pixels.
    pub cell: f32,
    /// Left edge of the grid, with its border, on the canvas.
    pub left: f32,
    /// Upper edge of the grid, with its border, on the canvas.
    pub top: f32,
}
