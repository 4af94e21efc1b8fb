//! Selects a container's decoder, and probes and decodes with it in this process.

use super::error::DecodeError;
use super::header::{Container, Flaw, Header};
#[cfg(feature = "heic")]
use super::heic;
use super::limits::Limits;
use super::{jpeg, png, webp};
use crate::image::{BufferPool, Frame, Size};

/// Size of the upright picture, checked against the limits, and the file's flaw.
pub(super) type Probed = (Size, Option<Flaw>);

pub(super) fn probe(container: Container, bytes: &[u8], limits: &Limits) -> Result<Probed, DecodeError> {
    Ok(match container {
        Container::Jpeg => {
            let layout = jpeg::Layout::read(bytes, limits)?;
            (layout.upright(bytes), layout.flaw())
        }
        Container::Png => {
            let layout = png::Layout::read(bytes, limits)?;
            (layout.upright(bytes), layout.flaw(bytes))
        }
        Container::WebP => (webp::Layout::read(bytes, limits)?.upright(bytes), None),
        #[cfg(feature = "heic")]
        Container::Heic => (heic::probe(bytes, limits)?, None),
        #[cfg(not(feature = "heic"))]
        Container::Heic => return Err(no_heic()),
    })
}

pub(super) fn decode(bytes: &[u8], header: &Header, pool: &BufferPool) -> Result<Frame, DecodeError> {
    // The caller compares the decoded size with the probed one: no limit is needed here.
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
