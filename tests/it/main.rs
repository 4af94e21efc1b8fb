//! The integration tests: one binary, a module per behaviour.

mod codec_decode;
mod codec_encode;
#[cfg(feature = "heic")]
mod codec_heic;
mod codec_hostile;
mod codec_support;
