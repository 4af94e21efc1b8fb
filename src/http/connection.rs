//! One connection's clock: when it was last of use, and when to give it up.
//!
//! hyper's own header timeout also ends kept-alive connections that are merely idle, and nothing of it covers a client
//! that connects and says nothing, reads its reply a byte a minute, or idles on HTTP/2. So the stream itself notes when
//! bytes move, the service notes which requests are under way, and a connection is closed when
//!
//! * the head of a request is longer than `header_timeout` on its way (slow-loris), counted from the connection's
//!   beginning for its first request (its TLS handshake included), or
//! * nothing moved for `idle_timeout` while no request was under way.

use super::config::HttpConfig;
use hyper::Version;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The marks that stream, service and watcher share.
#[derive(Clone, Debug)]
pub(super) struct Activity(Arc<Mutex<Marks>>);

#[derive(Debug)]
struct Marks {
    /// Requests under way, unread bodies being taken in included.
    busy: usize,
    last_moved: Instant,
    /// Since when the head of a request is on its way.
    head_since: Option<Instant>,
    /// On HTTP/2 bytes between requests are pings and window updates, not the slow head of a request.
    http2: bool,
}

/// A request is under way as long as this lives.
#[derive(Debug)]
pub(super) struct Busy(Activity);

impl Activity {
    pub(super) fn new(now: Instant) -> Self {
        Self(Arc::new(Mutex::new(Marks { busy: 0, last_moved: now, head_since: Some(now), http2: false })))
    }

    fn marks(&self) -> MutexGuard<'_, Marks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The head of a request is complete.
    pub(super) fn begin(&self, version: Version) -> Busy {
        let mut marks = self.marks();
        marks.busy += 1;
        marks.head_since = None;
        marks.http2 |= version == Version::HTTP_2;
        Busy(self.clone())
    }

    fn read(&self, now: Instant) {
        let mut marks = self.marks();
        marks.last_moved = now;
        if marks.busy == 0 && !marks.http2 {
            marks.head_since.get_or_insert(now);
        }
    }

    fn wrote(&self, now: Instant) {
        self.marks().last_moved = now;
    }

    fn is_over(&self, now: Instant, header_timeout: Duration, idle_timeout: Duration) -> bool {
        let marks = self.marks();
        let slow_head = marks.head_since.is_some_and(|since| now.saturating_duration_since(since) >= header_timeout);
        let idle = now.saturating_duration_since(marks.last_moved) >= idle_timeout;
        marks.busy == 0 && (slow_head || idle)
    }

    /// Ends when the connection is to be given up.
    pub(super) async fn over(&self, config: &HttpConfig) {
        let tick = (config.header_timeout.min(config.idle_timeout) / 8).max(Duration::from_millis(5));
        while !self.is_over(Instant::now(), config.header_timeout, config.idle_timeout) {
            tokio::time::sleep(tick).await;
        }
    }
}

impl Clone for Busy {
    fn clone(&self) -> Self {
        self.0.marks().busy += 1;
        Self(self.0.clone())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut marks = self.0.marks();
        marks.busy -= 1;
        marks.last_moved = Instant::now();
    }
}

/// A stream that notes when bytes move.
#[derive(Debug)]
pub(super) struct Watched<S> {
    stream: S,
    activity: Activity,
}

impl<S> Watched<S> {
    pub(super) fn new(stream: S, activity: Activity) -> Self {
        Self { stream, activity }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buf))?;
        if buf.filled().len() > before {
            this.activity.read(Instant::now());
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> Watched<S> {
    fn noted(&self, written: Poll<std::io::Result<usize>>) -> Poll<std::io::Result<usize>> {
        if matches!(written, Poll::Ready(Ok(1..))) {
            self.activity.wrote(Instant::now());
        }
        written
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.noted(written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, slices);
        this.noted(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Duration = Duration::from_secs(10);
    const IDLE: Duration = Duration::from_secs(75);

    #[test]
    fn a_new_connection_must_send_its_first_head_in_time() {
        let start = Instant::now();
        let activity = Activity::new(start);
        activity.read(start + Duration::from_secs(9));
        assert!(!activity.is_over(start + Duration::from_millis(9_999), HEADER, IDLE));
        assert!(activity.is_over(start + HEADER, HEADER, IDLE), "a byte now and then must not prolong it");
    }

    #[test]
    fn a_request_under_way_is_never_given_up() {
        let start = Instant::now();
        let activity = Activity::new(start);
        let busy = activity.begin(Version::HTTP_11);
        assert!(!activity.is_over(start + 10 * IDLE, HEADER, IDLE));
        drop(busy);
        let end = Instant::now();
        assert!(!activity.is_over(end + HEADER, HEADER, IDLE), "idle between requests is not a slow head");
        assert!(activity.is_over(end + IDLE, HEADER, IDLE));
    }

    #[test]
    fn the_second_head_has_its_own_clock_and_http2_has_none() {
        for (version, slow) in [(Version::HTTP_11, true), (Version::HTTP_2, false)] {
            let activity = Activity::new(Instant::now());
            drop(activity.begin(version));
            let later = Instant::now() + Duration::from_secs(60);
            activity.read(later);
            assert_eq!(activity.is_over(later + HEADER, HEADER, IDLE), slow, "{version:?}");
        }
    }
}
