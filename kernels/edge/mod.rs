//! The edge of a matte: traces of coverage, and hard edges.
//!
//! *Traces*: what is too faint to be anything but noise of matting becomes nothing, and what is nearly full becomes full. The
//! scale of what remains is stretched, so that there is no step: `(c - t) · 255 / (255 - 2 t)`, rounded to nearest.
//!
//! *Hard*: coverage of an edge on the line where coverage `α` is one half, anti-aliased over one pixel. Near that line
//! `(α - ½) / |∇α|` is how many pixels away it lies, whether the ramp is two pixels wide or twenty, so that plus one half,
//! clamped, is the coverage of a geometric edge. The three by three pixels around each are smoothed (1 2 1), so that grain does not
//! make the edge ragged; border rule: the nearest pixel. An edge may also lie where coverage is less than one half, but no more than a
//! pixel further out. The twins differ by at most one step of 255.
//!
//! *Sharpened*: a mixture of the solved coverage and the hard one, by a share that a grid gives.

pub mod cpu;
#[cfg(feature = "gpu")]
pub mod gpu;

/// `t`: coverage of 255 below which a pixel becomes uncovered, and (from the other end) above which fully covered.
pub const TRACE: u8 = 4;

/// The least slope per pixel that still counts as an edge; in flatter places the distance would be arbitrary.
const MIN_SLOPE: f32 = 1.0 / 32.0;
