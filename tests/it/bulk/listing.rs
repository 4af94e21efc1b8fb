//! The run itself over a store that makes its keys up: bounds of memory, order, overlap.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backdrop::bulk::{
    Ledger, Order, Places, Row, Run, Select, Stages, Stop, Summary, Tally, Total, Unworked, Watch, Work, Worked, survey,
};
use backdrop::source::Objects;
use bytes::Bytes;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt};
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// Has `keys` objects, each with its key as its bytes, and keeps the lengths of what is put.
#[derive(Debug, Default)]
struct MadeUp {
    keys: usize,
    /// Longest wait for an object.
    latency: Duration,
    put: Mutex<BTreeMap<String, usize>>,
    counts: bool,
    reads: AtomicUsize,
}

fn key(n: usize) -> String {
    format!("photos of the year/{:03}/a picture with a usual name {n:07}.jpg", n % 997)
}

impl fmt::Display for MadeUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("made up")
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
    Err(object_store::Error::NotImplemented { operation: "this".into(), implementer: "made up".into() })
}

impl ObjectStore for MadeUp {
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
            if !self.latency.is_zero() {
                tokio::time::sleep(self.latency).await;
            }
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

fn place(store: &Arc<MadeUp>, root: &str) -> Objects {
    Objects { store: store.clone(), prefix: Path::default(), signer: None, root: root.into(), has_attributes: false }
}

fn order() -> Order {
    Order {
        select: Select::new(&[], &[]).unwrap(),
        template: "{dir}/{stem}.{ext}".parse().unwrap(),
        extension: "png",
        shard: None,
        limit: None,
        parameters: "p".into(),
        model: "m/1".into(),
        max_bytes: 1 << 20,
    }
}

/// Takes its time, and counts how many are at it.
#[derive(Default)]
struct Worker {
    takes: Duration,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
    /// Asked to stop when so many are done.
    stop_after: Option<(usize, Stop)>,
    done: AtomicUsize,
    breaks: bool,
}

impl Work for Worker {
    async fn work(&self, picture: Bytes) -> std::result::Result<Worked, Unworked> {
        let now = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_at_once.fetch_max(now, Ordering::SeqCst);
        if !self.takes.is_zero() {
            tokio::time::sleep(self.takes).await;
        }
        self.at_once.fetch_sub(1, Ordering::SeqCst);
        if self.breaks {
            return Err(Unworked::Broken("the network could not be loaded".into()));
        }
        let done = self.done.fetch_add(1, Ordering::SeqCst) + 1;
        if let Some((after, stop)) = &self.stop_after
            && done == *after
        {
            stop.ask();
        }
        Ok(Worked {
            bytes: picture,
            media_type: "image/png",
            width: 1,
            height: 1,
            uncertainty: Some(0.0),
            stages: Stages::default(),
        })
    }
}

#[derive(Default)]
struct Watcher {
    total: Option<u64>,
}

impl Watch for Watcher {
    fn total(&mut self, total: Total) {
        assert_eq!(self.total.replace(total.objects), None);
    }

    fn finished(&mut self, _: &Row, _: &Tally) {}

    fn tick(&mut self, _: &Tally) {}
}

struct Scene {
    store: Arc<MadeUp>,
    places: Places,
    folder: tempfile::TempDir,
}

impl Scene {
    fn new(store: MadeUp) -> Self {
        let store = Arc::new(store);
        let places = Places::new(place(&store, "made://up"), place(&store, "made://down")).unwrap();
        Self { store, places, folder: tempfile::tempdir().unwrap() }
    }

    fn ledger(&self) -> Ledger {
        Ledger::open(&self.folder.path().join("report.jsonl"), "p").unwrap()
    }

