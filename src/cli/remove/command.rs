//! `backdrop remove IN… -o OUT`: parses the options, runs the tasks concurrently, and prints the report.

use super::aux_files::AuxFiles;
use super::before_after;
use super::destination::Destination;
use super::file_io;
use super::inputs::{self, Inputs, Task};
use super::report::{Entry, Report};
use super::source_and_sink::{Sink, Source};
use crate::cli::config_args::EngineArgs;
use crate::cli::endpoint_args::{FieldArg, endpoint_fields, endpoint_named, endpoint_names, parse_field};
use crate::cli::exit_code::{Failure, Outcome};
use crate::cli::local_engine::{self, LocalEngine};
use crate::cli::progress::Progress;
use crate::cli::stdout;
use crate::image::OutputFormat;
use crate::recipe::{Endpoint, Recipe, Value};
use crate::source::Fetcher;
use crate::telemetry::with_causes;
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
    /// Endpoint of the API to run
    #[arg(long, value_parser = endpoint_names(), default_value = "remove")]
    endpoint: String,
    /// Parameter of the endpoint, such as edge=hard, point=120,80, bg_file=PATH or mask_file=PATH; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_field)]
    set: Vec<FieldArg>,
    /// Also process inputs whose results are newer than they are
    #[arg(long)]
    force: bool,
    /// Pictures processed concurrently [default: number of CPUs, at least 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
    /// Also write a PNG with each picture before and after
    #[arg(long, value_name = "FILE")]
    contact_sheet: Option<PathBuf>,
    /// Print a report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    engine_args: EngineArgs,
}

impl Remove {
    pub(in crate::cli) fn run(self) -> Result<Outcome, Failure> {
        let destination = Destination::new(&self.output, &self.inputs)?;
        if destination == Destination::Stdout && self.json {
            return Err("--json and -o - both need standard output".into());
        }
        let mut recipe = self.recipe(&destination)?;
        let config = self.engine_args.load(&[])?;
        recipe.cut_out_by(config.engine.model);
        let inputs = inputs::resolve(&self.inputs, &destination, recipe.encode.format.name());
        if inputs.tasks.is_empty() && inputs.rejected.is_empty() {
            return Err("there is no picture in these folders".into());
        }
        let jobs = self.jobs.map_or_else(local_engine::default_jobs, usize::from);
        let report = local_engine::block_on(async {
            let context = if self.all_done(&inputs) {
                None
            } else {
                let max_bytes = config.limits.of_local_pictures().max_bytes;
                let fetcher = Fetcher::new(&config.fetch)?.with_max_bytes(max_bytes);
                let aux_files = AuxFiles::load(&fetcher, &recipe, &self.set, max_bytes).await?;
                Some(Context { engine: LocalEngine::start(&config, jobs).await?, fetcher, recipe, aux_files })
            };
            Ok::<_, Failure>(self.run_all(inputs, context.as_ref(), jobs).await)
        })??;
        if let Some(path) = &self.contact_sheet {
            before_after::draw(&report, path)?;
        }
        if self.json {
            stdout::print_json(&report)?;
        }
        Ok(Outcome::of(report.failed))
    }

    /// The recipe of `--set` and of the extension of `-o`.
    fn recipe(&self, destination: &Destination) -> Result<Recipe, Failure> {
        let endpoint = self.endpoint();
        let mut fields = endpoint_fields(endpoint, &self.set)?;
        if let Some(preset) = fields.get("preset") {
            return Err(
                format!("preset {preset:?}: presets are stored by a daemon; pass its parameters with --set").into()
            );
        }
        if let Some(format) = destination.format() {
            match fields.get("format") {
                Some(given) if OutputFormat::parse(given) != OutputFormat::parse(&format) => {
                    return Err(format!("--set format={given} does not fit {}", self.output.display()).into());
                }
                Some(_) => {}
                None => fields.push("format", &format)?,
            }
        }
        Ok(endpoint.recipe(&fields)?)
    }

    fn endpoint(&self) -> &'static Endpoint {
        endpoint_named(&self.endpoint)
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

    async fn run_all(&self, inputs: Inputs, context: Option<&Context>, jobs: usize) -> Report {
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
                match context {
                    Some(context) if !self.is_done(&task) => context.run(&task).await,
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

/// What the tasks share.
struct Context {
    engine: LocalEngine,
    fetcher: Fetcher,
    recipe: Recipe,
    aux_files: AuxFiles,
}

impl Context {
    async fn run(&self, task: &Task) -> Entry {
        let started = Instant::now();
        let input = task.source.to_string();
        let source = match task.source.read(&self.fetcher, self.engine.limits().max_bytes).await {
            Ok(source) => source,
            Err(reason) => return Entry::failed(input, reason),
        };
        let output = match self.engine.run(self.aux_files.with(source), &self.recipe).await {
            Ok(output) => output,
            Err(error) => return Entry::failed(input, with_causes(&error)),
        };
        let (size, len, face) = (output.image.size, output.image.bytes.len(), output.face);
        match task.sink.write(output.image.bytes).await {
            Ok(()) => Entry::done(input, task.sink.to_string(), size, len, started.elapsed()).with_face(face),
            Err(error) => Entry::failed(input, format!("cannot write {}: {error}", task.sink)),
        }
    }
}
