//! Fakes for the job tests: worker, result store, webhook receiver, a data directory and a daemon on it.

pub(super) use std::collections::{BTreeMap, BTreeSet};
pub(super) use std::path::Path;
pub(super) use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
pub(super) use std::sync::{Arc, Mutex};
pub(super) use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(super) use crate::jobs::disk_space::{DiskLimits, FreeBytes};
pub(super) use crate::jobs::expiry;
pub(super) use crate::jobs::tuning::{Clock, Tuning};
pub(super) use crate::jobs::*;
pub(super) use crate::store::{
    self, Account, AccountModel, Allowance, Change, ChangeError, Month, Payer, Plan, QuotaExhausted, RedbStore,
    Reservation, Rows, StateStore, Store, Usage,
};

/// 2100-01-01T00:00:00Z: a store loads what was used in this month and in later ones, by the system clock.
pub(super) const NOW: i64 = 4_102_444_800;
pub(super) const KEY: &str = "key_1";
/// Microdollars a second.
pub(super) const PRICE: u64 = 100_000;
/// Frames of a result: 2.5 s.
pub(super) const FRAMES: u64 = 75;

/// A job record.
pub(in crate::jobs) fn job(key_id: &str) -> Job {
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

/// Behaves as the field `do` of a job says.
#[derive(Debug, Default)]
pub(super) struct FakeWorker {
    /// Running calls, and the most there were at once.
    pub(super) running: AtomicUsize,
    pub(super) most: AtomicUsize,
    /// Ids in the order in which they started.
    started: Mutex<Vec<String>>,
    /// Releases blocked calls.
    pub(super) release: AtomicBool,
    /// What [`Worker::is_waiting`] returns.
    pub(super) waits: AtomicBool,
}

/// A running call.
struct Running<'a>(&'a FakeWorker);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl FakeWorker {
    /// Ids of the jobs in the order in which they started.
    pub(super) fn started(&self) -> Vec<String> {
        self.started.lock().expect("no panic").clone()
    }

    async fn make(&self, folder: &Path, progress: &(dyn Fn(u8) + Send + Sync)) -> Result<WorkOutput, WorkError> {
        assert!(input_in(folder).is_file(), "the clip is there");
        for segment in 0..4 {
            let file = folder.join(format!("segment-{segment}"));
            std::fs::write(&file, "x").expect("the folder is there");
            progress(segment * 25);
            tokio::task::yield_now().await;
        }
        let file = folder.join("result.webm");
        std::fs::write(&file, "a finished clip").expect("the folder is there");
        Ok(WorkOutput {
            file,
            media_type: "video/webm",
            frames: FRAMES,
            rate_frames: 30,
            rate_seconds: 1,
            warnings: vec!["it was cut off".into()],
        })
    }
}

impl Worker for FakeWorker {
    fn run<'a>(
        &'a self,
        job: &'a Job,
        folder: &'a Path,
        progress: &'a (dyn Fn(u8) + Send + Sync),
    ) -> BoxFuture<'a, Result<WorkOutput, WorkError>> {
        Box::pin(async move {
            let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(running, Ordering::SeqCst);
            let _running = Running(self);
            self.started.lock().expect("no panic").push(job.id.clone());
            match job.fields.iter().find(|(name, _)| name == "do").map_or("make", |(_, what)| what.as_str()) {
                "make" => self.make(folder, progress).await,
                "fail" => {
                    progress(30);
                    Err(WorkError { code: "invalid_image", message: "not a clip".into(), internal: false })
                }
                "panic" => panic!("on purpose"),
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
                "slowly" => {
                    for at in (5..60).step_by(5) {
                        progress(at);
                        tokio::time::sleep(Duration::from_millis(400)).await;
                    }
                    self.make(folder, progress).await
                }
                "hang and make" => {
                    progress(40);
                    while !self.release.load(Ordering::SeqCst) {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                    self.make(folder, progress).await
                }
                "no length" => Ok(WorkOutput { rate_frames: 0, ..self.make(folder, progress).await? }),
                "no file" => Ok(WorkOutput { file: folder.join("nothing"), ..self.make(folder, progress).await? }),
                other => unreachable!("{other}"),
            }
        })
    }

    fn is_waiting(&self) -> bool {
        self.waits.load(Ordering::SeqCst)
    }

    fn checkpoint(&self, _: &Path) -> std::io::Result<Option<WorkCheckpoint>> {
        unreachable!("the store is not shared")
    }
}

