//! Processes the pictures of a bulk run with the pipeline.

use crate::bulk::{Failure, ProcessError, Processed, Processor, StageTimes, milliseconds};
use crate::cli::local_engine::LocalEngine;
use crate::cli::remove::AuxFiles;
use crate::config::Config;
use crate::engine::{EngineError, Tenant};
use crate::http::ApiError;
use crate::pipeline::PipelineError;
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

/// An engine and the recipe of each picture.
pub(in crate::cli) struct PipelineProcessor {
    engine: Arc<SharedEngine>,
    /// The tenant of its pictures in the engine's queues.
    tenant: Tenant,
    recipe: Recipe,
    aux_files: AuxFiles,
}

impl SharedEngine {
    pub(in crate::cli) fn new(config: Config) -> Self {
        Self { config, engine: OnceCell::new() }
    }

    /// A running engine.
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
        let output = engine.run(self.aux_files.with(picture), &self.recipe).await.map_err(process_error)?;
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

/// Classifies an error: of this picture, with the API's code, or of all pictures.
fn process_error(error: PipelineError) -> ProcessError {
    let message = with_causes(&error);
    if matches!(error, PipelineError::Engine(EngineError::Stopped | EngineError::Failed(_))) {
        return ProcessError::Fatal(message);
    }
    ProcessError::Rejected(Failure { code: ApiError::from(error).code.name(), message })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bulk::Code;
    use crate::codec::DecodeError;
    use crate::http::ErrorCode;

    #[test]
    fn storage_error_codes_are_api_error_codes() {
        for code in Code::ALL {
            assert!(ErrorCode::ALL.iter().any(|known| known.name() == code.name()), "{}", code.name());
        }
    }

    #[test]
    fn a_damaged_file_is_rejected_and_a_network_that_does_not_load_is_fatal() {
        let rejected = process_error(PipelineError::Decode(DecodeError::Empty));
        assert!(matches!(rejected, ProcessError::Rejected(Failure { code: "invalid_image", .. })), "{rejected:?}");
        let fatal = process_error(PipelineError::Engine(EngineError::Failed("no memory".into())));
        assert!(matches!(fatal, ProcessError::Fatal(_)), "{fatal:?}");
    }
}
