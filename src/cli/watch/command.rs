//! `backdrop watch IN OUT`: the options, and the loop that runs what is due until a signal.

use super::folder_scan::{Scan, scan};
use super::folder_watch::{Change, FolderWatch};
use super::folders::Folders;
use super::picture_files::{DuePicture, PictureFiles};
use crate::cli::exit_code::{Failure, Outcome};
use crate::cli::picture_args::PictureArgs;
use crate::cli::remove::{Entry, Sink, Source, Task, TaskRunner, results_since};
use crate::cli::signals::StopSignals;
use crate::cli::{local_engine, stdout};
use clap::Args;
use futures_util::StreamExt;
use futures_util::future::OptionFuture;
use futures_util::stream::FuturesUnordered;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};
use tokio::task::{JoinHandle, spawn_blocking};

/// Pause between two scans of the whole folder: network file systems send no notifications.
const SCAN_INTERVAL: Duration = Duration::from_secs(30);

/// Least pause between two scans, however many folders are moved.
const MIN_SCAN_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Args, Debug)]
pub(in crate::cli) struct Watch {
    /// Folder of the pictures, with the folders below it
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// Folder of the results, created if missing
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// Print a line of JSON for each picture
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    picture_args: PictureArgs,
}

impl Watch {
    pub(in crate::cli) fn run(self) -> Result<Outcome, Failure> {
        let mut recipe = self.picture_args.recipe(None)?;
        let config = self.picture_args.config()?;
        local_engine::select_network(&config, &mut recipe)?;
        let folders = Folders::new(&self.input, &self.output, recipe.encode.format.name())?;
        let since = results_since(&self.output, &self.picture_args, &config, &recipe)?;
        local_engine::block_on(async {
            let mut signals = StopSignals::install()?;
            // Before the first scan, so that no file is missed between them.
            let changes = FolderWatch::start(&folders)?;
            let runner = tokio::select! {
                runner = TaskRunner::start(&config, recipe, &self.picture_args) => runner?,
                () = signals.next() => return Ok(Outcome::Done),
            };
            print_stderr!("Watching {}; Ctrl-C ends", folders.input().display());
            let jobs = self.picture_args.jobs();
            let run =
                Run { folders: &folders, runner: &runner, since, jobs, json: self.json, done: 0, already_done: 0 };
            run.run(changes, signals).await
        })?
    }
}

/// A run of the command.
struct Run<'a> {
    folders: &'a Folders,
    runner: &'a TaskRunner,
    /// Results before this time were made with other options.
    since: SystemTime,
    jobs: usize,
    json: bool,
    done: usize,
    already_done: usize,
}

impl Run<'_> {
    async fn run(mut self, mut changes: FolderWatch, mut signals: StopSignals) -> Result<Outcome, Failure> {
        let (folders, runner, since) = (self.folders, self.runner, self.since);
        let mut files = PictureFiles::new(|path: &Path| folders.result_of(path));
        let mut scans = Scans::new();
        let mut running = FuturesUnordered::new();
        let mut stopping = false;
        loop {
            if !stopping {
                scans.start_if_due(folders);
                while running.len() < self.jobs
                    && let Some(picture) = files.next_due(Instant::now())
                {
                    running.push(process(runner, picture, since));
                }
            } else if running.is_empty() {
                break;
            }
            let has_room = running.len() < self.jobs && !stopping;
            let next = scans.next_time(files.next_time().filter(|_| has_room));
            tokio::select! {
                biased;
                () = signals.next() => {
                    if stopping {
                        std::process::exit(130);
                    }
                    stopping = true;
                    if !running.is_empty() {
                        print_stderr!("Finishing the pictures in progress; a second Ctrl-C ends at once");
                    }
                }
                Some((picture, entry)) = running.next() => self.report(&mut files, &picture, entry)?,
                Some((found, began)) = scans.finished() => files.scanned(found.pictures, began, Instant::now()),
                change = changes.next(), if !stopping => match change {
                    Change::Unknown => scans.request(),
                    Change::Picture(path, action, version) => files.changed(&path, action, version, Instant::now()),
                },
                () = tokio::time::sleep_until(next.into()), if !stopping => {}
            }
        }
        let failures = files.failures();
        print_stderr!("{} done, {} already done, {} failed", self.done, self.already_done, failures.len());
        for (path, reason) in &failures {
            print_stderr!("  {}: {reason}", path.display());
        }
        Ok(Outcome::of(!failures.is_empty()))
    }

    /// Records and prints the outcome of a picture.
    fn report(
        &mut self,
        files: &mut PictureFiles<impl Fn(&Path) -> PathBuf>,
        picture: &DuePicture,
        entry: Entry,
    ) -> Result<(), Failure> {
        let pause = files.finished(picture, entry.error().map(Into::into), Instant::now());
        if entry.is_skipped() {
            self.already_done += 1;
            // A line for each would hide new results.
            return Ok(());
        }
        self.done += usize::from(!entry.is_failure());
        let note = pause.map(|pause| format!("; next attempt in {} s", pause.as_secs())).unwrap_or_default();
        print_stderr!("{}{note}", entry.line());
        if self.json {
            stdout::print_line(&serde_json::to_string(&entry)?)?;
        }
        Ok(())
    }
}