/// Results in a map that outlives the service, as a bucket does.
#[derive(Debug, Default)]
pub(super) struct FakeResults {
    pub(super) objects: Mutex<BTreeMap<String, Vec<u8>>>,
    pub(super) is_down: AtomicBool,
}

impl FakeResults {
    pub(super) fn names(&self) -> Vec<String> {
        self.objects.lock().expect("no panic").keys().cloned().collect()
    }

    fn check(&self) -> Result<(), ResultStoreError> {
        let is_down = self.is_down.load(Ordering::SeqCst);
        if is_down { Err(ResultStoreError("the bucket is gone".into())) } else { Ok(()) }
    }
}

impl ResultStore for FakeResults {
    fn put<'a>(
        &'a self,
        job_id: &'a str,
        file: &'a Path,
        media_type: &'a str,
    ) -> BoxFuture<'a, Result<String, ResultStoreError>> {
        Box::pin(async move {
            self.check()?;
            assert_eq!(media_type, "video/webm");
            let bytes = std::fs::read(file).map_err(|error| ResultStoreError(error.to_string()))?;
            self.objects.lock().expect("no panic").insert(job_id.to_owned(), bytes);
            tokio::task::yield_now().await;
            Ok(job_id.to_owned())
        })
    }

    fn delete<'a>(&'a self, object: &'a str) -> BoxFuture<'a, Result<(), ResultStoreError>> {
        Box::pin(async move {
            self.check()?;
            self.objects.lock().expect("no panic").remove(object);
            Ok(())
        })
    }

    fn discard<'a>(&'a self, job: &'a Job) -> BoxFuture<'a, Result<(), ResultStoreError>> {
        self.delete(&job.id)
    }

    fn put_input<'a>(&'a self, _: &'a str, _: &'a Path) -> BoxFuture<'a, Result<(), ResultStoreError>> {
        unreachable!("the store is not shared")
    }

    fn fetch_input<'a>(&'a self, _: &'a str, _: &'a Path) -> BoxFuture<'a, Result<bool, ResultStoreError>> {
        unreachable!("the store is not shared")
    }

    fn delete_input<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<(), ResultStoreError>> {
        unreachable!("the store is not shared")
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

/// How the receiver answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Receiver {
    #[default]
    Accepts,
    Refuses,
    Panics,
}

#[derive(Debug, Default)]
pub(super) struct FakeWebhooks {
    pub(super) receiver: Mutex<Receiver>,
    /// Id of every attempt.
    pub(super) attempts: Mutex<Vec<String>>,
}

impl FakeWebhooks {
    pub(super) fn count(&self) -> usize {
        self.attempts.lock().expect("no panic").len()
    }

    /// The ids, each once.
    pub(super) fn ids(&self) -> BTreeSet<String> {
        self.attempts.lock().expect("no panic").iter().cloned().collect()
    }
}

impl WebhookTransport for FakeWebhooks {
    fn body<'a>(&'a self, _: &'a JobView) -> BoxFuture<'a, Result<Vec<u8>, ResultStoreError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn deliver<'a>(
        &'a self,
        _: &'a Job,
        _: &'a str,
        webhook_id: &'a str,
        _: Vec<u8>,
    ) -> BoxFuture<'a, DeliveryOutcome> {
        Box::pin(async move {
            self.attempts.lock().expect("no panic").push(webhook_id.into());
            let receiver = *self.receiver.lock().expect("no panic");
            match receiver {
                Receiver::Accepts => DeliveryOutcome::Delivered,
                Receiver::Refuses => DeliveryOutcome::Retry("500".into()),
                Receiver::Panics => panic!("on purpose"),
            }
        })
    }
}

