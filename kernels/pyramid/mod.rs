//! Halves planes of pixels: pictures, labels and coverage, as the levels of coarse-to-fine matting need them.
//!
//! A pixel of the half is mixed from two by two pixels; at an odd border the last pixels count twice.
//!
//! Pictures are packed RGBA8. Labels and coverage are one byte a pixel on the CPU, and one u32 on a GPU, which has no
//! smaller word. The results are integers, and equal on both.

pub mod cpu;
#[cfg(feature = "gpu")]
pub mod gpu;

/// How four pixels are mixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mix {
    /// The mean of each of four channels, rounded to nearest.
    Colour,
    /// The mean, rounded to nearest.
    Coverage,
    /// The common label of all four, else unknown.
    Label,
}

/// `[width, height]` halved, rounded up.
#[must_use]
pub const fn half_size([width, height]: [usize; 2]) -> [usize; 2] {
    [width.div_ceil(2), height.div_ceil(2)]
}
