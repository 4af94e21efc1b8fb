//! The HTTP facade: two listeners, one for callers and one for operators.
//!
//! ```text
//! server      accepts; HTTP/1.1 and h2c; graceful shutdown      connection  header and idle clocks
//! tls         certificate, reload                               cors        which web pages may call
//! exchange    request id, panic → 500, envelope, log, metrics   body        pause and total clocks
//! facade      route → key (401) → rate (429) → endpoint         admin       /livez /readyz /metrics, keys
//! doorman     wrong keys, by address
//! submission  query and content type → form or JSON → fields and pictures
//! pin         `x-service-model` (400)
//! cover       plan (402), preset (404), Idempotency-Key (409), quota (402) → Recipe
//! routes      fetching → pipeline → bill → response
//! ```
//!
//! The order of checks is the order of these calls; each comes before the next can cost anything. Limits are enforced
//! while bytes arrive. A caller that goes away drops its request's future, and the engine sees that.

mod admin;
mod body;
pub mod config;
mod connection;
mod cors;
mod cover;
mod docs;
mod doorman;
pub mod error;
mod exchange;
mod facade;
mod fetching;
mod form;
mod json;
mod multipart;
mod pin;
mod request_id;
mod response;
pub mod router;
mod routes;
mod server;
mod submission;
pub mod tls;

use crate::account::price::PriceConfig;
use crate::account::{Ledger, Presets, Requests};
use crate::engine::{Engine, EngineState};
use crate::image::SourceUrl;
use crate::pipeline::{self, Call, Files, Output, PipelineError};
use crate::recipe::Recipe;
use crate::source::{FetchError, Fetcher};
use crate::store::Plan;
use bytes::Bytes;
use config::{HttpConfig, LimitsConfig};
use futures_util::future::BoxFuture;
use hyper::{Request, Response};
use metrics_exporter_prometheus::PrometheusHandle;
use serde_json::Value;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tls::Listener;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// Connections of operators and their tools.
const MAX_ADMIN_CONNECTIONS: usize = 64;

/// How long operators' requests under way may take to end.
const ADMIN_GRACE: Duration = Duration::from_secs(2);

/// The work behind the image endpoints.
pub trait Remove: Send + Sync + 'static {
    /// Runs one job, at most until the deadline of its call; dropping the future cancels it.
    fn run<'a>(
        &'a self,
        files: Files,
        recipe: &'a Recipe,
        call: &'a Call,
    ) -> BoxFuture<'a, Result<Output, PipelineError>>;

    /// Name and version of the network's weights.
    fn model(&self) -> String;

    /// What it is doing.
    fn state(&self) -> EngineState;

    /// Whether its threads are there; without them only a restart helps.
    fn is_alive(&self) -> bool;
}

impl Remove for Engine {
    fn run<'a>(
        &'a self,
        files: Files,
        recipe: &'a Recipe,
        call: &'a Call,
    ) -> BoxFuture<'a, Result<Output, PipelineError>> {
        Box::pin(pipeline::run(self, files, recipe, call))
    }

    fn model(&self) -> String {
        Self::model(self)
    }

    fn state(&self) -> EngineState {
        *Self::state(self).borrow()
    }

    fn is_alive(&self) -> bool {
        Self::is_alive(self)
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
}

/// The keys that open the API.
pub trait Authenticate: Send + Sync + 'static {
    /// Whose token this is; nothing for one that opens nothing.
    fn authenticate(&self, token: &str) -> Option<Caller>;
}

/// Fetches pictures that callers name by their address.
pub trait Fetch: Send + Sync + 'static {
    /// The bytes behind `url`.
    fn fetch<'a>(&'a self, url: &'a SourceUrl) -> BoxFuture<'a, Result<Bytes, FetchError>>;
}

impl Fetch for Fetcher {
    fn fetch<'a>(&'a self, url: &'a SourceUrl) -> BoxFuture<'a, Result<Bytes, FetchError>> {
        Box::pin(Self::fetch(self, url))
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
    /// The keys.
    pub keys: Arc<dyn Authenticate>,
    /// What fetches callers' addresses.
    pub fetcher: Arc<dyn Fetch>,
    /// The accounts' quotas and bills.
    pub ledger: Ledger,
    /// Requests that callers have named, to be able to repeat them.
    pub requests: Requests,
    /// The accounts' presets.
    pub presets: Presets,
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

/// Serves both listeners until `shutdown`; then is not ready any more, accepts nothing, lets the requests under way
/// end within the grace period, and returns. The listeners are bound already, so that callers can connect while the
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
    let operators = Arc::new(admin::Admin::new(app.clone(), draining.clone()));
    let grace = config.shutdown_grace;
    let facade = Arc::new(facade::Facade::new(app, config.clone(), &limits));
    let public = server::run(public.into(), facade, config.clone(), config.max_connections, grace, async {
        shutdown.await;
        draining.store(true, Ordering::Relaxed);
    });
    let admin =
        server::run(admin.into(), operators, config.clone(), MAX_ADMIN_CONNECTIONS, grace.min(ADMIN_GRACE), async {
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