/// What survives a daemon: its data directory, results and clock.
pub(super) struct TestEnv {
    pub(super) folder: TempDir,
    pub(super) results: Arc<FakeResults>,
    pub(super) worker: Arc<FakeWorker>,
    pub(super) webhooks: Arc<FakeWebhooks>,
    /// The clock in seconds.
    pub(super) now: Arc<AtomicI64>,
    pub(super) parallel: usize,
    pub(super) stall: Duration,
    /// Disk space limit of the jobs, and the free bytes of the disk.
    pub(super) max_bytes: u64,
    pub(super) free: Arc<AtomicU64>,
}

/// A started daemon.
pub(super) struct Daemon {
    pub(super) jobs: Jobs,
    pub(super) store: Store,
    pub(super) stop: Option<oneshot::Sender<()>>,
    pub(super) running: Option<JoinHandle<()>>,
}

impl TestEnv {
    pub(super) fn new() -> Self {
        let env = Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
            results: Arc::default(),
            worker: Arc::default(),
            webhooks: Arc::default(),
            now: Arc::new(AtomicI64::new(NOW)),
            parallel: 1,
            stall: Duration::from_secs(600),
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
        let store = env.store();
        let other = Account { name: "other".into(), plan: Plan::Paid, ..account.clone() };
        for account in [account, other] {
            submit(&store, Change::CreateAccount { account, first_key: None }).expect("a new name");
        }
        drop(store);
        env
    }

    pub(super) fn store(&self) -> RedbStore {
        let start = std::time::Instant::now();
        loop {
            match RedbStore::open(&store::file_in(self.folder.path())) {
                // The previous daemon is still closing it.
                Err(store::OpenError::Locked { .. }) if start.elapsed() < Duration::from_secs(60) => {
                    std::thread::sleep(Duration::from_millis(25));
                }
                opened => return opened.expect("the store opens"),
            }
        }
    }

    /// Overwrites the record of a job, after the last daemon; returns it as it was.
    pub(super) fn overwrite_record(&self, id: &str, record: &[u8]) -> Vec<u8> {
        const JOBS: redb::TableDefinition<'_, &str, &[u8]> = redb::TableDefinition::new("jobs");
        // Waits until the daemon has closed it.
        drop(self.store());
        let database = redb::Database::open(store::file_in(self.folder.path())).expect("the store opens");
        let transaction = database.begin_write().expect("it is closed otherwise");
        let before = {
            let mut jobs = transaction.open_table(JOBS).expect("a table");
            let before = jobs.insert(id, record).expect("it writes").expect("the job is there");
            before.value().to_vec()
        };
        transaction.commit().expect("it writes");
        before
    }

    pub(super) fn advance(&self, seconds: i64) {
        self.now.fetch_add(seconds, Ordering::SeqCst);
    }

    pub(super) fn start_on(&self, store: impl StateStore) -> Daemon {
        let store = Store::file(store, 10).expect("the store loads");
        let deps = Deps {
            store: store.clone(),
            results: Arc::clone(&self.results) as Arc<dyn ResultStore>,
            worker: Arc::clone(&self.worker) as Arc<dyn Worker>,
            webhooks: Arc::clone(&self.webhooks) as Arc<dyn WebhookTransport>,
        };
        let now = Arc::clone(&self.now);
        let free = Arc::clone(&self.free);
        let tuning = Tuning {
            parallel: self.parallel,
            max_queued_per_key: 5,
            clock: Clock(Arc::new(move || now.load(Ordering::SeqCst) * 1000)),
            stall: self.stall,
            grace: Duration::from_millis(200),
            pause: Duration::from_millis(5),
            heartbeat: Duration::from_millis(50),
            poll: Duration::from_millis(5),
            checkpoint_every: Duration::from_millis(5),
            space: DiskLimits {
                max_bytes: self.max_bytes,
                min_free_bytes: 100,
                check_every: Duration::from_millis(2),
                free: FreeBytes(Arc::new(move |_| Ok(free.load(Ordering::SeqCst)))),
            },
        };
        let start = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
            runtime.block_on(Jobs::start_with(deps, tuning, self.folder.path())).expect("it starts")
        };
        let jobs = std::thread::scope(|scope| scope.spawn(start).join()).expect("no panic");
        Daemon { jobs, store, stop: None, running: None }
    }

    /// A daemon whose background tasks are not started.
    pub(super) fn start(&self) -> Daemon {
        self.start_on(self.store())
    }

    /// A daemon with its background tasks.
    pub(super) fn run(&self) -> Daemon {
        let mut daemon = self.start();
        daemon.start_tasks();
        daemon
    }

    pub(super) fn folders(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path().join("jobs")).expect("it was made");
        entries.map(|entry| entry.expect("it reads").file_name().into_string().expect("text")).collect()
    }
}

