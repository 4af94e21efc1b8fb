//! Timeouts of one connection: slow request head, idle, reply not read.
//!
//! hyper's own header timeout also ends kept-alive connections that are merely idle, and does not cover a client that
//! connects and sends nothing, reads its reply a byte a minute, or idles on HTTP/2. So the stream itself records when bytes
//! move, the service records which requests are in flight, and a connection is closed when
//!
//! * the head of a request takes longer than `header_timeout` (slow-loris), counted from the connection's beginning for its
//!   first request (its TLS handshake included), or
//! * nothing moved for `idle_timeout` while no request was in flight; on HTTP/2, where pings, settings and window updates
//!   move without any request, only requests and their replies count, or
//! * there was something to write and the socket accepted none of it for `reply_timeout`, requests in flight or not.
//!
//! HTTP/2 streams whose replies are not read while the connection lives are reset by `write_progress.rs`.

use crate::http::config::HttpConfig;
use hyper::Version;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The activity of a connection, shared by its stream, its service and its timeouts.
#[derive(Clone, Debug)]
pub(crate) struct Activity(Arc<Mutex<ActivityState>>);

#[derive(Debug)]
struct ActivityState {
    /// Requests in flight, including those whose unread body is being drained.
    busy: usize,
    /// Since when at least one is.
    busy_since: Instant,
    last_moved: Instant,
    /// Since when the head of a request is arriving.
    head_since: Option<Instant>,
    /// On HTTP/2 bytes between requests are pings and window updates, not the slow head of a request.
    http2: bool,
    /// Those of the requests in flight that are answered and whose unread body is being drained.
    lingering: usize,
    /// Since when the socket accepts no bytes.
    blocked_since: Option<Instant>,
    /// It has carried a request.
    begun: bool,
    /// A request has arrived whose reply may not be written yet.
    reply_due: bool,
    /// A request on it had a valid key.
    authenticated: bool,
}

/// Counts a request as in flight while it exists.
#[derive(Debug)]
pub(crate) struct RequestGuard(Activity);

/// The same for a request that is answered, whose unread body is being drained.
#[derive(Debug)]
pub(crate) struct LingerGuard(RequestGuard);

impl Activity {
    pub(crate) fn new(now: Instant) -> Self {
        let state = ActivityState {
            busy: 0,
            busy_since: now,
            last_moved: now,
            head_since: Some(now),
            http2: false,
            lingering: 0,
            blocked_since: None,
            begun: false,
            reply_due: false,
            authenticated: false,
        };
        Self(Arc::new(Mutex::new(state)))
    }

    fn lock(&self) -> MutexGuard<'_, ActivityState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The head of a request is complete.
    pub(crate) fn begin(&self, version: Version) -> RequestGuard {
        let mut state = self.lock();
        if state.busy == 0 {
            state.busy_since = Instant::now();
        }
        state.busy += 1;
        state.begun = true;
        state.reply_due = true;
        state.head_since = None;
        state.http2 |= version == Version::HTTP_2;
        RequestGuard(self.clone())
    }

    fn read(&self, now: Instant) {
        let mut state = self.lock();
        if state.http2 {
            return;
        }
        state.last_moved = now;
        if state.busy == 0 {
            state.head_since.get_or_insert(now);
        }
    }

    fn wrote(&self, now: Instant) {
        let mut state = self.lock();
        state.blocked_since = None;
        if !state.http2 {
            state.last_moved = now;
        }
    }

    /// All bytes were handed to the socket.
    pub(crate) fn flushed(&self) {
        let mut state = self.lock();
        state.reply_due &= state.busy != state.lingering;
    }

    /// Whether written bytes can be a reply of the service.
    pub(crate) fn is_reply_due(&self) -> bool {
        self.lock().reply_due
    }

    /// A head was refused before it became a request. The head timeout applies until the connection ends.
    pub(crate) fn head_refused(&self) {
        self.lock().head_since.get_or_insert_with(Instant::now);
    }

    /// The socket accepted no bytes.
    fn blocked(&self, now: Instant) {
        self.lock().blocked_since.get_or_insert(now);
    }

    /// When bytes last moved; `None` while a request is not answered or a reply is unsent.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        let state = self.lock();
        (state.busy == state.lingering && state.blocked_since.is_none()).then_some(state.last_moved)
    }

    /// The beginning of the current or last period with requests in flight.
    pub(crate) fn busy_since(&self) -> Instant {
        self.lock().busy_since
    }

    /// Whether it has carried a request.
    pub(crate) fn has_begun(&self) -> bool {
        self.lock().begun
    }

    /// Whether it has carried a request of HTTP/2.
    pub(crate) fn is_http2(&self) -> bool {
        self.lock().http2
    }

    /// Whether a request had a valid key.
    pub(crate) fn is_authenticated(&self) -> bool {
        self.lock().authenticated
    }

    fn is_expired(
        &self,
        now: Instant,
        header_timeout: Duration,
        idle_timeout: Duration,
        reply_timeout: Duration,
    ) -> bool {
        let state = self.lock();
        let unread = state.blocked_since.is_some_and(|since| now.saturating_duration_since(since) >= reply_timeout);
        let slow_head = state.head_since.is_some_and(|since| now.saturating_duration_since(since) >= header_timeout);
        let idle = now.saturating_duration_since(state.last_moved) >= idle_timeout;
        unread || (state.busy == 0 && (slow_head || idle))
    }

    /// Resolves when a timeout of the connection expires.
    pub(crate) async fn timed_out(&self, config: &HttpConfig) {
        let (header, idle, reply) = (config.header_timeout, config.idle_timeout, config.reply_timeout);
        let tick = (header.min(idle).min(reply) / 8).max(Duration::from_millis(5));
        while !self.is_expired(Instant::now(), header, idle, reply) {
            tokio::time::sleep(tick).await;
        }
    }
}

