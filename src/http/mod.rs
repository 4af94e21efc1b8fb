//! The HTTP facade: two listeners, one for callers and one for operators.
//!
//! ```text
//! server      accepts; HTTP/1.1 and h2c; graceful shutdown      connection  header and idle clocks
//! tls         certificate, reload                               cors        which web pages may call
//! connection_limits  in all and by address                      descriptors the limit of open files
//! proxy_protocol     client address of a connection             client_address  of a request (X-Forwarded-For)
//! head_check         Host, Transfer-Encoding (400), size (431)  head_refusal  heads that are no HTTP (400, 431)
//! drain              503 while requests under way end at shutdown
//! exchange    request id, panic → 500, envelope, log, metrics   body        pause and total clocks
//! facade      route → key (401) → rate (429) → scope (403) → endpoint         admin       /livez /readyz /metrics, keys
//! doorman     wrong keys, by address
//! compat      routes in the wire formats of remove.bg, rembg and Photoroom: translation to and from the same recipes
//! submission  query and content type → form or JSON → fields and pictures
//! pin         which model does it, `x-service-model` (400)
//! backdrop    allow-list and model of a backdrop (403), who makes it (502)
//! upload_memory what uploads and fetched files may hold, by account (429)
//! cover       pin, allow-list (403), plan (402), preset (404), Idempotency-Key (409), quota (402), cap of the day (429) → Recipe
//! routes      fetching → pipeline → bill → response
//! idempotency what was fetched is what was billed under the `Idempotency-Key` (409)
//! reply_budget   room for finished pictures, by account
//! delivery    bodies of replies as hyper takes them    write_progress  stalled replies, reset of their streams
//! clip        a clip on its way to the disk            range       parts of a result
//! ```
//!
//! A clip's own order is: pin (400) → fields, as far as they have come before it (400) → plan (402) → ffmpeg (503) → a place
//! for it (429) → disk space (503) → its bytes (413) → all fields (400) → `Idempotency-Key`: the same job, or 409 → what is
//! in it (400, 415, 422, 413) → quota (402) → a job.
//!
//! The order of checks is the order of these calls; each comes before the next can cost anything. Limits are enforced
//! while bytes arrive. A caller that goes away drops its request's future, and the engine sees that.

mod admin;
mod aliases;
mod backdrop;
mod body;
mod client_address;
mod clip;
pub mod compat;
pub mod config;
mod connection;
mod connection_limits;
mod cors;
mod cover;
mod delivery;
pub mod descriptors;
mod docs;
mod doorman;
mod drain;
pub mod error;
mod exchange;
mod facade;
mod fetching;
mod form;
mod head_check;
mod head_refusal;
mod idempotency;
mod json;
mod multipart;
mod picture_json;
mod pin;
mod proxy_protocol;
mod range;
mod reply_budget;
mod request_id;
mod response;
pub mod router;
mod routes;
mod server;
mod submission;
pub mod tls;
mod upload_memory;
mod write_progress;

use crate::account::price::PriceConfig;
use crate::account::{Daily, Ledger, Payer, Presets, Requests, Scopes};
use crate::engine::{Engine, EngineState, Slot};
use crate::generate::Providers;
use crate::image::SourceUrl;
use crate::jobs::Jobs;
use crate::jobs::results::Results;
use crate::jobs::secret::DaemonSecret;
use crate::pipeline::{self, Call, Files, Output, PipelineError};
use crate::recipe::{InferenceMode, Recipe};
use crate::source::{FetchError, Fetcher, Room};
use crate::store::{Plan, StateStore, UnixSeconds};
use crate::video::{self, Clip, ToolMissing, Tools, VideoConfig, VideoError};
use bytes::Bytes;
use compat::CompatConfig;
use config::{HttpConfig, LimitsConfig};
use futures_util::future::BoxFuture;
use hyper::{Request, Response};
use metrics_exporter_prometheus::PrometheusHandle;
use serde_json::Value;
use server::Intake;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tls::Listener;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_blocking;

/// How long operators' requests under way may take to end.
const ADMIN_GRACE: Duration = Duration::from_secs(2);

/// A finished picture, and its place among the requests in flight.
#[derive(Debug)]
pub struct Finished {
    /// The picture.
    pub output: Output,
    /// To be kept until the reply has room in memory, so that requests are refused while replies are not read.
    pub slot: Option<Slot>,
}

/// The work behind the image endpoints.
pub trait Remove: Send + Sync + 'static {
    /// Runs one job, at most until the deadline of its call; dropping the future cancels it.
    fn run<'a>(
        &'a self,
        files: Files,
        recipe: &'a Recipe,
        call: &'a Call,
    ) -> BoxFuture<'a, Result<Finished, PipelineError>>;

    /// Name and version of the weights that cut out.
    fn model(&self) -> String;

    /// Those of the model that does what `recipe` asks for.
    fn model_of(&self, recipe: &Recipe) -> String;

    /// What it is doing.
    fn state(&self) -> EngineState;

    /// Whether its threads are there; without them only a restart helps.
    fn is_alive(&self) -> bool;

    /// Whether work waits and none has been begun or ended for longer than it ever should take.
    fn is_stalled(&self) -> bool;
}

