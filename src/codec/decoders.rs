//! Probes and decodes in this process, with the decoder of a file's container.

use super::error::DecodeError;
use super::header::{Container, Header};
#[cfg(feature = "heic")]
use super::heic;
use super::limits::Limits;
use super::{jpeg, png, webp};
use crate::image::{BufferPool, Frame, Size};

/// The size of the upright picture, checked against the limits.
pub(super) fn probe(container: Container, bytes: &[u8], limits: &Limits) -> Result<Size, DecodeError> {
    Ok(match container {
        Container::Jpeg => jpeg::Layout::read(bytes, limits)?.upright(bytes),
        Container::Png => png::Layout::read(bytes, limits)?.upright(bytes),
        Container::WebP => webp::Layout::read(bytes, limits)?.upright(bytes),
        #[cfg(feature = "heic")]
        Container::Heic => heic::probe(bytes, limits)?,
        #[cfg(not(feature = "heic"))]
        Container::Heic => return Err(no_heic()),
    })
}

/// The pixels of a probed file.
pub(super) fn decode(bytes: &[u8], header: &Header, pool: &BufferPool) -> Result<Frame, DecodeError> {
    // The caller compares the decoded size with the probed one, so no further limit is needed.
    match header.container {
        Container::Jpeg => jpeg::decode(bytes, header, pool),
        Container::Png => png::decode(bytes, header, pool),
        Container::WebP => webp::decode(bytes, header, pool),
        #[cfg(feature = "heic")]
        Container::Heic => heic::decode(bytes, header, pool),
        #[cfg(not(feature = "heic"))]
        Container::Heic => Err(no_heic()),
    }
}

#[cfg(not(feature = "heic"))]
fn no_heic() -> DecodeError {
    DecodeError::Unsupported { found: Some("HEIC, which this build does not read") }
}
