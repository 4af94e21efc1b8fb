//! A finished picture, ready to encode.

use super::Frame;

/// The finished picture: packed RGBA8, sRGB, straight alpha.
#[derive(Clone, Debug)]
pub struct Composite(pub Frame);
