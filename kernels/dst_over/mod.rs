//! Porter–Duff *destination over* in linear light: composites a stroke, a shadow and a background under a picture.
//!
//! Porter and Duff, "Compositing Digital Images", 1984, with premultiplied alpha. From the top: the canvas (the
//! subject), the stroke, the shadow, the background. With `c` a layer's colour in linear light and `a` its coverage,
//! each layer adds its share of the light that the layers above transmit:
//!
//! ```text
//! sum ← sum + transmittance · a · c
//! transmittance ← transmittance · (1 - a)
//! ```
//!
//! and the result is `sum / (1 - transmittance)`, encoded, with alpha `1 - transmittance`: rounded once for all layers.
//!
//! Canvas and result: packed RGBA8, sRGB, straight alpha. A fully covered pixel is unchanged, bit for bit, and so is a
//! partly covered pixel over transparent layers. Where canvas, stroke and shadow are transparent, the background is
//! copied bit for bit. Colour under alpha 0 is 0. The twins differ by at most one step of 255.

pub mod cpu;
#[cfg(feature = "gpu")]
pub mod gpu;
