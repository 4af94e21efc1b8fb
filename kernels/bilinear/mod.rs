//! Bilinear interpolation of a coarse grid of linear light: the pixels of a blurred background on a canvas.
//!
//! Every column and every row of the canvas lies between two cells of the grid ([`Tap`]). With `a` above `b` in the
//! first column, and `c` above `d` in the second,
//!
//! ```text
//! left  = a + row.share * (b - a)
//! right = c + row.share * (d - c)
//! light = left + column.share * (right - left)
//! ```
//!
//! rounded to 65535ths, and encoded as sRGB (IEC 61966-2-1).
//!
//! Samples: f32, four a cell: red, green and blue in 0..=1, and an unused one. Pixels: packed RGBA8, opaque. The twins
//! differ by at most one step of 255: `pow` is not exactly rounded on a GPU.

pub mod cpu;
#[cfg(feature = "gpu")]
pub mod gpu;

/// Two cells of an axis, and the position of a pixel between them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tap {
    /// Index of the first cell.
    pub first: u32,
    /// Index of the second cell.
    pub second: u32,
    /// Weight of the second cell, 0 to 1.
    pub share: f32,
}
