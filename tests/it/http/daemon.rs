//! A daemon for the HTTP tests: real listeners and store; fakes for the engine, the fetcher, ffprobe and the video worker.

use crate::http::store_fault::{Disk, FillingStore};
use crate::support::command::http_client;
use backdrop::account::presets::Draft;
use backdrop::account::{AccountModel, AccountName, Key, Keys, Plan, Presets, token_hash};
use backdrop::codec::{DecodeError, Header, Limits, probe};
use backdrop::engine::{Admission, EngineConfig, EngineError, EngineState, WeightsInfo};
use backdrop::generate::Providers;
use backdrop::http::compat::CompatConfig;
use backdrop::http::config::{HttpConfig, LimitsConfig};
use backdrop::http::tls::{Listener, Tls};
use backdrop::http::{Administer, App, Fetch, ImageProcessor, Inspect, serve};
use backdrop::image::{EncodedImage, Rect, Size, SourceUrl};
use backdrop::jobs::results::Results;
use backdrop::jobs::secret::DaemonSecret;
use backdrop::jobs::webhook_client::WebhookClient;
use backdrop::jobs::{Deps, Job, Jobs, JobsConfig, WorkCheckpoint, WorkError, WorkOutput, Worker, input_in};
use backdrop::matting::Edge;
use backdrop::model::added::{AddedModels, AddedName};
use backdrop::pipeline::{Call, FaceFound, Files, Output, PipelineError, Timings, Warning};
use backdrop::recipe::{BACKDROP_PATH, InferenceMode, Picture, Recipe, Retouch, Source, Work as Recipes};
use backdrop::source::{FetchConfig, FetchError, Fetcher, MemoryBudget, OutOfMemory};
use backdrop::store::{Change, RedbStore, Store, UnixSeconds};
use backdrop::telemetry::metrics::exporter;
use backdrop::video::{Clip, Rate, ToolMissing, VideoError};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use reqwest::multipart::{Form, Part};
use reqwest::{Body, Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{timeout, timeout_at};

/// Keys of accounts on the plans plus, paid and free, and a sandbox key. All but the paid one are on the allow-list of
/// `/replace-bg-ai`.
pub(crate) const KEY: &str = "bd_live_good0000000000000000000000000000";
pub(crate) const PAID: &str = "bd_live_paid0000000000000000000000000000";
pub(crate) const FREE: &str = "bd_live_free0000000000000000000000000000";
pub(crate) const TEST: &str = "bd_test_good0000000000000000000000000000";

/// A picture that can be read.
pub(crate) const PHOTO: &[u8] = include_bytes!("../../photos/chelsea.png");
/// Further keys of the paying account: one with three images a month, one for two endpoints, one that has expired; and one
/// with three images a month of the free account.
pub(crate) const CAPPED: &str = "bd_live_capped00000000000000000000000000";
pub(crate) const SCOPED: &str = "bd_live_scoped00000000000000000000000000";
/// Of a public page: for pictures alone.
pub(crate) const PAGE: &str = "bd_live_page0000000000000000000000000000";
pub(crate) const EXPIRED: &str = "bd_live_expired0000000000000000000000000";
pub(crate) const FREE_CAPPED: &str = "bd_live_freecapped0000000000000000000000";

/// Bytes that a file may have.
pub(crate) const MAX_FILE: usize = 10 << 20;

/// Stops a test that hangs; no test waits for it.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// What [`FakeEngine`] does with the next requests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Work {
    /// Answers at once.
    #[default]
    Answer,
    /// Answers with this many bytes.
    AnswerBytes(usize),
    /// Answers with this file.
    AnswerFile(fn() -> Vec<u8>),
    /// Answers when [`FakeEngine::release`] is notified.
    Wait,
    /// Fails.
    Fail(fn() -> PipelineError),
    /// Fails where the file's header is not that of a picture within the limits; else answers.
    Probe,
    /// Answers with two warnings where a subject is cut out.
    Warn,
    /// Panics.
    Panic,
}

/// Stands in for the engine and records its calls.
#[derive(Debug)]
pub(crate) struct FakeEngine {
    admission: Admission,
    added: AddedModels,
    pub(crate) work: Mutex<Work>,
    pub(crate) state: Mutex<EngineState>,
    pub(crate) alive: AtomicBool,
    pub(crate) stalled: AtomicBool,
    pub(crate) device: Mutex<String>,
    pub(crate) seen: Mutex<Vec<(usize, Recipe)>>,
    files: Mutex<Vec<Files>>,
    pub(crate) cancelled: AtomicUsize,
    pub(crate) release: Notify,
}

