//! Write progress of a reply, and the reset of HTTP/2 streams whose replies are not taken.
//!
//! A client that never opens its flow-control window stops one stream without stopping its connection. hyper does not
//! poll a body meanwhile, so the body itself cannot end it: the task of the stream is dropped instead, and h2 discards
//! what it has buffered for the stream and sends `RST_STREAM` (`CANCEL`). `connection.rs` closes connections whose socket
//! takes nothing.
//!
//! Slow readers are served: a reply is stalled only when fewer than [`LEAST`] of its bytes, and not the rest of what was
//! handed over, left for the socket within the timeout (Kestrel's `MinResponseDataRate` has the same purpose).

use bytes::{Buf, Bytes};
use hyper::rt::Executor;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// Bytes that count as progress; in 30 s that is 137 bytes a second.
const LEAST: usize = 4096;

tokio::task_local! {
    static OF_STREAM: Arc<Progress>;
}

/// Bytes of one reply that the connection was given and has not written yet.
#[derive(Debug)]
pub(super) struct Progress(Mutex<Marks>);

#[derive(Debug)]
struct Marks {
    pending: usize,
    /// Of them, written since the last mark.
    written: usize,
    last_progress: Instant,
    waker: Option<Waker>,
}

impl Progress {
    fn new() -> Arc<Self> {
        let last_progress = Instant::now();
        Arc::new(Self(Mutex::new(Marks { pending: 0, written: 0, last_progress, waker: None })))
    }

    /// Of the HTTP/2 stream whose task this is; on HTTP/1.1, where the connection is watched, one of its own.
    pub(super) fn of_stream() -> Arc<Self> {
        OF_STREAM.try_with(Arc::clone).unwrap_or_else(|_| Self::new())
    }

    fn marks(&self) -> MutexGuard<'_, Marks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `bytes` as the connection is given them, which are counted until they are written or dropped.
    pub(super) fn piece(self: &Arc<Self>, bytes: Bytes) -> Piece {
        self.given(bytes.len(), Instant::now());
        Piece { bytes, progress: Arc::clone(self) }
    }

    fn given(&self, bytes: usize, now: Instant) {
        let mut marks = self.marks();
        if marks.pending == 0 {
            marks.written = 0;
            marks.last_progress = now;
        }
        marks.pending += bytes;
    }

    fn written(&self, bytes: usize, now: Instant) {
        let mut marks = self.marks();
        marks.pending -= bytes;
        marks.written += bytes;
        if marks.written >= LEAST {
            marks.written = 0;
            marks.last_progress = now;
        }
        let waker = if marks.pending == 0 { marks.waker.take() } else { None };
        drop(marks);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Whether nothing is pending.
    pub(super) fn is_written(&self) -> bool {
        self.marks().pending == 0
    }

    /// Ready when nothing is pending.
    pub(super) fn poll_written(&self, cx: &Context<'_>) -> Poll<()> {
        let mut marks = self.marks();
        if marks.pending == 0 {
            return Poll::Ready(());
        }
        marks.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// When it is stalled, unless bytes are written until then.
    fn stalled_at(&self, timeout: Duration) -> Option<Instant> {
        let marks = self.marks();
        (marks.pending > 0).then(|| marks.last_progress + timeout)
    }

    /// Ends when it is stalled.
    async fn stalled(&self, timeout: Duration) {
        loop {
            match self.stalled_at(timeout) {
                Some(at) if at <= Instant::now() => return,
                Some(at) => sleep_until(at).await,
                // What is given from now on is stalled no sooner than that.
                None => sleep(timeout).await,
            }
        }
    }
}

/// A piece of a reply in the connection's buffers.
#[derive(Debug)]
pub(super) struct Piece {
    bytes: Bytes,
    progress: Arc<Progress>,
}

impl Buf for Piece {
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

impl Drop for Piece {
    fn drop(&mut self) {
        if !self.bytes.is_empty() {
            self.progress.written(self.bytes.len(), Instant::now());
        }
    }
}

/// Runs the tasks of HTTP/2 streams, each until it ends or its reply is stalled.
#[derive(Clone, Debug)]
pub(super) struct StreamExecutor {
    pub(super) reply_timeout: Duration,
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
                () = progress.stalled(timeout) => tracing::debug!("a reply was not taken; its stream is reset"),
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
        assert_eq!(progress.stalled_at(TIMEOUT), None, "nothing was given yet");
        progress.given(10_000, after(5));
        assert_eq!(progress.stalled_at(TIMEOUT), Some(after(35)));
        progress.written(LEAST - 1, after(20));
        assert_eq!(progress.stalled_at(TIMEOUT), Some(after(35)), "a few bytes do not prolong it");
        progress.written(1, after(30));
        assert_eq!(progress.stalled_at(TIMEOUT), Some(after(60)));
        progress.written(10_000 - LEAST, after(40));
        assert_eq!(progress.stalled_at(TIMEOUT), None, "all was written");
        progress.given(1, after(500));
        assert_eq!(progress.stalled_at(TIMEOUT), Some(after(530)), "the wait for more bytes does not count");
    }

    #[test]
    fn a_piece_counts_until_it_is_written_or_dropped() {
        let progress = Progress::new();
        let pending = || progress.marks().pending;
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