    async fn run(&self, work: &Worker, stop: &Stop, jobs: usize) -> (Summary, Option<String>) {
        let (ledger, order) = (self.ledger(), order());
        let run = Run { places: &self.places, order: &order, jobs, work, ledger: &ledger, stop };
        let (summary, broken) = run.run(&mut Watcher::default()).await;
        (summary, broken.map(|error| error.to_string()))
    }
}

#[tokio::test]
async fn downloads_hide_behind_the_work_and_the_work_stays_within_its_jobs() {
    let scene = Scene::new(MadeUp { keys: 60, latency: Duration::from_millis(50), counts: true, ..MadeUp::default() });
    let work = Worker { takes: Duration::from_millis(5), ..Worker::default() };
    let (summary, broken) = scene.run(&work, &Stop::default(), 2).await;
    assert_eq!((summary.done, broken), (60, None));
    assert_eq!(work.most_at_once.load(Ordering::SeqCst), 2);
    let put = scene.store.put.lock().unwrap();
    assert_eq!(put.len(), 60);
    assert!(put.contains_key(&key(59).replace(".jpg", ".png")));
}

#[tokio::test]
async fn a_run_that_is_asked_to_stop_finishes_what_is_in_work_and_goes_on_later() {
    let scene = Scene::new(MadeUp { keys: 300, counts: true, ..MadeUp::default() });
    let stop = Stop::default();
    let work = Worker { takes: Duration::from_millis(1), stop_after: Some((100, stop.clone())), ..Worker::default() };
    let (first, broken) = scene.run(&work, &stop, 4).await;
    assert!(first.stopped && broken.is_none());
    assert!((100..110).contains(&first.done), "{first:?}");
    assert_eq!(scene.store.put.lock().unwrap().len() as u64, first.done);
    let (second, _) = scene.run(&Worker::default(), &Stop::default(), 4).await;
    assert_eq!((second.skipped, second.done, second.stopped), (first.done, 300 - first.done, false));
}

#[tokio::test]
async fn a_network_that_does_not_load_ends_the_run() {
    let scene = Scene::new(MadeUp { keys: 100_000, ..MadeUp::default() });
    let work = Worker { breaks: true, ..Worker::default() };
    let (summary, broken) = scene.run(&work, &Stop::default(), 2).await;
    assert_eq!(broken.as_deref(), Some("the network could not be loaded"));
    assert_eq!((summary.done, summary.failed), (0, 0));
    assert!(scene.store.reads.load(Ordering::Relaxed) < 1000);
}

#[tokio::test]
async fn a_dry_run_samples_evenly_and_always_the_same() {
    let scene = Scene::new(MadeUp { keys: 5000, ..MadeUp::default() });
    let ledger = scene.ledger();
    let look = async || survey(&scene.places, &order(), &ledger, 8).await.unwrap();
    let (one, two) = (look().await, look().await);
    assert_eq!((one.objects, one.bytes), (5000, 5000 * key(0).len() as u64));
    assert_eq!(one.sample, two.sample);
    let late = one.sample.iter().filter(|meta| (2500..5000).any(|n| meta.location.as_ref() == key(n))).count();
    assert!((1..8).contains(&late), "{late} of 8 are from the second half");
}

/// The most memory that this process has had, in MB.
fn peak() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("it has had some");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<f64>().ok()).expect("a number") / 1024.0
}

#[test]
#[ignore = "a minute, and alone in its process: cargo test ... -- --ignored --exact bulk_listing::a_million_keys_take_less_than_200_mb"]
fn a_million_keys_take_less_than_200_mb() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let scene = Scene::new(MadeUp { keys: 1_000_000, ..MadeUp::default() });
    let began = std::time::Instant::now();
    let (summary, broken) = runtime.block_on(scene.run(&Worker::default(), &Stop::default(), 8));
    assert_eq!((summary.done, broken), (1_000_000, None));
    println!("making: {:.0} MB at most, {:.0} s", peak(), began.elapsed().as_secs_f64());
    let began = std::time::Instant::now();
    let (summary, _) = runtime.block_on(scene.run(&Worker::default(), &Stop::default(), 8));
    assert_eq!((summary.skipped, summary.done), (1_000_000, 0));
    println!("skipping: {:.0} MB at most, {:.0} s", peak(), began.elapsed().as_secs_f64());
    let began = std::time::Instant::now();
    assert_eq!(scene.ledger().finish().unwrap().done, 1_000_000);
    println!("ending the report: {:.0} MB at most, {:.0} s", peak(), began.elapsed().as_secs_f64());
    assert!(peak() < 200.0);
}
