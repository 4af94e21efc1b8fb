//! An encoded picture: bytes of a file, format, size; and the encoder's quality.

use super::Size;
use bytes::Bytes;

/// The formats that Backdrop writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutputFormat {
    /// PNG, 8 bits a channel.
    Png,
    /// WebP, lossy below quality 100, lossless at 100.
    WebP,
    /// Baseline JPEG; has no alpha.
    Jpeg,
}

impl OutputFormat {
    /// The media type, as in `content-type`.
    #[must_use]
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::WebP => "image/webp",
            Self::Jpeg => "image/jpeg",
        }
    }

    /// The parameter value and file extension: `png`, `webp`, `jpg`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Png => "png",
            Self::WebP => "webp",
            Self::Jpeg => "jpg",
        }
    }
}

/// An encoded picture.
#[derive(Clone, Debug)]
pub struct EncodedImage {
    /// The container.
    pub format: OutputFormat,
    /// Width and height in pixels.
    pub size: Size,
    /// The file's bytes.
    pub bytes: Bytes,
}

/// Encoder quality, 1 (smallest) to 100 (best). Ignored by PNG.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quality(u8);

impl Quality {
    /// The quality of requests that do not set one.
    pub const DEFAULT: Self = Self(92);

    /// The quality `value`; `None` outside 1..=100.
    #[must_use]
    pub const fn new(value: u8) -> Option<Self> {
        if value >= 1 && value <= 100 { Some(Self(value)) } else { None }
    }

    /// The value, 1..=100.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl Default for Quality {
    fn default() -> Self {
        Self::DEFAULT
    }
}
