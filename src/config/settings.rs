//! All settings of the daemon and the command line, assembled from the sections of the modules.

use crate::account::price::PriceConfig;
use crate::codec::sandbox::DecodeConfig;
use crate::engine::EngineConfig;
use crate::generate::GenerateConfig;
use crate::http::compat::CompatConfig;
use crate::http::config::{HttpConfig, LimitsConfig};
use crate::jobs::JobsConfig;
use crate::model::added::ModelsConfig;
use crate::model::device::DeviceChoice;
use crate::source::FetchConfig;
use crate::store::StoreConfig;
use crate::telemetry::Secret;
use crate::telemetry::logging::LogConfig;
use crate::video::VideoConfig;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The settings of the daemon and the command line.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Folder for accounts, keys and results.
    pub data_dir: PathBuf,
    /// `auto` (a real GPU that passes its self-test, else the CPU), `cpu`, `gpu`, or part of a GPU's name.
    pub device: DeviceChoice,
    /// A weights file of `backdrop models import`; by default the built-in weights.
    pub weights: Option<PathBuf>,
    /// The first key of an empty store; by default one is generated and printed once.
    pub bootstrap_key: Option<Secret<String>>,
    /// The database of accounts, keys, usage and jobs.
    pub store: StoreConfig,
    /// HTTP listeners.
    pub server: HttpConfig,
    /// Routes compatible with other services.
    pub compat: CompatConfig,
    /// Rate and size limits.
    pub limits: LimitsConfig,
    /// Prices.
    pub prices: PriceConfig,
    /// Fetching of callers' URLs.
    pub fetch: FetchConfig,
    /// Decoding of pictures.
    pub decode: DecodeConfig,
    /// The inference engine.
    pub engine: EngineConfig,
    /// Added models.
    pub models: ModelsConfig,
    /// Asynchronous jobs.
    pub jobs: JobsConfig,
    /// Programs for video.
    pub video: VideoConfig,
    /// Generators of backdrops.
    pub generate: GenerateConfig,
    /// Logging.
    pub log: LogConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data_dir: "backdrop-data".into(),
            device: DeviceChoice::default(),
            weights: None,
            bootstrap_key: None,
            store: StoreConfig::default(),
            server: HttpConfig::default(),
            compat: CompatConfig::default(),
            limits: LimitsConfig::default(),
            prices: PriceConfig::default(),
            fetch: FetchConfig::default(),
            decode: DecodeConfig::default(),
            engine: EngineConfig::default(),
            models: ModelsConfig::default(),
            jobs: JobsConfig::default(),
            video: VideoConfig::default(),
            generate: GenerateConfig::default(),
            log: LogConfig::default(),
        }
    }
}

impl Config {
    /// Validates all sections; each mistake reads `section.key: what was expected`.
    pub(super) fn mistakes(&self) -> Vec<String> {
        [
            self.store.validate(),
            self.validate_results(),
            self.validate_bulk(),
            self.server.validate(),
            self.compat.validate(self.server.listen, &self.server),
            self.limits.validate(),
            self.limits.validate_memory(&self.server, self.engine.max_megapixels_in_flight),
            self.prices.validate(),
            self.fetch.validate(),
            self.engine.validate(),
            self.models.validate(),
            self.jobs.validate(),
            self.video.validate(),
            self.generate.validate(),
            self.log.validate(),
        ]
        .concat()
    }

    /// With a database, a result is served by daemons on other machines than the one that made it.
    fn validate_results(&self) -> Vec<String> {
        let missing = self.store.url.is_some() && self.jobs.results.is_none();
        let place = "expected s3://, gs://, az:// or a file:// folder that all daemons share, because store.url is set";
        missing.then(|| format!("jobs.results: {place}")).into_iter().collect()
    }

    /// Bulk runs are queued in the database.
    fn validate_bulk(&self) -> Vec<String> {
        let wrong = [
            ("bulk_pictures", "expected 0", self.jobs.bulk_pictures > 0),
            ("bulk_places", "expected none", !self.jobs.bulk_places.is_empty()),
        ];
        let wrong = wrong.into_iter().filter(|(.., is_set)| self.store.url.is_none() && *is_set);
        wrong.map(|(name, expected, _)| format!("jobs.{name}: {expected}, because store.url is not set")).collect()
    }
}
