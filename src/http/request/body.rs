//! Reads a request's body under two timeouts of `[server]`: for a pause, and for the whole, which grows with the announced length.

use crate::http::config::HttpConfig;
use crate::http::connection::timeouts::RequestGuard;
use crate::http::reply::{ApiError, ErrorCode, Result};
use crate::source::is_coded;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use std::future::Future;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Longest time for which an unread body is drained after the reply, and its longest pause. A socket closed with bytes
/// unread sends a reset, which can destroy a reply that the client has not read yet; nginx's `lingering_close` has these
/// two bounds too.
const LINGER: Duration = Duration::from_secs(30);
const LINGER_PAUSE: Duration = Duration::from_secs(5);

/// Why a body could not be read to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    /// It paused too long, or took too long.
    #[error("too slow")]
    TooSlow,
    /// The connection or the framing failed.
    #[error("{0}")]
    Broken(String),
}

/// A source of bytes, piece by piece.
pub(crate) trait Chunks: Send {
    /// The next bytes, never empty; `None` at the end.
    fn next_chunk(&mut self) -> impl Future<Output = Result<Option<Bytes>, BodyError>> + Send;
}

/// The body of a request.
#[derive(Debug)]
pub(crate) struct RequestBody {
    incoming: Incoming,
    /// The client sends the body only after `100 Continue` (`Expect: 100-continue`).
    awaits_continue: bool,
    pause: Duration,
    /// The time for any body, and the additional time for its announced length.
    base: Duration,
    transfer: Duration,
    deadline: Option<Instant>,
    ended: Option<Instant>,
    broken: bool,
}

impl RequestBody {
    pub(crate) fn new(incoming: Incoming, awaits_continue: bool, config: &HttpConfig) -> Self {
        let (pause, base) = (config.body_pause, config.body_timeout);
        let transfer = transfer_time(incoming.size_hint().exact(), config);
        let ended = incoming.is_end_stream().then(Instant::now);
        Self { incoming, awaits_continue, pause, base, transfer, deadline: None, ended, broken: false }
    }

    /// Multiplies the time for any body. To be called before the first byte is read.
    pub(crate) fn extend_timeout(&mut self, times: u32) {
        self.base = self.base.saturating_mul(times);
    }

    /// Its announced length.
    pub(crate) fn content_length(&self) -> Option<u64> {
        self.incoming.size_hint().exact()
    }

    /// When the last byte of the request was read; the current time before that.
    pub(crate) fn received(&self) -> std::time::Instant {
        self.ended.unwrap_or_else(Instant::now).into_std()
    }

    /// When its last byte was read.
    pub(crate) fn ended(&self) -> Option<Instant> {
        self.ended
    }

    /// Reads and drops the rest in the background, so that the client can read the reply and reuse the connection.
    pub(crate) fn drain_unread(mut self, busy: RequestGuard) {
        if self.awaits_continue || self.broken || self.ended.is_some() {
            return;
        }
        self.pause = LINGER_PAUSE;
        self.deadline = Some(Instant::now() + LINGER);
        tokio::spawn(async move {
            let _lingering = busy.lingering();
            while let Ok(Some(_)) = self.next_chunk().await {}
        });
    }
}

impl Chunks for RequestBody {
    async fn next_chunk(&mut self) -> Result<Option<Bytes>, BodyError> {
        self.awaits_continue = false;
        let deadline = *self.deadline.get_or_insert_with(|| Instant::now() + self.base + self.transfer);
        loop {
            let next = timeout_at(deadline.min(Instant::now() + self.pause), self.incoming.frame()).await;
            self.broken = !matches!(next, Ok(None | Some(Ok(_))));
            match next {
                Err(_) => return Err(BodyError::TooSlow),
                Ok(Some(Err(error))) => return Err(BodyError::Broken(error.to_string())),
                Ok(None) => {
                    self.ended.get_or_insert_with(Instant::now);
                    return Ok(None);
                }
                // Trailers are ignored.
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => return Ok(Some(data)),
                    Ok(_) | Err(_) => {}
                },
            }
        }
    }
}

impl<C: Chunks> Chunks for &mut C {
    fn next_chunk(&mut self) -> impl Future<Output = Result<Option<Bytes>, BodyError>> + Send {
        (**self).next_chunk()
    }
}

/// The time for a body of this length at the slowest accepted rate. A length beyond the memory of accounts adds no time: such a body
/// is refused before its end.
fn transfer_time(announced: Option<u64>, config: &HttpConfig) -> Duration {
    let most = config.max_body_bytes() as u64;
    let bytes = announced.map_or(0, |bytes| bytes.min(most));
    // A kilobyte per second is a byte per millisecond.
    Duration::from_millis(bytes / u64::from(config.min_upload_kilobytes_per_second))
}

/// Reads a body to its end; `None`, without reading on, if it is longer than `limit`. `grow` takes the memory of each piece.
pub(crate) async fn read_within(
    body: &mut RequestBody,
    limit: usize,
    grow: impl Fn(usize) -> Result<()>,
) -> Result<Option<Bytes>> {
    let mut bytes = BytesMut::new();
    while let Some(chunk) = body.next_chunk().await? {
        if bytes.len() + chunk.len() > limit {
            return Ok(None);
        }
        grow(chunk.len())?;
        bytes.extend_from_slice(&chunk);
    }
    Ok(Some(bytes.freeze()))
}

/// Refuses a compressed body (415): its decompressed size is not known in advance.
pub(crate) fn require_uncompressed(headers: &HeaderMap) -> Result<()> {
    if headers.get_all(CONTENT_ENCODING).iter().any(is_coded) {
        return Err(unsupported("a compressed request body is not taken; send it as it is"));
    }
    Ok(())
}

/// The `Content-Type` of a request; empty without one.
pub(crate) fn content_type(headers: &HeaderMap) -> &str {
    headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// The media type in lower case, without parameters.
pub(crate) fn media_type(headers: &HeaderMap) -> String {
    content_type(headers).split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// 415.
pub(crate) fn unsupported(message: &str) -> ApiError {
    ApiError::new(ErrorCode::UnsupportedMediaType, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_for_a_body_grows_with_its_length_up_to_the_memory_for_uploads() {
        let config = HttpConfig {
            min_upload_kilobytes_per_second: 50,
            max_body_megabytes_in_flight: 100,
            ..HttpConfig::default()
        };
        for (announced, seconds) in [
            (None, 0.0),
            (Some(0), 0.0),
            (Some(50_000), 1.0),
            (Some(10_000_000), 200.0),
            (Some(100_000_000), 2000.0),
            (Some(100_000_001), 2000.0),
            (Some(u64::MAX), 2000.0),
        ] {
            assert_eq!(transfer_time(announced, &config), Duration::from_secs_f64(seconds), "{announced:?}");
        }
    }
}
