//! Submits the CPU work of one run to the engine's CPU pool, and times it.

use crate::engine::{Engine, EngineError, Slot};
use std::time::{Duration, Instant};

/// Runs CPU work that holds the request's slot until it ends, also when the request has been cancelled meanwhile.
pub(super) struct Workers<'a> {
    pub(super) engine: &'a Engine,
    pub(super) slot: &'a Slot,
}

impl Workers<'_> {
    /// What `work` returns, and how long it worked.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        stage: &'static str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<(T, Duration), EngineError> {
        let slot = self.slot.clone();
        self.engine
            .cpu(move || {
                let _slot = slot;
                let _entered = tracing::debug_span!("stage", name = stage).entered();
                let began = Instant::now();
                let done = work();
                (done, began.elapsed())
            })
            .await
    }

    /// What `work` returns; how long it worked is added to `total`.
    pub(super) async fn timed<T: Send + 'static>(
        &self,
        stage: &'static str,
        total: &mut Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        let (done, took) = self.run(stage, work).await?;
        *total += took;
        Ok(done)
    }
}
