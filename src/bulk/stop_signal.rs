//! A cancellation flag that can be set and awaited from any task.

use std::sync::Arc;
use tokio::sync::watch;

/// Requests the end of a run. Clones share one flag.
#[derive(Clone, Debug)]
pub struct StopSignal(Arc<watch::Sender<bool>>);

impl Default for StopSignal {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }
}

impl StopSignal {
    /// Requests the stop.
    pub fn request(&self) {
        self.0.send_replace(true);
    }

    /// Whether it has been requested.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is requested.
    pub async fn requested(&self) {
        // `self` holds the sender, so there is no error.
        let _ = self.0.subscribe().wait_for(|requested| *requested).await;
    }
}
