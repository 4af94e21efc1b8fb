//! Measures the write progress of replies, and resets HTTP/2 streams whose replies are not read.
//!
//! A client that never opens its flow-control window stops one stream without stopping its connection. hyper does not
//! poll a body meanwhile, so the body itself cannot end it: the task of the stream is dropped instead, and h2 discards
//! its buffers for the stream and sends `RST_STREAM` (`CANCEL`). `timeouts` closes connections whose socket accepts no
//! bytes.
//!
//! Slow readers are served: a reply is stalled only when fewer than [`LEAST`] of its bytes, and fewer than were pending, were
//! written to the socket within the timeout (compare Kestrel's `MinResponseDataRate`).

use super::drain::InFlightRequest;
use super::timeouts::RequestGuard;
use crate::http::reply::ReplyBody;
use bytes::{Buf, Bytes};
use hyper::body::{Body, Frame, SizeHint};
use hyper::rt::Executor;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// Bytes that count as progress; in 30 s that is 137 bytes a second.
const LEAST: usize = 4096;

tokio::task_local! {
    static OF_STREAM: Arc<Progress>;
}

/// The bytes of one reply that are handed to the connection and not written yet.
#[derive(Debug)]
pub(crate) struct Progress(Mutex<ProgressState>);

#[derive(Debug)]
struct ProgressState {
    pending: usize,
    /// Bytes written since `last_progress`.
    written: usize,
    last_progress: Instant,
    waker: Option<Waker>,
}

impl Progress {
    fn new() -> Arc<Self> {
        let last_progress = Instant::now();
        Arc::new(Self(Mutex::new(ProgressState { pending: 0, written: 0, last_progress, waker: None })))
    }

    /// The progress of the current task's HTTP/2 stream; a new one on HTTP/1.1, where the connection has the timeout.
    pub(crate) fn of_stream() -> Arc<Self> {
        OF_STREAM.try_with(Arc::clone).unwrap_or_else(|_| Self::new())
    }

    fn lock(&self) -> MutexGuard<'_, ProgressState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `bytes` as a piece that is counted until it is written or dropped.
    pub(crate) fn piece(self: &Arc<Self>, bytes: Bytes) -> TrackedChunk {
        self.given(bytes.len(), Instant::now());
        TrackedChunk { bytes, progress: Arc::clone(self) }
    }

    fn given(&self, bytes: usize, now: Instant) {
        let mut state = self.lock();
        if state.pending == 0 {
            state.written = 0;
            state.last_progress = now;
        }
        state.pending += bytes;
    }

