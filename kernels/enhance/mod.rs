//! Raises brightness and saturation, in encoded sRGB (perceptually even steps).
//!
//! With the luma `Y` (Rec. 709 weights) of a pixel in 0..=1 and the strength `s`:
//!
//! ```text
//! Y' = 1 - (1 - Y)^(1 + s)           raises everything between black and white
//! c' = Y' + (1 + s) (c - Y)          clamped to 0..=1
//! ```
//!
//! Packed RGBA8, sRGB, straight alpha. Alpha and colour under alpha 0 do not change. The twins differ by one step at most.

pub mod cpu;
#[cfg(feature = "gpu")]
pub mod gpu;

const LUMA: [f32; 3] = [0.2126, 0.7152, 0.0722];
/// Table steps per encoded value: the curve's error is at most a twentieth of a value.
const STEPS: usize = 16;
