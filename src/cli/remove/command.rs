//! `backdrop remove IN… -o OUT`: parses the options, runs the tasks concurrently, and prints the report.

use super::before_after;
use super::destination::Destination;
use super::file_io;
use super::inputs::{self, Inputs, Task};
use super::report::{Entry, Report};
use super::source_and_sink::{Sink, Source};
use super::task_runner::TaskRunner;
use crate::cli::exit_code::{Failure, Outcome};
use crate::cli::local_engine;
use crate::cli::picture_args::PictureArgs;
use crate::cli::progress::Progress;
use crate::cli::stdout;
use clap::Args;
use futures_util::{StreamExt, stream};
use std::path::PathBuf;
use std::time::Instant;

#[derive(Args, Debug)]
pub(in crate::cli) struct Remove {
    /// Files, folders (recursively), globs, https URLs, or - for standard input
    #[arg(required = true, value_name = "IN")]
    inputs: Vec<PathBuf>,
    /// A folder, for one input also a file (its extension sets the format), or - for standard output
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Also process inputs whose results are newer than they are
    #[arg(long)]
    force: bool,
    /// Also write a PNG with each picture before and after
    #[arg(long, value_name = "FILE")]
    contact_sheet: Option<PathBuf>,
    /// Print a report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    picture_args: PictureArgs,
}

impl Remove {
    pub(in crate::cli) fn run(self) -> Result<Outcome, Failure> {
        let destination = Destination::new(&self.output, &self.inputs)?;
        if destination == Destination::Stdout && self.json {
            return Err("--json and -o - both need standard output".into());
        }
        let format = destination.format();
        let mut recipe = self.picture_args.recipe(format.as_deref().map(|format| (format, self.output.as_path())))?;
        let config = self.picture_args.config()?;
        recipe.cut_out_by(config.engine.model);
        let inputs = inputs::resolve(&self.inputs, &destination, recipe.encode.format.name());
        if inputs.tasks.is_empty() && inputs.rejected.is_empty() {
            return Err("there is no picture in these folders".into());
        }
        let jobs = self.picture_args.jobs();
        let report = local_engine::block_on(async {
            let runner = if self.all_done(&inputs) {
                None
            } else {
                Some(TaskRunner::start(&config, recipe, &self.picture_args).await?)
            };
            Ok::<_, Failure>(self.run_all(inputs, runner.as_ref(), jobs).await)
        })??;
        if let Some(path) = &self.contact_sheet {
            before_after::draw(&report, path)?;
        }
        if self.json {
            stdout::print_json(&report)?;
        }
        Ok(Outcome::of(report.failed))
    }

    fn is_done(&self, task: &Task) -> bool {
        match (&task.source, &task.sink) {
            (Source::File(input), Sink::File(output)) => !self.force && file_io::is_newer(output, input),
            (Source::Stdin | Source::Url(_), _) | (_, Sink::Stdout) => false,
        }
    }

    /// Whether the network need not be loaded.
    fn all_done(&self, inputs: &Inputs) -> bool {
        inputs.tasks.iter().all(|task| self.is_done(task))
    }

    async fn run_all(&self, inputs: Inputs, runner: Option<&TaskRunner>, jobs: usize) -> Report {
        let started = Instant::now();
        let mut progress = Progress::new(inputs.tasks.len() + inputs.rejected.len());
        let mut report = Report::default();
        for rejected in inputs.rejected {
            let entry = Entry::failed(rejected.input.display().to_string(), rejected.reason);
            progress.failed(&entry.line());
            report.add(entry);
        }
        let mut finished = stream::iter(inputs.tasks)
            .map(|task| async move {
                match runner {
                    Some(runner) if !self.is_done(&task) => runner.run(&task).await,
                    _ => Entry::skipped(task.source.to_string(), task.sink.to_string()),
                }
            })
            .buffer_unordered(jobs);
        while let Some(entry) = finished.next().await {
            if entry.is_failure() {
                progress.failed(&entry.line())
            } else {
                progress.done(&entry.line())
            }
            report.add(entry);
        }
        report.finish(started.elapsed());
        progress.finish(&report.summary());
        report
    }
}
