//! Batch runs over a synthetic store: concurrency, failures, dry runs, memory.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backdrop::bulk::{
    KeyFilter, ListingTotal, Locations, Observer, ProcessError, Processed, Processor, ReportLog, Run, RunOptions,
    StageTimes, StopSignal, Summary, dry_run,
};
use backdrop::source::StorageLocation;
use bytes::Bytes;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt};
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// A store of `keys` objects, each with its key as its bytes; records the lengths of uploads.
#[derive(Debug, Default)]
struct SyntheticStore {
    keys: usize,
    put: Mutex<BTreeMap<String, usize>>,
    counts: bool,
    reads: AtomicUsize,
}

fn key(n: usize) -> String {
    format!("photos of the year/{:03}/a picture with a usual name {n:07}.jpg", n % 997)
}

impl fmt::Display for SyntheticStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("synthetic")
    }
}

fn meta(location: Path) -> ObjectMeta {
    let size = location.as_ref().len() as u64;
    ObjectMeta {
        location,
        last_modified: std::time::UNIX_EPOCH.into(),
        size,
        e_tag: Some("\"1\"".into()),
        version: None,
    }
}

fn unsupported<T>() -> Result<T> {
    Err(object_store::Error::NotImplemented { operation: "this".into(), implementer: "synthetic".into() })
}

impl ObjectStore for SyntheticStore {
    fn put_opts<'a, 'b, 'c>(&'a self, location: &'b Path, payload: PutPayload, _: PutOptions) -> Answer<'c, PutResult>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        if self.counts {
            self.put.lock().unwrap().insert(location.to_string(), payload.content_length());
        }
        async { Ok(PutResult { e_tag: None, version: None, extensions: Default::default() }) }.boxed()
    }

    fn put_multipart_opts<'a, 'b, 'c>(
        &'a self,
        _: &'b Path,
        _: PutMultipartOptions,
    ) -> Answer<'c, Box<dyn MultipartUpload>>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        async { unsupported() }.boxed()
    }

    fn get_opts<'a, 'b, 'c>(&'a self, location: &'b Path, _: GetOptions) -> Answer<'c, GetResult>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        async move {
            self.reads.fetch_add(1, Ordering::Relaxed);
            let meta = meta(location.clone());
            let bytes = Bytes::from(location.to_string());
            Ok(GetResult {
                payload: GetResultPayload::Stream(stream::iter([Ok(bytes)]).boxed()),
                range: 0..meta.size,
                meta,
                attributes: Attributes::default(),
                extensions: Default::default(),
            })
        }
        .boxed()
    }

    fn delete_stream(&self, _: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        stream::empty().boxed()
    }

    fn list(&self, _: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        stream::iter((0..self.keys).map(|n| Ok(meta(Path::from(key(n)))))).boxed()
    }

    fn list_with_delimiter<'a, 'b, 'c>(&'a self, _: Option<&'b Path>) -> Answer<'c, ListResult>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        async { unsupported() }.boxed()
    }

    fn copy_opts<'a, 'b, 'c, 'd>(&'a self, _: &'b Path, _: &'c Path, _: CopyOptions) -> Answer<'d, ()>
    where
        'a: 'd,
        'b: 'd,
        'c: 'd,
        Self: 'd,
    {
        async { unsupported() }.boxed()
    }
}

fn location(store: &Arc<SyntheticStore>, root: &str) -> StorageLocation {
    StorageLocation {
        store: store.clone(),
        prefix: Path::default(),
        signer: None,
        root: root.into(),
        has_attributes: false,
    }
}

fn options() -> RunOptions {
    RunOptions {
        filter: KeyFilter::new(&[], &[]).unwrap(),
        template: "{dir}/{stem}.{ext}".parse().unwrap(),
        extension: "png",
        shard: None,
        limit: None,
        parameters: "p".into(),
        model: "m/1".into(),
        max_bytes: 1 << 20,
    }
}

/// A processor with a fixed latency that counts concurrent calls.
#[derive(Default)]
struct FakeProcessor {
    latency: Duration,
    running: AtomicUsize,
    max_running: AtomicUsize,
    fails: bool,
}

impl Processor for FakeProcessor {
    async fn process(&self, picture: Bytes) -> std::result::Result<Processed, ProcessError> {
        let now = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.max_running.fetch_max(now, Ordering::SeqCst);
        if !self.latency.is_zero() {
            tokio::time::sleep(self.latency).await;
        }
        self.running.fetch_sub(1, Ordering::SeqCst);
        if self.fails {
            return Err(ProcessError::Fatal("the network could not be loaded".into()));
        }
        Ok(Processed {
            bytes: picture,
            media_type: "image/png",
            width: 1,
            height: 1,
            uncertainty: Some(0.0),
            stages: StageTimes::default(),
        })
    }
}

