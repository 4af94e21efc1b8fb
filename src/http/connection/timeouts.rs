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
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The activity of a connection, shared by its stream, its service and its timeouts.
#[derive(Clone, Debug)]
pub(crate) struct Activity(Arc<Mutex<ActivityState>>);

/// The state of a connection's activity at one time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ActivityState {
    /// Requests in flight, including those whose unread body is being drained.
    busy: usize,
    /// The beginning of the current or last period with requests in flight.
    pub(super) busy_since: Instant,
    last_moved: Instant,
    /// Since when the head of a request is arriving.
    head_since: Option<Instant>,
    /// It has carried a request of HTTP/2, where bytes between requests are pings and window updates, not the slow head of a request.
    pub(super) http2: bool,
    /// Answered requests whose unread body is being drained; `busy` includes them.
    lingering: usize,
    /// Since when the socket accepts no bytes.
    blocked_since: Option<Instant>,
    /// It has carried a request.
    pub(super) begun: bool,
    /// A request has arrived whose reply may not be written yet.
    pub(super) reply_due: bool,
    /// A request on it had a valid key.
    pub(super) authenticated: bool,
}

/// Counts a request as in flight while it exists.
#[derive(Debug)]
pub(crate) struct RequestGuard {
    activity: Activity,
    is_lingering: bool,
}

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
        RequestGuard { activity: self.clone(), is_lingering: false }
    }

    /// Bytes were read.
    pub(super) fn read(&self, now: Instant) {
        let mut state = self.lock();
        if state.http2 {
            return;
        }
        state.last_moved = now;
        if state.busy == 0 {
            state.head_since.get_or_insert(now);
        }
    }

    /// The socket accepted bytes.
    pub(super) fn wrote(&self, now: Instant) {
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

    /// A head was refused before it became a request. The head timeout applies until the connection ends.
    pub(crate) fn head_refused(&self) {
        self.lock().head_since.get_or_insert_with(Instant::now);
    }

    /// The socket accepted no bytes.
    pub(super) fn blocked(&self, now: Instant) {
        self.lock().blocked_since.get_or_insert(now);
    }

    /// The present state.
    pub(super) fn state(&self) -> ActivityState {
        *self.lock()
    }

    fn is_expired(&self, now: Instant, config: &HttpConfig) -> bool {
        let state = self.lock();
        let lasts = |since: Instant, timeout: Duration| now.saturating_duration_since(since) >= timeout;
        let unread = state.blocked_since.is_some_and(|since| lasts(since, config.reply_timeout));
        let slow_head = state.head_since.is_some_and(|since| lasts(since, config.header_timeout));
        unread || (state.busy == 0 && (slow_head || lasts(state.last_moved, config.idle_timeout)))
    }

    /// Resolves when a timeout of the connection expires.
    pub(crate) async fn timed_out(&self, config: &HttpConfig) {
        let shortest = config.header_timeout.min(config.idle_timeout).min(config.reply_timeout);
        while !self.is_expired(Instant::now(), config) {
            tokio::time::sleep((shortest / 8).max(Duration::from_millis(5))).await;
        }
    }
}

impl ActivityState {
    /// When bytes last moved; `None` while a request is not answered or a reply is unsent.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        (self.busy == self.lingering && self.blocked_since.is_none()).then_some(self.last_moved)
    }
}

impl RequestGuard {
    /// The request has a valid key.
    pub(crate) fn mark_authenticated(&self) {
        self.activity.lock().authenticated = true;
    }

    /// The request is answered; only the rest of its body is still drained.
    pub(crate) fn lingering(mut self) -> Self {
        self.activity.lock().lingering += 1;
        self.is_lingering = true;
        self
    }
}

impl Clone for RequestGuard {
    fn clone(&self) -> Self {
        self.activity.lock().busy += 1;
        Self { activity: self.activity.clone(), is_lingering: false }
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let mut state = self.activity.lock();
        state.busy -= 1;
        state.lingering -= usize::from(self.is_lingering);
        state.last_moved = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Duration = Duration::from_secs(10);
    const IDLE: Duration = Duration::from_secs(75);

    fn is_expired(activity: &Activity, now: Instant) -> bool {
        let timeouts = HttpConfig { header_timeout: HEADER, idle_timeout: IDLE, ..HttpConfig::default() };
        activity.is_expired(now, &timeouts)
    }

    #[test]
    fn a_request_in_flight_keeps_its_connection() {
        let start = Instant::now();
        let activity = Activity::new(start);
        let busy = activity.begin(Version::HTTP_11);
        assert!(!is_expired(&activity, start + 10 * IDLE));
        drop(busy);
        let end = Instant::now();
        assert!(!is_expired(&activity, end + HEADER), "idle between requests is not a slow head");
        assert!(is_expired(&activity, end + IDLE));
    }

    #[test]
    fn later_heads_have_a_timeout_except_on_http2_where_frames_without_a_request_keep_no_connection() {
        for (version, is_http1) in [(Version::HTTP_11, true), (Version::HTTP_2, false)] {
            let activity = Activity::new(Instant::now());
            drop(activity.begin(version));
            let end = Instant::now();
            activity.read(end + IDLE / 2);
            assert_eq!(is_expired(&activity, end + IDLE / 2 + HEADER), is_http1, "a slow head in {version:?}");
            activity.wrote(end + IDLE / 2);
            activity.lock().head_since = None;
            assert_eq!(!is_expired(&activity, end + IDLE), is_http1, "{version:?}");
        }
    }
}
