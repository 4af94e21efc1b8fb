//! Replaces hyper's own refusals of malformed request heads by the error envelope: the interface specification promises JSON with a request id
//! for every error, and the clients read the code and the id.
//!
//! hyper answers an HTTP/1 head that it cannot parse without calling the service, by a status line and an empty body (400,
//! 414 or 431), and closes the connection. These are its only bytes that are not a reply of the service, so the stream below
//! it detects them as HTTP/1 written while no reply is due.

use super::timeouts::Activity;
use crate::http::reply::{ApiError, ErrorCode, REQUEST_ID, VERSION, request_id};
use crate::telemetry::metrics;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http_body_util::BodyExt;
use hyper::header::HeaderMap;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tracing::{debug, info};

/// The largest head of a request, in bytes; browsers send under 4 KiB.
pub(crate) const MAX_HEAD: u32 = 64 * 1024;

/// 431.
pub(crate) fn too_large() -> ApiError {
    let message = "the head of the request is larger than 64 KB or has more than 100 header fields";
    ApiError::new(ErrorCode::HeadersTooLarge, message)
}

/// The beginning of every HTTP/1 reply of hyper. No HTTP/2 frame has it: its length field would exceed the maximum.
const HTTP1: &[u8] = b"HTTP/1.";

/// The stream of a connection: records in its [`Activity`] when bytes move, and replaces hyper's own refusals.
pub(crate) struct ConnectionStream<S> {
    /// `None` once a refusal is replaced.
    stream: Option<S>,
    /// Sends the envelope instead of a refusal.
    refusal: Option<BoxFuture<'static, io::Result<()>>>,
    activity: Activity,
    logged: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> ConnectionStream<S> {
    /// `logged`: whether refusals are logged at `info`, else at `debug`.
    pub(crate) fn new(stream: S, activity: Activity, logged: bool) -> Self {
        Self { stream: Some(stream), refusal: None, activity, logged }
    }

    /// The stream to write `bytes` to; `None` where they are a refusal of hyper, which the envelope replaces. The head timeout of the
    /// connection limits the time of the envelope.
    fn stream_for(&mut self, bytes: &[u8]) -> Option<Pin<&mut S>> {
        if bytes.starts_with(HTTP1)
            && !self.activity.state().reply_due
            && let Some(stream) = self.stream.take()
        {
            self.activity.head_refused();
            self.refusal = Some(Box::pin(send_last(stream, envelope(status_of(bytes), self.logged))));
        }
        self.stream.as_mut().map(Pin::new)
    }

    fn record(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Ok(1..)) => self.activity.wrote(Instant::now()),
            Poll::Pending => self.activity.blocked(Instant::now()),
            Poll::Ready(_) => {}
        }
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ConnectionStream<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let Some(stream) = &mut this.stream else { return Poll::Ready(Ok(())) };
        let before = buffer.filled().len();
        ready!(Pin::new(stream).poll_read(cx, buffer))?;
        if buffer.filled().len() > before {
            this.activity.read(Instant::now());
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> AsyncWrite for ConnectionStream<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let Some(stream) = this.stream_for(bytes) else { return Poll::Ready(Ok(bytes.len())) };
        let written = stream.poll_write(cx, bytes);
        this.record(written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let Some(stream) = this.stream_for(slices.first().map_or(&[], |first| first)) else {
            return Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()));
        };
        let written = stream.poll_write_vectored(cx, slices);
        this.record(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.as_ref().is_some_and(AsyncWrite::is_write_vectored)
    }

    // hyper flushes when its own buffer is empty, so complete replies are written by then. A socket is ready to flush even
    // while it accepts no bytes, so nothing is recorded.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Some(stream) = &mut this.stream {
            ready!(Pin::new(stream).poll_flush(cx))?;
        }
        this.activity.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Some(refusal) = &mut this.refusal {
            let sent = ready!(refusal.as_mut().poll(cx));
            this.refusal = None;
            return Poll::Ready(sent);
        }
        this.stream.as_mut().map_or(Poll::Ready(Ok(())), |stream| Pin::new(stream).poll_shutdown(cx))
    }
}

/// Sends the last reply of a connection, then reads and drops the rest of the client's bytes: closing a socket with bytes unread resets the
/// connection, and the reply with it. The caller limits the time.
pub(crate) async fn send_last(mut stream: impl AsyncRead + AsyncWrite + Unpin, reply: Bytes) -> io::Result<()> {
    stream.write_all(&reply).await?;
    stream.shutdown().await?;
    tokio::io::copy(&mut stream, &mut tokio::io::sink()).await.map(drop)
}

