//! A request's body as it arrives, against two clocks: one for a pause, one for the whole, which grows with the length
//! that was announced.

use super::config::HttpConfig;
use super::connection::Busy;
use super::error::{ApiError, ErrorCode};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use std::future::Future;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How long an unread body is still taken in after the reply, and how long it may pause meanwhile. A socket closed
/// with bytes unread sends a reset, which can destroy a reply the caller has not read yet; nginx's `lingering_close`
/// has the same two bounds.
const LINGER: Duration = Duration::from_secs(30);
const LINGER_PAUSE: Duration = Duration::from_secs(5);

/// Why a body could not be read to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum BodyError {
    /// It paused, or took, too long.
    #[error("too slow")]
    TooSlow,
    /// The connection broke, or the framing did.
    #[error("{0}")]
    Broken(String),
}

/// Where bytes come from, piece by piece.
pub(super) trait Chunks: Send {
    /// The next bytes, never empty; nothing at the end.
    fn next_chunk(&mut self) -> impl Future<Output = Result<Option<Bytes>, BodyError>> + Send;
}

/// The body of the request in hand.
#[derive(Debug)]
pub(super) struct RequestBody {
    incoming: Incoming,
    /// The caller holds the body back until it is asked for (`Expect: 100-continue`).
    held_back: bool,
    pause: Duration,
    /// How long it may take whatever its length, and for its length beside that.
    base: Duration,
    transfer: Duration,
    deadline: Option<Instant>,
    ended: Option<Instant>,
    broken: bool,
}

impl RequestBody {
    pub(super) fn new(incoming: Incoming, held_back: bool, config: &HttpConfig) -> Self {
        let (pause, base) = (config.body_pause, config.body_timeout);
        let transfer = transfer_time(incoming.size_hint().exact(), config);
        let ended = incoming.is_end_stream().then(Instant::now);
        Self { incoming, held_back, pause, base, transfer, deadline: None, ended, broken: false }
    }

    /// Gives it `times` as long as others have beside the time for its announced length: it may be that much larger.
    /// Before its first byte is read.
    pub(super) fn wait_longer(&mut self, times: u32) {
        self.base = self.base.saturating_mul(times);
    }

    /// Its length, where the caller has said it.
    pub(super) fn announced(&self) -> Option<u64> {
        self.incoming.size_hint().exact()
    }

    /// When the request was here whole; now, as long as it is not.
    pub(super) fn received(&self) -> std::time::Instant {
        self.ended.unwrap_or_else(Instant::now).into_std()
    }

    /// When its last byte was read.
    pub(super) fn ended(&self) -> Option<Instant> {
        self.ended
    }

    /// Takes in what was not read, beside the reply, so that the reply can be read and the connection used again.
    pub(super) fn dismiss(mut self, busy: Busy) {
        if self.held_back || self.broken || self.ended.is_some() {
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
        self.held_back = false;
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
                // Trailers are of no use here.
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

/// How long a body of this length takes at the slowest rate that is waited for. A longer one than is ever held in memory
/// gets no more: it will be refused before its end.
fn transfer_time(announced: Option<u64>, config: &HttpConfig) -> Duration {
    let most = config.max_upload_megabytes_in_flight as u64 * 1_000_000;
    let bytes = announced.map_or(0, |bytes| bytes.min(most));
    // A kilobyte a second is a byte a millisecond.
    Duration::from_millis(bytes / u64::from(config.min_upload_kilobytes_per_second))
}

/// Reads a small body whole; nothing when it is longer than `limit`.
pub(super) async fn read_small(body: &mut RequestBody, limit: usize) -> Result<Option<Bytes>, BodyError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = body.next_chunk().await? {
        if bytes.len() + chunk.len() > limit {
            return Ok(None);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(Some(bytes.into()))
}

/// Refuses a body that would have to be unpacked: how large that would become nobody knows before.
pub(super) fn uncompressed(headers: &HeaderMap) -> Result<(), ApiError> {
    if headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        return Err(unsupported("a compressed request body is not taken; send it as it is"));
    }
    Ok(())
}

/// The type that a body is said to have.
pub(super) fn content_type(headers: &HeaderMap) -> &str {
    headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// 415.
pub(super) fn unsupported(message: &str) -> ApiError {
    ApiError::new(ErrorCode::UnsupportedMediaType, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_for_a_body_grows_with_its_announced_length_up_to_what_is_ever_held() {
        let config = HttpConfig {
            min_upload_kilobytes_per_second: 50,
            max_upload_megabytes_in_flight: 100,
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
