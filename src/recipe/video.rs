//! `/video/remove`: what is to be made of a clip.

use crate::codec::Channels;
use crate::image::color::Color;

/// The file that a clip becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VideoFormat {
    /// VP9 with alpha in WebM.
    Webm,
    /// `ProRes` 4444 in MOV.
    Mov,
    /// H.264 in MP4, which has no alpha: on a colour, or the matte.
    Mp4,
    /// A ZIP archive of PNG files, one for each frame.
    PngSequence,
    /// GIF, whose alpha is on or off.
    Gif,
    /// Animated WebP.
    Webp,
}

/// Everything that the work on a clip needs to know; nothing is left open.
#[derive(Clone, Debug, PartialEq)]
pub struct VideoRecipe {
    /// The file that comes back.
    pub format: VideoFormat,
    /// The cutout in colour, or its matte in grey.
    pub channels: Channels,
    /// What the subject is put on; nothing keeps it transparent.
    pub background: Option<Color>,
    /// How much the masks of neighbouring frames are held together, 0 (each frame alone) to 100.
    pub smoothing: u8,
    /// Whether the sound comes along, where the format has room for it.
    pub audio: bool,
    /// Words drawn over every frame, of a sandbox key.
    pub stamp: Option<&'static str>,
}
