//! Who makes a backdrop: an upstream that is set up for the account, or nobody, which leaves it to the built-in
//! generator.
//!
//! An id stands for one upstream, and its failure is the request's. `auto` picks: of the upstreams that the account may
//! use, in the order of the specification's table, the first one that delivers. A prompt that one of them refuses is
//! refused; another one is not asked to draw it.

use super::cache::{Cache, CacheKey};
use super::config::GenerateConfig;
use super::flights::Flights;
use super::upstream::{PICTURE_LIMITS, PictureSize, Upstream, UpstreamError};
use crate::image::Size;
use crate::recipe::{ModelId, PromptRequest};
use crate::source::{FetchConfig, FetchConfigError, Fetcher, StorageError, StorageLocation};
use crate::store::Plan;
use crate::telemetry::{metrics, with_causes};
use bytes::Bytes;
use reqwest::Client;
use reqwest::redirect::Policy;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fs, io};
use url::Url;

/// The folder in the data directory, where no other place is named.
const FOLDER: &str = "backdrops";
/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(10);
const AGENT: &str = concat!("backdrop/", env!("CARGO_PKG_VERSION"));

/// What makes backdrops, beside the built-in generator. Clones share it. The default has nobody.
#[derive(Clone, Debug, Default)]
pub struct Studio(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// In the order of the specification's table.
    upstreams: Vec<Upstream>,
    cache: Option<Cache>,
    flights: Flights<Result<Bytes, Arc<UpstreamError>>>,
}

/// For whom a backdrop is made.
#[derive(Clone, Copy, Debug)]
pub struct Patron<'a> {
    /// The account.
    pub account: &'a str,
    /// Its plan.
    pub plan: Plan,
}

/// A backdrop that an upstream has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// By whom.
    pub model: ModelId,
    /// A file that was decoded once, within [`PICTURE_LIMITS`].
    pub picture: Bytes,
}

/// Why there is no backdrop.
#[derive(Clone, Debug, thiserror::Error)]
#[error("model `{model}`: {error}")]
pub struct NotMade {
    /// Who was to make it.
    pub model: ModelId,
    /// What came of it.
    #[source]
    pub error: Arc<UpstreamError>,
}

