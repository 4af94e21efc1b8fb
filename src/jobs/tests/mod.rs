//! The service on a real store, with work, results and receivers that do what a test tells them.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::service::{Clock, Habits};
use super::space::{Bounds, FreeBytes};
use super::*;
use crate::account::{Plan, QuotaExhausted, Services};
use crate::store::{
    self, Account, AccountModel, Change, ChangeError, Day, Done as Answer, KeyDay, Month, OpenError, Preset, RedbStore,
    Rows, Usage,
};

/// 2100-01-01T00:00:00Z: a store loads what was used in this month and in later ones, by the clock of the machine.
const NOW: i64 = 4_102_444_800;
const KEY: &str = "key_1";
/// A dime a second.
const PRICE: u64 = 100_000;
/// What the work makes: 2.5 s.
const FRAMES: u64 = 75;

/// A record of a job.
pub(super) fn job(key_id: &str) -> Job {
    Job {
        id: "job_000000000000000000000000".into(),
        key_id: key_id.into(),
        account: "acme".into(),
        test: false,
        state: JobState::Queued,
        progress: 0,
        fields: Vec::new(),
        format: "webm".into(),
        name: None,
        fingerprint: [0; 32],
        unit_price: PRICE,
        month: Month(210_001),
        reserved: 0,
        created_at: UnixSeconds(NOW),
        place: NOW * 1000,
        updated_at: UnixSeconds(NOW),
        expires_at: UnixSeconds(NOW + RECORD_SECONDS),
        result: None,
        warnings: Vec::new(),
        error: None,
        webhook: None,
    }
}

/// Does what the field `do` of a job says.
#[derive(Debug, Default)]
struct FakeWork {
    /// Works that are under way, and the most there were at once.
    running: AtomicUsize,
    most: AtomicUsize,
    /// Ids in the order in which they were begun.
    begun: Mutex<Vec<String>>,
    /// Segments that were made, of all jobs.
    segments: AtomicUsize,
    /// Lets go who blocks.
    release: AtomicBool,
}

/// One that is under way.
struct Running<'a>(&'a FakeWork);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl FakeWork {
    async fn make(&self, folder: &Path, progress: &(dyn Fn(u8) + Send + Sync)) -> Result<Done, WorkError> {
        assert!(input_in(folder).is_file(), "the clip is there");
        for segment in 0..4 {
            let file = folder.join(format!("segment-{segment}"));
            if !file.exists() {
                std::fs::write(&file, "x").expect("the folder is there");
                self.segments.fetch_add(1, Ordering::SeqCst);
            }
            progress(segment * 25);
            tokio::task::yield_now().await;
        }
        let file = folder.join("result.webm");
        std::fs::write(&file, "a finished clip").expect("the folder is there");
        Ok(Done {
            file,
            media_type: "video/webm",
            frames: FRAMES,
            rate_frames: 30,
            rate_seconds: 1,
            warnings: vec!["it was cut off".into()],
        })
    }
}

impl Work for FakeWork {
    fn run<'a>(
        &'a self,
        job: &'a Job,
        folder: &'a Path,
        progress: &'a (dyn Fn(u8) + Send + Sync),
    ) -> BoxFuture<'a, Result<Done, WorkError>> {
        Box::pin(async move {
            let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(running, Ordering::SeqCst);
            let _running = Running(self);
            self.begun.lock().expect("no panic").push(job.id.clone());
            match job.fields.iter().find(|(name, _)| name == "do").map_or("make", |(_, what)| what.as_str()) {
                "make" => self.make(folder, progress).await,
                "fail" => {
                    progress(30);
                    Err(WorkError { code: "invalid_image", message: "not a clip".into(), internal: false })
                }
                "panic" => panic!("as it was told"),
                "hang" => {
                    for at in [10, 40, 20] {
                        progress(at);
                        tokio::task::yield_now().await;
                    }
                    std::future::pending().await
                }
                "block" => {
                    while !self.release.load(Ordering::SeqCst) {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    std::future::pending().await
                }
                "hang and make" => {
                    progress(40);
                    while !self.release.load(Ordering::SeqCst) {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                    self.make(folder, progress).await
                }
                "no length" => Ok(Done { rate_frames: 0, ..self.make(folder, progress).await? }),
                "no file" => Ok(Done { file: folder.join("nothing"), ..self.make(folder, progress).await? }),
                other => unreachable!("{other}"),
            }
        })
    }
}

/// Results in a map that outlives the service, as a bucket does.
#[derive(Debug, Default)]
struct FakeKeep {
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
    is_lost: AtomicBool,
}

impl FakeKeep {
    fn names(&self) -> Vec<String> {
        self.objects.lock().expect("no panic").keys().cloned().collect()
    }

    fn lost(&self) -> Result<(), KeepError> {
        let lost = self.is_lost.load(Ordering::SeqCst);
        if lost { Err(KeepError("the bucket is gone".into())) } else { Ok(()) }
    }
}

impl Keep for FakeKeep {
    fn put<'a>(
        &'a self,
        job_id: &'a str,
        file: &'a Path,
        media_type: &'a str,
    ) -> BoxFuture<'a, Result<String, KeepError>> {
        Box::pin(async move {
            self.lost()?;
            assert_eq!(media_type, "video/webm");
            let bytes = std::fs::read(file).map_err(|error| KeepError(error.to_string()))?;
            self.objects.lock().expect("no panic").insert(job_id.to_owned(), bytes);
            tokio::task::yield_now().await;
            Ok(job_id.to_owned())
        })
    }

    fn delete<'a>(&'a self, object: &'a str) -> BoxFuture<'a, Result<(), KeepError>> {
        Box::pin(async move {
            self.lost()?;
            self.objects.lock().expect("no panic").remove(object);
            Ok(())
        })
    }

    fn discard<'a>(&'a self, job: &'a Job) -> BoxFuture<'a, Result<(), KeepError>> {
        self.delete(&job.id)
    }
}

/// What a receiver does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Receiver {
    #[default]
    Takes,
    Refuses,
    Gone,
    Panics,
}

#[derive(Debug, Default)]
struct FakeDeliver {
    receiver: Mutex<Receiver>,
    /// Address, id and body of every attempt.
    attempts: Mutex<Vec<(String, String, String)>>,
}

impl FakeDeliver {
    fn count(&self) -> usize {
        self.attempts.lock().expect("no panic").len()
    }
}

impl Deliver for FakeDeliver {
    fn body<'a>(&'a self, shown: &'a Shown) -> BoxFuture<'a, Result<Vec<u8>, KeepError>> {
        let body = format!("{} {} {}", shown.job.id, shown.job.state.name(), shown.progress);
        Box::pin(async move { Ok(body.into_bytes()) })
    }

