//! Ctrl-C and SIGTERM: the first drains, the second ends.

use crate::bulk::Stop;
use std::io;

/// A request to stop that the first signal makes. The second ends the process: everything that is done is in the report
/// already.
pub(super) fn on_signals() -> io::Result<Stop> {
    let stop = Stop::default();
    let asked = stop.clone();
    #[cfg(unix)]
    let mut signals = {
        use tokio::signal::unix::{SignalKind, signal};
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        async move || {
            tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
        }
    };
    #[cfg(not(unix))]
    let mut signals = async || {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    tokio::spawn(async move {
        signals().await;
        eprintln!("Finishing the pictures in work; a second Ctrl-C ends at once");
        asked.ask();
        signals().await;
        std::process::exit(2);
    });
    Ok(stop)
}
