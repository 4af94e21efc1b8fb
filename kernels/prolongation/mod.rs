//! Prolongation from a level of closed-form matting to the next finer one: initial alpha, and newly known pixels.
//!
//! A pixel's *parent* is the coarser pixel above it. Initial alpha is the coarser level's coverage, bilinear: along
//! each axis the nearest parent has three times the weight of the next one. An unknown pixel is decided where the
//! coverages of its parent and the eight around are all at most [`DECIDED`], or all at least 255 − [`DECIDED`].

pub mod cpu;
#[cfg(feature = "gpu")]
pub mod gpu;

/// Maximum coverage of 255, and maximum distance from full coverage, of a coarser neighbourhood that decides a pixel
/// (`thr_alpha` of Levin's implementation, which is 5).
pub const DECIDED: u8 = 2;
