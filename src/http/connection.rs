//! One connection's clock: when it was last of use, and when to give it up.
//!
//! hyper's own header timeout also ends kept-alive connections that are merely idle, and nothing of it covers a client
//! that connects and says nothing, reads its reply a byte a minute, or idles on HTTP/2. So the stream itself notes when
//! bytes move, the service notes which requests are under way, and a connection is closed when
//!
//! * the head of a request is longer than `header_timeout` on its way (slow-loris), counted from the connection's
//!   beginning for its first request (its TLS handshake included), or
//! * nothing moved for `idle_timeout` while no request was under way; on HTTP/2, where pings, settings and window updates
//!   move without any request, only requests and their replies count, or
//! * there was something to write and the socket took none of it for `reply_timeout`, requests under way or not.
//!
//! HTTP/2 streams whose replies are not taken while the connection lives are reset by `write_progress.rs`.

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
    /// Since when at least one is.
    busy_since: Instant,
    last_moved: Instant,
    /// Since when the head of a request is on its way.
    head_since: Option<Instant>,
    /// On HTTP/2 bytes between requests are pings and window updates, not the slow head of a request.
    http2: bool,
    /// Of the requests under way those that are answered and of which only the unread body is taken in.
    lingering: usize,
    /// Since when the socket takes nothing of what is to be written.
    blocked_since: Option<Instant>,
    /// It has carried a request.
    begun: bool,
    /// A request has arrived whose reply is not known to be written.
    reply_due: bool,
    /// A request on it had a valid key.
    authenticated: bool,
}

/// A request is under way as long as this lives.
#[derive(Debug)]
pub(super) struct Busy(Activity);

/// The same, with nothing left to be answered.
#[derive(Debug)]
pub(super) struct Lingering(Busy);

impl Activity {
    pub(super) fn new(now: Instant) -> Self {
        let marks = Marks {
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
        Self(Arc::new(Mutex::new(marks)))
    }

    fn marks(&self) -> MutexGuard<'_, Marks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The head of a request is complete.
    pub(super) fn begin(&self, version: Version) -> Busy {
        let mut marks = self.marks();
        if marks.busy == 0 {
            marks.busy_since = Instant::now();
        }
        marks.busy += 1;
        marks.begun = true;
        marks.reply_due = true;
        marks.head_since = None;
        marks.http2 |= version == Version::HTTP_2;
        Busy(self.clone())
    }

    fn read(&self, now: Instant) {
        let mut marks = self.marks();
        if marks.http2 {
            return;
        }
        marks.last_moved = now;
        if marks.busy == 0 {
            marks.head_since.get_or_insert(now);
        }
    }

    fn wrote(&self, now: Instant) {
        let mut marks = self.marks();
        marks.blocked_since = None;
        if !marks.http2 {
            marks.last_moved = now;
        }
    }

    /// The socket was given all that was to be written.
    pub(super) fn flushed(&self) {
        let mut marks = self.marks();
        marks.reply_due &= marks.busy != marks.lingering;
    }

    /// Whether what is written can be a reply of the service.
    pub(super) fn is_reply_due(&self) -> bool {
        self.marks().reply_due
    }

    /// A head was refused before it became a request. The clock for heads goes on until the connection ends.
    pub(super) fn head_refused(&self) {
        self.marks().head_since.get_or_insert_with(Instant::now);
    }

    /// The socket took nothing.
    fn blocked(&self, now: Instant) {
        self.marks().blocked_since.get_or_insert(now);
    }

    /// When bytes last moved; nothing while a request is not answered or a reply is unsent.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let marks = self.marks();
        (marks.busy == marks.lingering && marks.blocked_since.is_none()).then_some(marks.last_moved)
    }

    /// Since when requests are under way, or the last ones were.
    pub(super) fn busy_since(&self) -> Instant {
        self.marks().busy_since
    }

    /// Whether it has carried a request.
    pub(super) fn has_begun(&self) -> bool {
        self.marks().begun
    }

    /// Whether it has carried a request of HTTP/2.
    pub(super) fn is_http2(&self) -> bool {
        self.marks().http2
    }

    /// Whether a request had a valid key.
    pub(super) fn is_authenticated(&self) -> bool {
        self.marks().authenticated
    }