    fn written(&self, bytes: usize, now: Instant) {
        let mut state = self.lock();
        state.pending -= bytes;
        state.written += bytes;
        if state.written >= LEAST {
            state.written = 0;
            state.last_progress = now;
        }
        let waker = if state.pending == 0 { state.waker.take() } else { None };
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Whether nothing is pending.
    pub(crate) fn is_written(&self) -> bool {
        self.lock().pending == 0
    }

    /// Ready when nothing is pending.
    pub(crate) fn poll_written(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.pending == 0 {
            return Poll::Ready(());
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// When the reply counts as stalled, unless bytes are written before.
    fn stalled_at(&self, timeout: Duration) -> Option<Instant> {
        let state = self.lock();
        (state.pending > 0).then(|| state.last_progress + timeout)
    }

    /// Resolves when the reply is stalled.
    async fn stalled(&self, timeout: Duration) {
        loop {
            match self.stalled_at(timeout) {
                Some(at) if at <= Instant::now() => return,
                Some(at) => sleep_until(at).await,
                // Bytes handed over from now on are stalled no sooner than that.
                None => sleep(timeout).await,
            }
        }
    }
}

/// A piece of a reply in the connection's buffers.
#[derive(Debug)]
pub(crate) struct TrackedChunk {
    bytes: Bytes,
    progress: Arc<Progress>,
}

impl Buf for TrackedChunk {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        self.progress.written(count, Instant::now());
    }
}

impl Drop for TrackedChunk {
    fn drop(&mut self) {
        if !self.bytes.is_empty() {
            self.progress.written(self.bytes.len(), Instant::now());
        }
    }
}

/// Up to this size a body is sent with its end in one HTTP/2 frame.
const SMALL: u64 = 16 * 1024;

/// The body of a reply for hyper: counts its pieces until they are written, and ends after the last is.
#[derive(Debug)]
pub(crate) struct TrackedBody {
    body: ReplyBody,
    progress: Arc<Progress>,
    small: bool,
    ended: bool,
    /// The connection is in use until all of the body is written.
    _busy: RequestGuard,
    /// The request is in flight until then, for the graceful shutdown.
    _in_flight: Option<InFlightRequest>,
}

impl TrackedBody {
    /// To be called within the task of its HTTP/2 stream.
    pub(crate) fn new(body: ReplyBody, busy: RequestGuard, in_flight: Option<InFlightRequest>) -> Self {
        let small = body.size_hint().upper().is_some_and(|most| most <= SMALL);
        Self { body, progress: Progress::of_stream(), small, ended: false, _busy: busy, _in_flight: in_flight }
    }
}

impl Body for TrackedBody {
    type Data = TrackedChunk;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<TrackedChunk>, Infallible>>> {
        let this = self.get_mut();
        if !this.ended {
            if let Some(Ok(frame)) = ready!(Pin::new(&mut this.body).poll_frame(cx)) {
                return Poll::Ready(Some(Ok(frame.map_data(|bytes| this.progress.piece(bytes)))));
            }
            this.ended = true;
        }
        // hyper ends the task of an HTTP/2 stream with the body; bytes unwritten by then could not be reset.
        this.progress.poll_written(cx).map(|()| None)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream() && (self.small || self.progress.is_written())
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Runs the tasks of HTTP/2 streams, each until it ends or its reply is stalled.
#[derive(Clone, Debug)]
pub(crate) struct StreamExecutor {
    pub(crate) reply_timeout: Duration,
}

impl<F> Executor<F> for StreamExecutor
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let (progress, timeout) = (Progress::new(), self.reply_timeout);
        let stream = OF_STREAM.scope(Arc::clone(&progress), stream);
        tokio::spawn(async move {
            tokio::select! {
                () = stream => {}
                () = progress.stalled(timeout) => tracing::debug!("a reply was not read; its stream is reset"),
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(30);

    #[test]
    fn a_reply_is_stalled_when_too_little_of_it_was_written_in_time() {
        let (progress, start) = (Progress::new(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(progress.stalled_at(TIMEOUT), None, "nothing was handed over yet");
        progress.given(10_000, after(5));
        assert_eq!(progress.stalled_at(TIMEOUT), Some(after(35)));
        progress.written(LEAST - 1, after(20));
        assert_eq!(progress.stalled_at(TIMEOUT), Some(after(35)), "a few bytes do not extend it");
        progress.written(1, after(30));
        assert_eq!(progress.stalled_at(TIMEOUT), Some(after(60)));
        progress.written(10_000 - LEAST, after(40));
        assert_eq!(progress.stalled_at(TIMEOUT), None, "all bytes are written");
        progress.given(1, after(500));
        assert_eq!(progress.stalled_at(TIMEOUT), Some(after(530)), "the wait for more bytes does not count");
    }

    #[test]
    fn a_piece_counts_until_it_is_written_or_dropped() {
        let progress = Progress::new();
        let pending = || progress.lock().pending;
        let mut first = progress.piece(Bytes::from_static(b"123456"));
        let second = progress.piece(Bytes::from_static(b"1234"));
        first.advance(4);
        assert_eq!((first.chunk(), pending()), (b"56".as_slice(), 6));
        drop(second);
        assert_eq!(pending(), 2);
        first.advance(2);
        drop(first);
        assert_eq!(pending(), 0);
    }
}
