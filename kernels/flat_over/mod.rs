//! Flat layers (a stroke, a shadow) over a background, in encoded values.
//!
//! *Source over* of Porter and Duff, "Compositing Digital Images", 1984, on sRGB-encoded values, as in browsers and
//! editors: 40 % black over white is 153. A shadow over a colour therefore equals the transparent result on a browser's
//! page of that colour. From the top, with `c` a layer's encoded colour and `a` its coverage:
//!
//! ```text
//! sum ← sum + rest · a · c
//! rest ← rest · (1 - a)
//! ```
//!
//! and the result is `sum / (1 - rest)` with alpha `1 - rest`, rounded once. A background under layers without coverage
//! is unchanged, bit for bit. The subject's edge, a mixture of light, is composited in linear light instead (kernel
//! `dst_over`).
//!
//! Background and result: packed RGBA8, sRGB, straight alpha. Under opaque pixels of the canvas the result is
//! arbitrary, because it is hidden. The twins differ by at most one step of 255.

pub mod cpu;
#[cfg(feature = "gpu")]
pub mod gpu;
