//! Bulk runs on a PostgreSQL database, listed and processed in this process: leases while a picture takes long, and listings
//! that begin anew.

#![cfg(unix)]

use super::cluster::empty_queue;
use super::support::url;
use crate::support::postgres::name_of;
use backdrop::bulk::cluster::{Enqueued, Prepare, PreparedRun, Worker, enqueue};
use backdrop::bulk::{
    KeyFilter, KeyTemplate, Locations, ProcessError, Processed, Processor, ReportLog, RunOptions, StageTimes,
    StopSignal,
};
use backdrop::source::StorageLocation;
use backdrop::store::{BulkQueue, BulkRun};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Stops a test that hangs.
const LONG: Duration = Duration::from_secs(120);

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn locations(folder: &Path) -> Locations {
    let open = |name: &str| StorageLocation::open(&url(&folder.join(name)), true).unwrap();
    Locations::new(open("in"), open("out")).unwrap()
}

/// Begins the run, or lists it anew.
async fn list(queue: &BulkQueue, locations: &Locations, folder: &Path) -> Enqueued {
    let options = RunOptions {
        filter: KeyFilter::new(&[], &[]).unwrap(),
        template: KeyTemplate::DEFAULT.parse().unwrap(),
        extension: "png",
        shard: None,
        limit: None,
        parameters: String::new(),
        model: String::new(),
        max_bytes: 1 << 20,
    };
    let run = BulkRun { id: "run".into(), spec: "{}".into(), ..BulkRun::default() };
    let report = ReportLog::open(&folder.join("report.jsonl"), "").unwrap();
    enqueue(queue, &run, locations, &options, &report, &StopSignal::default()).await.unwrap()
}

#[test]
fn an_object_that_appears_between_two_listings_does_not_get_the_result_of_a_queued_one() {
    let Some((server, database, queue)) = empty_queue() else { return };
    let (queue, folder, runtime) = (queue, tempfile::tempdir().unwrap(), runtime());
    let locations = locations(folder.path());
    let write = |name: String| fs::write(folder.path().join("in").join(name), b"not decoded").unwrap();
    (0..20).for_each(|number| write(format!("{number}.jpg")));
    assert_eq!(runtime.block_on(list(&queue, &locations, folder.path())).objects, 20);
    // Each is listed before the one whose result it would have.
    (0..20).for_each(|number| write(format!("{number}.jpeg")));
    assert_eq!(runtime.block_on(list(&queue, &locations, folder.path())).objects, 40);
    let to_process = "SELECT sum(objects) FROM bulk_chunks WHERE tasks <> ''";
    assert_eq!(server.sql(name_of(&database), to_process).trim(), "20");
}

/// Processes a picture until it is released.
#[derive(Clone, Default)]
struct Held {
    started: StopSignal,
    released: StopSignal,
}

impl Processor for Held {
    async fn process(&self, picture: Bytes) -> Result<Processed, ProcessError> {
        self.started.request();
        self.released.requested().await;
        let (media_type, width, height, uncertainty) = ("image/png", 1, 1, None);
        Ok(Processed { bytes: picture, media_type, width, height, uncertainty, stages: StageTimes::default() })
    }
}

struct Prepared {
    locations: Locations,
    processor: Held,
}

impl Prepare for Prepared {
    type Processor = Held;

    async fn prepare(&self, _: &BulkRun) -> Result<PreparedRun<Held>, String> {
        let Self { locations, processor } = self;
        Ok(PreparedRun { locations: locations.clone(), max_bytes: 1 << 20, processor: processor.clone() })
    }
}

#[test]
fn a_worker_keeps_its_lease_until_the_pictures_of_a_cancelled_run_are_finished() {
    let Some((server, database, queue)) = empty_queue() else { return };
    let (queue, folder, runtime) = (queue, tempfile::tempdir().unwrap(), runtime());
    let locations = locations(folder.path());
    fs::write(folder.path().join("in/a.png"), b"not decoded").unwrap();
    assert_eq!(runtime.block_on(list(&queue, &locations, folder.path())).objects, 1);

    let (picture, stop) = (Held::default(), StopSignal::default());
    let prepare = Prepared { locations, processor: picture.clone() };
    let worker = Worker { queue: &queue, name: "test", jobs: 1, prepare: &prepare, stop: &stop };
    let sql = |text: &str| server.sql(name_of(&database), text).trim().to_owned();
    let mut leases = BTreeSet::new();
    std::thread::scope(|scope| {
        let working = scope.spawn(|| runtime.block_on(worker.run()).map_err(|error| error.to_string()));
        let began = Instant::now();
        while !picture.started.is_requested() && began.elapsed() < LONG {
            std::thread::sleep(Duration::from_millis(10));
        }
        sql("UPDATE bulk_runs SET state = 'cancelled'");
        // One renewal may have begun before, and the next one reads the new state.
        while leases.len() < 4 && began.elapsed() < LONG {
            leases.insert(sql("SELECT lease_until FROM bulk_chunks"));
            std::thread::sleep(Duration::from_millis(50));
        }
        picture.released.request();
        stop.request();
        assert_eq!(working.join().expect("no panic"), Ok(()));
    });
    assert_eq!(leases.len(), 4, "the lease is not renewed: {leases:?}");
    assert_eq!(sql("SELECT state, attempt FROM bulk_chunks"), "done|1");
}
