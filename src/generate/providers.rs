//! Selects among the configured image APIs (providers) that an account may use, caches their pictures, and coalesces
//! concurrent requests for one picture.
//!
//! A model id names one provider: if it fails, the request fails. `auto` tries the account's providers in the order of
//! the specification's table until one delivers; if none does, the built-in generator draws. If a provider refuses the
//! prompt, the request is refused, and no other provider is tried.
//!
//! Requests that share a call share its failure. A timeout is the exception: a request with at least as much time left
//! as that call had, or with half of the API's time limit, makes a new call.

use super::cache::{Cache, CacheKey};
use super::config::GenerateConfig;
use super::picture_size::PictureSize;
use super::single_flight::SingleFlight;
use super::upstream::{PICTURE_LIMITS, Upstream, UpstreamError};
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

/// Default cache folder, inside the data directory.
const CACHE_FOLDER: &str = "backdrops";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const USER_AGENT: &str = concat!("backdrop/", env!("CARGO_PKG_VERSION"));

/// The configured image APIs. Clones share them; the default has none.
#[derive(Clone, Debug, Default)]
pub struct Providers(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Image APIs in the order of the specification's table.
    upstreams: Vec<Upstream>,
    cache: Option<Arc<Cache>>,
    in_flight: SingleFlight<CacheKey, Result<Bytes, Arc<UpstreamError>>>,
}

/// The account that a backdrop is generated for.
#[derive(Clone, Copy, Debug)]
pub struct AccountScope<'a> {
    /// The account.
    pub account: &'a str,
    /// Its plan.
    pub plan: Plan,
}

/// A backdrop from an image API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratedImage {
    /// The model that generated it.
    pub model: ModelId,
    /// The encoded file, which was decoded once, within [`PICTURE_LIMITS`].
    pub bytes: Bytes,
}

/// Why a model delivered no backdrop.
#[derive(Clone, Debug, thiserror::Error)]
#[error("model `{model}`: {error}")]
pub struct ProviderError {
    /// The model.
    pub model: ModelId,
    /// The cause.
    #[source]
    pub error: Arc<UpstreamError>,
}

