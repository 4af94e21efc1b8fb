//! `backdrop remove IN… -o OUT`: parses the options, runs the tasks concurrently, and prints the report.

use super::before_after;
use super::destination::Destination;
use super::file_version::FileVersion;
use super::inputs::{self, Rejected, Task};
use super::parameters_file;
use super::report::{Entry, Report};
use super::task_runner::TaskRunner;
use crate::cli::exit_code::{Failure, Outcome};
use crate::cli::local_engine;
use crate::cli::picture_args::PictureArgs;
use crate::cli::progress::Progress;
use crate::cli::stdout;
use crate::codec::sandbox;
use clap::Args;
use futures_util::{StreamExt, stream};
use std::path::PathBuf;
use std::time::{Instant, SystemTime};

#[derive(Args, Debug)]
pub(in crate::cli) struct Remove {
    /// Files, folders (recursively), globs, https URLs, or - for standard input
    #[arg(required = true, value_name = "IN")]
    inputs: Vec<PathBuf>,
    /// A folder, for one input also a file (its extension sets the format), or - for standard output
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Also process inputs whose results in the folder are newer than they are and were made with these options
    #[arg(long)]
    force: bool,
    /// Also process links in a folder, or found by a glob, that lead out of it
    #[arg(long)]
    follow: bool,
    /// Also write a PNG with the first 1,000 pictures before and after, where both are files
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
        // The contact sheet decodes pictures even if no engine is started, because all results exist.
        sandbox::install(config.decode.sandbox);
        local_engine::select_network(&config, &mut recipe)?;
        let inputs = inputs::resolve(&self.inputs, &destination, recipe.encode.format.name(), self.follow);
        if inputs.tasks.is_empty() && inputs.rejected.is_empty() && inputs.left_out.is_empty() {
            return Err("there is no picture in these folders".into());
        }
        if let Some(sheet) = self.contact_sheet.as_deref().filter(|sheet| inputs.contains(sheet)) {
            let reason = "is an input or a result; choose another name after --contact-sheet";
            return Err(format!("{} {reason}", sheet.display()).into());
        }
        // A named output file may be the result of another picture.
        let since = match &destination {
            Destination::Folder(folder) if !inputs.tasks.is_empty() => {
                Some(parameters_file::results_since(folder, &self.picture_args, &config, &recipe)?)
            }
            Destination::Stdout | Destination::File(_) | Destination::Folder(_) => None,
        };
        let since = since.filter(|_| !self.force);
        let is_done = |task: &Task| since.is_some_and(|since| is_done(task, since));
        let (done, open): (Vec<_>, Vec<_>) = inputs.tasks.into_iter().partition(is_done);
        let report = local_engine::block_on(async {
            // Without open tasks no network is loaded.
            let runner = if open.is_empty() {
                None
            } else {
                Some(TaskRunner::start(&config, recipe, &self.picture_args).await?)
            };
            let jobs = self.picture_args.jobs();
            Ok::<_, Failure>(run_all((inputs.rejected, inputs.left_out), &done, &open, runner.as_ref(), jobs).await)
        })??;
        // Before the contact sheet, which may fail.
        if self.json {
            stdout::print_json(&report)?;
        }
        if let Some(path) = &self.contact_sheet {
            before_after::draw(&report, path)?;
        }
        Ok(Outcome::of(report.failed > 0))
    }
}

/// Whether the result of a task exists, is not older than its picture, and was made after `since`.
fn is_done(task: &Task, since: SystemTime) -> bool {
    let version = task.source.file().and_then(FileVersion::of);
    version.zip(task.sink.file()).is_some_and(|(version, result)| version.is_done_in(result, since))
}

/// Runs the open tasks. The report also has the `done` tasks, and the rejected and left-out inputs.
async fn run_all(
    (rejected, left_out): (Vec<Rejected>, Vec<Rejected>),
    done: &[Task],
    open: &[Task],
    runner: Option<&TaskRunner>,
    jobs: usize,
) -> Report {
    let started = Instant::now();
    let mut progress = Progress::new(rejected.len() + left_out.len() + done.len() + open.len());
    let mut report = Report::default();
    let rejected = rejected.into_iter().map(|input| Entry::failed(input.input.display().to_string(), input.reason));
    let left_out = left_out.into_iter().map(|input| Entry::left_out(input.input.display().to_string(), input.reason));
    let known = rejected.chain(left_out).chain(done.iter().map(Entry::skipped));
    let runs = runner.into_iter().flat_map(|runner| open.iter().map(|task| runner.run(task)));
    let mut entries = stream::iter(known).chain(stream::iter(runs).buffer_unordered(jobs));
    while let Some(entry) = entries.next().await {
        progress.finished(&entry.line(), entry.error().is_some());
        report.add(entry);
    }
    report.finish(started.elapsed());
    progress.finish(&report.summary());
    report
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::cli::test_files::folder_with;
    use clap::Parser;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        remove: Remove,
    }

    #[test]
    fn decode_workers_are_installed_where_no_engine_is_started() {
        let root = folder_with(&["in/a.jpg"]);
        let [input, output] = ["in", "out"].map(|name| root.path().join(name));
        // Written later than the input.
        std::fs::create_dir(&output).unwrap();
        std::fs::write(output.join("a.png"), b"x").unwrap();
        // Off: a test's program cannot run as a decode worker.
        let arguments = ["remove".as_ref(), input.as_os_str(), "-o".as_ref(), output.as_os_str()];
        let off = ["--decode-sandbox", "off"].map(std::ffi::OsStr::new);
        let line = CommandLine::try_parse_from(arguments.into_iter().chain(off)).unwrap();
        assert_eq!(line.remove.run().unwrap(), Outcome::Done);
        assert!(sandbox::status().is_some());
    }
}
