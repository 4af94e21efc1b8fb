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
    use std::pin::pin;
    use std::sync::atomic::{AtomicBool, Ordering};
    use tokio::time::sleep;

    const MOMENT: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn a_daemon_is_idle_after_the_last_connection_and_the_last_job() {
        let (open, busy) = (watch::Sender::new(1), AtomicBool::new(true));
        let is_busy = || async { busy.load(Ordering::Relaxed) };
        let mut idle = pin!(idle_for(Some(Duration::from_millis(1)), open.subscribe(), is_busy));
        assert!(timeout(MOMENT, &mut idle).await.is_err(), "a connection is open");
        open.send_replace(0);
        assert!(timeout(MOMENT, &mut idle).await.is_err(), "a job is unfinished");
        open.send_replace(1);
        busy.store(false, Ordering::Relaxed);
        assert!(timeout(MOMENT, &mut idle).await.is_err(), "a connection is open again");
        open.send_replace(0);
        idle.await;
    }

    #[tokio::test]
    async fn without_the_setting_or_a_listener_a_daemon_is_never_idle() {
        let open = watch::Sender::new(0);
        assert!(timeout(MOMENT, idle_for(None, open.subscribe(), || async { false })).await.is_err());
        let ended = open.subscribe();
        drop(open);
        sleep(Duration::from_millis(1)).await;
        assert!(timeout(MOMENT, idle_for(Some(Duration::from_millis(1)), ended, || async { false })).await.is_err());
    }
}