impl FakeEngine {
    /// Length of the picture and recipe of each job.
    pub(crate) fn seen(&self) -> MutexGuard<'_, Vec<(usize, Recipe)>> {
        self.seen.lock().expect("no panic inside")
    }

    /// The files of each job.
    pub(crate) fn files(&self) -> MutexGuard<'_, Vec<Files>> {
        self.files.lock().expect("no panic inside")
    }

    pub(crate) fn started(&self) -> usize {
        self.seen().len()
    }

    /// The recipe of the last job.
    pub(crate) fn last_recipe(&self) -> Recipe {
        self.seen().last().expect("one job").1.clone()
    }

    /// The files of the last job.
    pub(crate) fn last_files(&self) -> Files {
        self.files().last().expect("one job").clone()
    }

    pub(crate) fn set(&self, work: Work) {
        *self.work.lock().expect("no panic inside") = work;
    }
}

/// The face that is reported for work that detects faces.
fn detected_face(work: &Recipes) -> Option<FaceFound> {
    match work {
        Recipes::Cut { picture: Picture::Portrait(_), .. } => Some(FaceFound::None),
        Recipes::Cut { picture: Picture::Classified, .. } => {
            Some(FaceFound::At(Rect { left: 3, top: 4, width: 5, height: 6 }))
        }
        Recipes::Retouch(Retouch::Faces { .. }) => Some(FaceFound::At(Rect { left: 3, top: 4, width: 5, height: 6 })),
        Recipes::Cut { .. } | Recipes::Retouch(Retouch::Enlarge(_)) => None,
    }
}

struct CountWhenDropped<'a>(&'a AtomicUsize);

impl Drop for CountWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl ImageProcessor for FakeEngine {
    fn run<'a>(
        &'a self,
        files: Files,
        recipe: &'a Recipe,
        call: &'a Call,
    ) -> BoxFuture<'a, Result<Output, PipelineError>> {
        Box::pin(async move {
            let bytes = &files.source;
            self.seen().push((bytes.len(), recipe.clone()));
            // Copies: clones would keep the memory of the account.
            let copied = |file: &Bytes| Bytes::copy_from_slice(file);
            let [background, mark, mask] =
                [&files.background, &files.mark, &files.mask].map(|file| file.as_ref().map(copied));
            self.files().push(Files { source: copied(&files.source), background, mark, mask, fetch: files.fetch });
            let work = *self.work.lock().expect("no panic inside");
            let answer = match work {
                Work::Answer | Work::Warn => format!("a picture made of {} bytes", bytes.len()).into_bytes(),
                Work::AnswerBytes(length) => vec![7; length],
                Work::AnswerFile(file) => file(),
                Work::Wait => {
                    let guard = CountWhenDropped(&self.cancelled);
                    if timeout_at(call.deadline.into(), self.release.notified()).await.is_err() {
                        return Err(EngineError::DeadlineExceeded.into());
                    }
                    std::mem::forget(guard);
                    b"released".to_vec()
                }
                Work::Fail(error) => return Err(error()),
                Work::Probe => {
                    probe(bytes, &Limits::default())?;
                    format!("a picture made of {} bytes", bytes.len()).into_bytes()
                }
                Work::Panic => panic!("the work panicked on purpose"),
            };
            let cuts = recipe.cut().is_some();
            let output = Output {
                image: EncodedImage { format: recipe.encode.format, size: Size::new(40, 30), bytes: answer.into() },
                subject: cuts.then_some(Rect { left: 1, top: 2, width: 20, height: 25 }),
                uncertainty: cuts.then_some(0.125),
                edge: recipe.cut().is_some_and(|cut| cut.edge_by_kind).then_some(Edge::Hard),
                face: detected_face(&recipe.work),
                understood: matches!(recipe.inputs.background, Some(Source::Generated(_)))
                    .then(|| vec!["beach".to_owned()]),
                warnings: if cuts && matches!(work, Work::Warn) {
                    vec![Warning::UncertainMask(0.75), Warning::NoFace]
                } else {
                    Vec::new()
                },
                model: self.model_of(recipe),
                timings: Timings { decode: Duration::from_micros(1500), ..Timings::default() },
            };
            Ok(output)
        })
    }

    fn header_of(&self, source: Bytes, call: Call) -> BoxFuture<'_, Result<Header, PipelineError>> {
        Box::pin(async move { Ok(probe(&source, &call.limits)?) })
    }

    fn admission(&self) -> &Admission {
        &self.admission
    }

    fn model(&self) -> String {
        "fgnet-384/1".into()
    }

    fn model_of(&self, recipe: &Recipe) -> String {
        match recipe.work {
            Recipes::Cut { ref cut, .. } => cut.network.of(&self.model()),
            Recipes::Retouch(Retouch::Enlarge(by)) => format!("upscale-{}/1", by.get()),
            Recipes::Retouch(Retouch::Faces { .. }) => "restore-256/1".into(),
        }
    }

    fn weights(&self) -> WeightsInfo {
        WeightsInfo::default()
    }

    fn added(&self) -> &AddedModels {
        &self.added
    }

    fn is_loaded(&self, _name: &AddedName) -> bool {
        false
    }

    fn state(&self) -> EngineState {
        *self.state.lock().expect("no panic inside")
    }

    fn device(&self) -> String {
        self.device.lock().expect("no panic inside").clone()
    }

    fn is_alive(&self) -> bool {
        self.alive.load(Ordering::SeqCst)
    }

    fn failed_for(&self) -> Option<Duration> {
        None
    }

    fn is_stalled(&self) -> bool {
        self.stalled.load(Ordering::SeqCst)
    }
}

