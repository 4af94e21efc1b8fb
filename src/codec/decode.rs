//! Probes and decodes a file with its container's decoder: in a decode worker if configured, else in this process.

use super::decoders;
use super::error::{DecodeError, not_as_probed};
use super::header::Header;
use super::limits::Limits;
use super::sandbox;
use super::sniff::detect_container;
use crate::image::{BufferPool, Frame};

/// Whether [`probe`] and [`decode()`] of this file run in a decode worker; otherwise they run on the calling thread.
#[must_use]
pub fn waits_for_worker(bytes: &[u8]) -> bool {
    detect_container(bytes).is_ok_and(|container| sandbox::workers_of(container).is_some())
}

/// Reads container, size and orientation, and checks the limits. Allocates nothing for pixels.
///
/// # Errors
/// See [`DecodeError`].
pub fn probe(bytes: &[u8], limits: &Limits) -> Result<Header, DecodeError> {
    if bytes.len() > limits.max_bytes {
        return Err(DecodeError::TooManyBytes { limit: limits.max_bytes });
    }
    let container = detect_container(bytes)?;
    let (size, flaw) = match sandbox::workers_of(container) {
        Some(workers) => workers.probe(container, bytes, limits)?,
        None => decoders::probe(container, bytes, limits)?,
    };
    Ok(Header { container, size, flaw, limits: *limits, applies_profile: true })
}

/// Decodes a probed file to an upright sRGB frame with straight alpha. Converts colours if [`Header::applies_profile`].
///
/// # Errors
/// [`DecodeError::Corrupt`] when the content contradicts the header, [`DecodeError::Worker`] when no worker can be
/// started.
pub fn decode(bytes: &[u8], header: &Header, pool: &BufferPool) -> Result<Frame, DecodeError> {
    let frame = match sandbox::workers_of(header.container) {
        Some(workers) => workers.decode(bytes, header, pool)?,
        None => decoders::decode(bytes, header, pool)?,
    };
    if frame.size() == header.size { Ok(frame) } else { Err(not_as_probed()) }
}
