//! Jobs of a daemon that is killed repeatedly are each finished, billed and reported once.
//!
//! A child process creates and runs jobs, whose work resumes from segments in the job's folder, and prints each
//! acknowledgement to stderr; the parent kills it at random moments. A last run finishes the remaining jobs.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use backdrop::jobs::{
    Created, DeliveryOutcome, Deps, Job, JobState, JobView, Jobs, JobsConfig, NewJob, NewWebhook, ResultStore,
    ResultStoreError, WebhookTransport, WorkCheckpoint, WorkError, WorkOutput, Worker, input_in,
};
use backdrop::store::{self, RedbStore, Store, UnixSeconds};
use futures_util::future::BoxFuture;
use rand::Rng;

use crate::store::support::{account, apply};
use crate::support::child_process::{child, child_input};
use crate::support::tier::rounds;

const SEGMENTS: u8 = 5;
/// Microdollars a second; every job is 2 s long.
const PRICE: u64 = 100_000;

/// Writes segments, then all of them as one file; reuses existing segments.
#[derive(Debug)]
struct SegmentWorker;

impl Worker for SegmentWorker {
    fn run<'a>(
        &'a self,
        _: &'a Job,
        folder: &'a Path,
        progress: &'a (dyn Fn(u8) + Send + Sync),
    ) -> BoxFuture<'a, Result<WorkOutput, WorkError>> {
        Box::pin(async move {
            let clip = std::fs::read_to_string(input_in(folder)).expect("the clip is there");
            for segment in 0..SEGMENTS {
                let file = folder.join(format!("segment-{segment}"));
                if !file.exists() {
                    let unfinished = folder.join("unfinished");
                    std::fs::write(&unfinished, format!("{clip} {segment}\n")).expect("the folder is there");
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    std::fs::rename(unfinished, file).expect("the folder is there");
                }
                progress((segment + 1) * 20);
            }
            let segments = (0..SEGMENTS).map(|segment| folder.join(format!("segment-{segment}")));
            let all: String = segments.map(|file| std::fs::read_to_string(file).expect("it was made")).collect();
            let file = folder.join("result");
            std::fs::write(&file, all).expect("the folder is there");
            Ok(WorkOutput {
                file,
                media_type: "video/webm",
                frames: 60,
                rate_frames: 30,
                rate_seconds: 1,
                warnings: vec![],
            })
        })
    }

    fn checkpoint(&self, _: &Path) -> std::io::Result<Option<WorkCheckpoint>> {
        Ok(None)
    }
}

/// Results as files of a folder.
#[derive(Debug)]
pub(crate) struct FolderStore(pub(crate) PathBuf);

impl ResultStore for FolderStore {
    fn put<'a>(&'a self, id: &'a str, file: &'a Path, _: &'a str) -> BoxFuture<'a, Result<String, ResultStoreError>> {
        Box::pin(async move {
            std::fs::copy(file, self.0.join(id)).map_err(|error| ResultStoreError(error.to_string()))?;
            Ok(id.to_owned())
        })
    }

    fn delete<'a>(&'a self, object: &'a str) -> BoxFuture<'a, Result<(), ResultStoreError>> {
        Box::pin(async move {
            std::fs::remove_file(self.0.join(object)).map_err(|error| ResultStoreError(error.to_string()))
        })
    }

    fn discard<'a>(&'a self, job: &'a Job) -> BoxFuture<'a, Result<(), ResultStoreError>> {
        self.delete(&job.id)
    }

