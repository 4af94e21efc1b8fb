//! Traces of coverage: what is too faint to be anything but noise of matting becomes nothing, and what is nearly full becomes full.
//!
//! The scale of what remains is stretched, so that there is no step: `(c - t) · 255 / (255 - 2 t)`, rounded to nearest.

pub mod cpu;
#[cfg(feature = "gpu")]
pub mod gpu;

/// `t`: coverage of 255 below which a pixel becomes uncovered, and (from the other end) above which fully covered.
pub const TRACE: u8 = 4;
