//! Throughput of a bulk run on 1, 2 and 3 workers, with a network that sleeps: `cargo bench --profile release --bench bulk_cluster`.
//!
//! All workers run in this process, each with one connection to a PostgreSQL server on this machine, whose programs must
//! be installed (`make cluster-bench`). The sleep takes no processor time: the loss between one worker and three is the
//! cost of claims, heartbeats, the report and the file system.

#[path = "../tests/it/support/postgres.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod postgres_server;
#[path = "../tests/it/support/skipped.rs"]
mod skipped;

use backdrop::bulk::cluster::{Prepare, PreparedRun, Worker, enqueue};
use backdrop::bulk::{
    KeyFilter, KeyTemplate, Locations, ProcessError, Processed, Processor, ReportLog, RunOptions, StageTimes,
    StopSignal,
};
use backdrop::source::StorageLocation;
use backdrop::store::{BulkQueue, BulkRun, PostgresServer, StoreConfig};
use bytes::Bytes;
use std::path::Path;
use std::time::{Duration, Instant};

/// Pictures of a run. Its number of chunks is divisible by 2 and 3.
const OBJECTS: usize = 1200;
/// Time of one picture.
const PICTURE: Duration = Duration::from_millis(20);
const ROUNDS: usize = 3;

struct Sleep;

impl Processor for Sleep {
    async fn process(&self, picture: Bytes) -> Result<Processed, ProcessError> {
        tokio::time::sleep(PICTURE).await;
        Ok(Processed {
            bytes: picture,
            media_type: "image/png",
            width: 1,
            height: 1,
            uncertainty: None,
            stages: StageTimes::default(),
        })
    }
}

struct Sleeping<'a>(&'a Locations);

impl Prepare for Sleeping<'_> {
    type Processor = Sleep;

    async fn prepare(&self, _: &BulkRun) -> Result<PreparedRun<Sleep>, String> {
        Ok(PreparedRun { locations: self.0.clone(), max_bytes: 1 << 20, processor: Sleep })
    }
}

fn open(folder: &Path) -> StorageLocation {
    let url = url::Url::from_file_path(folder).expect("an absolute path");
    StorageLocation::open(url.as_str(), true).expect("a folder")
}

async fn queue(config: &StoreConfig) -> BulkQueue {
    let server = PostgresServer::configured(config).expect("a URL").expect("it is set");
    server.bulk_queue().await.expect("a database")
}

/// Pictures per second of a run on `workers`.
async fn run(config: &StoreConfig, locations: &Locations, folder: &Path, name: &str, workers: usize) -> f64 {
    let options = RunOptions {
        filter: KeyFilter::new(&[], &[]).expect("no globs"),
        template: KeyTemplate::DEFAULT.parse().expect("the default"),
        extension: "png",
        shard: None,
        limit: None,
        parameters: name.to_owned(),
        model: "none".to_owned(),
        max_bytes: 1 << 20,
    };
    let report = ReportLog::open(&folder.join(format!("{name}.jsonl")), name).expect("a new report");
    let connections = futures_util::future::join_all((0..=workers).map(|_| queue(config))).await;
    let (queue, connections) = connections.split_first().expect("one is the bench's");
    let run = BulkRun { id: name.to_owned(), spec: "{}".to_owned(), ..BulkRun::default() };
    let stop = StopSignal::default();
    let queued = enqueue(queue, &run, locations, &options, &report, &stop).await.expect("it is queued");
    assert_eq!(queued.objects, OBJECTS as u64);
    let prepare = Sleeping(locations);
    let started = Instant::now();
    let working = connections.iter().map(|queue| {
        let worker = Worker { queue, name, jobs: 1, prepare: &prepare, stop: &stop };
        async move { worker.run().await.expect("it works") }
    });
    let finished = async {
        loop {
            let status = queue.status(Some(name)).await.expect("it answers");
            if status[0].open_chunks == 0 {
                assert_eq!(status[0].finished, OBJECTS as u64);
                stop.request();
                return started.elapsed();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let (took, _) = tokio::join!(finished, futures_util::future::join_all(working));
    OBJECTS as f64 / took.as_secs_f64()
}

fn main() {
    // `cargo test --benches` only checks that it builds.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let Some(server) = postgres_server::Server::start_on_disk() else { return };
    let config = StoreConfig { url: Some(server.database().into()), ca_file: None };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (from, to) = (folder.path().join("in"), folder.path().join("out"));
    let (source, destination) = (open(&from), open(&to));
    for number in 0..OBJECTS {
        std::fs::write(from.join(format!("{number:04}.png")), b"not decoded").expect("the disk has room");
    }
    let locations = Locations::new(source, destination).expect("two places");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    println!("{OBJECTS} objects of {PICTURE:?}; medians of {ROUNDS} rounds");
    let mut alone = None;
    for workers in 1..=3 {
        let mut rates: Vec<f64> = (0..ROUNDS)
            .map(|round| {
                let name = format!("run-{workers}-{round}");
                runtime.block_on(run(&config, &locations, folder.path(), &name, workers))
            })
            .collect();
        rates.sort_by(f64::total_cmp);
        let rate = rates[ROUNDS / 2];
        let of_one = rate / *alone.get_or_insert(rate);
        println!("{workers} workers: {rate:.1} images/s, {:.2} × {workers} × one worker", of_one / workers as f64);
    }
}
