//! Verifies a picture from an image API by decoding it completely, within limits.

use super::UpstreamError;
use crate::codec::{self, DecodeError, Limits};
use crate::image::BufferPool;
use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Limits of a picture from an image API: the pixels of an upload, but more bytes, because a PNG of 4096×4096 exceeds
/// the byte limit of uploads.
pub const PICTURE_LIMITS: Limits = Limits { max_bytes: 32 << 20, max_side: 4096, max_megapixels: 17 };

/// Serialises decoding, which takes up to 67 MB outside the engine's memory bound.
static DECODES: Semaphore = Semaphore::const_new(1);

/// Decodes `bytes` with the checks of an upload and returns them when they are a complete picture.
pub(super) async fn verify(bytes: Bytes) -> Result<Bytes, UpstreamError> {
    // Never closed.
    let permit = DECODES.acquire().await.map_err(|error| UpstreamError::Malformed(error.to_string()))?;
    let decode = move || {
        let header = codec::probe(&bytes, &PICTURE_LIMITS)?;
        codec::decode(&bytes, &header, &BufferPool::new(0))?;
        Ok::<_, DecodeError>(bytes)
    };
    let decoded = spawn_blocking(move || (decode(), permit)).await;
    let (decoded, _permit) = decoded.map_err(|error| UpstreamError::Malformed(error.to_string()))?;
    decoded.map_err(UpstreamError::Picture)
}
