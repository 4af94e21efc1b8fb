//! Graceful shutdown of one listener: serving, draining, closing.
//!
//! While it drains, requests under way are completed and every further one is answered 503 with `Retry-After` and
//! `connection: close`, on connections that are open as on new ones: a client then asks another daemon, where a
//! connection that is cut would leave open whether its request was done. Draining ends with the last request under way,
//! or with the grace period; then the listener closes, and idle connections with it.

use super::error::ApiError;
use tokio::sync::watch;

/// How far the shutdown of a listener is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Serving,
    Draining,
    /// Connections end when they are idle.
    Closing,
}

/// The phase of one listener, and its requests under way.
#[derive(Debug)]
pub(super) struct Drain {
    /// Whether requests are refused from the end of [`Phase::Serving`] on.
    refuses: bool,
    phase: watch::Sender<Phase>,
    /// Has a receiver for each request under way.
    under_way: watch::Sender<()>,
}

/// A request is under way as long as this lives.
#[derive(Debug)]
pub(super) struct UnderWay(#[expect(dead_code, reason = "it is counted by its existence")] watch::Receiver<()>);

impl Drain {
    pub(super) fn new(refuses: bool) -> Self {
        Self { refuses, phase: watch::Sender::new(Phase::Serving), under_way: watch::Sender::new(()) }
    }

    /// For one connection, which acts on changes.
    pub(super) fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// Whether further requests are refused.
    pub(super) fn is_refusing(&self) -> bool {
        self.refuses && *self.phase.borrow() != Phase::Serving
    }

    /// Counts a request as under way; 503 from the beginning of the drain on.
    pub(super) fn admit(&self) -> Result<UnderWay, ApiError> {
        if self.is_refusing() {
            return Err(ApiError::unavailable("the service is shutting down").closing());
        }
        Ok(UnderWay(self.under_way.subscribe()))
    }

    /// Refuses requests from now on; ends when none is under way.
    pub(super) async fn drain(&self) {
        self.phase.send_replace(Phase::Draining);
        self.under_way.closed().await;
    }

    /// Ends connections from now on.
    pub(super) fn close(&self) {
        self.phase.send_replace(Phase::Closing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn draining_ends_with_the_last_request_that_came_before() {
        let drain = Drain::new(true);
        let (one, other) = (drain.admit().expect("serving"), drain.admit().expect("serving"));
        let mut drained = Box::pin(drain.drain());
        assert!(drained.as_mut().now_or_never().is_none());
        let refused = drain.admit().expect_err("draining").into_reply("req_1");
        assert_eq!(refused.status(), 503);
        assert_eq!(refused.headers()["retry-after"], "5");
        assert_eq!(refused.headers()["connection"], "close");
        drop(one);
        assert!(drained.as_mut().now_or_never().is_none());
        drop(other);
        assert!(drained.as_mut().now_or_never().is_some());
        drain.close();
        assert!(drain.admit().is_err());
    }

    #[tokio::test]
    async fn a_listener_that_does_not_drain_answers_to_its_end() {
        let drain = Drain::new(false);
        drain.close();
        assert!(drain.admit().is_ok() && !drain.is_refusing());
        assert_eq!(*drain.phase().borrow(), Phase::Closing);
    }
}