/// The keys above: id, token, account, images a month, scopes, and when it expires.
type KeyRow = (&'static str, &'static str, &'static str, Option<u64>, &'static [&'static str], Option<i64>);

const KEYS: [KeyRow; 9] = [
    ("key_1", KEY, "default", None, &[], None),
    ("key_2", PAID, "paying", None, &[], None),
    ("key_3", FREE, "guest", None, &[], None),
    ("key_4", TEST, "default", None, &[], None),
    ("key_5", CAPPED, "paying", Some(3), &[], None),
    ("key_6", SCOPED, "paying", None, &["remove", "video/remove"], None),
    ("key_7", FREE_CAPPED, "guest", Some(3), &[], None),
    ("key_8", PAGE, "paying", None, &["remove"], None),
    ("key_9", EXPIRED, "paying", None, &[], Some(1_767_225_600)),
];

/// A store with these keys and their accounts, and one preset of `default`, named `p1`.
async fn services(folder: &Path, disk: &Arc<Disk>) -> (Store, String) {
    let store = RedbStore::open(&folder.join("state.redb")).expect("a new store");
    let store = Store::file(FillingStore { store, disk: Arc::clone(disk) }, 50).expect("empty");
    let quality = || AccountModel(Some(InferenceMode::Quality.into()));
    let standard = || AccountModel(Some(InferenceMode::Standard.into()));
    for (name, plan, generates, model) in [
        ("default", Plan::Plus, true, AccountModel::default()),
        ("paying", Plan::Paid, false, quality()),
        ("guest", Plan::Free, true, standard()),
    ] {
        let name = AccountName::try_from(name).expect("a name");
        let keys = Keys::new(store.clone());
        keys.create_account(name, plan, generates, model).await.expect("a new account");
    }
    for (id, token, account, images_per_month, scopes, expires_at) in KEYS {
        let key = Key {
            id: id.into(),
            account: account.into(),
            label: if token == PAID { "shop".into() } else { String::new() },
            test: token == TEST,
            created_at: UnixSeconds(1),
            revoked_at: None,
            last_used_at: None,
            expires_at: expires_at.map(UnixSeconds),
            images_per_month,
            scopes: scopes.iter().map(|&scope| scope.to_owned()).collect(),
            previous: None,
        };
        let hash = token_hash(token).expect("a token");
        store.change(Change::CreateKey { hash, key }).await.expect("a new key");
    }
    let params = json!({ "width": 77, "quality": 11 }).as_object().expect("an object").clone();
    let draft = Draft { name: "p1".into(), params, ..Draft::default() };
    let presets = Presets::new(store.clone());
    let preset = presets.save("default", draft, UnixSeconds::now(), |_| Ok(())).await.expect("a new preset");
    (store, preset.id)
}

/// Stands in for the fetcher: answers with as many bytes as the last part of the path says, and records the URLs.
#[derive(Debug, Default)]
pub(crate) struct FakeFetcher {
    urls: Mutex<Vec<String>>,
    /// Added to every byte of its pictures. Before the first edition, there is no picture at `later`.
    pub(crate) edition: AtomicU8,
    /// Lets the fetch of the picture at `held` end.
    pub(crate) release: Notify,
}

impl FakeFetcher {
    /// How many fetches there were.
    pub(crate) fn fetches(&self) -> usize {
        self.urls.lock().expect("no panic inside").len()
    }

    fn last_part<'a>(&self, url: &'a SourceUrl) -> &'a str {
        self.urls.lock().expect("no panic inside").push(url.to_string());
        url.as_url().path_segments().and_then(|mut parts| parts.next_back()).unwrap_or_default()
    }
}