impl Remove for Engine {
    fn run<'a>(
        &'a self,
        files: Files,
        recipe: &'a Recipe,
        call: &'a Call,
    ) -> BoxFuture<'a, Result<Finished, PipelineError>> {
        Box::pin(async move {
            let slot = self.admit()?;
            let output = pipeline::run_in(self, &slot, files, recipe, call).await?;
            // The pixels are gone; only the file waits for its reply.
            slot.release_pixels();
            Ok(Finished { output, slot: Some(slot) })
        })
    }

    fn model(&self) -> String {
        Self::model(self)
    }

    fn model_of(&self, recipe: &Recipe) -> String {
        pipeline::model_of(recipe, || Self::model(self), &**self.retoucher())
    }

    fn state(&self) -> EngineState {
        *Self::state(self).borrow()
    }

    fn is_alive(&self) -> bool {
        Self::is_alive(self)
    }

    fn is_stalled(&self) -> bool {
        Self::is_stalled(self)
    }
}

/// Who sent a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Public id of the key; the rate limit is counted by it.
    pub key_id: String,
    /// The account it belongs to.
    pub account: String,
    /// What the account may use.
    pub plan: Plan,
    /// A sandbox key: never bills, stamps its results.
    pub test: bool,
    /// Whether the account is on the allow-list of `/replace-bg-ai`.
    pub generates: bool,
    /// Which model cuts out for the account; nothing where the daemon's does.
    pub model: Option<InferenceMode>,
    /// Images that the key may have made in a month; nothing where it has no bound of its own.
    pub images_per_month: Option<u64>,
    /// The endpoints that the key is for.
    pub scopes: Scopes,
}

impl Caller {
    /// Whose quota its images take. A sandbox key takes none.
    fn payer(&self) -> Payer<'_> {
        Payer {
            account: &self.account,
            plan: self.plan,
            key_id: Some(&self.key_id),
            images_per_month: self.images_per_month,
        }
    }
}

/// The keys that open the API.
pub trait Authenticate: Send + Sync + 'static {
    /// Whose token this is; nothing for one that opens nothing.
    fn authenticate(&self, token: &str) -> Option<Caller>;

    /// A caller without a key, as the account of this name; nothing where there is none.
    fn of_account(&self, account: &str) -> Option<Caller>;

    /// When the key of a token that opens nothing expired; nothing where that is not the reason.
    fn expired_at(&self, token: &str) -> Option<UnixSeconds>;

    /// Public ids and labels of an account's keys, revoked ones too.
    fn labels(&self, account: &str) -> Vec<(String, String)>;
}

/// Fetches pictures and clips that callers name by their address.
pub trait Fetch: Send + Sync + 'static {
    /// The bytes behind `url`, a picture's, for which room is taken as they come.
    fn fetch<'a>(&'a self, url: &'a SourceUrl, room: &'a dyn Room) -> BoxFuture<'a, Result<Bytes, FetchError>>;

    /// Sends the bytes behind `url`, `limit` at most, into a channel as they come.
    fn fetch_clip<'a>(
        &'a self,
        url: &'a SourceUrl,
        limit: usize,
        into: &'a mpsc::Sender<Bytes>,
    ) -> BoxFuture<'a, Result<(), FetchError>>;

    /// Whether `url` can be refused without asking anybody where its host is.
    fn refuses(&self, url: &SourceUrl) -> bool;
}

impl Fetch for Fetcher {
    fn fetch<'a>(&'a self, url: &'a SourceUrl, room: &'a dyn Room) -> BoxFuture<'a, Result<Bytes, FetchError>> {
        Box::pin(self.fetch_into(url, room))
    }

    fn fetch_clip<'a>(
        &'a self,
        url: &'a SourceUrl,
        limit: usize,
        into: &'a mpsc::Sender<Bytes>,
    ) -> BoxFuture<'a, Result<(), FetchError>> {
        Box::pin(Self::fetch_clip(self, url, limit, into))
    }

    fn refuses(&self, url: &SourceUrl) -> bool {
        Self::refuses(self, url)
    }
}

/// Looks at clips before anything is promised.
pub trait Inspect: Send + Sync + 'static {
    /// Whether there is what it needs.
    fn ready(&self) -> BoxFuture<'_, Result<(), ToolMissing>>;

    /// What is in a file.
    fn probe<'a>(&'a self, file: &'a Path) -> BoxFuture<'a, Result<Clip, VideoError>>;
}

/// Looks at clips with ffprobe.
#[derive(Debug)]
pub struct Inspector {
    config: VideoConfig,
    /// Once they are there they are not looked for again.
    tools: Arc<OnceLock<Tools>>,
}

