//! The trait that processes one picture (cuts out, retouches, enlarges), and the engine as its implementation.

use crate::codec::Header;
use crate::engine::{Capacity, Engine, EngineError, EngineState, Slot, WeightsInfo};
use crate::model::added::{AddedModels, AddedName};
use crate::pipeline::{self, Call, Files, Output, PipelineError};
use crate::recipe::Recipe;
use crate::telemetry::metrics;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use std::sync::LazyLock;
use std::time::Duration;
use tokio::time::timeout_at;

/// A finished picture, and its slot among the requests in flight.
#[derive(Debug)]
pub struct Finished {
    /// The picture.
    pub output: Output,
    /// Held until the reply has its memory, so that new requests are refused while replies are not read.
    pub slot: Option<Slot>,
}

/// The work behind the image endpoints.
pub trait ImageProcessor: Send + Sync + 'static {
    /// Processes one picture, at most until the deadline of its call; dropping the future cancels it.
    fn run<'a>(
        &'a self,
        files: Files,
        recipe: &'a Recipe,
        call: &'a Call,
    ) -> BoxFuture<'a, Result<Finished, PipelineError>>;

    /// The header of a picture, checked against the limits of its call, by the deadline.
    fn header_of(&self, source: Bytes, call: Call) -> BoxFuture<'_, Result<Header, PipelineError>>;

    /// How many pictures it takes; they are shared among the accounts.
    fn capacity(&self) -> Capacity {
        Capacity::UNBOUNDED
    }

    /// Name and version of the segmentation weights.
    fn model(&self) -> String;

    /// Name and version of the model that processes `recipe`.
    fn model_of(&self, recipe: &Recipe) -> String;

    /// What is reported of the segmentation weights.
    fn weights(&self) -> WeightsInfo {
        WeightsInfo::default()
    }

    /// The models that the operator has added.
    fn added(&self) -> &AddedModels {
        static NONE: LazyLock<AddedModels> = LazyLock::new(AddedModels::default);
        &NONE
    }

    /// Whether the added model of this name and version is in memory.
    fn is_loaded(&self, _name: &AddedName) -> bool {
        false
    }

    /// Whether it is loading, ready or shutting down.
    fn state(&self) -> EngineState;

    /// What the networks run on, in words; empty while unknown.
    fn device(&self) -> String {
        String::new()
    }

    /// Whether its threads run; without them only a restart helps.
    fn is_alive(&self) -> bool;

    /// Time since the network first failed to load, where it has not been loaded since.
    fn failed_for(&self) -> Option<Duration> {
        None
    }

    /// Whether work waits and none has been started or finished within the stall limit.
    fn is_stalled(&self) -> bool;
}

impl ImageProcessor for Engine {
    fn run<'a>(
        &'a self,
        files: Files,
        recipe: &'a Recipe,
        call: &'a Call,
    ) -> BoxFuture<'a, Result<Finished, PipelineError>> {
        Box::pin(async move {
            // The caller has a place of the fair queue. Stages of a picture whose client is gone, clips and bulk runs may have the slots.
            let slot = timeout_at(call.deadline.into(), self.admit_waiting(call.tenant)).await.map_err(|_| {
                metrics::queue_dropped(metrics::Dropped::Deadline);
                EngineError::DeadlineExceeded
            })??;
            let output = pipeline::run_in(self, &slot, files, recipe, call).await?;
            // The pixels are freed; only the encoded file waits for its reply.
            slot.release_pixels();
            Ok(Finished { output, slot: Some(slot) })
        })
    }

    fn header_of(&self, source: Bytes, call: Call) -> BoxFuture<'_, Result<Header, PipelineError>> {
        Box::pin(pipeline::header_of(self, source, call))
    }

    fn capacity(&self) -> Capacity {
        Self::capacity(self)
    }

    fn model(&self) -> String {
        Self::model(self)
    }

    fn model_of(&self, recipe: &Recipe) -> String {
        pipeline::model_of(recipe, || Self::model(self), &**self.retoucher())
    }

    fn weights(&self) -> WeightsInfo {
        Self::weights(self)
    }

    fn added(&self) -> &AddedModels {
        Self::added(self)
    }

    fn is_loaded(&self, name: &AddedName) -> bool {
        Self::is_loaded(self, name)
    }

    fn state(&self) -> EngineState {
        *Self::state(self).borrow()
    }

    fn device(&self) -> String {
        Self::device(self)
    }

    fn is_alive(&self) -> bool {
        Self::is_alive(self)
    }

    fn failed_for(&self) -> Option<Duration> {
        Self::failed_for(self)
    }

    fn is_stalled(&self) -> bool {
        Self::is_stalled(self)
    }
}
