//! Waits for Ctrl-C (SIGINT) and SIGTERM: the first stops gracefully, the second at once.

use crate::bulk::StopSignal;
use std::io;
#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that stop a command.
pub(super) struct StopSignals {
    #[cfg(unix)]
    terminate: Signal,
    #[cfg(unix)]
    interrupt: Signal,
}

impl StopSignals {
    /// Installs the handlers.
    pub(super) fn install() -> io::Result<Self> {
        Ok(Self {
            #[cfg(unix)]
            terminate: signal(SignalKind::terminate())?,
            #[cfg(unix)]
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next signal.
    #[cfg(unix)]
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// Waits for the next Ctrl-C.
    #[cfg(not(unix))]
    pub(super) async fn next(&mut self) {
        // Without a handler there is nothing to wait for; the console then ends the process itself.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// A stop signal that the first SIGINT or SIGTERM sets. The second ends the process: everything finished is in the report.
pub(super) fn stop_on_signals() -> io::Result<StopSignal> {
    let stop = StopSignal::default();
    let requested = stop.clone();
    let mut signals = StopSignals::install()?;
    tokio::spawn(async move {
        signals.next().await;
        print_stderr!("Finishing the pictures in progress; a second Ctrl-C ends at once");
        requested.request();
        signals.next().await;
        std::process::exit(2);
    });
    Ok(stop)
}
