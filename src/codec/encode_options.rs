//! Options for encoding a picture.

use crate::image::{OutputFormat, Quality};

/// Compression effort of the PNG encoder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PngEffort {
    /// One thread and one fixed Huffman code: three quarters of the default's CPU time on small pictures, about as much
    /// on large ones. Photos get up to a third larger.
    Fast,
    /// Small files, in parallel.
    #[default]
    Default,
    /// The smallest files, in several times the default's CPU time.
    Best,
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