impl Fetch for FakeFetcher {
    fn fetch<'a>(&'a self, url: &'a SourceUrl, room: &'a dyn MemoryBudget) -> BoxFuture<'a, Result<Bytes, FetchError>> {
        Box::pin(async move {
            let edition = self.edition.load(Ordering::SeqCst);
            let picture = |length| async move {
                room.reserve(length).await.map_err(|OutOfMemory| FetchError::OutOfMemory)?;
                Ok(vec![5 + edition; length].into())
            };
            match self.last_part(url) {
                "large" => Err(FetchError::TooLarge { limit: 10 << 20 }),
                "text" => Err(FetchError::NotAPicture(DecodeError::Unsupported { found: None })),
                "gone" => Err(FetchError::Status(StatusCode::GONE)),
                "never" => std::future::pending().await,
                "held" => {
                    self.release.notified().await;
                    picture(10).await
                }
                "photo.png" => {
                    room.reserve(PHOTO.len()).await.map_err(|OutOfMemory| FetchError::OutOfMemory)?;
                    Ok(Bytes::from_static(PHOTO))
                }
                "later" if edition > 0 => picture(30).await,
                other => picture(other.parse().map_err(|_| FetchError::NoAddress)?).await,
            }
        })
    }

    /// Answers with the clip that the last part of the path names, `clip-3`.
    fn fetch_clip<'a>(
        &'a self,
        url: &'a SourceUrl,
        limit: usize,
        into: &'a mpsc::Sender<Bytes>,
    ) -> BoxFuture<'a, Result<(), FetchError>> {
        Box::pin(async move {
            let last = self.last_part(url);
            match last {
                "large" => Err(FetchError::TooLarge { limit }),
                "nowhere" => Err(FetchError::NoAddress),
                _ => into.send(last.replace('-', " ").into()).await.map_err(|_| FetchError::ReceiverClosed),
            }
        })
    }

    fn refuses(&self, url: &SourceUrl) -> bool {
        url.as_url().host_str().is_some_and(|host| host.starts_with("10."))
    }
}

/// Stands in for ffprobe: a clip is a file that begins with `clip`, a blank and its length in seconds.
#[derive(Debug, Default)]
pub(crate) struct FakeInspector {
    pub(crate) missing: AtomicBool,
    pub(crate) missing_confinement: Mutex<Vec<&'static str>>,
    pub(crate) probes: AtomicUsize,
}

impl Inspect for FakeInspector {
    fn ready(&self) -> BoxFuture<'_, Result<(), ToolMissing>> {
        let missing = self.missing.load(Ordering::SeqCst);
        Box::pin(async move { if missing { Err(ToolMissing("ffmpeg".into())) } else { Ok(()) } })
    }

    fn missing_confinement(&self) -> Option<Vec<&'static str>> {
        Some(self.missing_confinement.lock().expect("no panic inside").clone())
    }

    fn probe<'a>(&'a self, _account: &'a str, file: &'a Path) -> BoxFuture<'a, Result<Clip, VideoError>> {
        self.probes.fetch_add(1, Ordering::SeqCst);
        let content = std::fs::read(file).expect("the clip is there");
        let text = String::from_utf8_lossy(&content[..content.len().min(40)]).into_owned();
        Box::pin(async move {
            let mut words = text.split_ascii_whitespace();
            match (words.next(), words.next().and_then(|seconds| seconds.parse().ok())) {
                (Some("clip"), Some(seconds)) => {
                    let rate = Rate { frames: 30, seconds: 1 };
                    Ok(Clip { size: Size::new(64, 36), rate, seconds, has_audio: false })
                }
                (Some("avi"), _) => Err(VideoError::Unsupported("avi".into())),
                (Some("sound"), _) => Err(VideoError::NoPicture),
                (Some("long"), _) => Err(VideoError::TooLarge("the clip has 61 seconds and may have 60".into())),
                (Some("broken"), _) => Err(VideoError::Tool("ffprobe said something else".into())),
                (Some("busy"), _) => Err(EngineError::DeadlineExceeded.into()),
                _ => Err(VideoError::Unreadable),
            }
        })
    }
}