/// Why there is no studio.
#[derive(Debug, thiserror::Error)]
pub enum StudioError {
    /// What [`GenerateConfig::validate`] says.
    #[error("{0}")]
    Invalid(String),
    /// The variable of a key is not there, or holds none.
    #[error("generate.models: \"{model}\": the environment variable {variable} holds no key")]
    NoKey {
        /// The id.
        model: ModelId,
        /// The variable.
        variable: String,
    },
    /// What fetches pictures by their address cannot be made.
    #[error(transparent)]
    Fetch(#[from] FetchConfigError),
    /// The client of HTTP cannot be made.
    #[error("no client for the models of [generate]")]
    Client(#[from] reqwest::Error),
    /// The place of the cache cannot be used.
    #[error("generate.cache")]
    Cache(#[from] StorageError),
    /// The folder of the cache cannot be made.
    #[error("{folder} cannot be made")]
    Folder {
        /// The folder.
        folder: String,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
}

impl Studio {
    /// With the upstreams of `config`, whose keys are looked up with `environment`. Without any, nothing is opened.
    ///
    /// # Errors
    /// See [`StudioError`].
    pub fn open(
        config: &GenerateConfig,
        fetch: &FetchConfig,
        data_dir: &Path,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, StudioError> {
        let mistakes = config.validate();
        if !mistakes.is_empty() {
            return Err(StudioError::Invalid(mistakes.join("; ")));
        }
        if config.models.is_empty() {
            return Ok(Self::default());
        }
        let fetcher = Fetcher::new(fetch)?;
        let client = Client::builder()
            .tls_backend_preconfigured(fetch.tls()?)
            .redirect(Policy::none())
            .connect_timeout(CONNECT)
            .user_agent(AGENT)
            .build()?;
        let mut upstreams = Vec::new();
        for model in ModelId::all() {
            let Some(config) = config.models.get(model.as_str()) else { continue };
            let no_key = |variable: &String| StudioError::NoKey { model, variable: variable.clone() };
            let key = match &config.api_key_env {
                Some(variable) => Some(environment(variable).ok_or_else(|| no_key(variable))?),
                None => None,
            };
            let upstream = Upstream::new(model, config.clone(), key.as_deref(), client.clone(), fetcher.clone());
            upstreams.push(upstream.ok_or_else(|| no_key(config.api_key_env.as_ref().unwrap_or(&String::new())))?);
        }
        let cache = match config.cache_megabytes.saturating_mul(1_000_000) {
            0 => None,
            bound => Some(Cache::new(place(config.cache.as_deref(), data_dir)?, bound, PICTURE_LIMITS.max_bytes)),
        };
        Ok(Self(Arc::new(Inner { upstreams, cache, flights: Flights::default() })))
    }

    /// Whether `patron` may ask for `model`: it is set up, and open to the account.
    #[must_use]
    pub fn offers(&self, model: ModelId, patron: Patron<'_>) -> bool {
        self.open_to(patron).any(|upstream| upstream.id == model)
    }

    /// Whether somebody else than the built-in generator may make a backdrop for `patron`.
    #[must_use]
    pub fn has_models_for(&self, patron: Patron<'_>) -> bool {
        self.open_to(patron).next().is_some()
    }

    /// A picture for a canvas of that size, until `deadline` at the latest; nothing where it is for the built-in generator
    /// to make. Dropping the future ends the call, unless somebody else waits for the same picture.
    ///
    /// # Errors
    /// [`NotMade`] when the model that was asked for fails or is not [offered](Self::offers), or one of those that were picked refuses the prompt.
    pub async fn backdrop(
        &self,
        wish: &PromptRequest,
        canvas: Size,
        patron: Patron<'_>,
        deadline: Instant,
    ) -> Result<Option<Made>, NotMade> {
        for upstream in self.open_to(patron).filter(|one| wish.model.is_none_or(|model| one.id == model)) {
            let error = match self.drawn(upstream, &wish.prompt, canvas, deadline).await {
                Ok(picture) => return Ok(Some(Made { model: upstream.id, picture })),
                Err(error) => NotMade { model: upstream.id, error },
            };
            if wish.model.is_some() || matches!(*error.error, UpstreamError::PromptRefused { .. }) {
                return Err(error);
            }
            tracing::warn!(model = %upstream.id, error = with_causes(&*error.error), "`auto` moves on");
        }
        // An id that nobody answers for is never drawn by another.
        let not_offered = |model| NotMade { model, error: Arc::new(UpstreamError::NotOffered) };
        wish.model.map_or(Ok(None), |model| Err(not_offered(model)))
    }

    fn open_to(&self, Patron { account, plan }: Patron<'_>) -> impl Iterator<Item = &Upstream> {
        self.0.upstreams.iter().filter(move |upstream| upstream.config.is_open_to(account, plan))
    }

    async fn drawn(
        &self,
        upstream: &Upstream,
        prompt: &str,
        canvas: Size,
        deadline: Instant,
    ) -> Result<Bytes, Arc<UpstreamError>> {
        let Inner { cache, flights, .. } = &*self.0;
        let size = upstream.size_for(canvas).ok_or_else(|| UpstreamError::Malformed("no size".to_owned()))?;
        let key = key(upstream, prompt, size);
        let began = Instant::now();
        let mut own = false;
        let work = async {
            own = true;
            if let Some(cache) = cache
                && let Some(picture) = cache.get(key).await
            {
                return Ok(picture);
            }
            let picture = upstream.picture(prompt, size, deadline).await?;
            if let Some(cache) = cache {
                cache.put(key, &picture).await;
            }
            Ok(picture)
        };
        let drawn = flights.join(key, work).await;
        if !own {
            metrics::backdrop_looked_up("shared");
        }
        tracing::debug!(model = %upstream.id, %size, own, took = ?began.elapsed(), is_there = drawn.is_ok(), "a backdrop");
        drawn
    }
}

/// All that a picture depends on. A model that the operator has exchanged for another one is another one.
fn key(upstream: &Upstream, prompt: &str, size: PictureSize) -> CacheKey {
    let config = &upstream.config;
    let quality = config.quality.as_deref().unwrap_or_default();
    let size = size.to_string();
    CacheKey::of(["1", upstream.id.as_str(), &config.base_url, &config.model, quality, &size, prompt])
}

/// The place that `url` names, or the folder in the data directory.
fn place(url: Option<&str>, data_dir: &Path) -> Result<StorageLocation, StudioError> {
    if let Some(url) = url {
        return Ok(StorageLocation::open(url, true)?);
    }
    let folder = data_dir.join(FOLDER);
    let failed = |source| StudioError::Folder { folder: folder.display().to_string(), source };
    fs::create_dir_all(&folder).map_err(failed)?;
    let path = folder.canonicalize().map_err(failed)?;
    let url = Url::from_directory_path(path).map_err(|()| failed(io::ErrorKind::InvalidFilename.into()))?;
    Ok(StorageLocation::open(url.as_str(), false)?)
}
