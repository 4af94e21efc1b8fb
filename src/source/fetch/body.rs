//! Reads response bodies within a size limit: pictures into memory, checked by their first bytes; clips into a channel.

use super::error::FetchError;
use crate::codec;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::sync::mpsc;

/// Memory for a body that is being received.
pub trait MemoryBudget: Send + Sync {
    /// Reserves `bytes` more; may wait.
    ///
    /// # Errors
    /// When there is no memory; the fetch is then aborted.
    fn reserve(&self, bytes: usize) -> BoxFuture<'_, Result<(), OutOfMemory>>;
}

/// The budget is exhausted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the memory budget is exhausted")]
pub struct OutOfMemory;

/// Declared length of a body in bytes; 0 without one.
fn declared_length(body: &Incoming, limit: usize) -> Result<usize, FetchError> {
    let declared = body.size_hint().exact().map_or(Ok(0), usize::try_from).unwrap_or(usize::MAX);
    if declared > limit { Err(FetchError::TooLarge { limit }) } else { Ok(declared) }
}

/// Streams at most `limit` bytes into a channel.
pub(super) async fn read_clip(
    mut body: Incoming,
    limit: usize,
    chunks: &mpsc::Sender<Bytes>,
) -> Result<(), FetchError> {
    declared_length(&body, limit)?;
    let mut left = limit;
    while let Some(frame) = body.frame().await {
        // Frames without data are trailers.
        let Ok(data) = frame.map_err(FetchError::Http)?.into_data() else { continue };
        left = left.checked_sub(data.len()).ok_or(FetchError::TooLarge { limit })?;
        chunks.send(data).await.map_err(|_| FetchError::ReceiverClosed)?;
    }
    Ok(())
}

/// Reads a picture of at most `limit` bytes, recognised by its first bytes. Reserves memory before keeping a chunk.
pub(super) async fn read_picture(
    mut body: Incoming,
    limit: usize,
    budget: Option<&dyn MemoryBudget>,
) -> Result<Bytes, FetchError> {
    let declared = declared_length(&body, limit)?;
    let check = |bytes: &[u8]| codec::detect_container(bytes).map(|_| ()).map_err(FetchError::NotAPicture);
    let (mut bytes, mut is_checked) = (Vec::new(), false);
    while let Some(frame) = body.frame().await {
        // Frames without data are trailers.
        let Ok(data) = frame.map_err(FetchError::Http)?.into_data() else { continue };
        if data.len() > limit - bytes.len() {
            return Err(FetchError::TooLarge { limit });
        }
        if let Some(budget) = budget {
            budget.reserve(data.len()).await.map_err(|OutOfMemory| FetchError::OutOfMemory)?;
        }
        let len = bytes.len() + data.len();
        if len > bytes.capacity() {
            // Twice the received bytes instead of the declared length: the rest may never arrive.
            let most = if declared == 0 { limit } else { declared.max(len) };
            bytes.reserve_exact((2 * len).min(most) - bytes.len());
        }
        bytes.extend_from_slice(&data);
        if !is_checked && bytes.len() >= codec::SNIFF_BYTES {
            check(&bytes)?;
            is_checked = true;
        }
    }
    if !is_checked {
        check(&bytes)?;
    }
    Ok(bytes.into())
}