    fn is_over(&self, now: Instant, header_timeout: Duration, idle_timeout: Duration, reply_timeout: Duration) -> bool {
        let marks = self.marks();
        let unread = marks.blocked_since.is_some_and(|since| now.saturating_duration_since(since) >= reply_timeout);
        let slow_head = marks.head_since.is_some_and(|since| now.saturating_duration_since(since) >= header_timeout);
        let idle = now.saturating_duration_since(marks.last_moved) >= idle_timeout;
        unread || (marks.busy == 0 && (slow_head || idle))
    }

    /// Ends when the connection is to be given up.
    pub(super) async fn over(&self, config: &HttpConfig) {
        let (header, idle, reply) = (config.header_timeout, config.idle_timeout, config.reply_timeout);
        let tick = (header.min(idle).min(reply) / 8).max(Duration::from_millis(5));
        while !self.is_over(Instant::now(), header, idle, reply) {
            tokio::time::sleep(tick).await;
        }
    }
}

impl Busy {
    /// The request has a valid key.
    pub(super) fn mark_authenticated(&self) {
        self.0.marks().authenticated = true;
    }

    /// The request has its answer; only what is left of its body is still taken in.
    pub(super) fn lingering(self) -> Lingering {
        self.0.marks().lingering += 1;
        Lingering(self)
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        self.0.0.marks().lingering -= 1;
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
        match written {
            Poll::Ready(Ok(1..)) => self.activity.wrote(Instant::now()),
            Poll::Pending => self.activity.blocked(Instant::now()),
            Poll::Ready(_) => {}
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

    // A socket has nothing of its own to flush: it is ready even while it takes no more bytes, so this marks nothing.
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
        assert!(!activity.is_over(start + Duration::from_millis(9_999), HEADER, IDLE, REPLY));
        assert!(activity.is_over(start + HEADER, HEADER, IDLE, REPLY), "a byte now and then must not prolong it");
    }

    #[test]
    fn a_request_under_way_is_never_given_up() {
        let start = Instant::now();
        let activity = Activity::new(start);
        let busy = activity.begin(Version::HTTP_11);
        assert!(!activity.is_over(start + 10 * IDLE, HEADER, IDLE, REPLY));
        drop(busy);
        let end = Instant::now();
        assert!(!activity.is_over(end + HEADER, HEADER, IDLE, REPLY), "idle between requests is not a slow head");
        assert!(activity.is_over(end + IDLE, HEADER, IDLE, REPLY));
    }

    #[test]
    fn the_second_head_has_its_own_clock_and_http2_has_none() {
        for (version, slow) in [(Version::HTTP_11, true), (Version::HTTP_2, false)] {
            let activity = Activity::new(Instant::now());
            drop(activity.begin(version));
            let later = Instant::now() + Duration::from_secs(60);
            activity.read(later);
            assert_eq!(activity.is_over(later + HEADER, HEADER, IDLE, REPLY), slow, "{version:?}");
        }
    }

    #[test]
    fn what_moves_without_a_request_keeps_no_http2_connection() {
        for (version, kept) in [(Version::HTTP_11, true), (Version::HTTP_2, false)] {
            let activity = Activity::new(Instant::now());
            drop(activity.begin(version));
            let end = Instant::now();
            activity.read(end + IDLE / 2);
            activity.wrote(end + IDLE / 2);
            activity.marks().head_since = None;
            assert_eq!(!activity.is_over(end + IDLE, HEADER, IDLE, REPLY), kept, "{version:?}");
        }
    }

    #[test]
    fn a_connection_that_takes_nothing_of_a_reply_is_given_up() {
        let start = Instant::now();
        let activity = Activity::new(start);
        let _busy = activity.begin(Version::HTTP_11);
        activity.blocked(start);
        activity.blocked(start + REPLY / 2);
        assert!(!activity.is_over(start + REPLY - Duration::from_millis(1), HEADER, IDLE, REPLY));
        assert!(activity.is_over(start + REPLY, HEADER, IDLE, REPLY), "a request under way does not keep it");
        activity.wrote(start + REPLY);
        assert!(!activity.is_over(start + 2 * REPLY, HEADER, IDLE, REPLY), "something was taken");
    }
}