/// What [`FakeVideoWorker`] does with the next clips.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum ClipWork {
    /// Makes a file of 45 frames at 30 a second that begins with what was sent.
    #[default]
    Make,
    /// Waits, half done, until [`FakeVideoWorker::release`] is notified.
    Wait,
    /// Fails.
    Fail,
}

/// Stands in for the processing of clips and records its jobs.
#[derive(Debug, Default)]
pub(crate) struct FakeVideoWorker {
    work: Mutex<ClipWork>,
    /// Each job with its clip.
    pub(crate) seen: Mutex<Vec<(Job, Vec<u8>)>>,
    pub(crate) dropped: AtomicUsize,
    pub(crate) release: Notify,
}

impl FakeVideoWorker {
    pub(crate) fn set(&self, work: ClipWork) {
        *self.work.lock().expect("no panic inside") = work;
    }

    pub(crate) fn started(&self) -> usize {
        self.seen.lock().expect("no panic inside").len()
    }
}

impl Worker for FakeVideoWorker {
    fn run<'a>(
        &'a self,
        job: &'a Job,
        folder: &'a Path,
        progress: &'a (dyn Fn(u8) + Send + Sync),
    ) -> BoxFuture<'a, Result<WorkOutput, WorkError>> {
        Box::pin(async move {
            let clip = std::fs::read(input_in(folder)).expect("the clip is there");
            progress(50);
            self.seen.lock().expect("no panic inside").push((job.clone(), clip.clone()));
            let work = *self.work.lock().expect("no panic inside");
            match work {
                ClipWork::Make => {}
                ClipWork::Wait => {
                    let guard = CountWhenDropped(&self.dropped);
                    self.release.notified().await;
                    std::mem::forget(guard);
                }
                ClipWork::Fail => {
                    let message = "there is no subject in any frame".to_owned();
                    return Err(WorkError { code: "no_subject_detected", message, internal: false });
                }
            }
            let file = folder.join("made");
            let made: Vec<u8> = [b"made of ".as_slice(), &clip].concat();
            std::fs::write(&file, made).expect("a writable folder");
            let media_type = "video/webm";
            Ok(WorkOutput { file, media_type, frames: 45, rate_frames: 30, rate_seconds: 1, warnings: Vec::new() })
        })
    }

    fn checkpoint(&self, _: &Path) -> std::io::Result<Option<WorkCheckpoint>> {
        Ok(None)
    }
}

struct FakeAdmin;

impl Administer for FakeAdmin {
    fn handle<'a>(&'a self, request: &'a Request<Bytes>) -> BoxFuture<'a, Option<hyper::Response<Value>>> {
        Box::pin(async move {
            let body = String::from_utf8_lossy(request.body()).into_owned();
            let answer = hyper::Response::builder();
            let answer = match (request.uri().path(), request.method().as_str()) {
                ("/keys", "POST") => answer.status(201).body(json!({ "body": body })),
                ("/keys", _) => answer
                    .status(405)
                    .header("allow", "POST")
                    .body(json!({ "error": { "code": "method_not_allowed", "message": "only POST" } })),
                _ => return None,
            };
            Some(answer.expect("plain values"))
        })
    }
}

/// The settings of a daemon.
pub(crate) struct Setup {
    pub(crate) config: HttpConfig,
    pub(crate) rate_per_minute: u32,
    /// Of the public listener.
    pub(crate) tls: Option<Tls>,
    pub(crate) webhooks: FetchConfig,
    pub(crate) model: InferenceMode,
    pub(crate) compat: CompatConfig,
    pub(crate) max_requests_in_flight: usize,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            config: HttpConfig::default(),
            rate_per_minute: 10_000,
            tls: None,
            webhooks: FetchConfig::default(),
            model: InferenceMode::Standard,
            compat: CompatConfig::default(),
            max_requests_in_flight: 10_000,
        }
    }
}

/// A running daemon.
pub(crate) struct Daemon {
    pub(crate) address: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) engine: Arc<FakeEngine>,
    pub(crate) fetcher: Arc<FakeFetcher>,
    pub(crate) inspector: Arc<FakeInspector>,
    pub(crate) worker: Arc<FakeVideoWorker>,
    pub(crate) store: Store,
    /// The disk of the store.
    pub(crate) disk: Arc<Disk>,
    /// Id of the preset `p1`.
    pub(crate) preset: String,
    pub(crate) folder: TempDir,
    pub(crate) client: reqwest::Client,
    stop: Option<oneshot::Sender<()>>,
    pub(crate) served: JoinHandle<()>,
}

impl Daemon {
    pub(crate) async fn start() -> Self {
        Self::of(Setup::default()).await
    }

