//! Runs the CPU work of one pipeline run on the engine's CPU pool, and times it.

use super::error::PipelineError;
use crate::codec::{self, EncodeOptions};
use crate::engine::{Engine, EngineError, Slot};
use crate::image::{Composite, EncodedImage};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Runs CPU work that holds the request's slot until it ends, even if the request is cancelled meanwhile.
pub(super) struct Workers<'a> {
    pub(super) engine: &'a Engine,
    pub(super) slot: &'a Slot,
}

/// `work` with its duration.
pub(super) fn timed<T, W: FnOnce() -> T>(stage: &'static str, work: W) -> impl FnOnce() -> (T, Duration) + use<T, W> {
    move || {
        let _entered = tracing::debug_span!("stage", name = stage).entered();
        let began = Instant::now();
        let done = work();
        (done, began.elapsed())
    }
}

impl Workers<'_> {
    /// The result of `work`, and its duration.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        stage: &'static str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<(T, Duration), EngineError> {
        self.engine.cpu_in(self.slot, self.held(timed(stage, work))).await
    }

    /// The result of `work`; adds its duration to `total`.
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

    /// Encodes `composite` unless the request is cancelled first. Adds the duration to `total`.
    pub(super) async fn encode(
        &self,
        total: &mut Duration,
        composite: Composite,
        options: EncodeOptions,
    ) -> Result<EncodedImage, PipelineError> {
        // Dropped with this future when the request is cancelled.
        let request = Arc::new(());
        let of_request = Arc::downgrade(&request);
        let encode = move || codec::encode_unless(&|| of_request.strong_count() == 0, composite, &options);
        Ok(self.timed("encode", total, encode).await??)
    }

    /// As [`Self::timed`], for work that waits for a decode worker.
    pub(super) async fn timed_wait<T: Send + 'static>(
        &self,
        stage: &'static str,
        total: &mut Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        let work = self.held(timed(stage, work));
        let (done, took) = self.engine.wait_for_decoder(self.slot.tenant(), work).await?;
        *total += took;
        Ok(done)
    }

    /// Wraps `work` to hold the slot.
    fn held<T, W: FnOnce() -> T>(&self, work: W) -> impl FnOnce() -> T + use<T, W> {
        let slot = self.slot.clone();
        move || {
            let _slot = slot;
            work()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{EngineConfig, Tenant};
    use crate::model::SegmentError;
    use futures_util::FutureExt;
    use std::sync::mpsc;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn cancelled_work_keeps_its_pixel_budget_until_it_ends() {
        let factory = Arc::new(|| Err(SegmentError::Device("none".to_owned())));
        let engine = Engine::start(&EngineConfig::default(), factory);
        let all = || engine.admit(Tenant::default(), usize::MAX, Instant::now() + Duration::from_secs(60)).boxed();
        let mut slot = all().await.unwrap();
        for waits in [false, true] {
            let (entered, started) = oneshot::channel();
            let (open, gate) = mpsc::channel::<()>();
            let work = move || {
                entered.send(()).unwrap();
                gate.recv().unwrap();
            };
            let (workers, mut total) = (Workers { engine: &engine, slot: &slot }, Duration::ZERO);
            let working = async {
                if waits {
                    workers.timed_wait("decode", &mut total, work).await
                } else {
                    workers.timed("decode", &mut total, work).await
                }
            };
            tokio::select! {
                ended = working => panic!("{ended:?} while the gate is shut"),
                began = started => began.unwrap(),
            }
            drop(slot);
            let mut next = all();
            assert!(next.as_mut().now_or_never().is_none(), "the pixels are in memory");
            open.send(()).unwrap();
            slot = next.await.unwrap();
        }
    }
}
