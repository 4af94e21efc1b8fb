//! Corrects coverage for linear light, given the foreground and background colours of a pixel.
//!
//! Matting solves on encoded values, as in the papers. Where light was mixed before encoding, as in a camera, the
//! solution is off: a pixel that is half black and half white reads 188 of 255, which encoded values take for a quarter
//! of black. With the colours of both sides the mixture can be solved in linear light. A picture that was scaled down
//! later mixes encoded values, and the two kinds cannot be distinguished. So the mean of both solutions is used: its
//! error is small for either kind, and a cutout on a new background, where light is mixed, is neither thinner nor
//! fatter than its subject.

pub mod cpu;
#[cfg(feature = "gpu")]
pub mod gpu;

/// Colours with a squared distance in linear light of about this or less do not determine the mixture.
pub const ALIKE: f32 = 1e-3;