    pub(crate) async fn start_with(config: HttpConfig, rate_per_minute: u32) -> Self {
        Self::of(Setup { config, rate_per_minute, ..Setup::default() }).await
    }

    pub(crate) async fn of(setup: Setup) -> Self {
        let Setup { config, rate_per_minute, tls, webhooks, model, compat, max_requests_in_flight } = setup;
        assert!(config.validate().is_empty());
        let engine = Arc::new(FakeEngine {
            admission: Admission::new(&EngineConfig { max_requests_in_flight, ..EngineConfig::default() }),
            added: AddedModels::default(),
            work: Mutex::default(),
            state: Mutex::new(EngineState::Ready),
            alive: AtomicBool::new(true),
            stalled: AtomicBool::new(false),
            device: Mutex::default(),
            seen: Mutex::default(),
            files: Mutex::default(),
            cancelled: AtomicUsize::new(0),
            release: Notify::new(),
        });
        let fetcher = Arc::new(FakeFetcher::default());
        let folder = tempfile::tempdir().expect("a folder");
        let disk = Arc::new(Disk::default());
        let (store, preset) = services(folder.path(), &disk).await;
        let (inspector, worker) = (Arc::new(FakeInspector::default()), Arc::new(FakeVideoWorker::default()));
        let secret = DaemonSecret::open(folder.path()).expect("a new one");
        let results = Results::open(None, folder.path(), &secret).expect("a new folder");
        let sender = Fetcher::new(&webhooks).expect("good settings");
        let deps = Deps {
            store: store.clone(),
            results: Arc::new(results.clone()),
            worker: worker.clone(),
            webhooks: Arc::new(WebhookClient::new(sender, secret.clone(), results.clone())),
        };
        let jobs = Jobs::start(deps, &JobsConfig { min_free_megabytes: 0, ..JobsConfig::default() }, folder.path())
            .await
            .expect("a new folder");
        let app = App {
            processor: engine.clone(),
            compat,
            model: model.into(),
            fetcher: fetcher.clone(),
            store: store.clone(),
            presets: Presets::new(store.clone()),
            providers: Providers::default(),
            jobs: jobs.clone(),
            bulk: None,
            results,
            inspector: inspector.clone(),
            secret,
            prices: Arc::default(),
            operator: Arc::new(FakeAdmin),
            metrics: exporter(),
        };
        let public = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let admin = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let (address, admin_address) = (public.local_addr().expect("bound"), admin.local_addr().expect("bound"));
        let public = Listener::new(public, tls);
        let (stop, stopped) = oneshot::channel::<()>();
        // Ends with the runtime of its test.
        tokio::spawn(async move { jobs.run(std::future::pending()).await });
        let served = tokio::spawn(serve(
            config,
            LimitsConfig {
                rate_per_minute,
                rate_per_minute_paid: Some(rate_per_minute.saturating_mul(2)),
                ..LimitsConfig::default()
            },
            app,
            public,
            admin,
            async {
                let _ = stopped.await;
            },
        ));
        Self {
            address,
            admin: admin_address,
            engine,
            fetcher,
            inspector,
            worker,
            store,
            disk,
            preset,
            folder,
            client: http_client().build().expect("a client"),
            stop: Some(stop),
            served,
        }
    }

    pub(crate) fn stop(&mut self) {
        self.stop.take();
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn request(&self, key: &str, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, self.url(path)).bearer_auth(key).timeout(LONG)
    }

    pub(crate) fn post_as(&self, key: &str, path: &str) -> RequestBuilder {
        self.request(key, Method::POST, path)
    }

    pub(crate) fn post(&self, path: &str) -> RequestBuilder {
        self.post_as(KEY, path)
    }

    pub(crate) fn get_as(&self, key: &str, path: &str) -> RequestBuilder {
        self.request(key, Method::GET, path)
    }

    /// Without a key.
    pub(crate) fn get(&self, path: &str) -> RequestBuilder {
        self.client.get(self.url(path)).timeout(LONG)
    }

    /// A page of the admin listener.
    pub(crate) fn page(&self, path: &str) -> RequestBuilder {
        self.client.get(format!("http://{}{path}", self.admin)).timeout(LONG)
    }

    /// A small picture with these fields.
    pub(crate) fn upload_as(&self, key: &str, path: &str, fields: &[(&str, &str)]) -> RequestBuilder {
        self.post_as(key, path).multipart(form(fields))
    }

    pub(crate) fn upload(&self, path: &str, fields: &[(&str, &str)]) -> RequestBuilder {
        self.upload_as(KEY, path, fields)
    }