/// Processes a picture, unless its result exists and was made after `since`.
async fn process(runner: &TaskRunner, picture: DuePicture, since: SystemTime) -> (DuePicture, Entry) {
    if let Some(conflict) = &picture.conflict {
        let entry = Entry::failed(picture.path.display().to_string(), conflict.clone());
        return (picture, entry);
    }
    let task = Task { source: Source::File(picture.path.clone()), sink: Sink::File(picture.result.clone()) };
    let (version, result) = (picture.version, picture.result.clone());
    let is_done = move || version.is_done_in(&result, since);
    let is_done = !picture.is_result_stale && spawn_blocking(is_done).await.unwrap_or(false);
    let entry = if is_done { Entry::skipped(&task) } else { runner.run(&task).await };
    (picture, entry)
}

/// The scans of the folder, one at a time.
struct Scans {
    running: Option<(Instant, JoinHandle<Scan>)>,
    due: Instant,
    latest: Option<Instant>,
    /// Errors that were printed; each is printed once.
    printed: HashSet<String>,
}

impl Scans {
    fn new() -> Self {
        Self { running: None, due: Instant::now(), latest: None, printed: HashSet::new() }
    }

    /// Requests a scan soon.
    fn request(&mut self) {
        self.due = self.due.min(Instant::now());
    }

    fn start_if_due(&mut self, folders: &Folders) {
        let now = Instant::now();
        if self.running.is_none() && self.start_time() <= now {
            let folders = folders.clone();
            self.running = Some((now, spawn_blocking(move || scan(&folders))));
            (self.due, self.latest) = (now + SCAN_INTERVAL, Some(now));
        }
    }

    fn start_time(&self) -> Instant {
        self.latest.map_or(self.due, |latest| self.due.max(latest + MIN_SCAN_INTERVAL))
    }

    /// The earlier of the next scan and `other`.
    fn next_time(&self, other: Option<Instant>) -> Instant {
        let own = if self.running.is_some() { Instant::now() + SCAN_INTERVAL } else { self.start_time() };
        other.map_or(own, |other| other.min(own))
    }

    /// The result of the running scan, and its start if it had no errors: a scan with errors may miss files. `None` when no scan
    /// runs.
    async fn finished(&mut self) -> Option<(Scan, Option<Instant>)> {
        let scanned = OptionFuture::from(self.running.as_mut().map(|(_, scan)| scan)).await?;
        let (began, _) = self.running.take()?;
        let found = scanned.unwrap_or_else(|error| Scan { pictures: Vec::new(), errors: vec![error.to_string()] });
        for error in &found.errors {
            if self.printed.insert(error.clone()) {
                print_stderr!("{error}");
            }
        }
        let is_complete = found.errors.is_empty();
        Some((found, is_complete.then_some(began)))
    }
}
