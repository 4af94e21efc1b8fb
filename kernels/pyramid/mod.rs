//! Halves planes of pixels: pictures, labels and coverage, as the levels of coarse-to-fine matting need them.
//!
//! A pixel of the half is mixed from the two by two beneath it; at an odd border the last ones count twice.
//!
//! Pictures are packed RGBA8. Labels and coverage are one byte a pixel on the CPU and one u32 on a GPU, which has no smaller
//! word. The results are whole numbers and the same on both.

pub mod cpu;
#[cfg(feature = "gpu")]
pub mod gpu;

/// How four pixels become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mix {
    /// The mean of each of four channels, rounded to nearest.
    Colour,
    /// The mean, rounded to nearest.
    Coverage,
    /// The label where all four have the same, else unknown.
    Label,
}

/// `[width, height]` halved, rounded up.
#[must_use]
pub const fn half_size([width, height]: [usize; 2]) -> [usize; 2] {
    [width.div_ceil(2), height.div_ceil(2)]
}