#[derive(Default)]
struct TotalObserver {
    total: Option<u64>,
}

impl Observer for TotalObserver {
    fn total(&mut self, total: ListingTotal) {
        assert_eq!(self.total.replace(total.objects), None);
    }
}

struct Scene {
    store: Arc<SyntheticStore>,
    locations: Locations,
    folder: tempfile::TempDir,
}

impl Scene {
    fn new(store: SyntheticStore) -> Self {
        let store = Arc::new(store);
        let locations =
            Locations::new(location(&store, "synthetic://in"), location(&store, "synthetic://out")).unwrap();
        Self { store, locations, folder: tempfile::tempdir().unwrap() }
    }

    fn report(&self) -> ReportLog {
        ReportLog::open(&self.folder.path().join("report.jsonl"), "p").unwrap()
    }

    async fn run(&self, processor: &FakeProcessor, jobs: usize) -> (Summary, Option<String>) {
        let (report, options, stop) = (self.report(), options(), StopSignal::default());
        let run = Run { locations: &self.locations, options: &options, jobs, processor, report: &report, stop: &stop };
        let (summary, error) = run.run(&mut TotalObserver::default()).await;
        (summary, error.map(|error| error.to_string()))
    }
}

#[tokio::test]
async fn jobs_bound_the_concurrency() {
    let scene = Scene::new(SyntheticStore { keys: 60, counts: true, ..SyntheticStore::default() });
    let processor = FakeProcessor { latency: Duration::from_millis(5), ..FakeProcessor::default() };
    let (summary, error) = scene.run(&processor, 2).await;
    assert_eq!((summary.done, error), (60, None));
    assert_eq!(processor.max_running.load(Ordering::SeqCst), 2);
    let put = scene.store.put.lock().unwrap();
    assert_eq!(put.len(), 60);
    assert!(put.contains_key(&key(59).replace(".jpg", ".png")));
}

#[tokio::test]
async fn a_network_that_does_not_load_ends_the_run() {
    let scene = Scene::new(SyntheticStore { keys: 100_000, ..SyntheticStore::default() });
    let processor = FakeProcessor { fails: true, ..FakeProcessor::default() };
    let (summary, error) = scene.run(&processor, 2).await;
    assert_eq!(error.as_deref(), Some("the network could not be loaded"));
    assert_eq!((summary.done, summary.failed), (0, 0));
    assert!(scene.store.reads.load(Ordering::Relaxed) < 1000);
}

#[tokio::test]
async fn a_dry_run_takes_an_even_and_deterministic_sample() {
    let scene = Scene::new(SyntheticStore { keys: 5000, ..SyntheticStore::default() });
    let report = scene.report();
    let count = async || dry_run(&scene.locations, &options(), &report, 8).await.unwrap();
    let (one, two) = (count().await, count().await);
    assert_eq!((one.objects, one.bytes), (5000, 5000 * key(0).len() as u64));
    assert_eq!(one.sample, two.sample);
    let late = one.sample.iter().filter(|meta| (2500..5000).any(|n| meta.location.as_ref() == key(n))).count();
    assert!((1..8).contains(&late), "{late} of 8 are from the second half");
}

/// Peak resident memory of this process in MB.
fn peak() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a peak");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<f64>().ok()).expect("a number") / 1024.0
}

#[test]
#[ignore = "a minute, and run alone: make many-keys"]
fn a_million_keys_take_less_than_200_mb() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let scene = Scene::new(SyntheticStore { keys: 1_000_000, ..SyntheticStore::default() });
    let began = std::time::Instant::now();
    let (summary, error) = runtime.block_on(scene.run(&FakeProcessor::default(), 8));
    assert_eq!((summary.done, error), (1_000_000, None));
    println!("making: {:.0} MB at most, {:.0} s", peak(), began.elapsed().as_secs_f64());
    let began = std::time::Instant::now();
    let (summary, _) = runtime.block_on(scene.run(&FakeProcessor::default(), 8));
    assert_eq!((summary.skipped, summary.done), (1_000_000, 0));
    println!("skipping: {:.0} MB at most, {:.0} s", peak(), began.elapsed().as_secs_f64());
    let began = std::time::Instant::now();
    assert_eq!(scene.report().finish().unwrap().done, 1_000_000);
    println!("ending the report: {:.0} MB at most, {:.0} s", peak(), began.elapsed().as_secs_f64());
    assert!(peak() < 200.0);
}
