//! The edge of a matte: traces of coverage, and hard edges.
//!
//! *Traces*: coverage that is too faint to be more than noise of matting becomes 0, and nearly full coverage becomes
//! full. The remaining range is stretched, so that there is no step: `(c - t) · 255 / (255 - 2 t)`, rounded to nearest.
//!
//! *Hard*: coverage of an edge on the line where coverage `α` is one half, anti-aliased over one pixel. Near that line
//! `(α - ½) / |∇α|` is the distance in pixels at any width of the ramp, so that distance plus one half, clamped, is the
//! coverage of a geometric edge. The three by three pixels around each pixel are smoothed (1 2 1), so that grain does
//! not make the edge ragged; border rule: the nearest pixel. An edge may also lie at a lower coverage, but at most a
//! pixel further out. The twins differ by at most one step of 255.
//!
//! *Sharpened*: a mixture of the solved and the hard coverage, weighted by a grid.

pub mod cpu;
#[cfg(feature = "gpu")]
pub mod gpu;

/// `t`: coverage of 255 below which a pixel becomes uncovered; above `255 - t` it becomes fully covered.
pub const TRACE: u8 = 4;

/// Minimum slope per pixel of an edge. In flatter places the distance would be arbitrary.
const MIN_SLOPE: f32 = 1.0 / 32.0;