    pub(crate) async fn send(&self, path: &str, fields: &[(&str, &str)]) -> Response {
        self.upload(path, fields).answer().await
    }

    pub(crate) async fn account(&self, key: &str) -> Value {
        self.get_as(key, "/account").value().await
    }

    pub(crate) async fn connect(&self) -> Raw {
        Raw(TcpStream::connect(self.address).await.expect("a connection"))
    }
}

/// A request that is sent.
pub(crate) trait Exchange {
    async fn answer(self) -> Response;

    /// The JSON of the answer.
    async fn value(self) -> Value;

    /// The refusal with this status, code and parameter.
    async fn refused(self, status: u16, code: &str, param: Option<&str>) -> Refusal;

    /// The refusal of a parameter.
    async fn invalid(self, param: &str) -> Refusal;
}

impl Exchange for RequestBuilder {
    async fn answer(self) -> Response {
        self.send().await.expect("an answer")
    }

    async fn value(self) -> Value {
        self.answer().await.json().await.expect("JSON")
    }

    async fn refused(self, status: u16, code: &str, param: Option<&str>) -> Refusal {
        let response = self.answer().await;
        let url = response.url().clone();
        let refusal = refusal(response).await;
        let found = (refusal.status.as_u16(), refusal.code.as_str(), refusal.param.as_deref());
        assert_eq!(found, (status, code, param), "{url}: {}", refusal.message);
        refusal
    }

    async fn invalid(self, param: &str) -> Refusal {
        self.refused(400, "invalid_parameter", Some(param)).await
    }
}

/// A header's text, empty without the header.
#[track_caller]
pub(crate) fn header<'a>(response: &'a Response, name: &str) -> &'a str {
    response.headers().get(name).map_or("", |value| value.to_str().expect("ASCII"))
}

/// The number in a header.
#[track_caller]
pub(crate) fn number(response: &Response, name: &str) -> f64 {
    header(response, name).parse().unwrap_or_else(|_| panic!("{name} is no number: {:?}", response.headers()))
}

/// A form of texts.
pub(crate) fn texts(fields: &[(&str, &str)]) -> Form {
    fields.iter().fold(Form::new(), |form, (name, value)| form.text((*name).to_owned(), (*value).to_owned()))
}

/// A file of a form.
pub(crate) fn file(bytes: Vec<u8>) -> Part {
    Part::bytes(bytes).file_name("a.jpg")
}

/// A file of unannounced length.
pub(crate) fn chunked(bytes: Vec<u8>) -> Part {
    Part::stream(in_chunks(&bytes)).file_name("a.jpg")
}

/// A body of unannounced length.
pub(crate) fn in_chunks(bytes: &[u8]) -> Body {
    let chunks: Vec<_> = bytes.chunks(60_000).map(|chunk| Ok::<_, std::io::Error>(chunk.to_vec())).collect();
    Body::wrap_stream(futures_util::stream::iter(chunks))
}

/// A form with a small file behind its fields.
pub(crate) fn form(fields: &[(&str, &str)]) -> Form {
    texts(fields).part("file", file(b"the picture".to_vec()))
}

/// The fields that an endpoint requires.
pub(crate) fn required_fields(path: &str) -> &'static [(&'static str, &'static str)] {
    if path == BACKDROP_PATH { &[("prompt", "a beach")] } else { &[] }
}

/// An error as a caller sees it, with the envelope checked.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) param: Option<String>,
    pub(crate) reason: Option<String>,
}

pub(crate) async fn refusal(response: Response) -> Refusal {
    let (status, headers) = (response.status(), response.headers().clone());
    assert_eq!(headers["content-type"], "application/json");
    let body: Value = response.json().await.expect("JSON");
    assert_eq!(body["request_id"].as_str(), headers["x-request-id"].to_str().ok(), "{body}");
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let error = body["error"].as_object().expect("an error object");
    assert!(error.keys().all(|key| ["code", "message", "param", "reason"].contains(&key.as_str())), "{body}");
    Refusal {
        status,
        headers,
        code: text(&error["code"]).expect("a code"),
        message: text(&error["message"]).expect("a message"),
        param: error.get("param").map(|param| text(param).expect("a name")),
        reason: error.get("reason").map(|reason| text(reason).expect("a word")),
    }
}

impl Refusal {
    #[track_caller]
    pub(crate) fn is(&self, status: u16, code: &str, param: Option<&str>) {
        assert_eq!(
            (self.status.as_u16(), self.code.as_str(), self.param.as_deref()),
            (status, code, param),
            "{}",
            self.message
        );
    }
}

