//! From a coarser level of closed-form matting to the next finer one: where it starts, and what is known already.
//!
//! A pixel's *parent* is the coarser pixel above it. A level starts from the coverage of the coarser one, bilinear: the nearest
//! parent counts three times as much as the next one over, along each axis. An unknown pixel is decided where its parent and
//! the eight around that are covered by no more than [`DECIDED`] of 255, or by all but that.

pub mod cpu;
#[cfg(feature = "gpu")]
pub mod gpu;

/// Coverage of 255 up to which a coarser neighbourhood decides that a pixel is not covered, and (from the other end) that it
/// is (`thr_alpha` of Levin's implementation, which has 5).
pub const DECIDED: u8 = 2;
