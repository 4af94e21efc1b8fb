//! Options for encoding a picture.

use crate::image::{OutputFormat, Quality};

/// Compression effort of the PNG encoder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PngEffort {
    /// Fast; files are a quarter larger.
    #[default]
    Fast,
    /// Slow; small files.
    Small,
}

/// The channels to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Channels {
    /// Colour and alpha.
    #[default]
    Rgba,
    /// Alpha only, as 8-bit grey.
    Alpha,
}

/// Options for encoding a picture.
#[derive(Clone, Copy, Debug)]
pub struct EncodeOptions {
    /// The container.
    pub format: OutputFormat,
    /// JPEG and WebP quality.
    pub quality: Quality,
    /// PNG effort.
    pub png: PngEffort,
    /// The channels to write.
    pub channels: Channels,
}
