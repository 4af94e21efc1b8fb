//! A finished picture, ready to encode.

use super::Frame;

/// The finished picture: packed RGBA8, sRGB, straight alpha.
#[derive(Clone, Debug)]
pub struct Composite(Frame);

impl Composite {
    /// A picture to encode without composing: a frame of a clip, a contact sheet, a fixture.
    #[must_use]
    pub const fn unchanged(picture: Frame) -> Self {
        Self(picture)
    }

    /// The canvas that `compose` has drawn.
    pub(crate) const fn composed(canvas: Frame) -> Self {
        Self(canvas)
    }

    /// The pixels.
    #[must_use]
    pub const fn frame(&self) -> &Frame {
        &self.0
    }

    /// The frame, by value.
    #[must_use]
    pub fn into_frame(self) -> Frame {
        self.0
    }
}
