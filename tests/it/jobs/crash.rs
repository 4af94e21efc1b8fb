//! A daemon with jobs that is killed at any moment, again and again, ends each of them once, as if it had never been.
//!
//! A second process makes jobs and does them, with work that goes on from segments in the job's folder, and says on
//! stderr what it was told; this one kills it at a random moment. In the end a last life does what is left.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use backdrop::account::Services;
use backdrop::jobs::{
    Created, DeliveryOutcome, Deps, Job, JobState, JobView, Jobs, JobsConfig, NewJob, NewWebhook, ResultStore,
    ResultStoreError, WebhookTransport, WorkError, WorkOutput, Worker, input_in,
};
use backdrop::store::{self, RedbStore, StateStore, UnixSeconds};
use futures_util::future::BoxFuture;
use rand::Rng;

use crate::store::support::{account, apply, child, child_input};
use crate::support::tier::rounds;

const SEGMENTS: u8 = 5;
/// Microdollars a second; every job is 2 s long.
const PRICE: u64 = 100_000;

/// Writes segments, then all of them as one file; what is there already is not made again.
#[derive(Debug)]
struct Segments;

impl Worker for Segments {
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
}

/// A folder.
#[derive(Debug)]
pub(crate) struct Folder(pub(crate) PathBuf);

impl ResultStore for Folder {
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
}

/// A receiver that says what it hears.
#[derive(Debug)]
pub(crate) struct Says;

impl WebhookTransport for Says {
    fn body<'a>(&'a self, shown: &'a JobView) -> BoxFuture<'a, Result<Vec<u8>, ResultStoreError>> {
        let state = shown.job.state.name();
        Box::pin(async move { Ok(state.into()) })
    }

    fn deliver<'a>(&'a self, job: &'a Job, _: &'a str, id: &'a str, body: Vec<u8>) -> BoxFuture<'a, DeliveryOutcome> {
        Box::pin(async move {
            say(&format!("told {} {id} {}", job.id, String::from_utf8(body).expect("text")));
            DeliveryOutcome::Delivered
        })
    }
}

/// One line, in one write: whole or not there when the process dies.
fn say(line: &str) {
    std::io::stderr().write_all(format!("{line}\n").as_bytes()).expect("the parent reads");
}

