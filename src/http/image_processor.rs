//! The trait that processes one picture (cuts out, retouches, enlarges), and the engine as its implementation.

use crate::codec::Header;
use crate::engine::{Admission, Engine, EngineState, WeightsInfo};
use crate::model::added::{AddedModels, AddedName};
use crate::pipeline::{self, Call, Files, Output, PipelineError};
use crate::recipe::Recipe;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use std::time::Duration;

/// The work behind the image endpoints.
pub trait ImageProcessor: Send + Sync + 'static {
    /// Processes one picture, at most until the deadline of its call; dropping the future cancels it.
    fn run<'a>(
        &'a self,
        files: Files,
        recipe: &'a Recipe,
        call: &'a Call,
    ) -> BoxFuture<'a, Result<Output, PipelineError>>;

    /// The header of a picture, checked against the limits of its call, by the deadline.
    fn header_of(&self, source: Bytes, call: Call) -> BoxFuture<'_, Result<Header, PipelineError>>;

    /// The places of its pictures; accounts share them.
    fn admission(&self) -> &Admission;

    /// Name and version of the segmentation weights.
    fn model(&self) -> String;

    /// Name and version of the model that processes `recipe`.
    fn model_of(&self, recipe: &Recipe) -> String;

    /// What is reported of the segmentation weights.
    fn weights(&self) -> WeightsInfo;

    /// The models that the operator has added.
    fn added(&self) -> &AddedModels;

    /// Whether the added model of this name and version is in memory.
    fn is_loaded(&self, name: &AddedName) -> bool;

    /// Whether it is loading, ready or shutting down.
    fn state(&self) -> EngineState;

    /// What the networks run on, in words; empty while unknown.
    fn device(&self) -> String;

    /// Whether its threads run; without them only a restart helps.
    fn is_alive(&self) -> bool;

    /// Time since the network first failed to load, where it has not been loaded since.
    fn failed_for(&self) -> Option<Duration>;

    /// Whether work waits and none has been started or finished within the stall limit.
    fn is_stalled(&self) -> bool;
}

impl ImageProcessor for Engine {
    fn run<'a>(
        &'a self,
        files: Files,
        recipe: &'a Recipe,
        call: &'a Call,
    ) -> BoxFuture<'a, Result<Output, PipelineError>> {
        Box::pin(pipeline::run(self, files, recipe, call))
    }

    fn header_of(&self, source: Bytes, call: Call) -> BoxFuture<'_, Result<Header, PipelineError>> {
        Box::pin(pipeline::header_of(self, source, call))
    }

    fn admission(&self) -> &Admission {
        Self::admission(self)
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