impl Daemon {
    pub(super) fn start_tasks(&mut self) {
        let (stop, stopped) = oneshot::channel::<()>();
        let jobs = self.jobs.clone();
        self.stop = Some(stop);
        self.running = Some(tokio::spawn(async move { jobs.run(async { drop(stopped.await) }).await }));
    }

    /// Ends it as a signal does.
    pub(super) async fn stop(mut self) {
        drop(self.stop.take());
        self.running.take().expect("it runs").await.expect("no panic");
    }

    /// Ends it as `kill -9` does.
    pub(super) async fn kill(mut self) {
        if let Some(running) = self.running.take() {
            running.abort();
            drop(running.await);
        }
    }

    pub(super) async fn create(&self, new: NewJob) -> Result<Created, JobsError> {
        let incoming = self.jobs.incoming("acme", 6).await.expect("a folder");
        std::fs::write(incoming.input(), "a clip").expect("the folder is there");
        self.jobs.create(new, incoming).await
    }

    pub(super) async fn create_new(&self, new: NewJob) -> JobView {
        match self.create(new).await.expect("it is created") {
            Created::New(view) => view,
            other @ (Created::Same(_) | Created::Conflict) => panic!("{other:?}"),
        }
    }

    pub(super) async fn get(&self, id: &str) -> Option<JobView> {
        self.jobs.get(KEY, id).await.expect("the store reads")
    }

    pub(super) async fn view(&self, id: &str) -> JobView {
        self.get(id).await.expect("it is there")
    }

    /// Deletes what has expired by the daemon's clock.
    pub(super) async fn delete_expired(&self) {
        expiry::delete_expired(&self.jobs.0, self.jobs.0.now()).await;
    }

    /// The job once it has ended.
    pub(super) async fn ended(&self, id: &str) -> JobView {
        until(async || self.view(id).await.job.state.is_final()).await;
        self.view(id).await
    }

    pub(super) fn used(&self) -> Usage {
        let usage = self.store.usage("acme", Plan::Free, UnixSeconds(NOW)).now_or_never();
        let usage = usage.expect("it is in memory").expect("it reads");
        Usage { images: usage.used, microdollars: usage.microdollars }
    }

    /// Waits for the bill: the end of a job can be read a moment before its usage is counted in memory.
    pub(super) async fn expect_usage(&self, expected: Usage, why: &str) {
        let reached = tokio::time::timeout(Duration::from_secs(60), until(async || self.used() == expected));
        assert!(reached.await.is_ok(), "{why}: {:?} is billed, not {expected:?}", self.used());
    }

    pub(super) fn reserve(&self, images: u64) -> Result<Reservation, QuotaExhausted> {
        let (account, plan, allowance) = ("acme", Plan::Free, &Allowance::default());
        let payer = Payer { account, plan, key_id: None, images_per_month: None, allowance };
        self.store.reserve(&payer, images, UnixSeconds(NOW))
    }
}

/// Waits up to two minutes for a condition.
pub(super) async fn until(mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !condition().await {
        assert!(Instant::now() < deadline, "the condition never held");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

pub(super) fn submit(store: &dyn StateStore, change: Change) -> Result<Rows, ChangeError> {
    let (answer, answers) = std::sync::mpsc::channel();
    store.submit(change, Box::new(move |result| answer.send(result).expect("the receiver waits")));
    answers.recv_timeout(Duration::from_secs(120)).expect("one answer")
}

/// A job whose worker behaves as `what`.
pub(super) fn new_job(what: &str) -> NewJob {
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

pub(super) fn named(what: &str, name: &str) -> NewJob {
    NewJob { name: Some(name.into()), ..new_job(what) }
}

pub(super) fn with_webhook(what: &str) -> NewJob {
    let webhook = NewWebhook { url: "https://example.com/hook".into(), base: "https://backdrop".into() };
    NewJob { webhook: Some(webhook), ..new_job(what) }
}