/// Why the providers cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum ProviderSetupError {
    /// The messages of [`GenerateConfig::validate`].
    #[error("{0}")]
    Invalid(String),
    /// The variable of an API key is unset or contains no valid key.
    #[error("generate.models: \"{model}\": the environment variable {variable} holds no key")]
    NoKey {
        /// The model.
        model: ModelId,
        /// The variable.
        variable: String,
    },
    /// The fetcher for picture addresses cannot be created.
    #[error(transparent)]
    Fetch(#[from] FetchConfigError),
    /// The HTTP client cannot be created.
    #[error("no client for the models of [generate]")]
    Client(#[from] reqwest::Error),
    /// The location of the cache cannot be opened.
    #[error("generate.cache")]
    Cache(#[from] StorageError),
    /// The cache folder cannot be created.
    #[error("{folder} cannot be made")]
    Folder {
        /// The folder.
        folder: String,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
}

impl Providers {
    /// The providers of `config`, with API keys from `environment`. Without any it opens neither client nor cache.
    ///
    /// # Errors
    /// See [`ProviderSetupError`].
    pub fn open(
        config: &GenerateConfig,
        fetch: &FetchConfig,
        data_dir: &Path,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, ProviderSetupError> {
        let mistakes = config.validate();
        if !mistakes.is_empty() {
            return Err(ProviderSetupError::Invalid(mistakes.join("; ")));
        }
        if config.models.is_empty() {
            return Ok(Self::default());
        }
        let fetcher = Fetcher::new(fetch)?;
        let client = Client::builder()
            .tls_backend_preconfigured(fetch.tls()?)
            .redirect(Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .user_agent(USER_AGENT)
            .build()?;
        let mut upstreams = Vec::new();
        for model in ModelId::all() {
            let Some(config) = config.models.get(model.as_str()) else { continue };
            let no_key = |variable: &String| ProviderSetupError::NoKey { model, variable: variable.clone() };
            let key = match &config.api_key_env {
                Some(variable) => Some(environment(variable).ok_or_else(|| no_key(variable))?),
                None => None,
            };
            let upstream = Upstream::new(model, config.clone(), key.as_deref(), client.clone(), fetcher.clone());
            upstreams.push(upstream.ok_or_else(|| no_key(config.api_key_env.as_ref().unwrap_or(&String::new())))?);
        }
        let cache = match config.cache_megabytes.saturating_mul(1_000_000) {
            0 => None,
            max_bytes => {
                let objects = cache_objects(config.cache.as_deref(), data_dir)?;
                Some(Arc::new(Cache::new(objects, max_bytes, PICTURE_LIMITS.max_bytes)))
            }
        };
        Ok(Self(Arc::new(Inner { upstreams, cache, in_flight: SingleFlight::default() })))
    }

    /// Whether `model` is configured and the account may use it.
    #[must_use]
    pub fn offers(&self, model: ModelId, scope: AccountScope<'_>) -> bool {
        self.available_to(scope).any(|upstream| upstream.id == model)
    }

    /// Whether any account may use `model`.
    #[must_use]
    pub fn is_configured(&self, model: ModelId) -> bool {
        self.0.upstreams.iter().any(|upstream| upstream.id == model)
    }

    /// Whether the account may use any provider.
    #[must_use]
    pub fn has_models_for(&self, scope: AccountScope<'_>) -> bool {
        self.available_to(scope).next().is_some()
    }

    /// Generates a picture for `canvas`, by `deadline` at the latest; `None` if the built-in generator must draw it.
    /// Dropping the future cancels the call unless another request waits for this picture.
    ///
    /// # Errors
    /// [`ProviderError`] when the requested model fails or is not [offered](Self::offers), or the prompt is refused.
    pub async fn generate(
        &self,
        request: &PromptRequest,
        canvas: Size,
        scope: AccountScope<'_>,
        deadline: Instant,
    ) -> Result<Option<GeneratedImage>, ProviderError> {
        let candidates = self.available_to(scope);
        for upstream in candidates.filter(|upstream| request.model.is_none_or(|model| upstream.id == model)) {
            let error = match self.cached_or_fetched(upstream, &request.prompt, canvas, deadline).await {
                Ok(bytes) => return Ok(Some(GeneratedImage { model: upstream.id, bytes })),
                Err(error) => ProviderError { model: upstream.id, error },
            };
            if request.model.is_some() || matches!(*error.error, UpstreamError::PromptRefused { .. }) {
                return Err(error);
            }
            tracing::warn!(
                model = %upstream.id,
                error = with_causes(&*error.error),
                "an image API failed; `auto` tries the next one"
            );
        }
        // No other provider replaces a requested model.
        let not_offered = |model| ProviderError { model, error: Arc::new(UpstreamError::NotOffered) };
        request.model.map_or(Ok(None), |model| Err(not_offered(model)))
    }

    fn available_to(&self, AccountScope { account, plan }: AccountScope<'_>) -> impl Iterator<Item = &Upstream> {
        self.0.upstreams.iter().filter(move |upstream| upstream.config.is_open_to(account, plan))
    }

    async fn cached_or_fetched(
        &self,
        upstream: &Upstream,
        prompt: &str,
        canvas: Size,
        deadline: Instant,
    ) -> Result<Bytes, Arc<UpstreamError>> {
        let Inner { cache, in_flight, .. } = &*self.0;
        let size = upstream.size_for(canvas).ok_or_else(|| UpstreamError::Malformed("no size".to_owned()))?;
        let key = cache_key(upstream, prompt, size);
        let (began, time_limit) = (Instant::now(), upstream.config.timeout);
        // The end of this request's call, also after a wait: `auto` needs the remaining time for the next API.
        let end = deadline.min(began + time_limit);
        let shareable = |result: &Result<Bytes, Arc<UpstreamError>>| {
            let Err(error) = result else { return true };
            let UpstreamError::TimedOut(limit) = **error else { return true };
            end.saturating_duration_since(Instant::now()) < limit.min(time_limit / 2)
        };
        let mut own = false;
        let work = async {
            own = true;
            if let Some(cache) = cache
                && let Some(picture) = cache.get(key).await
            {
                return Ok(picture);
            }
            let picture = upstream.picture(prompt, size, end).await?;
            if let Some(cache) = cache {
                cache.put_in_background(key, picture.clone());
            }
            Ok(picture)
        };
        let timed_out = || Err(UpstreamError::TimedOut(deadline.saturating_duration_since(began)).into());
        let result = in_flight.run(key, deadline, shareable, work).await.unwrap_or_else(timed_out);
        if !own {
            metrics::backdrop_looked_up("shared");
        }
        tracing::debug!(
            model = %upstream.id,
            %size,
            shared = !own,
            took = ?began.elapsed(),
            ok = result.is_ok(),
            "backdrop of an image API"
        );
        result
    }
}

/// Hashes everything that determines a picture, so that a reconfigured model id uses no old pictures.
fn cache_key(upstream: &Upstream, prompt: &str, size: PictureSize) -> CacheKey {
    let config = &upstream.config;
    let quality = config.quality.as_deref().unwrap_or_default();
    let size = size.to_string();
    CacheKey::of(["1", upstream.id.as_str(), &config.base_url, &config.model, quality, &size, prompt])
}

/// The object store at `url`, or the default folder in the data directory.
fn cache_objects(url: Option<&str>, data_dir: &Path) -> Result<StorageLocation, ProviderSetupError> {
    if let Some(url) = url {
        return Ok(StorageLocation::open(url, true)?);
    }
    let folder = data_dir.join(CACHE_FOLDER);
    let failed = |source| ProviderSetupError::Folder { folder: folder.display().to_string(), source };
    fs::create_dir_all(&folder).map_err(failed)?;
    let path = folder.canonicalize().map_err(failed)?;
    let url = Url::from_directory_path(path).map_err(|()| failed(io::ErrorKind::InvalidFilename.into()))?;
    Ok(StorageLocation::open(url.as_str(), false)?)
}
