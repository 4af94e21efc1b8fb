//! Layers put beneath a picture: a stroke, a shadow, a background.
//!
//! Porter and Duff, "Compositing Digital Images", 1984: *destination over*, in linear light with premultiplied alpha.
//! From the top: the canvas (the subject), the stroke, the shadow, the background. With `c` a layer's colour in linear
//! light and `a` its coverage, each adds what the ones above let through:
//!
//! ```text
//! sum ← sum + rest · a · c
//! rest ← rest · (1 - a)
//! ```
//!
//! and the result is `sum / (1 - rest)`, encoded, with alpha `1 - rest`: rounded once, however many layers there are.
//!
//! Canvas and result: packed RGBA8, sRGB, straight alpha. A pixel of full coverage stays as it is, bit for bit, and so
//! does a partly covered one with nothing beneath. Where nothing covers, and there is neither stroke nor shadow, the
//! background comes through bit for bit. Colour under alpha 0 is 0. The twins differ by at most one step of 255.

pub mod cpu;
#[cfg(feature = "gpu")]
pub mod gpu;
