//! Probes and decodes a file with the decoder of its container.

use super::error::{DecodeError, not_as_probed};
use super::header::{Container, Header};
#[cfg(feature = "heic")]
use super::heic;
use super::limits::Limits;
use super::sniff::detect_container;
use super::{jpeg, png, webp};
use crate::image::{BufferPool, Frame};

/// Reads container, size and orientation, and checks the limits. Allocates nothing for pixels.
///
/// # Errors
/// See [`DecodeError`].
pub fn probe(bytes: &[u8], limits: &Limits) -> Result<Header, DecodeError> {
    if bytes.len() > limits.max_bytes {
        return Err(DecodeError::TooManyBytes { limit: limits.max_bytes });
    }
    let container = detect_container(bytes)?;
    let size = match container {
        Container::Jpeg => jpeg::Layout::read(bytes, limits)?.upright(bytes),
        Container::Png => png::Layout::read(bytes, limits)?.upright(bytes),
        Container::WebP => webp::Layout::read(bytes, limits)?.upright(bytes),
        #[cfg(feature = "heic")]
        Container::Heic => heic::probe(bytes, limits)?,
        #[cfg(not(feature = "heic"))]
        Container::Heic => {
            return Err(DecodeError::Unsupported { found: Some("HEIC, which this build does not read") });
        }
    };
    Ok(Header { container, size, limits: *limits })
}

/// Decodes a probed file to an upright sRGB frame with straight alpha.
///
/// # Errors
/// [`DecodeError::Corrupt`] when the content does not match the header.
pub fn decode(bytes: &[u8], header: &Header, pool: &BufferPool) -> Result<Frame, DecodeError> {
    // The decoded size is compared with the probed one below, so no further limit is needed.
    let frame = match header.container {
        Container::Jpeg => jpeg::decode(bytes, header.size, pool)?,
        Container::Png => png::decode(bytes, header.size, pool)?,
        Container::WebP => webp::decode(bytes, header.size, pool)?,
        #[cfg(feature = "heic")]
        Container::Heic => heic::decode(bytes, header, pool)?,
        #[cfg(not(feature = "heic"))]
        Container::Heic => {
            return Err(DecodeError::Unsupported { found: Some("HEIC, which this build does not read") });
        }
    };
    if frame.size() == header.size { Ok(frame) } else { Err(not_as_probed()) }
}