impl Inspector {
    /// Looks for the programs when they are needed: they may be installed while the daemon runs.
    #[must_use]
    pub fn new(config: VideoConfig) -> Self {
        Self { config, tools: Arc::default() }
    }

    async fn tools(&self) -> Result<Tools, ToolMissing> {
        if let Some(tools) = self.tools.get() {
            return Ok(tools.clone());
        }
        let (config, found) = (self.config.clone(), self.tools.clone());
        let looked = spawn_blocking(move || {
            let tools = Tools::find(&config)?;
            Ok(found.get_or_init(|| tools).clone())
        });
        looked.await.unwrap_or_else(|error| Err(ToolMissing(error.to_string())))
    }
}

impl Inspect for Inspector {
    fn ready(&self) -> BoxFuture<'_, Result<(), ToolMissing>> {
        Box::pin(async move { self.tools().await.map(|_| ()) })
    }

    fn probe<'a>(&'a self, file: &'a Path) -> BoxFuture<'a, Result<Clip, VideoError>> {
        Box::pin(async move {
            let tools = self.tools().await.map_err(|missing| VideoError::Tool(missing.to_string()))?;
            video::probe(&tools, file).await
        })
    }
}

/// Administration through the admin listener.
pub trait Administer: Send + Sync + 'static {
    /// Answers a request with JSON; nothing when it has no such path. An error is `{"error":{"code","message"}}`, to
    /// which the id of the request is added.
    fn handle<'a>(&'a self, request: &'a Request<Bytes>) -> BoxFuture<'a, Option<Response<Value>>>;
}

/// What the facade stands on. Clones share it.
#[derive(Clone)]
pub struct App {
    /// The work.
    pub remover: Arc<dyn Remove>,
    /// Which other services' wire formats are spoken.
    pub compat: CompatConfig,
    /// Which model cuts out where neither the request nor the account says.
    pub model: InferenceMode,
    /// The keys.
    pub keys: Arc<dyn Authenticate>,
    /// What fetches callers' addresses.
    pub fetcher: Arc<dyn Fetch>,
    /// Where all of it is recorded; a fault of it makes the daemon unready.
    pub store: Arc<dyn StateStore>,
    /// The accounts' quotas and bills.
    pub ledger: Ledger,
    /// Requests that callers have named, to be able to repeat them.
    pub requests: Requests,
    /// The accounts' presets.
    pub presets: Presets,
    /// The backdrops of the day.
    pub daily: Daily,
    /// Who makes them.
    pub providers: Providers,
    /// The keys' jobs.
    pub jobs: Jobs,
    /// What jobs have made.
    pub results: Results,
    /// What looks at clips.
    pub inspector: Arc<dyn Inspect>,
    /// From which the accounts' webhook secrets are derived.
    pub secret: DaemonSecret,
    /// What is billed.
    pub prices: Arc<PriceConfig>,
    /// Administration, served by the admin listener.
    pub operator: Arc<dyn Administer>,
    /// What `/metrics` tells.
    pub metrics: PrometheusHandle,
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App").field("state", &self.remover.state()).finish_non_exhaustive()
    }
}

/// Serves both listeners until `shutdown`; then is not ready any more, lets the requests under way end within the grace
/// period while others are answered 503, accepts nothing, and returns. The listeners are bound already, so that callers can connect while the
/// network is still being loaded; their requests wait for it.
pub async fn serve(
    config: HttpConfig,
    limits: LimitsConfig,
    app: App,
    public: impl Into<Listener>,
    admin: TcpListener,
    shutdown: impl Future<Output = ()>,
) {
    let config = Arc::new(config);
    let draining = Arc::new(AtomicBool::new(false));
    let (stop_admin, admin_stopped) = oneshot::channel::<()>();
    let operators = Arc::new(admin::Admin::new(app.clone(), draining.clone(), config.admin_hosts.clone()));
    let grace = config.shutdown_grace;
    let facade = Arc::new(facade::Facade::new(app, config.clone(), &limits));
    let shares = descriptors::shares(config.max_connections);
    let public_intake = Intake {
        connections: shares.public,
        per_address: Some(config.max_connections_per_address),
        proxy_protocol: config.proxy_protocol,
    };
    let admin_intake = Intake { connections: shares.admin, per_address: None, proxy_protocol: false };
    let public = server::run(public.into(), facade, config.clone(), public_intake, grace, async {
        shutdown.await;
        draining.store(true, Ordering::Relaxed);
    });
    let admin = server::run(admin.into(), operators, config.clone(), admin_intake, grace.min(ADMIN_GRACE), async {
        // A dropped sender means the same as a sent message.
        let _ = admin_stopped.await;
    });
    // The admin listener outlives the other: somebody may want to watch it drain.
    let public_then_stop = async {
        public.await;
        drop(stop_admin);
    };
    tokio::join!(public_then_stop, admin);
}
