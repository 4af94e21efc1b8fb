//! Detects that a daemon is idle, so that it can end and be started again by the next connection (socket activation).
//!
//! Idle means no connection on the public listener, no unfinished job, no webhook to send, no result of a job to delete, and no
//! bulk run to process or lead. A connection that arrives later stays in the backlog of the socket, which the service
//! manager holds too, and starts the next daemon.

use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// Resolves when `open`, the number of connections, was 0 for `after` and `is_busy` is false; never, without `after`.
pub(crate) async fn idle_for<B: Future<Output = bool>>(
    after: Option<Duration>,
    mut open: watch::Receiver<usize>,
    is_busy: impl Fn() -> B,
) {
    let idle = async {
        let after = after?;
        loop {
            open.wait_for(|open| *open == 0).await.ok()?;
            // Not the value itself, which locks the channel.
            match timeout(after, open.wait_for(|open| *open > 0)).await.map(|open| open.map(drop)) {
                Ok(connected) => connected.ok()?,
                // A connection may have arrived since.
                Err(_) if !is_busy().await && *open.borrow() == 0 => return Some(()),
                Err(_) => {}
            }
        }
    };
    // Without a time, or after the end of the listener, it is never idle.
    if idle.await.is_none() {
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const AFTER: Option<Duration> = Some(Duration::from_millis(1));

    #[tokio::test]
    async fn a_daemon_is_idle_after_the_last_connection_and_the_last_job() {
        let (open, calls) = (watch::Sender::new(1), AtomicUsize::new(0));
        // A job is unfinished at the first call, and a connection arrives during the second one.
        let is_busy = || {
            let call = calls.fetch_add(1, Ordering::Relaxed);
            open.send_replace(usize::from(call == 1));
            async move { call == 0 }
        };
        let mut connections = open.subscribe();
        let clients = async {
            assert_eq!(calls.load(Ordering::Relaxed), 0, "a connection is open");
            open.send_replace(0);
            connections.wait_for(|open| *open > 0).await.expect("it is there");
            open.send_replace(0);
        };
        tokio::join!(idle_for(AFTER, open.subscribe(), is_busy), clients);
        assert_eq!(calls.load(Ordering::Relaxed), 3);
    }

    #[tokio::test]
    async fn without_the_setting_or_a_listener_a_daemon_is_never_idle() {
        let open = watch::Sender::new(0);
        assert!(idle_for(None, open.subscribe(), || async { false }).now_or_never().is_none());
        let ended = open.subscribe();
        drop(open);
        assert!(idle_for(AFTER, ended, || async { false }).now_or_never().is_none());
    }
}
