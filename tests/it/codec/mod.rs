//! Decoders and encoders: formats, fidelity, hostile files.

pub(crate) mod decode;
pub(crate) mod encode;
#[cfg(feature = "heic")]
pub(crate) mod heic;
#[cfg(feature = "heic")]
pub(crate) mod heic_hostile;
pub(crate) mod hostile;
pub(crate) mod jpeg_layouts;
pub(crate) mod support;
pub(crate) mod webp_sizes;
