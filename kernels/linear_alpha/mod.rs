//! Corrects coverage for linear light, given the foreground and background colours of a pixel.
//!
//! Matting solves on encoded values, as the papers do. Where light was mixed before it was encoded, as in a camera, that is
//! off: a pixel that is half black and half white reads 188 of 255, which encoded values take for a quarter of black. Once the
//! colours on both sides are known the mixture can be solved in linear light. A picture that was scaled down afterwards
//! mixes encoded values, though, and the two kinds cannot be distinguished, so the mean of both solutions is used: neither kind
//! is far off, and a cutout on a new background, where light is mixed, is neither thinner nor fatter than its subject.

pub mod cpu;
#[cfg(feature = "gpu")]
pub mod gpu;

/// Colours whose squared distance in linear light is about this or less do not determine how they are mixed.
pub const ALIKE: f32 = 1e-3;
