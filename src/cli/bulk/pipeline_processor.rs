//! Processes the pictures of a bulk run with the pipeline.

use super::error_mapping::process_error;
use crate::bulk::{ProcessError, Processed, Processor, StageTimes, milliseconds};
use crate::cli::local_engine::LocalEngine;
use crate::cli::remove::AuxFiles;
use crate::config::Config;
use crate::engine::Tenant;
use crate::recipe::Recipe;
use crate::telemetry::with_causes;
use bytes::Bytes;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// An engine that starts with the first picture: a run without work loads no network.
pub(in crate::cli) struct SharedEngine {
    config: Config,
    engine: OnceCell<LocalEngine>,
}

/// An engine and what it makes of each picture.
pub(in crate::cli) struct PipelineProcessor {
    engine: Arc<SharedEngine>,
    /// Whose turn its pictures take.
    tenant: Tenant,
    recipe: Recipe,
    aux_files: AuxFiles,
}

impl SharedEngine {
    pub(in crate::cli) fn new(config: Config) -> Self {
        Self { config, engine: OnceCell::new() }
    }

    /// An engine that runs already.
    pub(in crate::cli) fn of(config: Config, engine: LocalEngine) -> Self {
        Self { config, engine: OnceCell::new_with(Some(engine)) }
    }

    pub(super) const fn config(&self) -> &Config {
        &self.config
    }
}

impl PipelineProcessor {
    pub(super) const fn new(engine: Arc<SharedEngine>, tenant: Tenant, recipe: Recipe, aux_files: AuxFiles) -> Self {
        Self { engine, tenant, recipe, aux_files }
    }

    /// The engine, started on first use.
    pub(super) async fn ready(&self) -> Result<&LocalEngine, ProcessError> {
        let SharedEngine { config, engine } = &*self.engine;
        let start = || LocalEngine::start(config);
        engine.get_or_try_init(start).await.map_err(|error| ProcessError::Fatal(with_causes(&*error)))
    }
}

impl Processor for PipelineProcessor {
    async fn process(&self, picture: Bytes) -> Result<Processed, ProcessError> {
        let engine = self.ready().await?.of(self.tenant);
        let output =
            engine.run(self.aux_files.with(picture), &self.recipe).await.map_err(|error| process_error(&error))?;
        let timings = output.timings;
        Ok(Processed {
            media_type: output.image.format.media_type(),
            width: output.image.size.width,
            height: output.image.size.height,
            bytes: output.image.bytes,
            uncertainty: output.uncertainty,
            stages: StageTimes {
                queue: milliseconds(timings.queue),
                decode: milliseconds(timings.decode),
                segment: milliseconds(timings.segment),
                retouch: milliseconds(timings.retouch),
                matte: milliseconds(timings.matte),
                compose: milliseconds(timings.compose),
                encode: milliseconds(timings.encode),
                ..StageTimes::default()
            },
        })
    }
}
