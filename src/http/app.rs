//! The services that both listeners use: engine, store, presets, jobs, prices, metrics.

use crate::account::Presets;
use crate::account::price::PriceConfig;
use crate::generate::Providers;
use crate::http::bulk_runs::BulkRuns;
use crate::http::compat::config::CompatConfig;
use crate::http::image_processor::ImageProcessor;
use crate::http::request::clip_probe::Inspect;
use crate::http::request::fetching::Fetch;
use crate::jobs::Jobs;
use crate::jobs::results::Results;
use crate::jobs::secret::DaemonSecret;
use crate::recipe::Network;
use crate::store::Store;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use hyper::{Request, Response};
use metrics_exporter_prometheus::PrometheusHandle;
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

/// Administration through the admin listener.
pub trait Administer: Send + Sync + 'static {
    /// Answers a request with JSON; `None` for an unknown path. An error is `{"error":{"code","message"}}`, to which the
    /// listener adds the request id.
    fn handle<'a>(&'a self, request: &'a Request<Bytes>) -> BoxFuture<'a, Option<Response<Value>>>;
}

/// The services behind both listeners. Clones share them.
#[derive(Clone)]
pub struct App {
    /// Processes pictures.
    pub processor: Arc<dyn ImageProcessor>,
    /// Which other services' wire formats are served.
    pub compat: CompatConfig,
    /// The daemon's default model, where neither the request nor the account selects one.
    pub model: Network,
    /// Fetches pictures and clips by URL.
    pub fetcher: Arc<dyn Fetch>,
    /// Keys, quotas, bills and jobs; a fault of it makes the daemon unready.
    pub store: Store,
    /// The accounts' presets.
    pub presets: Presets,
    /// Generates backdrops.
    pub providers: Providers,
    /// The keys' jobs.
    pub jobs: Jobs,
    /// Bulk runs of keys; `None` without a database.
    pub bulk: Option<BulkRuns>,
    /// Results of jobs.
    pub results: Results,
    /// Probes clips.
    pub inspector: Arc<dyn Inspect>,
    /// The accounts' webhook secrets are derived from it.
    pub secret: DaemonSecret,
    /// Prices by endpoint.
    pub prices: Arc<PriceConfig>,
    /// Administration, served by the admin listener.
    pub operator: Arc<dyn Administer>,
    /// Renders `/metrics`.
    pub metrics: PrometheusHandle,
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App").field("state", &self.processor.state()).finish_non_exhaustive()
    }
}