    fn put_input<'a>(&'a self, id: &'a str, file: &'a Path) -> BoxFuture<'a, Result<(), ResultStoreError>> {
        Box::pin(async move {
            let copied = std::fs::copy(file, self.0.join(format!("{id}.input")));
            copied.map(drop).map_err(|error| ResultStoreError(error.to_string()))
        })
    }

    fn fetch_input<'a>(&'a self, id: &'a str, to: &'a Path) -> BoxFuture<'a, Result<bool, ResultStoreError>> {
        Box::pin(async move {
            let copied = std::fs::copy(self.0.join(format!("{id}.input")), to);
            copied.map(|_| true).map_err(|error| ResultStoreError(error.to_string()))
        })
    }

    fn delete_input<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), ResultStoreError>> {
        Box::pin(async move {
            let removed = std::fs::remove_file(self.0.join(format!("{id}.input")));
            removed.map_err(|error| ResultStoreError(error.to_string()))
        })
    }

    fn put_checkpoint<'a>(&'a self, _: &'a str, _: &'a Path) -> BoxFuture<'a, Result<(), ResultStoreError>> {
        unreachable!("the store is not shared")
    }

    fn fetch_checkpoint<'a>(&'a self, _: &'a str, _: &'a Path) -> BoxFuture<'a, Result<(), ResultStoreError>> {
        unreachable!("the store is not shared")
    }

    fn delete_checkpoint<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<(), ResultStoreError>> {
        unreachable!("the store is not shared")
    }
}

/// Webhooks that are printed to stderr.
#[derive(Debug)]
pub(crate) struct PrintedWebhooks;

impl WebhookTransport for PrintedWebhooks {
    fn body<'a>(&'a self, shown: &'a JobView) -> BoxFuture<'a, Result<Vec<u8>, ResultStoreError>> {
        let state = shown.job.state.name();
        Box::pin(async move { Ok(state.into()) })
    }

    fn deliver<'a>(&'a self, job: &'a Job, _: &'a str, id: &'a str, body: Vec<u8>) -> BoxFuture<'a, DeliveryOutcome> {
        Box::pin(async move {
            print_line(&format!("posted {} {id} {}", job.id, String::from_utf8(body).expect("text")));
            DeliveryOutcome::Delivered
        })
    }
}

/// One line in one write: printed whole or not at all when the process is killed.
fn print_line(line: &str) {
    std::io::stderr().write_all(format!("{line}\n").as_bytes()).expect("the parent reads");
}

async fn start(data_dir: &Path) -> (Store, Jobs) {
    let store = RedbStore::open(&store::file_in(data_dir)).expect("the store opens");
    let store = Store::file(store, 1_000_000).expect("the store loads");
    let deps = Deps {
        store: store.clone(),
        results: Arc::new(FolderStore(data_dir.join("kept"))),
        worker: Arc::new(SegmentWorker),
        webhooks: Arc::new(PrintedWebhooks),
    };
    let config = JobsConfig { parallel: 2, ..JobsConfig::default() };
    let jobs = Jobs::start(deps, &config, data_dir).await.expect("it starts");
    (store, jobs)
}

fn new(name: &str) -> NewJob {
    NewJob {
        key_id: "key_1".into(),
        account: "acme".into(),
        test: false,
        fields: Vec::new(),
        format: "webm",
        name: Some(name.into()),
        fingerprint: [7; 32],
        unit_price: PRICE,
        webhook: Some(NewWebhook { url: "https://example.com".into(), base: String::new() }),
        reservation: None,
    }
}

/// Creates and runs jobs until it is killed; in the last run only finishes the existing ones.
#[test]
#[ignore = "run by a_daemon_killed_at_random_moments_finishes_every_job_once"]
fn daemon() {
    let input = child_input();
    let (data_dir, run) = input.split_once('\n').expect("two lines");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let (store, jobs) = start(Path::new(data_dir)).await;
        print_line("ready");
        let work = async {
            if run == "last" {
                while !store.waiting_jobs(1).await.expect("it reads").is_empty()
                    || !store.webhook_jobs(UnixSeconds(0), 1).await.expect("it reads").is_empty()
                {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                return;
            }
            for turn in 0.. {
                let name = format!("{run}-{turn}");
                let incoming = jobs.incoming("acme", 1 << 20).await.expect("a folder");
                std::fs::write(incoming.input(), &name).expect("the folder is there");
                match jobs.create(new(&name), incoming).await {
                    Ok(Created::New(shown)) => print_line(&format!("made {} {name}", shown.job.id)),
                    // At the limit of waiting jobs.
                    Ok(Created::Same(_) | Created::Conflict) | Err(_) => {
                        tokio::time::sleep(Duration::from_millis(2)).await
                    }
                }
            }
        };
        tokio::join!(jobs.run(work));
    });
}

