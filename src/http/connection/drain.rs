//! The phase of a listener's shutdown (serving, draining, closing), and its requests in flight. `server.rs` acts on it.
//!
//! While it drains, requests in flight are completed and every further one is answered 503 with `Retry-After` and
//! `connection: close`, on open connections and on new ones: a client can then try another daemon, whereas a closed
//! connection would leave it unknown whether its request was processed. Draining ends with the last request in flight or
//! with the grace period; then the listener closes, and idle connections with it.

use crate::http::reply::{ApiError, Result};
use tokio::sync::watch;

/// The phase of a listener's shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Serving,
    Draining,
    /// Connections are closed when they are idle.
    Closing,
}

/// The phase of one listener, and its requests in flight.
#[derive(Debug)]
pub(crate) struct Drain {
    /// Whether requests are refused after [`Phase::Serving`].
    refuses: bool,
    phase: watch::Sender<Phase>,
    /// Has one receiver for each request in flight.
    in_flight: watch::Sender<()>,
}

/// Counts a request as in flight while it exists.
#[derive(Debug)]
pub(crate) struct InFlightRequest(#[expect(dead_code, reason = "it is counted by its existence")] watch::Receiver<()>);

impl Drain {
    pub(crate) fn new(refuses: bool) -> Self {
        Self { refuses, phase: watch::Sender::new(Phase::Serving), in_flight: watch::Sender::new(()) }
    }

    /// A receiver of phase changes, for one connection.
    pub(crate) fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// Whether further requests are refused.
    pub(crate) fn is_refusing(&self) -> bool {
        self.refuses && *self.phase.borrow() != Phase::Serving
    }

    /// Counts a request as in flight; 503 once draining has begun.
    pub(crate) fn admit(&self) -> Result<InFlightRequest> {
        if self.is_refusing() {
            return Err(ApiError::unavailable("the service is shutting down").closing());
        }
        Ok(InFlightRequest(self.in_flight.subscribe()))
    }

    /// Refuses requests from now on; resolves when none is in flight.
    pub(crate) async fn drain(&self) {
        self.phase.send_replace(Phase::Draining);
        self.in_flight.closed().await;
    }

    /// Closes connections from now on.
    pub(crate) fn close(&self) {
        self.phase.send_replace(Phase::Closing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn draining_ends_with_the_last_request_in_flight() {
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
    async fn a_listener_that_does_not_drain_serves_until_it_closes() {
        let drain = Drain::new(false);
        drain.close();
        assert!(drain.admit().is_ok() && !drain.is_refusing());
        assert_eq!(*drain.phase().borrow(), Phase::Closing);
    }
}
