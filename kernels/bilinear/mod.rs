//! Bilinear interpolation of a coarse grid of linear light: the pixels of a blurred background on a canvas.
//!
//! Every column and every row of the canvas lies between two of the grid ([`Tap`]): with `a`, `b` above and below in the first
//! column, and `c`, `d` in the second,
//!
//! ```text
//! left  = a + row.share * (b - a)
//! right = c + row.share * (d - c)
//! light = left + column.share * (right - left)
//! ```
//!
//! rounded to 65535ths, and encoded as sRGB (IEC 61966-2-1).
//!
//! Samples: f32, four a cell, of which the first three are red, green and blue in 0..=1. Pixels: packed RGBA8, opaque. The twins
//! differ by at most one step of 255: `pow` is not exactly rounded on a GPU.

pub mod cpu;
#[cfg(feature = "gpu")]
pub mod gpu;

/// Two cells of an axis, and how far between them a pixel lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tap {
    /// Index of the first cell.
    pub first: u32,
    /// Index of the second cell.
    pub second: u32,
    /// Weight of the second, 0 to 1.
    pub share: f32,
}
