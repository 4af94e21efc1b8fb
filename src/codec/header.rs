//! What probing a file yields: its container and the size of the upright picture.

use super::limits::Limits;
use crate::image::Size;

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

/// Properties of a file, read without allocating for pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The container, detected by content.
    pub container: Container,
    /// Size of the upright picture.
    pub size: Size,
    /// The limits it was checked against.
    pub limits: Limits,
    /// Whether decoding applies an embedded colour profile, as it does unless the caller says otherwise: a mask's samples are
    /// coverage and no colours.
    pub applies_profile: bool,
}
