//! Stops a test whose work hangs; never a measurement of speed.

use std::sync::mpsc;
use std::time::Duration;

/// Runs `work` on a thread and panics when it has not returned after a minute.
pub(crate) fn within_a_minute<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        // The receiver is gone when the test has given up.
        let _ = sender.send(work());
    });
    match receiver.recv_timeout(Duration::from_secs(60)) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what} has not returned after a minute"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(thread.join().expect_err("the work panicked"))
        }
    }
}

/// Polls until `holds`, and panics after a minute.
#[cfg(unix)]
pub(crate) async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let polls = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), polls).await.expect(what);
}
