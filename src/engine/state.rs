//! The engine's state and the names of its model and device, shared with health checks and requests.

use super::EngineError;
use crate::telemetry::metrics;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// The state of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EngineState {
    /// The network is being loaded and tested; requests wait.
    Loading,
    /// Serving.
    Ready,
    /// The network is not in memory, because it was idle or panicked; the next request loads it.
    Unloaded,
    /// New requests are refused; those in flight are finished.
    Draining,
    /// The network could not be loaded. It is tried again with the next request, and without requests once a minute.
    Failed,
}

impl EngineState {
    /// Whether a new request will be served.
    #[must_use]
    pub const fn is_serving(self) -> bool {
        match self {
            Self::Ready | Self::Unloaded => true,
            Self::Loading | Self::Draining | Self::Failed => false,
        }
    }
}

/// Reported properties of a network's weights.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WeightsInfo {
    /// Number of parameters.
    pub parameters: u64,
    /// Licence.
    pub licence: String,
}

/// The state, written by the device thread and read by all others.
#[derive(Debug)]
pub(super) struct Status {
    state: watch::Sender<EngineState>,
    loaded: Mutex<Names>,
    /// Whether the network is the built-in one, whose state is the service's.
    is_built_in: bool,
}

/// What is known of the network, and why it could not be loaded.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    pub(super) model: String,
    pub(super) device: String,
    pub(super) side: Option<u32>,
    pub(super) weights: WeightsInfo,
    pub(super) failure: String,
    /// Time of the first failed load after the last successful one.
    failed_since: Option<Instant>,
}

impl Status {
    pub(super) fn new() -> Self {
        Self { state: watch::Sender::new(EngineState::Loading), loaded: Mutex::default(), is_built_in: true }
    }

    /// The status of an added model.
    pub(super) fn of_added() -> Self {
        Self { is_built_in: false, ..Self::new() }
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<EngineState> {
        self.state.subscribe()
    }

    /// Waits until the network is loaded.
    pub(super) async fn loaded(&self) -> Result<(), EngineError> {
        let mut states = self.subscribe();
        let state = states.wait_for(|state| *state != EngineState::Loading).await;
        match state.map_or(EngineState::Draining, |state| *state) {
            EngineState::Loading | EngineState::Ready | EngineState::Unloaded => Ok(()),
            EngineState::Draining => Err(EngineError::Stopped),
            EngineState::Failed => Err(EngineError::Failed(self.names().failure.clone())),
        }
    }

    pub(super) fn now(&self) -> EngineState {
        *self.state.borrow()
    }

    pub(super) fn ready(&self, model: &str, device: String, side: u32) {
        let mut names = self.names();
        let weights = std::mem::take(&mut names.weights);
        *names = Names { model: model.to_owned(), device, side: Some(side), weights, ..Names::default() };
        drop(names);
        self.change(EngineState::Ready);
    }

    /// Records the device that the network runs on.
    pub(super) fn moved_to(&self, device: String) {
        self.names().device = device;
    }

    pub(super) fn announce(&self, model: &str, side: u32, weights: WeightsInfo) {
        let mut names = self.names();
        model.clone_into(&mut names.model);
        (names.side, names.weights) = (Some(side), weights);
    }

    pub(super) fn failed(&self, reason: &str) {
        let mut names = self.names();
        reason.clone_into(&mut names.failure);
        names.failed_since.get_or_insert_with(Instant::now);
        drop(names);
        self.change(EngineState::Failed);
    }

    /// Time since the first failed load after the last successful one.
    pub(super) fn failed_for(&self) -> Option<Duration> {
        self.names().failed_since.map(|since| since.elapsed())
    }

    /// Locked for a few steps, never across an await.
    pub(super) fn names(&self) -> std::sync::MutexGuard<'_, Names> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn change(&self, next: EngineState) {
        if self.is_built_in {
            metrics::model_loaded(next == EngineState::Ready);
        }
        self.state.send_if_modified(|state| {
            // Draining is final: a network that finishes loading meanwhile does not change it.
            let changed = *state != EngineState::Draining && *state != next;
            if changed {
                tracing::info!(model = self.names().model, from = ?*state, to = ?next, "engine state");
                *state = next;
            }
            changed
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_lasts_from_the_first_failed_load_to_the_next_one_that_succeeds() {
        let status = Status::new();
        assert_eq!(status.failed_for(), None);
        status.failed("the device is lost");
        std::thread::sleep(Duration::from_millis(5));
        status.change(EngineState::Loading);
        status.failed("the device is still lost");
        assert!(status.failed_for().is_some_and(|lasted| lasted >= Duration::from_millis(5)), "the time began anew");
        assert_eq!(status.names().failure, "the device is still lost");
        status.ready("fake", "none".to_owned(), 4);
        assert_eq!((status.failed_for(), status.names().failure.clone()), (None, String::new()));
    }
}
