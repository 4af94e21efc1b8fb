//! The pipeline as what a bulk run does with each picture.

use super::codes::unworked;
use crate::bulk::{Stages, Unworked, Work, Worked};
use crate::cli::remove::BesideFiles;
use crate::cli::runtime::Local;
use crate::config::Config;
use crate::pipeline::Files;
use crate::recipe::Recipe;
use crate::telemetry::with_causes;
use bytes::Bytes;
use std::time::Duration;
use tokio::sync::OnceCell;

/// An engine that starts with the first picture: a run that has nothing to do loads no network.
pub(super) struct Pipeline {
    config: Config,
    jobs: usize,
    recipe: Recipe,
    beside: BesideFiles,
    local: OnceCell<Local>,
}

impl Pipeline {
    pub(super) fn new(config: Config, jobs: usize, recipe: Recipe, beside: BesideFiles) -> Self {
        Self { config, jobs, recipe, beside, local: OnceCell::new() }
    }

    /// Loads the network, unless it is loaded.
    pub(super) async fn ready(&self) -> Result<&Local, Unworked> {
        let start = || Local::start(&self.config, self.jobs);
        self.local.get_or_try_init(start).await.map_err(|error| Unworked::Broken(with_causes(&*error)))
    }
}

impl Work for Pipeline {
    async fn work(&self, picture: Bytes) -> Result<Worked, Unworked> {
        let local = self.ready().await?;
        let BesideFiles { background, mark } = &self.beside;
        let files =
            Files { source: picture, background: background.clone(), mark: mark.clone(), fetch: Duration::ZERO };
        let output = local.run(files, &self.recipe).await.map_err(|error| unworked(&error))?;
        let timings = output.timings;
        let ms = |took: Duration| (took.as_secs_f64() * 10_000.0).round() / 10.0;
        Ok(Worked {
            media_type: output.image.format.media_type(),
            width: output.image.size.width,
            height: output.image.size.height,
            bytes: output.image.bytes,
            uncertainty: output.uncertainty,
            stages: Stages {
                queue: ms(timings.queue),
                decode: ms(timings.decode),
                segment: ms(timings.segment),
                retouch: ms(timings.retouch),
                matte: ms(timings.matte),
                compose: ms(timings.compose),
                encode: ms(timings.encode),
                ..Stages::default()
            },
        })
    }
}