    fn deliver<'a>(&'a self, _: &'a Job, url: &'a str, webhook_id: &'a str, body: Vec<u8>) -> BoxFuture<'a, Delivery> {
        Box::pin(async move {
            let body = String::from_utf8(body).expect("text");
            self.attempts.lock().expect("no panic").push((url.into(), webhook_id.into(), body));
            let receiver = *self.receiver.lock().expect("no panic");
            match receiver {
                Receiver::Takes => Delivery::Delivered,
                Receiver::Refuses => Delivery::Retry("500".into()),
                Receiver::Gone => Delivery::Gone,
                Receiver::Panics => panic!("as it was told"),
            }
        })
    }
}

/// What outlives a daemon.
struct World {
    folder: TempDir,
    keep: Arc<FakeKeep>,
    work: Arc<FakeWork>,
    deliver: Arc<FakeDeliver>,
    /// The present in seconds.
    now: Arc<AtomicI64>,
    parallel: usize,
    stall: Duration,
    quota: u64,
    /// Bytes that the files of the jobs may take, and those that the disk has free.
    max_bytes: u64,
    free: Arc<AtomicU64>,
}

/// A daemon that is up.
struct Daemon {
    jobs: Jobs,
    services: Services,
    stop: Option<oneshot::Sender<()>>,
    running: Option<JoinHandle<()>>,
}

impl World {
    fn new() -> Self {
        let world = Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
            keep: Arc::default(),
            work: Arc::default(),
            deliver: Arc::default(),
            now: Arc::new(AtomicI64::new(NOW)),
            parallel: 1,
            stall: Duration::from_secs(600),
            quota: 10,
            max_bytes: 1 << 30,
            free: Arc::new(AtomicU64::new(1 << 30)),
        };
        let account = Account {
            name: "acme".into(),
            plan: Plan::Free,
            created_at: UnixSeconds(1),
            generates: false,
            model: AccountModel::default(),
        };
        let store = world.store();
        let other = Account { name: "other".into(), plan: Plan::Paid, ..account.clone() };
        for account in [account, other] {
            submit(&store, Change::CreateAccount { account, first_key: None }).expect("a new name");
        }
        drop(store);
        world
    }

    fn store(&self) -> RedbStore {
        // The daemon before may still be closing it.
        RedbStore::open_within(&store::file_in(self.folder.path()), Duration::from_secs(60)).expect("the store opens")
    }

    fn pass(&self, seconds: i64) {
        self.now.fetch_add(seconds, Ordering::SeqCst);
    }

    fn on(&self, store: impl StateStore) -> Daemon {
        let services = Services::load(store, self.quota).expect("the store loads");
        let means = Means {
            store: Arc::clone(&services.store),
            ledger: services.ledger.clone(),
            keep: Arc::clone(&self.keep) as Arc<dyn Keep>,
            work: Arc::clone(&self.work) as Arc<dyn Work>,
            deliver: Arc::clone(&self.deliver) as Arc<dyn Deliver>,
        };
        let now = Arc::clone(&self.now);
        let free = Arc::clone(&self.free);
        let habits = Habits {
            parallel: self.parallel,
            max_queued_per_key: 5,
            clock: Clock(Arc::new(move || now.load(Ordering::SeqCst) * 1000)),
            stall: self.stall,
            grace: Duration::from_millis(200),
            pause: Duration::from_millis(5),
            space: Bounds {
                max_bytes: self.max_bytes,
                min_free_bytes: 100,
                check_every: Duration::from_millis(2),
                free: FreeBytes(Arc::new(move |_| Ok(free.load(Ordering::SeqCst)))),
            },
        };
        let jobs = Jobs::start_with(means, habits, self.folder.path()).expect("it starts");
        Daemon { jobs, services, stop: None, running: None }
    }

    /// A daemon that does nothing by itself yet.
    fn start(&self) -> Daemon {
        self.on(self.store())
    }

    /// A daemon that does its jobs.
    fn run(&self) -> Daemon {
        let mut daemon = self.start();
        daemon.go();
        daemon
    }

    fn folders(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path().join("jobs")).expect("it was made");
        entries.map(|entry| entry.expect("it reads").file_name().into_string().expect("text")).collect()
    }
}

impl Daemon {
    fn go(&mut self) {
        let (stop, stopped) = oneshot::channel::<()>();
        let jobs = self.jobs.clone();
        self.stop = Some(stop);
        self.running = Some(tokio::spawn(async move { jobs.run(async { drop(stopped.await) }).await }));
    }

    /// Ends it as a signal does.
    async fn stop(mut self) {
        drop(self.stop.take());
        self.running.take().expect("it runs").await.expect("no panic");
    }

    /// Ends it without a word.
    async fn kill(mut self) {
        if let Some(running) = self.running.take() {
            running.abort();
            drop(running.await);
        }
    }

    async fn create(&self, new: NewJob) -> Result<Created, JobsError> {
        let incoming = self.jobs.incoming(6).await.expect("a folder");
        std::fs::write(incoming.input(), "a clip").expect("the folder is there");
        self.jobs.create(new, incoming).await
    }

    async fn made(&self, new: NewJob) -> Shown {
        match self.create(new).await.expect("it is made") {
            Created::New(shown) => shown,
            other @ (Created::Same(_) | Created::Conflict) => panic!("{other:?}"),
        }
    }

    async fn get(&self, id: &str) -> Option<Shown> {
        self.jobs.get(KEY, id).await.expect("the store reads")
    }

    async fn look(&self, id: &str) -> Shown {
        self.get(id).await.expect("it is there")
    }

    /// The job once it is at its end.
    async fn ended(&self, id: &str) -> Shown {
        until(async || self.look(id).await.job.state.is_final()).await;
        self.look(id).await
    }

    fn used(&self) -> Usage {
        let standing = self.services.ledger.standing("acme", Plan::Free, UnixSeconds(NOW));
        Usage { images: standing.used, microdollars: standing.microdollars }
    }

    /// Waits for the bill: the end of a job can be read a moment before the ledger has counted what was committed with it.
    async fn bills(&self, expected: Usage, why: &str) {
        let patience = tokio::time::timeout(Duration::from_secs(60), until(async || self.used() == expected));
        assert!(patience.await.is_ok(), "{why}: {:?} is billed, not {expected:?}", self.used());
    }

    fn reserve(&self, images: u64) -> Result<Reservation, QuotaExhausted> {
        self.services.ledger.reserve("acme", Plan::Free, images, UnixSeconds(NOW))
    }
}

