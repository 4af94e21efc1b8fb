//! `backdrop remove`: the pipeline over files, without a server.

mod before_after;
mod beside;
mod file;
mod plan;
mod report;

use super::endpoint::{endpoint_named, endpoint_names, fields_of};
use super::exit::{Failure, Outcome};
use super::print;
use super::progress::Progress;
use super::runtime::{self, Local};
use super::set::{Set, name_and_value};
use super::settings::Settings;
use crate::image::OutputFormat;
use crate::pipeline::Files;
use crate::recipe::{BG_FILE, Endpoint, Recipe, Value};
use crate::source::Fetcher;
use crate::telemetry::with_causes;
pub(super) use beside::BesideFiles;
use bytes::Bytes;
use clap::Args;
use futures_util::{StreamExt, stream};
use plan::{Destination, Plan, Sink, Source, Task};
use report::{Entry, Report};
use std::path::{Path, PathBuf};
use std::time::Instant;

#[derive(Args, Debug)]
pub(super) struct Remove {
    /// Files, folders (with all below them), globs, https addresses, or - for standard input
    #[arg(required = true, value_name = "IN")]
    inputs: Vec<PathBuf>,
    /// A folder, for one input also a file (its extension says the format), or - for standard output
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Endpoint of the API to run
    #[arg(long, value_parser = endpoint_names(), default_value = "remove")]
    endpoint: String,
    /// A parameter of the endpoint, such as edge=hard, or bg_file=PATH; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = name_and_value)]
    set: Vec<Set>,
    /// Cut out again what is already done
    #[arg(long)]
    force: bool,
    /// Pictures in work at once [default: number of CPUs, at least 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
    /// Also draw a PNG with each picture before and after
    #[arg(long, value_name = "FILE")]
    contact_sheet: Option<PathBuf>,
    /// Print a report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Settings,
}

impl Remove {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let destination = Destination::of(&self.output, &self.inputs)?;
        if destination == Destination::Stdout && self.json {
            return Err("--json and -o - both need standard output".into());
        }
        let mut recipe = self.recipe(&destination)?;
        let config = self.settings.load(&[])?;
        recipe.cut_out_by(config.engine.model);
        let plan = plan::plan(&self.inputs, &destination, recipe.encode.format.name());
        if plan.tasks.is_empty() && plan.refused.is_empty() {
            return Err("there is no picture in these folders".into());
        }
        let jobs = self.jobs.map_or_else(runtime::default_jobs, usize::from);
        let report = runtime::block_on(async {
            let shop = if self.all_is_done(&plan) {
                None
            } else {
                let max_bytes = config.limits.of_local_pictures().max_bytes;
                let fetcher = Fetcher::new(&config.fetch)?.up_to(max_bytes);
                let beside = BesideFiles::gather(&fetcher, &recipe, self.bg_file(), max_bytes).await?;
                Some(Shop { local: Local::start(&config, jobs).await?, fetcher, recipe, beside })
            };
            Ok::<_, Failure>(self.run_all(plan, shop.as_ref(), jobs).await)
        })??;
        if let Some(path) = &self.contact_sheet {
            before_after::draw(&report, path)?;
        }
        if self.json {
            print::json(&report)?;
        }
        Ok(Outcome::of(report.failed))
    }

    /// The recipe that `--set` and the name after `-o` make.
    fn recipe(&self, destination: &Destination) -> Result<Recipe, Failure> {
        let endpoint = self.endpoint();
        let mut fields = fields_of(endpoint, &self.set)?;
        if let Some(preset) = fields.get("preset") {
            return Err(
                format!("preset {preset:?}: presets are kept by a daemon; say its parameters with --set").into()
            );
        }
        if let Some(format) = destination.format() {
            match fields.get("format") {
                Some(said) if OutputFormat::parse(said) != OutputFormat::parse(&format) => {
                    return Err(format!("--set format={said} does not fit {}", self.output.display()).into());
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

    /// The background that `--set` names.
    fn bg_file(&self) -> Option<&Path> {
        self.set.iter().find(|(name, _)| name == BG_FILE).map(|(_, path)| Path::new(path))
    }

    fn is_done(&self, task: &Task) -> bool {
        match (&task.source, &task.sink) {
            (Source::File(input), Sink::File(output)) => !self.force && file::is_newer(output, input),
            (Source::Stdin | Source::Url(_), _) | (_, Sink::Stdout) => false,
        }
    }

    /// Then no network needs to be loaded.
    fn all_is_done(&self, plan: &Plan) -> bool {
        plan.tasks.iter().all(|task| self.is_done(task))
    }

    async fn run_all(&self, plan: Plan, shop: Option<&Shop>, jobs: usize) -> Report {
        let started = Instant::now();
        let mut progress = Progress::new(plan.tasks.len() + plan.refused.len());
        let mut report = Report::default();
        for refused in plan.refused {
            let entry = Entry::failed(refused.input.display().to_string(), refused.reason);
            progress.failed(&entry.line());
            report.add(entry);
        }
        let mut finished = stream::iter(plan.tasks)
            .map(|task| async move {
                match shop {
                    Some(shop) if !self.is_done(&task) => shop.run(&task).await,
                    _ => Entry::skipped(name_of_source(&task.source), name_of_sink(&task.sink)),
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

/// What every picture is worked on with.
struct Shop {
    local: Local,
    fetcher: Fetcher,
    recipe: Recipe,
    beside: BesideFiles,
}

impl Shop {
    async fn run(&self, task: &Task) -> Entry {
        let started = Instant::now();
        let input = name_of_source(&task.source);
        let source = match self.read(&task.source).await {
            Ok(source) => source,
            Err(reason) => return Entry::failed(input, reason),
        };
        let BesideFiles { background, mark } = &self.beside;
        let files =
            Files { source, background: background.clone(), mark: mark.clone(), fetch: std::time::Duration::ZERO };
        let output = match self.local.run(files, &self.recipe).await {
            Ok(output) => output,
            Err(error) => return Entry::failed(input, with_causes(&error)),
        };
        let (size, len, face) = (output.image.size, output.image.bytes.len(), output.face);
        match file::write(&task.sink, output.image.bytes).await {
            Ok(()) => Entry::done(input, name_of_sink(&task.sink), size, len, started.elapsed()).with_face(face),
            Err(error) => Entry::failed(input, format!("cannot write {}: {error}", name_of_sink(&task.sink))),
        }
    }

    async fn read(&self, source: &Source) -> Result<Bytes, String> {
        let max_bytes = self.local.limits().max_bytes;
        match source {
            Source::Stdin => file::read_stdin(max_bytes).await.map_err(|error| with_causes(&error)),
            Source::File(path) => file::read(path.clone(), max_bytes).await.map_err(|error| with_causes(&error)),
            Source::Url(url) => self.fetcher.fetch(url).await.map_err(|error| with_causes(&error)),
        }
    }
}

fn name_of_source(source: &Source) -> String {
    match source {
        Source::Stdin => "-".to_owned(),
        Source::File(path) => path.display().to_string(),
        Source::Url(url) => url.to_string(),
    }
}

fn name_of_sink(sink: &Sink) -> String {
    match sink {
        Sink::Stdout => "-".to_owned(),
        Sink::File(path) => path.display().to_string(),
    }
}
