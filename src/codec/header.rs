//! Result of probing a file: container, size of the upright picture, flaw.

use super::limits::Limits;
use crate::image::Size;
use std::fmt;

/// The supported containers.
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

impl Container {
    /// The container's name, for messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Jpeg => "JPEG",
            Self::Png => "PNG",
            Self::WebP => "WebP",
            Self::Heic => "HEIC",
        }
    }
}

/// A defect of a file that may still have all of its pixels. Displayed as a sentence in visible ASCII.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A JPEG ends without its end marker.
    NoEndMarker,
    /// A JPEG has fewer restart markers than its restart interval demands.
    LostRestartMarkers,
    /// The checksum of a PNG's picture data is wrong.
    WrongChecksum,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoEndMarker => "the JPEG has no end marker (EOI); all of its pixels were read",
            Self::LostRestartMarkers => "the JPEG has lost restart markers; all of its pixels were read",
            Self::WrongChecksum => "a checksum of the PNG is wrong; all of its pixels were read",
        })
    }
}

/// Properties of a file, read without allocating for pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The container, detected by content.
    pub container: Container,
    /// Size of the upright picture.
    pub size: Size,
    /// A defect that decoding tolerates; decoding fails where pixels are missing.
    pub flaw: Option<Flaw>,
    /// The limits it was checked against.
    pub limits: Limits,
    /// Whether decoding applies an embedded colour profile: the default, except for masks, whose samples are coverage.
    pub applies_profile: bool,
}