fn start(data_dir: &Path) -> (Services, Jobs) {
    let store = RedbStore::open(&store::file_in(data_dir)).expect("the store opens");
    let services = Services::load(store, 1_000_000).expect("the store loads");
    let deps = Deps {
        store: Arc::clone(&services.store),
        billing: services.billing.clone(),
        results: Arc::new(Folder(data_dir.join("kept"))),
        worker: Arc::new(Segments),
        webhooks: Arc::new(Says),
    };
    let config = JobsConfig { parallel: 2, ..JobsConfig::default() };
    let jobs = Jobs::start(deps, &config, data_dir).expect("it starts");
    (services, jobs)
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

/// Makes jobs as fast as they are done, until it is killed; in the last life only does what is there.
#[test]
#[ignore = "the process that the other one in this file kills"]
fn daemon() {
    let input = child_input();
    let Some((data_dir, life)) = input.split_once('\n') else { return };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let (services, jobs) = start(Path::new(data_dir));
        say("ready");
        let work = async {
            if life == "last" {
                while !services.store.waiting_jobs(1).expect("it reads").is_empty()
                    || !services.store.webhook_jobs(1).expect("it reads").is_empty()
                {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                return;
            }
            for turn in 0.. {
                let name = format!("{life}-{turn}");
                let incoming = jobs.incoming(1 << 20).await.expect("a folder");
                std::fs::write(incoming.input(), &name).expect("the folder is there");
                match jobs.create(new(&name), incoming).await {
                    Ok(Created::New(shown)) => say(&format!("made {} {name}", shown.job.id)),
                    // As many as may wait.
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
fn a_daemon_killed_at_random_moments_ends_every_job_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data_dir = folder.path();
    std::fs::create_dir(data_dir.join("kept")).expect("it is new");
    drop(apply(&RedbStore::open(&store::file_in(data_dir)).expect("a new store"), account("acme")));
    let mut made: Vec<(String, String)> = Vec::new();
    let mut told: Vec<[String; 3]> = Vec::new();
    let mut note = |line: String| match line.split(' ').collect::<Vec<_>>()[..] {
        ["made", id, name] => made.push((id.into(), name.into())),
        ["told", job, id, state] => told.push([job, id, state].map(Into::into)),
        _ => {}
    };
    let kills = rounds(8, 60);
    for life in 0..kills {
        let mut daemon = child("jobs_crash::daemon", &format!("{}\n{life}", data_dir.to_str().expect("a plain path")));
        let mut said = BufReader::new(daemon.stderr.take().expect("piped")).lines().map_while(Result::ok);
        let lines = rand::rng().random_range(1..40);
        said.by_ref().take(lines).for_each(&mut note);
        std::thread::sleep(Duration::from_micros(rand::rng().random_range(0..10_000)));
        daemon.kill().expect("it is ours");
        assert!(!daemon.wait().expect("it was killed").success(), "it never ends by itself");
        said.for_each(&mut note);
    }
    let begun = Instant::now();
    let mut last = child("jobs_crash::daemon", &format!("{}\nlast", data_dir.to_str().expect("a plain path")));
    let said = BufReader::new(last.stderr.take().expect("piped")).lines().map_while(Result::ok);
    said.for_each(&mut note);
    assert!(last.wait().expect("it ends").success());
    println!("{} jobs, {} tellings, the last life took {:?}", made.len(), told.len(), begun.elapsed());
    assert!(made.len() > kills, "nothing was tested");

    let store = RedbStore::open(&store::file_in(data_dir)).expect("the store opens");
    let report = store.check().expect("the store reads");
    assert!(report.is_sound(), "{:?}", report.findings);
    let jobs = store.jobs("key_1", None, usize::MAX).expect("the store reads");
    let ids: BTreeSet<&str> = jobs.iter().map(|job| job.id.as_str()).collect();
    for (id, name) in &made {
        assert!(ids.contains(id.as_str()), "{name} was acknowledged and is lost");
    }
    // At most the one that was being made is unacknowledged, in each life.
    assert!(jobs.len() <= made.len() + kills);
    for job in &jobs {
        assert_eq!((job.state, job.progress), (JobState::Done, 100), "{job:?}");
        let name = job.name.as_ref().expect("it has one");
        let expected: String = (0..SEGMENTS).map(|segment| format!("{name} {segment}\n")).collect();
        assert_eq!(std::fs::read_to_string(data_dir.join("kept").join(&job.id)).expect("it is kept"), expected);
        let heard: BTreeSet<&[String; 3]> = told.iter().filter(|[id, ..]| *id == job.id).collect();
        assert_eq!(heard.len(), 1, "the same message, once or again: {heard:?}");
        assert!(heard.iter().all(|[_, id, state]| id.starts_with("msg_") && state == "done"), "{heard:?}");
    }
    // Each is billed once, to the month that it was made in.
    let rows = store.load_at(UnixSeconds::now()).expect("the store reads");
    let seconds: u64 = rows.usage.iter().map(|(_, _, usage)| usage.images).sum();
    let price: u64 = rows.usage.iter().map(|(_, _, usage)| usage.microdollars).sum();
    assert_eq!((seconds, price), (2 * jobs.len() as u64, 2 * PRICE * jobs.len() as u64));
    // And nothing else is left.
    assert_eq!(std::fs::read_dir(data_dir.join("jobs")).expect("it was made").count(), 0);
    assert_eq!(std::fs::read_dir(data_dir.join("kept")).expect("it was made").count(), jobs.len());
}
