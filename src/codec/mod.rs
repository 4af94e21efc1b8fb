//! Reading and writing picture files, by content and never by name.

use crate::image::{BufferPool, Composite, EncodedImage, Frame, OutputFormat, Quality, Size};

/// The containers that Backdrop reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Container {
    /// JPEG.
    Jpeg,
    /// PNG.
    Png,
    /// WebP.
    WebP,
    /// HEIC / HEIF.
    Heic,
}

/// What an input may cost.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of the file.
    pub max_bytes: usize,
    /// Pixels of the longer side.
    pub max_side: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_bytes: 10 << 20, max_side: 4096 }
    }
}

/// What the header says, read without allocating for pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The container, by content.
    pub container: Container,
    /// Size of the upright picture.
    pub size: Size,
}

/// Why an input cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// No bytes at all.
    #[error("the file is empty")]
    Empty,
    /// Not one of the containers read here.
    #[error("not a JPEG, PNG, WebP or HEIC file{}", .found.map(|name| format!(" (it looks like {name})")).unwrap_or_default())]
    Unsupported {
        /// What it looks like, when that is known.
        found: Option<&'static str>,
    },
    /// Over `max_bytes`.
    #[error("the file has more than {limit} bytes")]
    TooManyBytes {
        /// The limit.
        limit: usize,
    },
    /// Over `max_side`.
    #[error("the picture is {size}, more than {limit}×{limit} pixels")]
    TooManyPixels {
        /// Size of the picture.
        size: Size,
        /// The limit of each side.
        limit: u32,
    },
    /// Truncated, corrupt, or costlier than its pixels can explain.
    #[error("the file is damaged: {0}")]
    Corrupt(String),
}

/// Reads container, size and orientation, and judges the limits. Allocates nothing for pixels.
///
/// # Errors
/// See [`DecodeError`].
pub fn probe(_bytes: &[u8], _limits: &Limits) -> Result<Header, DecodeError> {
    unimplemented!("codec")
}

/// Decodes a probed file: upright, sRGB, straight alpha.
///
/// # Errors
/// [`DecodeError::Corrupt`] when the file does not hold what its header promised.
pub fn decode(_bytes: &[u8], _header: &Header, _pool: &BufferPool) -> Result<Frame, DecodeError> {
    unimplemented!("codec")
}

/// How hard the PNG encoder tries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PngEffort {
    /// Quick, files a quarter larger.
    #[default]
    Fast,
    /// Slow, small files.
    Small,
}

/// Which channels are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Channels {
    /// Colour and alpha.
    #[default]
    Rgba,
    /// The alpha alone, as 8-bit grey.
    Alpha,
}

/// How to write a picture.
#[derive(Clone, Copy, Debug)]
pub struct EncodeOptions {
    /// The container.
    pub format: OutputFormat,
    /// JPEG and WebP quality.
    pub quality: Quality,
    /// PNG effort.
    pub png: PngEffort,
    /// Which channels.
    pub channels: Channels,
}

/// Why a picture could not be written.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// The encoder refused.
    #[error("encoding {format:?} failed: {reason}")]
    Encoder {
        /// The container.
        format: OutputFormat,
        /// What it said.
        reason: String,
    },
}

/// Writes a picture: sRGB, no metadata, colour under zero alpha zeroed.
///
/// # Errors
/// [`EncodeError`] when the encoder refuses.
pub fn encode(_composite: Composite, _options: &EncodeOptions) -> Result<EncodedImage, EncodeError> {
    unimplemented!("codec")
}