/// Waits for a condition, with much patience.
async fn until(mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !condition().await {
        assert!(Instant::now() < deadline, "it never came");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn submit(store: &dyn StateStore, change: Change) -> Result<Rows, ChangeError> {
    let (answer, answers) = std::sync::mpsc::channel();
    store.submit(change, Box::new(move |result| answer.send(result).expect("we listen")));
    answers.recv().expect("one answer")
}

/// A job that does `what`.
fn new(what: &str) -> NewJob {
    NewJob {
        key_id: KEY.into(),
        account: "acme".into(),
        test: false,
        fields: vec![("do".into(), what.into())],
        format: "webm",
        name: None,
        fingerprint: [7; 32],
        unit_price: PRICE,
        webhook: None,
        reservation: None,
    }
}

fn named(what: &str, name: &str) -> NewJob {
    NewJob { name: Some(name.into()), ..new(what) }
}

fn hooked(what: &str) -> NewJob {
    let webhook = NewWebhook { url: "https://example.com/hook".into(), base: "https://backdrop".into() };
    NewJob { webhook: Some(webhook), ..new(what) }
}

#[tokio::test]
async fn a_job_goes_from_the_queue_to_its_result_and_is_billed_for_its_length() {
    let world = World::new();
    let mut daemon = world.start();
    let reservation = daemon.reserve(9).expect("10 are there");
    let made = daemon.made(NewJob { reservation: Some(reservation), ..new("make") }).await;
    assert!(Job::is_id(&made.job.id), "{}", made.job.id);
    assert_eq!((made.job.state, made.progress), (JobState::Queued, 0));
    assert_eq!(made.job.expires_at, UnixSeconds(NOW + RECORD_SECONDS));
    assert_eq!(daemon.look(&made.job.id).await, made);
    assert_eq!(world.folders(), [made.job.id.as_str()]);
    assert!(daemon.reserve(2).is_err(), "the job holds 9 of 10");

    world.pass(60);
    daemon.go();
    let ended = daemon.ended(&made.job.id).await;
    let result = ended.job.result.clone().expect("a result");
    assert_eq!((ended.job.state, ended.progress, ended.job.updated_at), (JobState::Done, 100, UnixSeconds(NOW + 60)));
    assert_eq!((result.bytes, result.frames, result.seconds()), (15, FRAMES, 2.5));
    assert_eq!(result.expires_at, UnixSeconds(NOW + 60 + RESULT_SECONDS));
    assert_eq!(ended.job.expires_at, UnixSeconds(NOW + 60 + RECORD_SECONDS));
    assert_eq!(ended.job.warnings, ["it was cut off"]);
    assert_eq!(world.keep.names(), [result.object.expect("it is kept")]);
    // Two and a half seconds of a dime each; three of them began.
    let used = Usage { images: 3, microdollars: 250_000 };
    daemon.bills(used, "a clip of three seconds").await;
    assert!(daemon.reserve(8).is_err() && daemon.reserve(7).is_ok(), "what was not billed is free again");
    until(async || world.folders().is_empty()).await;
    daemon.stop().await;
    assert_eq!(world.start().used(), used, "after a restart");
}

#[tokio::test]
async fn a_sandbox_job_is_not_billed() {
    let world = World::new();
    let daemon = world.run();
    let made = daemon.made(NewJob { test: true, unit_price: 0, ..new("make") }).await;
    assert_eq!(daemon.ended(&made.job.id).await.job.state, JobState::Done);
    assert_eq!(daemon.used(), Usage::default());
    daemon.stop().await;
}

#[tokio::test]
async fn jobs_are_done_in_order_and_so_many_at_once_and_no_more() {
    let world = World { parallel: 2, ..World::new() };
    let mut daemon = world.start();
    let mut ids = Vec::new();
    for what in ["hang", "make", "make", "fail"] {
        ids.push(daemon.made(new(what)).await.job.id);
    }
    daemon.go();
    daemon.ended(&ids[3]).await;
    assert_eq!(*world.work.begun.lock().expect("no panic"), ids);
    assert_eq!(world.work.most.load(Ordering::SeqCst), 2);
    assert_eq!(daemon.look(&ids[0]).await.job.state, JobState::Processing);
    daemon.stop().await;
}

#[tokio::test]
async fn a_repeated_request_is_its_first_job_and_another_one_under_its_name_is_a_conflict() {
    let world = World::new();
    let daemon = world.start();
    let first = daemon.made(named("make", "order 1")).await;
    assert_eq!(daemon.create(named("make", "order 1")).await.expect("it is known"), Created::Same(first.clone()));
    let other = NewJob { fingerprint: [8; 32], ..named("make", "order 1") };
    assert_eq!(daemon.create(other).await.expect("it is known"), Created::Conflict);
    assert_eq!(daemon.jobs.named(KEY, "order 1").await.expect("it reads"), Some(first.clone()));
    assert_eq!(daemon.jobs.named("key_2", "order 1").await.expect("it reads"), None);
    assert_eq!(daemon.jobs.named(KEY, "order 2").await.expect("it reads"), None);
    // Another key's names are its own.
    let theirs = daemon.made(NewJob { key_id: "key_2".into(), ..named("make", "order 1") }).await;
    assert_ne!(theirs.job.id, first.job.id);
    // Nothing is left of those that were not made.
    let expected: BTreeSet<String> = [first.job.id, theirs.job.id].into();
    until(async || world.folders().into_iter().collect::<BTreeSet<_>>() == expected).await;
}

#[tokio::test]
async fn of_the_same_request_sent_ten_times_at_once_one_job_comes() {
    let world = World::new();
    let daemon = world.start();
    let all = futures_util::future::join_all((0..10).map(|_| daemon.create(named("make", "once")))).await;
    let mut ids = BTreeSet::new();
    let mut made = 0;
    for created in all {
        match created.expect("it is made or known") {
            Created::New(shown) => {
                made += 1;
                ids.insert(shown.job.id);
            }
            Created::Same(shown) => drop(ids.insert(shown.job.id)),
            Created::Conflict => panic!("it is the same"),
        }
    }
    assert_eq!((made, ids.len()), (1, 1));
    until(async || world.folders().len() == 1).await;
}

#[tokio::test]
async fn a_key_has_so_many_jobs_waiting_and_its_quota_is_given_back_with_a_refusal() {
    let world = World::new();
    let daemon = world.start();
    for turn in 0..5 {
        daemon.made(named("make", &turn.to_string())).await;
    }
    let reservation = daemon.reserve(10).expect("none is held");
    let refused = daemon.create(NewJob { reservation: Some(reservation), ..new("make") }).await;
    assert!(matches!(refused, Err(JobsError::TooMany(5))), "{refused:?}");
    assert!(daemon.reserve(10).is_ok(), "the refused job holds none");
    // A repetition is no further job, and another key has its own room.
    assert!(matches!(daemon.create(named("make", "3")).await, Ok(Created::Same(_))));
    daemon.made(NewJob { key_id: "key_2".into(), ..new("make") }).await;
    until(async || world.folders().len() == 6).await;
    // One that ended makes room.
    let first = daemon.jobs.named(KEY, "0").await.expect("it reads").expect("it is there");
    daemon.jobs.remove(KEY, &first.job.id).await.expect("it is cancelled");
    daemon.made(new("make")).await;
}

#[tokio::test]
async fn a_job_that_cannot_be_recorded_leaves_nothing() {
    let world = World::new();
    let daemon = world.start();
    let reservation = daemon.reserve(10).expect("none is held");
    let nobody = NewJob { account: "nobody".into(), reservation: Some(reservation), ..new("make") };
    assert!(matches!(daemon.create(nobody).await, Err(JobsError::Write(_))));
    // Nor one without a clip.
    let incoming = daemon.jobs.incoming(6).await.expect("a folder");
    assert!(matches!(daemon.jobs.create(new("make"), incoming).await, Err(JobsError::Io { .. })));
    // Nor a clip that nobody makes a job of.
    drop(daemon.jobs.incoming(6).await.expect("a folder"));
    until(async || world.folders().is_empty()).await;
    assert!(daemon.reserve(10).is_ok());
    assert_eq!(daemon.jobs.list(KEY, None, 10).await.expect("it reads"), Page::default());
}

#[tokio::test]
async fn another_keys_job_is_as_good_as_none() {
    let world = World::new();
    let daemon = world.start();
    let made = daemon.made(new("make")).await;
    // A key of the same account, even.
    assert_eq!(daemon.jobs.get("key_2", &made.job.id).await.expect("it reads"), None);
    assert_eq!(daemon.jobs.remove("key_2", &made.job.id).await.expect("it reads"), None);
    assert_eq!(daemon.jobs.list("key_2", None, 10).await.expect("it reads"), Page::default());
    assert_eq!(daemon.look(&made.job.id).await, made, "and nothing happened to it");
    for nonsense in ["", "job_", "../../x", "job_000000000000000000000000"] {
        assert_eq!(daemon.get(nonsense).await, None);
        assert_eq!(daemon.jobs.remove(KEY, nonsense).await.expect("it reads"), None);
    }
}

#[tokio::test]
async fn a_listing_is_paged_newest_first_and_a_job_that_goes_meanwhile_harms_no_page() {
    let world = World::new();
    let daemon = world.run();
    let mut ids = Vec::new();
    for turn in 0..7 {
        // The clock stands, then runs backwards: the order is that of creation all the same.
        world.pass(if turn > 3 { -100 } else { 0 });
        ids.insert(0, daemon.made(new("make")).await.job.id);
        daemon.made(NewJob { key_id: "key_2".into(), ..new("make") }).await;
        daemon.ended(&ids[0]).await;
    }
    let page = async |cursor: Option<&str>, limit| {
        let page = daemon.jobs.list(KEY, cursor, limit).await.expect("it reads");
        (page.jobs.into_iter().map(|shown| shown.job.id).collect::<Vec<_>>(), page.next)
    };
    assert_eq!(page(None, 100).await, (ids.clone(), None));
    let (first, next) = page(None, 3).await;
    assert_eq!(first, ids[..3]);
    // The one that the cursor names goes.
    daemon.jobs.remove(KEY, &ids[2]).await.expect("it is deleted");
    let (second, next) = page(next.as_deref(), 3).await;
    assert_eq!(second, ids[3..6]);
    assert_eq!(page(next.as_deref(), 3).await, (ids[6..].to_vec(), None));
    assert_eq!(page(None, 0).await.0.len(), 1, "a page of none is one of one");
    for cursor in
        ["", "x", "1.x", "x.job_000000000000000000000000", "99999999999999999999.job_000000000000000000000000"]
    {
        let refused = daemon.jobs.list(KEY, Some(cursor), 3).await;
        assert!(matches!(refused, Err(JobsError::Cursor)), "{cursor}: {refused:?}");
    }
    daemon.stop().await;
}

#[tokio::test]
async fn progress_is_never_turned_back_not_even_by_a_restart() {
    let world = World::new();
    let daemon = world.run();
    let id = daemon.made(new("hang")).await.job.id;
    until(async || daemon.look(&id).await.progress == 40).await;
    daemon.stop().await;
    let daemon = world.start();
    let shown = daemon.look(&id).await;
    assert_eq!((shown.job.state, shown.progress), (JobState::Queued, 40));
    assert_eq!(daemon.jobs.list(KEY, None, 9).await.expect("it reads").jobs, [shown]);
    // The end keeps it too.
    let Some(Removed::Cancelled(shown)) = daemon.jobs.remove(KEY, &id).await.expect("it is there") else {
        panic!("it was not at its end");
    };
    assert_eq!(shown.progress, 40);
    assert_eq!(daemon.look(&id).await.progress, 40);
}

#[tokio::test]
async fn whoever_looks_all_the_time_never_sees_a_job_go_back() {
    let world = World::new();
    let mut daemon = world.run();
    for _ in 0..20 {
        let id = daemon.made(new("make")).await.job.id;
        let (mut seen, mut turn) = ((JobState::Queued, 0), 0);
        loop {
            let shown = daemon.look(&id).await;
            // A restart in the middle; from processing to queued is the one way back there is.
            assert!(shown.progress >= seen.1, "{shown:?} after {seen:?}");
            assert_eq!(shown.progress == 100, shown.job.state == JobState::Done, "{shown:?}");
            seen = (shown.job.state, shown.progress);
            if shown.job.state.is_final() {
                break;
            }
            turn += 1;
            if turn == 3 {
                daemon.kill().await;
                daemon = world.run();
            }
        }
    }
    daemon.stop().await;
}

#[tokio::test]
async fn a_job_that_waits_is_cancelled_and_never_begun() {
    let world = World::new();
    let mut daemon = world.start();
    let reservation = daemon.reserve(10).expect("none is held");
    let id = daemon.made(NewJob { reservation: Some(reservation), ..hooked("make") }).await.job.id;
    let removed = daemon.jobs.remove(KEY, &id).await.expect("it is there");
    let Some(Removed::Cancelled(shown)) = removed else { panic!("{removed:?}") };
    assert_eq!(shown.job.state, JobState::Failed);
    assert_eq!(shown.job.error.as_ref().map(|error| error.code.as_str()), Some("cancelled"));
    assert_eq!(daemon.look(&id).await, *shown, "it is still shown");
    assert!(world.folders().is_empty() && daemon.reserve(10).is_ok());
    daemon.go();
    // Its end is told.
    until(async || world.deliver.count() == 1).await;
    let other = daemon.made(new("make")).await.job.id;
    daemon.ended(&other).await;
    assert_eq!(*world.work.begun.lock().expect("no panic"), [other]);
    assert_eq!(daemon.jobs.remove(KEY, &id).await.expect("it is there"), Some(Removed::Deleted));
    assert_eq!(daemon.get(&id).await, None);
    daemon.stop().await;
}

#[tokio::test]
async fn a_job_that_is_worked_on_is_cancelled_with_its_work() {
    let world = World::new();
    let daemon = world.run();
    let id = daemon.made(new("hang")).await.job.id;
    until(async || daemon.look(&id).await.progress == 40).await;
    assert_eq!(world.work.running.load(Ordering::SeqCst), 1);
    let removed = daemon.jobs.remove(KEY, &id).await.expect("it is there");
    let Some(Removed::Cancelled(shown)) = removed else { panic!("{removed:?}") };
    assert_eq!((shown.job.state, shown.progress), (JobState::Failed, 40));
    until(async || world.work.running.load(Ordering::SeqCst) == 0 && world.folders().is_empty()).await;
    // The next one has its turn.
    let next = daemon.made(new("make")).await.job.id;
    assert_eq!(daemon.ended(&next).await.job.state, JobState::Done);
    assert_eq!(daemon.look(&id).await.job.error, shown.job.error);
    daemon.bills(Usage { images: 3, microdollars: 250_000 }, "the cancelled one is not").await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_job_cancelled_at_any_moment_is_done_or_cancelled_and_nothing_between() {
    let world = World::new();
    let daemon = world.run();
    let (mut done, mut cancelled) = (0, 0);
    for turn in 0..60_u64 {
        let id = daemon.made(new("make")).await.job.id;
        tokio::time::sleep(Duration::from_micros(turn * 150)).await;
        match daemon.jobs.remove(KEY, &id).await.expect("it is there").expect("it is ours") {
            Removed::Cancelled(shown) => {
                assert_eq!(daemon.look(&id).await.job.error, shown.job.error);
                cancelled += 1;
            }
            Removed::Deleted => {
                assert_eq!(daemon.get(&id).await, None);
                done += 1;
            }
        }
    }
    until(async || world.folders().is_empty() && world.keep.names().is_empty()).await;
    assert_eq!(daemon.used(), Usage { images: 3 * done, microdollars: 250_000 * done });
    println!("{done} done, {cancelled} cancelled");
    daemon.stop().await;
}

#[tokio::test]
async fn work_that_fails_or_panics_fails_its_job_and_the_daemon_goes_on() {
    let world = World::new();
    let daemon = world.run();
    for (what, code, progress) in [
        ("fail", "invalid_image", 30),
        ("panic", "internal_error", 0),
        ("no length", "internal_error", 75),
        ("no file", "internal_error", 75),
    ] {
        let id = daemon.made(new(what)).await.job.id;
        let ended = daemon.ended(&id).await;
        let error = ended.job.error.expect("a reason");
        assert_eq!((ended.job.state, error.code.as_str()), (JobState::Failed, code), "{what}");
        assert!(ended.progress <= progress && ended.job.result.is_none(), "{what}: {}", ended.progress);
    }
    let id = daemon.made(new("make")).await.job.id;
    assert_eq!(daemon.ended(&id).await.job.state, JobState::Done);
    daemon.bills(Usage { images: 3, microdollars: 250_000 }, "what failed is not").await;
    until(async || world.folders().is_empty() && world.keep.names() == [id.as_str()]).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn work_that_hangs_fails_its_job_even_where_it_cannot_be_stopped() {
    let world = World { stall: Duration::from_millis(100), ..World::new() };
    let daemon = world.run();
    for what in ["hang", "block"] {
        let id = daemon.made(new(what)).await.job.id;
        let error = daemon.ended(&id).await.job.error.expect("a reason");
        assert!(error.code == "internal_error" && error.message.contains("standstill"), "{what}: {error:?}");
    }
    world.work.release.store(true, Ordering::SeqCst);
    until(async || world.work.running.load(Ordering::SeqCst) == 0).await;
    daemon.stop().await;
}

#[tokio::test]
async fn results_that_cannot_be_kept_fail_the_job_and_not_the_daemon() {
    let world = World::new();
    let daemon = world.run();
    world.keep.is_lost.store(true, Ordering::SeqCst);
    let id = daemon.made(new("make")).await.job.id;
    let error = daemon.ended(&id).await.job.error.expect("a reason");
    assert!(error.code == "internal_error" && error.message.contains("could not be kept"), "{error:?}");
    assert_eq!(daemon.used(), Usage::default());
    world.keep.is_lost.store(false, Ordering::SeqCst);
    let id = daemon.made(new("make")).await.job.id;
    assert_eq!(daemon.ended(&id).await.job.state, JobState::Done);

    // Deleting says so, too, and the job stays.
    world.keep.is_lost.store(true, Ordering::SeqCst);
    assert!(matches!(daemon.jobs.remove(KEY, &id).await, Err(JobsError::Keep(_))));
    assert_eq!(daemon.look(&id).await.job.state, JobState::Done);
    world.keep.is_lost.store(false, Ordering::SeqCst);
    assert_eq!(daemon.jobs.remove(KEY, &id).await.expect("it is there"), Some(Removed::Deleted));
    assert!(world.keep.names().is_empty() && daemon.get(&id).await.is_none());
    daemon.stop().await;
}

#[tokio::test]
async fn a_job_under_way_when_the_daemon_stops_goes_on_at_the_next_start() {
    let world = World::new();
    let daemon = world.run();
    let reservation = daemon.reserve(10).expect("none is held");
    let id = daemon.made(NewJob { reservation: Some(reservation), ..new("hang") }).await.job.id;
    until(async || daemon.look(&id).await.progress == 40).await;
    std::fs::write(world.folder.path().join("jobs").join(&id).join("segment-0"), "x").expect("the folder is there");
    daemon.stop().await;
    assert_eq!(world.work.running.load(Ordering::SeqCst), 0, "the work let go");

    // A clip that came in when the daemon was killed, and a folder of a job that there is not.
    std::fs::create_dir(world.folder.path().join("jobs/incoming-x")).expect("it is new");
    std::fs::create_dir(world.folder.path().join("jobs/job_000000000000000000000000")).expect("it is new");
    std::fs::write(world.folder.path().join("jobs/notes.txt"), "not ours").expect("it is new");
    let daemon = world.start();
    let mut folders = world.folders();
    folders.sort();
    assert_eq!(folders, [id.clone(), "notes.txt".into()]);
    assert_eq!(daemon.look(&id).await.job.state, JobState::Queued);
    assert!(world.folder.path().join("jobs").join(&id).join("segment-0").exists(), "segments stay");
    assert!(daemon.reserve(1).is_err(), "it holds its part of the quota again");
    daemon.jobs.remove(KEY, &id).await.expect("it is there");
    assert!(daemon.reserve(10).is_ok());
}

#[tokio::test]
async fn results_go_after_an_hour_and_records_a_day_after_the_end() {
    let world = World::new();
    let daemon = world.run();
    let done = daemon.made(named("make", "order 1")).await.job.id;
    let failed = daemon.made(named("fail", "order 2")).await.job.id;
    let hangs = daemon.made(new("hang")).await.job.id;
    daemon.ended(&failed).await;
    let sweep = async || super::sweeper::sweep(&daemon.jobs.0, UnixSeconds(world.now.load(Ordering::SeqCst))).await;

    world.pass(RESULT_SECONDS - 1);
    sweep().await;
    assert_eq!(world.keep.names(), [done.as_str()]);
    world.pass(1);
    // A bucket that is lost for a while.
    world.keep.is_lost.store(true, Ordering::SeqCst);
    sweep().await;
    world.keep.is_lost.store(false, Ordering::SeqCst);
    assert_eq!(world.keep.names(), [done.as_str()]);
    sweep().await;
    assert!(world.keep.names().is_empty());
    let result = daemon.look(&done).await.job.result.expect("what it was stays known");
    assert_eq!((result.object, result.frames, result.expires_at), (None, FRAMES, UnixSeconds(NOW + RESULT_SECONDS)));

    world.pass(RECORD_SECONDS - RESULT_SECONDS - 1);
    sweep().await;
    assert!(daemon.get(&done).await.is_some() && daemon.get(&failed).await.is_some());
    // From the second on, swept or not.
    world.pass(1);
    assert_eq!((daemon.get(&done).await, daemon.get(&failed).await), (None, None));
    assert_eq!(daemon.jobs.named(KEY, "order 1").await.expect("it reads"), None);
    let listed = daemon.jobs.list(KEY, None, 10).await.expect("it reads").jobs;
    assert_eq!(listed.iter().map(|shown| &shown.job.id).collect::<Vec<_>>(), [&hangs]);
    // The name is free again, though nobody has swept.
    daemon.made(named("make", "order 1")).await;
    sweep().await;
    // What is worked on is never swept, however long it takes.
    assert_eq!(daemon.look(&hangs).await.job.state, JobState::Processing);
    world.pass(10 * RECORD_SECONDS);
    sweep().await;
    assert_eq!(daemon.look(&hangs).await.job.state, JobState::Processing);
    assert_eq!(daemon.services.store.expiring_jobs(10).expect("it reads"), []);
    daemon.stop().await;
}

#[tokio::test]
async fn a_bucket_that_loses_a_hundred_results_keeps_nobody_elses() {
    let world = World::new();
    let daemon = world.start();
    let store = &daemon.services.store;
    for number in 0..150 {
        let id = format!("job_{number:024}");
        world.keep.objects.lock().expect("no panic").insert(id.clone(), Vec::new());
        let job = Job { place: number, ..Job { id: id.clone(), ..job(KEY) } };
        submit(&**store, Change::CreateJob { job: Box::new(job), at_most: usize::MAX }).expect("it is new");
        submit(&**store, Change::StartJob { id: id.clone(), at: UnixSeconds(NOW) }).expect("it waits");
        let result = JobResult {
            object: Some(id.clone()),
            bytes: 1,
            frames: 1,
            rate_frames: 1,
            rate_seconds: 1,
            expires_at: UnixSeconds(NOW + number),
        };
        let end = store::JobEnd::Done { result, warnings: Vec::new(), bill: None };
        let change = Change::FinishJob { id, at: UnixSeconds(NOW), expires_at: UnixSeconds(NOW + 999), end };
        submit(&**store, change).expect("it was begun");
    }
    world.keep.is_lost.store(true, Ordering::SeqCst);
    super::sweeper::sweep(&daemon.jobs.0, UnixSeconds(NOW + 500)).await;
    world.keep.is_lost.store(false, Ordering::SeqCst);
    assert_eq!(world.keep.names().len(), 150);
    super::sweeper::sweep(&daemon.jobs.0, UnixSeconds(NOW + 120)).await;
    assert_eq!(world.keep.names().len(), 29);
    super::sweeper::sweep(&daemon.jobs.0, UnixSeconds(NOW + 999)).await;
    assert_eq!(world.keep.names().len(), 0);
    assert_eq!(daemon.jobs.list(KEY, None, 10).await.expect("it reads"), Page::default());
}

#[tokio::test]
async fn an_end_is_told_once_with_what_a_look_would_show() {
    let world = World::new();
    let daemon = world.run();
    let (done, failed) = (daemon.made(hooked("make")).await.job.id, daemon.made(hooked("fail")).await.job.id);
    let told = async |id: &str| daemon.look(id).await;
    until(async || told(&done).await.job.webhook.is_some_and(|hook| hook.attempts == 1)).await;
    until(async || told(&failed).await.job.webhook.is_some_and(|hook| hook.attempts == 1)).await;
    let mut attempts = world.deliver.attempts.lock().expect("no panic").clone();
    attempts.sort_by_key(|(_, _, body)| body.ends_with("100"));
    let expected = |id: &str, end: &str| {
        ("https://example.com/hook".to_owned(), id.replace("job_", "msg_"), format!("{id} {end}"))
    };
    assert_eq!(attempts[1], expected(&done, "done 100"));
    assert!(attempts[0].2.starts_with(&format!("{failed} error")), "{:?}", attempts[0]);
    assert_eq!(daemon.services.store.webhook_jobs(9).expect("it reads"), []);
    daemon.stop().await;
}

#[tokio::test]
async fn an_end_that_nobody_takes_is_told_again_for_a_day_with_one_id_over_restarts() {
    let world = World::new();
    *world.deliver.receiver.lock().expect("no panic") = Receiver::Refuses;
    let daemon = world.run();
    let id = daemon.made(hooked("make")).await.job.id;
    let mut daemon = daemon;
    let (mut attempts, mut at) = (0, 0);
    for delay in [0, 5, 60, 300, 1800, 7200, 21600, 21600, 21600] {
        if attempts == 3 {
            *world.deliver.receiver.lock().expect("no panic") = Receiver::Panics;
            daemon.stop().await;
            daemon = world.run();
        }
        at += delay;
        world.pass(delay);
        // It sleeps by another clock than the test's.
        daemon.jobs.0.ended.notify_one();
        attempts += 1;
        until(async || daemon.look(&id).await.job.webhook.is_some_and(|hook| hook.attempts == attempts)).await;
        assert_eq!(world.deliver.count(), attempts as usize);
    }
    let hook = daemon.look(&id).await.job.webhook.expect("it has one");
    assert_eq!(hook.next_at, None, "the next would be a day after the end: {at} s and 6 h");
    let ids: BTreeSet<String> =
        world.deliver.attempts.lock().expect("no panic").iter().map(|(_, id, _)| id.clone()).collect();
    assert_eq!(ids.len(), 1);
    daemon.stop().await;
}

#[tokio::test]
async fn a_receiver_that_is_gone_is_left_alone() {
    let world = World::new();
    *world.deliver.receiver.lock().expect("no panic") = Receiver::Gone;
    let daemon = world.run();
    let id = daemon.made(hooked("make")).await.job.id;
    until(async || world.deliver.count() == 1).await;
    until(async || daemon.look(&id).await.job.webhook.is_some_and(|hook| hook.attempts == 1)).await;
    assert_eq!(daemon.look(&id).await.job.webhook.and_then(|hook| hook.next_at), None);
    daemon.stop().await;
}

/// A store whose process dies at its `life`th change: before it is written, or after that and before its answer. While
/// its disk is full it refuses every change.
#[derive(Debug)]
struct Dying {
    store: RedbStore,
    life: AtomicI64,
    writes_last: bool,
    dead: Arc<AtomicBool>,
    full: Arc<Full>,
}

/// Whether the disk of the store is full, and the changes that were refused for that.
#[derive(Debug, Default)]
struct Full {
    is_full: AtomicBool,
    refused: AtomicUsize,
}

impl StateStore for Dying {
    fn load(&self) -> Result<Rows, OpenError> {
        self.store.load()
    }

    fn submit(&self, change: Change, done: Answer) {
        if self.full.is_full.load(Ordering::SeqCst) {
            self.full.refused.fetch_add(1, Ordering::SeqCst);
            return done(Err(ChangeError::Unavailable("no space left on device".into())));
        }
        match self.life.fetch_sub(1, Ordering::SeqCst) {
            2.. => self.store.submit(change, done),
            left => {
                if left == 1 && self.writes_last {
                    drop(submit(&self.store, change));
                }
                self.dead.store(true, Ordering::SeqCst);
                drop(done);
            }
        }
    }

    fn preset(&self, account: &str, id: &str) -> Result<Option<Preset>, OpenError> {
        self.store.preset(account, id)
    }

    fn preset_named(&self, account: &str, name: &str) -> Result<Option<Preset>, OpenError> {
        self.store.preset_named(account, name)
    }

    fn presets(&self, account: &str, after: Option<&str>, limit: usize) -> Result<Vec<Preset>, OpenError> {
        self.store.presets(account, after, limit)
    }

    fn key_days(
        &self,
        account: &str,
        from: Day,
        to: Day,
        limit: usize,
    ) -> Result<Vec<(Day, String, KeyDay)>, OpenError> {
        self.store.key_days(account, from, to, limit)
    }

    fn job(&self, id: &str) -> Result<Option<Job>, OpenError> {
        self.store.job(id)
    }

    fn job_named(&self, key_id: &str, name: &str) -> Result<Option<Job>, OpenError> {
        self.store.job_named(key_id, name)
    }

    fn jobs(&self, key_id: &str, after: Option<(i64, &str)>, limit: usize) -> Result<Vec<Job>, OpenError> {
        self.store.jobs(key_id, after, limit)
    }

    fn waiting_jobs(&self, limit: usize) -> Result<Vec<Job>, OpenError> {
        self.store.waiting_jobs(limit)
    }

    fn next_job(&self, taken: &HashSet<String>) -> Result<Option<Job>, OpenError> {
        self.store.next_job(taken)
    }

    fn expiring_jobs(&self, limit: usize) -> Result<Vec<(UnixSeconds, Job)>, OpenError> {
        self.store.expiring_jobs(limit)
    }

    fn webhook_jobs(&self, limit: usize) -> Result<Vec<(UnixSeconds, Job)>, OpenError> {
        self.store.webhook_jobs(limit)
    }
}

#[tokio::test]
async fn a_daemon_that_dies_at_any_change_ends_the_job_as_if_it_had_not_and_bills_it_once() {
    // Requeue, create, start, finish, the note of the webhook; after those it lives.
    let mut died = 0;
    for life in 2..=5 {
        for writes_last in [false, true] {
            let world = World::new();
            let dead = Arc::new(AtomicBool::new(false));
            let store = Dying {
                store: world.store(),
                life: AtomicI64::new(life),
                writes_last,
                dead: Arc::clone(&dead),
                full: Arc::default(),
            };
            let mut daemon = world.on(store);
            daemon.go();
            let reservation = daemon.reserve(9).expect("none is held");
            let order = || NewJob { name: Some("order".into()), ..hooked("make") };
            let first = daemon.create(NewJob { reservation: Some(reservation), ..order() }).await;
            until(async || dead.load(Ordering::SeqCst)).await;
            died += 1;
            daemon.kill().await;

            let daemon = world.run();
            // The client sends it again, as it would.
            let id = match daemon.create(order()).await.expect("it is made or known") {
                Created::New(shown) | Created::Same(shown) => shown.job.id,
                Created::Conflict => panic!("it is the same"),
            };
            if let Ok(Created::New(first)) = first {
                assert_eq!(id, first.job.id, "what was acknowledged is there");
            }
            let ended = daemon.ended(&id).await;
            assert_eq!((ended.job.state, ended.progress), (JobState::Done, 100), "{life} {writes_last}");
            daemon.bills(Usage { images: 3, microdollars: 250_000 }, &format!("{life} {writes_last}")).await;
            assert!(daemon.reserve(7).is_ok(), "{life} {writes_last}: nothing is held for ever");
            until(async || daemon.look(&id).await.job.webhook.is_some_and(|hook| hook.next_at.is_none())).await;
            let ids: BTreeSet<String> =
                world.deliver.attempts.lock().expect("no panic").iter().map(|(_, id, _)| id.clone()).collect();
            assert_eq!(ids, [id.replace("job_", "msg_")].into());
            until(async || world.folders().is_empty()).await;
            assert_eq!(world.keep.names(), [id.as_str()]);
            daemon.stop().await;
            let report = world.store().check().expect("the store reads");
            assert!(report.is_sound(), "{life} {writes_last}: {:?}", report.findings);
            assert_eq!(report.rows.jobs, 1);
        }
    }
    assert_eq!(died, 8);
}

#[tokio::test]
async fn a_result_that_was_put_and_never_recorded_goes_with_its_job() {
    let world = World::new();
    let dead = Arc::new(AtomicBool::new(false));
    // It dies when it finishes.
    let store = Dying {
        store: world.store(),
        life: AtomicI64::new(4),
        writes_last: false,
        dead: Arc::clone(&dead),
        full: Arc::default(),
    };
    let mut daemon = world.on(store);
    daemon.go();
    let id = daemon.made(new("make")).await.job.id;
    until(async || dead.load(Ordering::SeqCst)).await;
    daemon.kill().await;
    assert_eq!(world.keep.names(), [id.as_str()]);
    let daemon = world.start();
    assert!(matches!(daemon.jobs.remove(KEY, &id).await, Ok(Some(Removed::Cancelled(_)))));
    assert!(world.keep.names().is_empty() && world.folders().is_empty());
    assert_eq!(daemon.used(), Usage::default());
}

#[tokio::test]
async fn work_goes_on_after_the_segments_that_are_there() {
    let world = World::new();
    let daemon = world.start();
    let id = daemon.made(new("make")).await.job.id;
    let folder: PathBuf = world.folder.path().join("jobs").join(&id);
    for segment in 0..3 {
        std::fs::write(folder.join(format!("segment-{segment}")), "x").expect("the folder is there");
    }
    daemon.kill().await;
    let daemon = world.run();
    daemon.ended(&id).await;
    assert_eq!(world.work.segments.load(Ordering::SeqCst), 1);
    daemon.stop().await;
}

/// A job of another account.
fn others(what: &str) -> NewJob {
    NewJob { key_id: "key_2".into(), account: "other".into(), ..new(what) }
}

#[tokio::test]
async fn a_single_job_of_an_account_is_next_behind_the_first_of_many_of_another() {
    let world = World::new();
    let mut daemon = world.start();
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(daemon.made(new("make")).await.job.id);
    }
    // Another key of the same account is no further turn.
    ids.push(daemon.made(NewJob { key_id: "key_3".into(), ..new("make") }).await.job.id);
    let single = daemon.made(others("make")).await.job.id;
    daemon.go();
    until(async || world.work.begun.lock().expect("no panic").len() == 6).await;
    ids.insert(1, single);
    assert_eq!(*world.work.begun.lock().expect("no panic"), ids);
    daemon.stop().await;
}

#[tokio::test]
async fn the_accounts_turns_survive_a_restart() {
    let world = World::new();
    let daemon = world.run();
    let first = daemon.made(new("hang")).await.job.id;
    until(async || world.work.begun.lock().expect("no panic").len() == 1).await;
    let mut ids = vec![first.clone()];
    ids.push(daemon.made(others("make")).await.job.id);
    daemon.stop().await;
    let daemon = world.run();
    // The first account had its turn, and goes on with its job after the other one's.
    ids.push(first);
    until(async || world.work.begun.lock().expect("no panic").len() == 3).await;
    assert_eq!(*world.work.begun.lock().expect("no panic"), ids);
    daemon.stop().await;
}

fn is_out_of_room(refused: &Result<Incoming, JobsError>) -> bool {
    matches!(refused, Err(JobsError::NoRoom(_)))
}

#[tokio::test]
async fn a_disk_that_fills_up_refuses_new_clips_first_and_then_fails_the_job_under_way() {
    let world = World::new();
    let daemon = world.run();
    let id = daemon.made(new("hang")).await.job.id;
    until(async || daemon.look(&id).await.progress == 40).await;
    // 100 bytes stay free for new clips, and half of them for the job under way.
    world.free.store(105, Ordering::SeqCst);
    let first = daemon.jobs.incoming(5).await.expect("exactly as much as there is");
    assert!(is_out_of_room(&daemon.jobs.incoming(1).await), "it is promised to the first");
    drop(first);
    drop(daemon.jobs.incoming(5).await.expect("it is given back"));
    world.free.store(50, Ordering::SeqCst);
    assert!(is_out_of_room(&daemon.jobs.incoming(0).await));
    assert_eq!(daemon.look(&id).await.job.state, JobState::Processing);
    world.free.store(49, Ordering::SeqCst);
    let ended = daemon.ended(&id).await;
    let error = ended.job.error.expect("it failed");
    assert_eq!((ended.job.state, error.code.as_str()), (JobState::Failed, "unavailable"));
    assert!(error.message.contains("no room"), "{}", error.message);
    until(async || world.folders().is_empty()).await;
    world.free.store(1 << 30, Ordering::SeqCst);
    let id = daemon.made(new("make")).await.job.id;
    assert_eq!(daemon.ended(&id).await.job.state, JobState::Done);
    daemon.stop().await;
}

#[tokio::test]
async fn clips_and_segments_are_bounded_together() {
    let world = World { max_bytes: 1 << 20, ..World::new() };
    let daemon = world.run();
    // New clips have three quarters.
    assert!(is_out_of_room(&daemon.jobs.incoming((768 << 10) + 1).await));
    let id = daemon.made(new("hang")).await.job.id;
    until(async || daemon.look(&id).await.progress == 40).await;
    let folder = world.folder.path().join("jobs").join(&id);
    std::fs::write(folder.join("segment-0"), vec![1; 512 << 10]).expect("the folder is there");
    // A second name of the same file takes nothing.
    std::fs::hard_link(folder.join("segment-0"), folder.join("segment-1")).expect("a link");
    drop(daemon.jobs.incoming(128 << 10).await.expect("there is room"));
    assert!(is_out_of_room(&daemon.jobs.incoming(256 << 10).await));
    assert_eq!(daemon.look(&id).await.job.state, JobState::Processing);
    std::fs::write(folder.join("segment-2"), vec![1; 512 << 10]).expect("the folder is there");
    let ended = daemon.ended(&id).await;
    assert_eq!(ended.job.error.expect("it failed").code, "unavailable");
    until(async || world.folders().is_empty()).await;
    drop(daemon.jobs.incoming(768 << 10).await.expect("all of it is free again"));
    daemon.stop().await;
}

#[tokio::test]
async fn a_finished_job_is_recorded_and_billed_once_when_the_store_can_write_again() {
    let world = World::new();
    let full = Arc::new(Full::default());
    let store = Dying {
        store: world.store(),
        life: AtomicI64::new(i64::MAX),
        writes_last: false,
        dead: Arc::default(),
        full: Arc::clone(&full),
    };
    let mut daemon = world.on(store);
    let reservation = daemon.reserve(9).expect("none is held");
    let id = daemon.made(NewJob { reservation: Some(reservation), ..new("hang and make") }).await.job.id;
    daemon.go();
    until(async || daemon.look(&id).await.progress == 40).await;
    full.is_full.store(true, Ordering::SeqCst);
    world.work.release.store(true, Ordering::SeqCst);
    until(async || full.refused.load(Ordering::SeqCst) >= 3).await;
    assert_eq!(daemon.look(&id).await.job.state, JobState::Processing);
    // It holds its part of the quota, the moment of a try aside.
    until(async || daemon.reserve(2).is_err()).await;
    let refused = daemon.create(new("make")).await;
    assert!(matches!(refused, Err(JobsError::Write(_))), "{refused:?}");
    until(async || world.folders() == [id.as_str()]).await;
    full.is_full.store(false, Ordering::SeqCst);
    assert_eq!(daemon.ended(&id).await.job.state, JobState::Done);
    daemon.bills(Usage { images: 3, microdollars: 250_000 }, "once").await;
    until(async || world.folders().is_empty()).await;
    assert_eq!(world.keep.names(), [id.as_str()]);
    daemon.stop().await;
}
