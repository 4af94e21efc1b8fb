//! A clip whose daemon is killed at random moments has the same result as without kills, byte for byte.
//!
//! The whole job service with ffmpeg, in a child process that the parent kills; only the network is a fake.

#![cfg(unix)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use backdrop::engine::Engine;
use backdrop::jobs::results::Results;
use backdrop::jobs::secret::DaemonSecret;
use backdrop::jobs::{
    Created, DeliveryOutcome, Deps, Job, JobState, JobView, Jobs, JobsConfig, NewJob, ResultStoreError, VideoWorker,
    WebhookTransport,
};
use backdrop::recipe::{VideoFormat, VideoRecipe};
use backdrop::store::{self, RedbStore, Store};
use backdrop::video::VideoConfig;
use futures_util::future::BoxFuture;
use rand::Rng;

use crate::store::support::{account, apply, open_released};
use crate::support::child_process::{child, child_input};
use crate::support::tier::rounds;
use crate::video::support::{boxed, cut, engine, made, recipe};

pub(super) const KEY: &str = "key_1";

/// The jobs of these tests have no webhooks.
#[derive(Debug)]
struct NoWebhooks;

impl WebhookTransport for NoWebhooks {
    fn body<'a>(&'a self, _: &'a JobView) -> BoxFuture<'a, Result<Vec<u8>, ResultStoreError>> {
        unreachable!("no job has a webhook")
    }

    fn deliver<'a>(&'a self, _: &'a Job, _: &'a str, _: &'a str, _: Vec<u8>) -> BoxFuture<'a, DeliveryOutcome> {
        unreachable!("no job has a webhook")
    }
}

async fn start(data_dir: &Path) -> (Store, Jobs) {
    start_on(data_dir, engine()).await
}

pub(super) async fn start_on(data_dir: &Path, engine: Engine) -> (Store, Jobs) {
    // The killed process may still hold its lock.
    let file = store::file_in(data_dir);
    let store = open_released(&file);
    let store = Store::file(store, 1_000_000).expect("the store loads");
    let secret = DaemonSecret::open(data_dir).expect("a secret");
    let deps = Deps {
        store: store.clone(),
        results: Arc::new(Results::open(None, data_dir, &secret).expect("a folder")),
        worker: Arc::new(VideoWorker::new(engine, VideoConfig::default())),
        webhooks: Arc::new(NoWebhooks),
    };
    let jobs = Jobs::start(deps, &JobsConfig::default(), data_dir).await.expect("it starts");
    (store, jobs)
}

/// Runs the existing jobs until it is killed or none is left.
#[test]
#[ignore = "run by a_clip_whose_daemon_is_killed_at_random_moments_has_the_same_result"]
fn daemon() {
    let data_dir = child_input();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let (store, jobs) = start(Path::new(&data_dir)).await;
        eprintln!("ready");
        jobs.run(async {
            while !store.waiting_jobs(1).await.expect("it reads").is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    });
}

/// The job `id` after a restart; without `id` a new one.
async fn job_after_restart(data_dir: &Path, clip: &Path, id: Option<&str>) -> JobView {
    let (_store, jobs) = start(data_dir).await;
    if let Some(id) = id {
        let shown = jobs.get(KEY, id).await.expect("it reads").expect("it is there");
        assert_ne!(shown.job.state, JobState::Failed, "{shown:?}");
        return shown;
    }
    created(&jobs, clip).await
}

/// A new job for a clip.
pub(super) async fn created(jobs: &Jobs, clip: &Path) -> JobView {
    let incoming = jobs.incoming("acme", 1 << 20).await.expect("a folder");
    std::fs::copy(clip, incoming.input()).expect("the folder is there");
    let new = NewJob {
        key_id: KEY.into(),
        account: "acme".into(),
        test: false,
        fields: vec![("smoothing".into(), "50".into())],
        format: "webm",
        name: None,
        fingerprint: [7; 32],
        unit_price: 100_000,
        webhook: None,
        reservation: None,
    };
    match jobs.create(new, incoming).await.expect("it is made") {
        Created::New(shown) => shown,
        other @ (Created::Same(_) | Created::Conflict) => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clip_whose_daemon_is_killed_at_random_moments_has_the_same_result() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data_dir = folder.path().join("data");
    std::fs::create_dir(&data_dir).expect("it is new");
    let name = data_dir.to_str().expect("a plain path");
    drop(apply(&RedbStore::open(&store::file_in(&data_dir)).expect("a new store"), account("acme")));
    // Ten segments, with sound.
    let options = "-c:v libx264 -preset ultrafast -crf 6 -pix_fmt yuv420p -c:a flac";
    let clip = made(folder.path(), "clip.mkv", &[&boxed((96, 54), "10", 20), "sine=duration=20"], options);
    let as_sent = VideoRecipe { smoothing: 50, ..recipe(VideoFormat::Webm) };
    let started = Instant::now();
    let (_kept, uninterrupted) = cut(&engine(), &clip, &as_sent).await.expect("it is a clip");
    let uninterrupted_time = started.elapsed();
    let expected = std::fs::read(uninterrupted.file).expect("it was made");

    let assert_same = |shown: &JobView| {
        let result = shown.job.result.as_ref().expect("it is done");
        let object = result.object.as_ref().expect("it is kept");
        let kept = std::fs::read(data_dir.join("results").join(object)).expect("it is kept");
        assert!(kept == expected, "{} bytes, without kills {} others", kept.len(), expected.len());
        assert_eq!((result.frames, result.seconds(), shown.progress), (200, 20.0, 100));
        assert_eq!(shown.job.warnings, [""; 0]);
    };
    let (mut shown, mut kills, mut done) = (job_after_restart(&data_dir, &clip, None).await, 0, 0_u64);
    while kills < rounds(4, 60) {
        let mut daemon = child(concat!(module_path!(), "::daemon"), name);
        let mut printed = BufReader::new(daemon.stderr.take().expect("piped")).lines().map_while(Result::ok);
        printed.find(|line| line == "ready");
        let moment = rand::rng().random_range(Duration::ZERO..uninterrupted_time / 3);
        tokio::time::sleep(moment).await;
        daemon.kill().expect("it is ours");
        daemon.wait().expect("it was killed");
        let after = job_after_restart(&data_dir, &clip, Some(&shown.job.id)).await;
        assert!(after.progress >= shown.progress, "{} after {}", after.progress, shown.progress);
        shown = after;
        if shown.job.state == JobState::Done {
            assert_same(&shown);
            done += 1;
            shown = job_after_restart(&data_dir, &clip, None).await;
        } else {
            kills += 1;
        }
    }
    let mut last = child(concat!(module_path!(), "::daemon"), name);
    assert!(last.wait().expect("it ends").success());
    let shown = job_after_restart(&data_dir, &clip, Some(&shown.job.id)).await;
    assert_same(&shown);
    done += 1;
    println!("{kills} kills, {done} jobs; uninterrupted one takes {uninterrupted_time:?}");
    let (store, _jobs) = start(&data_dir).await;
    let usage = store.usage("acme", backdrop::account::Plan::Paid, shown.job.created_at).await.expect("it reads");
    assert_eq!((usage.used, usage.microdollars), (20 * done, 2_000_000 * done), "each is billed once");
    assert_eq!(std::fs::read_dir(data_dir.join("jobs")).expect("it was made").count(), 0);
}
