//! `backdrop remove`: the pipeline over files, without a server.

mod contact_sheet;
mod file;
mod plan;
mod report;

use super::exit::{Failure, Outcome, with_causes};
use super::print;
use super::progress::Progress;
use super::runtime::{self, Local};
use super::settings::Settings;
use crate::recipe::{Fields, MaskParams, Params, Recipe, RemoveParams};
use clap::{Args, ValueEnum};
use contact_sheet::ContactSheet;
use futures_util::{StreamExt, stream};
use plan::{Destination, Plan, Sink, Source, Task};
use report::{Entry, Report};
use std::path::{Path, PathBuf};
use std::time::Instant;

#[derive(Args, Debug)]
pub(super) struct Remove {
    /// Files, folders (with all below them), globs, or - for standard input
    #[arg(required = true, value_name = "IN")]
    inputs: Vec<PathBuf>,
    /// A folder, for one input also a file (its extension says the format), or - for standard output
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Endpoint of the API to run
    #[arg(long, value_enum, default_value_t)]
    endpoint: Endpoint,
    /// A parameter of the endpoint, such as edge=hard; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = name_and_value)]
    set: Vec<(String, String)>,
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

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Endpoint {
    /// The cutout
    #[default]
    Remove,
    /// The matte, as 8-bit grey
    Mask,
}

impl Endpoint {
    fn recipe(self, fields: &Fields) -> Result<Recipe, Failure> {
        Ok(match self {
            Self::Remove => RemoveParams::from_fields(fields)?.resolve(),
            Self::Mask => MaskParams::from_fields(fields)?.resolve(),
        })
    }
}

fn name_and_value(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

impl Remove {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let destination = Destination::of(&self.output, &self.inputs)?;
        if destination == Destination::Stdout && self.json {
            return Err("--json and -o - both need standard output".into());
        }
        let recipe = self.recipe(&destination)?;
        let config = self.settings.load(&[])?;
        let plan = plan::plan(&self.inputs, &destination, recipe.encode.format.name());
        if plan.tasks.is_empty() && plan.refused.is_empty() {
            return Err("there is no picture in these folders".into());
        }
        let jobs = self.jobs.map_or_else(default_jobs, usize::from);
        let report = runtime::block_on(async {
            let local = if self.all_is_done(&plan) { None } else { Some(Local::start(&config, jobs).await?) };
            Ok::<_, Failure>(self.cut_out_all(plan, local.as_ref(), &recipe, jobs).await)
        })??;
        if let Some(path) = &self.contact_sheet {
            draw_contact_sheet(&report, path)?;
        }
        if self.json {
            print::json(&report)?;
        }
        Ok(Outcome::of(report.failed))
    }

    /// The recipe that `--set` and the name after `-o` make.
    fn recipe(&self, destination: &Destination) -> Result<Recipe, Failure> {
        let mut fields = Fields::default();
        for (name, value) in &self.set {
            fields.push(name, value)?;
        }
        if let Some(format) = destination.format() {
            match fields.get("format") {
                Some(said) if said != format => {
                    return Err(format!("--set format={said} does not fit {}", self.output.display()).into());
                }
                Some(_) => {}
                None => fields.push("format", &format)?,
            }
        }
        self.endpoint.recipe(&fields)
    }

    fn is_done(&self, task: &Task) -> bool {
        match (&task.source, &task.sink) {
            (Source::File(input), Sink::File(output)) => !self.force && file::is_newer(output, input),
            (Source::Stdin, _) | (_, Sink::Stdout) => false,
        }
    }

    /// Then no network needs to be loaded.
    fn all_is_done(&self, plan: &Plan) -> bool {
        plan.tasks.iter().all(|task| self.is_done(task))
    }

    async fn cut_out_all(&self, plan: Plan, local: Option<&Local>, recipe: &Recipe, jobs: usize) -> Report {
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
                match local {
                    Some(local) if !self.is_done(&task) => cut_out(local, recipe, &task).await,
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

fn default_jobs() -> usize {
    std::thread::available_parallelism().map_or(2, |cpus| cpus.get().max(2))
}

async fn cut_out(local: &Local, recipe: &Recipe, task: &Task) -> Entry {
    let started = Instant::now();
    let input = name_of_source(&task.source);
    let bytes = match file::read(&task.source).await {
        Ok(bytes) => bytes,
        Err(error) => return Entry::failed(input, with_causes(&error)),
    };
    let output = match local.cut_out(bytes, recipe).await {
        Ok(output) => output,
        Err(error) => return Entry::failed(input, with_causes(&error)),
    };
    let (size, len) = (output.image.size, output.image.bytes.len());
    match file::write(&task.sink, output.image.bytes).await {
        Ok(()) => Entry::done(input, name_of_sink(&task.sink), size, len, started.elapsed()),
        Err(error) => Entry::failed(input, format!("cannot write {}: {error}", name_of_sink(&task.sink))),
    }
}

fn name_of_source(source: &Source) -> String {
    match source {
        Source::Stdin => "-".to_owned(),
        Source::File(path) => path.display().to_string(),
    }
}

fn name_of_sink(sink: &Sink) -> String {
    match sink {
        Sink::Stdout => "-".to_owned(),
        Sink::File(path) => path.display().to_string(),
    }
}

fn draw_contact_sheet(report: &Report, path: &Path) -> Result<(), Failure> {
    let pairs: Vec<_> = report.pairs().collect();
    let mut sheet = ContactSheet::new(pairs.len());
    for (input, output) in pairs {
        sheet.add(Path::new(input), Path::new(output))?;
    }
    let Some(png) = sheet.finish()? else {
        return Err("there is nothing to show on the contact sheet".into());
    };
    file::write_now(path, &png)?;
    eprintln!("Before and after: {}", path.display());
    Ok(())
}