#[test]
fn a_daemon_killed_at_random_moments_finishes_every_job_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data_dir = folder.path();
    std::fs::create_dir(data_dir.join("kept")).expect("it is new");
    drop(apply(&RedbStore::open(&store::file_in(data_dir)).expect("a new store"), account("acme")));
    let mut made: Vec<(String, String)> = Vec::new();
    let mut posted: Vec<[String; 3]> = Vec::new();
    let mut note = |line: String| match line.split(' ').collect::<Vec<_>>()[..] {
        ["made", id, name] => made.push((id.into(), name.into())),
        ["posted", job, id, state] => posted.push([job, id, state].map(Into::into)),
        _ => {}
    };
    let kills = rounds(8, 60);
    for run in 0..kills {
        let mut daemon =
            child(concat!(module_path!(), "::daemon"), &format!("{}\n{run}", data_dir.to_str().expect("a plain path")));
        let mut printed = BufReader::new(daemon.stderr.take().expect("piped")).lines().map_while(Result::ok);
        let lines = rand::rng().random_range(1..40);
        printed.by_ref().take(lines).for_each(&mut note);
        std::thread::sleep(Duration::from_micros(rand::rng().random_range(0..10_000)));
        daemon.kill().expect("it is ours");
        assert!(!daemon.wait().expect("it was killed").success(), "it never ends by itself");
        printed.for_each(&mut note);
    }
    let started = Instant::now();
    let mut last =
        child(concat!(module_path!(), "::daemon"), &format!("{}\nlast", data_dir.to_str().expect("a plain path")));
    let printed = BufReader::new(last.stderr.take().expect("piped")).lines().map_while(Result::ok);
    printed.for_each(&mut note);
    assert!(last.wait().expect("it ends").success());
    println!("{} jobs, {} webhooks, the last run took {:?}", made.len(), posted.len(), started.elapsed());
    assert!(made.len() > kills, "nothing was tested");

    let store = RedbStore::open(&store::file_in(data_dir)).expect("the store opens");
    let report = store.check().expect("the store reads");
    assert!(report.is_sound(), "{:?}", report.findings);
    let jobs = store.jobs("key_1", None, usize::MAX).expect("the store reads");
    let ids: BTreeSet<&str> = jobs.iter().map(|job| job.id.as_str()).collect();
    for (id, name) in &made {
        assert!(ids.contains(id.as_str()), "{name} was acknowledged and is lost");
    }
    // At most the one being created is unacknowledged, in each run.
    assert!(jobs.len() <= made.len() + kills);
    for job in &jobs {
        assert_eq!((job.state, job.progress), (JobState::Done, 100), "{job:?}");
        let name = job.name.as_ref().expect("it has one");
        let expected: String = (0..SEGMENTS).map(|segment| format!("{name} {segment}\n")).collect();
        assert_eq!(std::fs::read_to_string(data_dir.join("kept").join(&job.id)).expect("it is kept"), expected);
        let received: BTreeSet<&[String; 3]> = posted.iter().filter(|[id, ..]| *id == job.id).collect();
        assert_eq!(received.len(), 1, "the same message, once or again: {received:?}");
        assert!(received.iter().all(|[_, id, state]| id.starts_with("msg_") && state == "done"), "{received:?}");
    }
    // Each is billed once, to the month of its creation.
    let rows = store.load_at(UnixSeconds::now()).expect("the store reads");
    let seconds: u64 = rows.usage.iter().map(|(_, _, usage)| usage.images).sum();
    let price: u64 = rows.usage.iter().map(|(_, _, usage)| usage.microdollars).sum();
    assert_eq!((seconds, price), (2 * jobs.len() as u64, 2 * PRICE * jobs.len() as u64));
    // No other file remains.
    assert_eq!(std::fs::read_dir(data_dir.join("jobs")).expect("it was made").count(), 0);
    assert_eq!(std::fs::read_dir(data_dir.join("kept")).expect("it was made").count(), jobs.len());
}
