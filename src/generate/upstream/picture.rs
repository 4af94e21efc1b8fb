//! Looking at a picture of an upstream before anybody relies on it.

use super::UpstreamError;
use crate::codec::{self, DecodeError, Limits};
use crate::image::BufferPool;
use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// What a picture of an upstream may be: as large in pixels as a caller's, and larger in bytes, for a PNG of 4096×4096
/// has more than callers may send.
pub const PICTURE_LIMITS: Limits = Limits { max_bytes: 32 << 20, max_side: 4096, max_megapixels: 17 };

/// One at a time: a picture takes up to 67 MB while it is looked at, beside all that the engine has a bound for.
static LOOKS: Semaphore = Semaphore::const_new(1);

/// Decodes `bytes`, as hostile as any upload, and gives them back when they are a whole picture.
pub(super) async fn judged(bytes: Bytes) -> Result<Bytes, UpstreamError> {
    // Never closed.
    let look = LOOKS.acquire().await.map_err(|error| UpstreamError::Malformed(error.to_string()))?;
    let judge = move || {
        let header = codec::probe(&bytes, &PICTURE_LIMITS)?;
        let size = codec::decode(&bytes, &header, &BufferPool::new(0))?.size();
        if size == header.size {
            Ok(bytes)
        } else {
            Err(DecodeError::Corrupt(format!("the header says {}, the pixels {size}", header.size)))
        }
    };
    let judged = spawn_blocking(move || (judge(), look)).await;
    let (judged, _look) = judged.map_err(|error| UpstreamError::Malformed(error.to_string()))?;
    judged.map_err(UpstreamError::Picture)
}