/// A connection without an HTTP client.
pub(crate) struct Raw(pub(crate) TcpStream);

impl Raw {
    pub(crate) async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).await.expect("the daemon reads");
    }

    /// One reply with its body, by its content-length; `None` at the end of the connection.
    pub(crate) async fn reply(&mut self) -> Option<String> {
        timeout(LONG, async {
            let mut bytes = Vec::new();
            while !bytes.ends_with(b"\r\n\r\n") {
                bytes.push(self.0.read_u8().await.ok()?);
            }
            let head = String::from_utf8(bytes).expect("ASCII");
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length = length.map_or(0, |length| length.parse().expect("a number"));
            let mut body = vec![0; length];
            self.0.read_exact(&mut body).await.ok()?;
            Some(head + &String::from_utf8_lossy(&body))
        })
        .await
        .expect("a reply or the end in time")
    }

    /// Whether the daemon ends the connection within `limit`; nothing may come before.
    pub(crate) async fn ends_within(&mut self, limit: Duration) -> bool {
        let mut byte = [0; 1];
        match timeout(limit, self.0.read(&mut byte)).await {
            Ok(Ok(0) | Err(_)) => true,
            Ok(Ok(_)) => panic!("unexpected byte {byte:?}"),
            Err(_) => false,
        }
    }
}

/// An HTTP/2 connection without TLS.
pub(crate) struct Http2 {
    sender: http2::SendRequest<Empty<Bytes>>,
    connection: JoinHandle<hyper::Result<()>>,
}

impl Http2 {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let io = TokioIo::new(TcpStream::connect(address).await.expect("a connection"));
        let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await.expect("HTTP/2");
        Self { sender, connection: tokio::spawn(connection) }
    }

    pub(crate) async fn get(&mut self, path: &str) -> hyper::Response<Bytes> {
        let request = Request::get(format!("http://localhost{path}")).body(Empty::new()).expect("a request");
        let (head, body) = self.sender.send_request(request).await.expect("an answer").into_parts();
        hyper::Response::from_parts(head, body.collect().await.expect("a body").to_bytes())
    }

    /// Waits until the daemon ends it, with a GOAWAY.
    pub(crate) async fn ends(self) {
        timeout(LONG, self.connection).await.expect("a GOAWAY").expect("no panic").expect("a graceful end");
    }
}

/// A multipart body and the head that goes with it, for [`Raw`].
pub(crate) fn raw_upload(file: &[u8]) -> (String, Vec<u8>) {
    raw_upload_to("/remove", file)
}

/// The same for another endpoint.
pub(crate) fn raw_upload_to(path: &str, file: &[u8]) -> (String, Vec<u8>) {
    let body = [
        b"--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.jpg\"\r\n\r\n".as_slice(),
        file,
        b"\r\n--B--\r\n",
    ]
    .concat();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n\
         content-type: multipart/form-data; boundary=B\r\ncontent-length: {}\r\n",
        body.len()
    );
    (head, body)
}

/// The refusal (429) of `send` while an upload of `body` that still lacks its end holds memory; the upload is then finished.
///
/// The memory suffices for one of both, and the later of two growths is refused: as long as the daemon reads both at once,
/// that may be the upload, which is sent again then.
pub(crate) async fn refused_during_upload(
    daemon: &Daemon,
    head: &str,
    body: &[u8],
    send: impl AsyncFn() -> Response,
) -> Response {
    let (most, rest) = body.split_at(body.len() - 20);
    timeout(LONG, async {
        loop {
            let mut upload = daemon.connect().await;
            // A write fails where the daemon has closed the connection of a refused upload.
            let _ = upload.0.write_all(head.as_bytes()).await;
            let _ = upload.0.write_all(most).await;
            let refused = tokio::select! {
                refused = until_429(&send) => refused,
                _ = upload.reply() => continue,
            };
            let _ = upload.0.write_all(rest).await;
            if upload.reply().await.is_some_and(|reply| reply.starts_with("HTTP/1.1 200 ")) {
                return refused;
            }
        }
    })
    .await
    .expect("an upload that is not refused")
}

/// Repeats a request, with pauses in which the daemon reads other uploads, until it is answered 429.
async fn until_429(send: impl AsyncFn() -> Response) -> Response {
    loop {
        let response = send().await;
        if response.status() == StatusCode::TOO_MANY_REQUESTS {
            return response;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until `condition` holds.
pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    timeout(LONG, async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap_or_else(|_| panic!("{what} did not happen"));
}