impl RequestGuard {
    /// The request has a valid key.
    pub(crate) fn mark_authenticated(&self) {
        self.0.lock().authenticated = true;
    }

    /// The request is answered; only the rest of its body is still drained.
    pub(crate) fn lingering(self) -> LingerGuard {
        self.0.lock().lingering += 1;
        LingerGuard(self)
    }
}

impl Drop for LingerGuard {
    fn drop(&mut self) {
        self.0.0.lock().lingering -= 1;
    }
}

impl Clone for RequestGuard {
    fn clone(&self) -> Self {
        self.0.lock().busy += 1;
        Self(self.0.clone())
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.busy -= 1;
        state.last_moved = Instant::now();
    }
}

/// A stream that records when bytes move.
#[derive(Debug)]
pub(crate) struct TimedStream<S> {
    stream: S,
    activity: Activity,
}

impl<S> TimedStream<S> {
    pub(crate) fn new(stream: S, activity: Activity) -> Self {
        Self { stream, activity }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedStream<S> {
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

impl<S: AsyncWrite + Unpin> TimedStream<S> {
    fn record(&self, written: Poll<std::io::Result<usize>>) -> Poll<std::io::Result<usize>> {
        match written {
            Poll::Ready(Ok(1..)) => self.activity.wrote(Instant::now()),
            Poll::Pending => self.activity.blocked(Instant::now()),
            Poll::Ready(_) => {}
        }
        written
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedStream<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.record(written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, slices);
        this.record(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    // A socket has no buffer of its own to flush: it is ready even while it accepts no bytes, so nothing is recorded.
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
    const REPLY: Duration = Duration::from_secs(30);

    #[test]
    fn a_new_connection_must_send_its_first_head_in_time() {
        let start = Instant::now();
        let activity = Activity::new(start);
        activity.read(start + Duration::from_secs(9));
        assert!(!activity.is_expired(start + Duration::from_millis(9_999), HEADER, IDLE, REPLY));
        assert!(activity.is_expired(start + HEADER, HEADER, IDLE, REPLY), "single bytes do not extend it");
    }

    #[test]
    fn a_request_in_flight_keeps_its_connection() {
        let start = Instant::now();
        let activity = Activity::new(start);
        let busy = activity.begin(Version::HTTP_11);
        assert!(!activity.is_expired(start + 10 * IDLE, HEADER, IDLE, REPLY));
        drop(busy);
        let end = Instant::now();
        assert!(!activity.is_expired(end + HEADER, HEADER, IDLE, REPLY), "idle between requests is not a slow head");
        assert!(activity.is_expired(end + IDLE, HEADER, IDLE, REPLY));
    }

    #[test]
    fn later_heads_have_a_timeout_of_their_own_except_on_http2() {
        for (version, slow) in [(Version::HTTP_11, true), (Version::HTTP_2, false)] {
            let activity = Activity::new(Instant::now());
            drop(activity.begin(version));
            let later = Instant::now() + Duration::from_secs(60);
            activity.read(later);
            assert_eq!(activity.is_expired(later + HEADER, HEADER, IDLE, REPLY), slow, "{version:?}");
        }
    }

    #[test]
    fn frames_without_a_request_keep_no_http2_connection() {
        for (version, kept) in [(Version::HTTP_11, true), (Version::HTTP_2, false)] {
            let activity = Activity::new(Instant::now());
            drop(activity.begin(version));
            let end = Instant::now();
            activity.read(end + IDLE / 2);
            activity.wrote(end + IDLE / 2);
            activity.lock().head_since = None;
            assert_eq!(!activity.is_expired(end + IDLE, HEADER, IDLE, REPLY), kept, "{version:?}");
        }
    }

    #[test]
    fn a_connection_that_reads_nothing_of_a_reply_is_closed() {
        let start = Instant::now();
        let activity = Activity::new(start);
        let _busy = activity.begin(Version::HTTP_11);
        activity.blocked(start);
        activity.blocked(start + REPLY / 2);
        assert!(!activity.is_expired(start + REPLY - Duration::from_millis(1), HEADER, IDLE, REPLY));
        assert!(activity.is_expired(start + REPLY, HEADER, IDLE, REPLY), "a request in flight does not keep it");
        activity.wrote(start + REPLY);
        assert!(!activity.is_expired(start + 2 * REPLY, HEADER, IDLE, REPLY), "some bytes were accepted");
    }
}