/// The status in the first line of a reply.
fn status_of(reply: &[u8]) -> Option<u16> {
    std::str::from_utf8(reply.get(9..12)?).ok()?.parse().ok()
}

/// The envelope instead of a reply with `status`; counted and logged.
fn envelope(status: Option<u16>, logged: bool) -> Bytes {
    let error = match status {
        // 414 and 431: a target that is too long makes the head too large.
        Some(414 | 431) => too_large(),
        Some(_) | None => ApiError::new(ErrorCode::InvalidParameter, "the request is not well-formed HTTP/1.1"),
    };
    let id = request_id::from_headers(&HeaderMap::new());
    let status = error.code.status().as_u16();
    error.log();
    metrics::request_finished("unknown", status, Duration::ZERO);
    if logged {
        info!(request_id = id, status, "head refused");
    } else {
        debug!(request_id = id, status, "head refused");
    }
    http1(error, &id)
}

/// An error as the last reply of an HTTP/1.1 connection, where no request could be read.
pub(crate) fn http1(error: ApiError, id: &str) -> Bytes {
    let status = error.code.status();
    let Ok(body) = error.into_reply(id).into_body().collect().now_or_never().expect("envelopes are in memory");
    let body = body.to_bytes();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{REQUEST_ID}: {id}\r\n{VERSION}: {version}\r\n\
         cache-control: no-store\r\nx-content-type-options: nosniff\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n",
        version = env!("CARGO_PKG_VERSION"),
        length = body.len(),
    );
    [head.as_bytes(), &body].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Version;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    const OWN: &[u8] = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\n\r\n";

    /// What the client receives of `bytes`, written in state `prepared`.
    async fn received(bytes: &[u8], prepare: impl FnOnce(&Activity)) -> String {
        let (near, mut far) = tokio::io::duplex(1 << 16);
        let activity = Activity::new(Instant::now());
        prepare(&activity);
        let mut stream = ConnectionStream::new(near, activity, false);
        stream.write_all(bytes).await.expect("room");
        let receiving = async move {
            let mut received = String::new();
            far.read_to_string(&mut received).await.expect("text");
            received
        };
        let (ended, received) = tokio::join!(stream.shutdown(), receiving);
        ended.expect("read to its end");
        received
    }

    #[tokio::test]
    async fn replies_of_the_service_pass_and_refusals_of_hyper_become_envelopes() {
        let plain = String::from_utf8(OWN.to_vec()).expect("text");
        let due = received(OWN, |activity| drop(activity.begin(Version::HTTP_11))).await;
        assert_eq!(due, plain, "a reply that is not flushed yet");
        let frames = received(b"\0\0\0\x04\0\0\0\0\0", |_| {}).await;
        assert_eq!(frames, "\0\0\0\x04\0\0\0\0\0", "settings of HTTP/2");
        let activity = Activity::new(Instant::now());
        let busy = activity.begin(Version::HTTP_11);
        activity.flushed();
        assert!(activity.state().reply_due, "a pending reply is due after a flush too");
        drop(busy);
        for replaced in [
            received(OWN, |_| {}).await,
            received(OWN, |activity| {
                drop(activity.begin(Version::HTTP_11));
                activity.flushed();
            })
            .await,
        ] {
            assert!(replaced.starts_with("HTTP/1.1 431 Request Header Fields Too Large\r\n"), "{replaced}");
            assert!(replaced.contains(r#""code":"headers_too_large""#) && !replaced.contains(&plain), "{replaced}");
        }
    }

    #[test]
    fn the_status_of_a_refusal_maps_to_its_code() {
        for (line, code) in [
            ("HTTP/1.1 400 Bad Request", "\"invalid_parameter\""),
            ("HTTP/1.0 414 URI Too Long", "\"headers_too_large\""),
            ("HTTP/1.1 431 Request Header Fields Too Large", "\"headers_too_large\""),
            ("HTTP/1.1 ", "\"invalid_parameter\""),
        ] {
            let envelope = envelope(status_of(line.as_bytes()), false);
            assert!(String::from_utf8_lossy(&envelope).contains(code), "{line}");
        }
    }
}
