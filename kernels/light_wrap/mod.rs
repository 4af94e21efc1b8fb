//! Light wrap: tints the subject's translucent edge with the background's light and mixes in the background's colour.
//!
//! A translucent pixel is lens blur, hair or glass, and part of its light comes from the scene behind. With the
//! transmittance `t = 1 - alpha`, the tint `i` of the light and the colour `b` of an opaque background, in linear light
//! for each channel:
//!
//! ```text
//! lit = c (1 + t (i - 1) / 2)            c' = lit + 0.22 t (b - lit)
//! ```
//!
//! Packed RGBA8, sRGB, straight alpha. Only translucent pixels change. The twins differ by at most one step of 255.

pub mod cpu;
#[cfg(feature = "gpu")]
pub mod gpu;

/// Strength of the light's tint, and of the background's colour, at the outermost edge.
const TINT_STRENGTH: f32 = 0.5;
const WRAP_STRENGTH: f32 = 0.22;
