//! Runs one task of `remove` and `watch`: reads a picture, runs the pipeline, writes the result.

use super::aux_files::AuxFiles;
use super::inputs::Task;
use super::report::Entry;
use crate::cli::exit_code::Failure;
use crate::cli::local_engine::{self, LocalEngine};
use crate::cli::picture_args::PictureArgs;
use crate::config::Config;
use crate::recipe::Recipe;
use crate::source::Fetcher;
use crate::telemetry::with_causes;
use std::time::Instant;

/// The engine, the recipe and the auxiliary pictures of all tasks of a command.
pub(in crate::cli) struct TaskRunner {
    engine: LocalEngine,
    fetcher: Fetcher,
    recipe: Recipe,
    aux_files: AuxFiles,
}

impl TaskRunner {
    /// Loads the auxiliary pictures, then the network.
    pub(in crate::cli) async fn start(config: &Config, recipe: Recipe, args: &PictureArgs) -> Result<Self, Failure> {
        let fetcher = local_engine::fetcher(config)?;
        let aux_files = AuxFiles::load(&fetcher, &recipe, &args.chosen().1).await?;
        Ok(Self { engine: LocalEngine::start(config).await?, fetcher, recipe, aux_files })
    }

    /// Runs a task to its outcome.
    pub(in crate::cli) async fn run(&self, task: &Task) -> Entry {
        let started = Instant::now();
        let input = task.source.to_string();
        let source = match task.source.read(&self.fetcher).await {
            Ok(source) => source,
            Err(reason) => return Entry::failed(input, reason),
        };
        let output = match self.engine.run(self.aux_files.with(source), &self.recipe).await {
            Ok(output) => output,
            Err(error) => return Entry::failed(input, with_causes(&error)),
        };
        match task.sink.write(output.image.bytes.clone()).await {
            Ok(()) => Entry::done(task, &output, started.elapsed()),
            Err(error) => Entry::failed(input, format!("cannot write {}: {error}", task.sink)),
        }
    }
}
