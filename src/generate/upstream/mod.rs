//! HTTP client of one image API (OpenAI images protocol): deadline, retries, circuit breaker, bounded responses.
//!
//! One deadline covers all attempts of a call. Transient failures (429, 5xx, a broken connection) are retried at most
//! twice, after a pause that respects `Retry-After`; other failures are not retried. Repeated failures open the
//! [`circuit_breaker`]. Two kinds do not count: failures of a single request (400, 413, 422, a refused prompt), and
//! timeouts of calls that had less than 30 s ([`FAIR_TIME`]), and less than half of the timeout. Redirects are not
//! followed, so that the API key only goes to the configured address. Responses are read up to a bound. A picture at
//! another address is fetched with the checks of a client's URL, and accepted after complete decoding ([`verify`]).

mod api_key;
mod circuit_breaker;
mod error;
mod protocol;
mod verify;

pub use error::UpstreamError;
pub use verify::PICTURE_LIMITS;

use super::config::UpstreamConfig;
use super::picture_size::PictureSize;
use crate::image::SourceUrl;
use crate::recipe::ModelId;
use crate::source::{FetchError, Fetcher};
use crate::telemetry::metrics;
use api_key::ApiKey;
use bytes::Bytes;
use circuit_breaker::CircuitBreaker;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use protocol::{ImageRequest, PATH, Payload};
use reqwest::{Client, Response};
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

/// Maximum number of retries.
const RETRIES: u32 = 2;
/// Mean pause before the first retry, doubled before the second.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// A timeout counts as the API's failure if the call had this time, or half of the API's timeout if that is less.
const FAIR_TIME: Duration = Duration::from_secs(30);
/// Maximum size of a response: a picture in base64 and the JSON around it.
const MAX_RESPONSE_BYTES: usize = PICTURE_LIMITS.max_bytes / 3 * 4 + (64 << 10);
/// Bytes read of an error response, and characters of it that are logged.
const MAX_ERROR_BYTES: usize = 64 << 10;
const MAX_ERROR_CHARS: usize = 500;

/// Client of the image API behind a model id.
#[derive(Debug)]
pub(super) struct Upstream {
    pub(super) id: ModelId,
    pub(super) config: UpstreamConfig,
    sizes: Vec<PictureSize>,
    address: String,
    key: Option<ApiKey>,
    client: Client,
    fetcher: Fetcher,
    breaker: CircuitBreaker,
}

/// A call, recorded in the metrics when dropped, even if cancelled.
struct Call {
    model: &'static str,
    began: Instant,
    /// Whether a request was sent; calls without a request have no duration.
    sent: bool,
    outcome: &'static str,
}

impl Drop for Call {
    fn drop(&mut self) {
        metrics::upstream_finished(self.model, self.outcome, self.sent.then(|| self.began.elapsed()));
    }
}

/// A failed attempt, and whether to retry it.
struct FailedAttempt {
    error: UpstreamError,
    /// `Some` for transient failures, with the response's `Retry-After`, if any.
    retry: Option<Option<Duration>>,
}

impl From<UpstreamError> for FailedAttempt {
    fn from(error: UpstreamError) -> Self {
        Self { error, retry: None }
    }
}

impl Upstream {
    /// A client for the validated `config` and the value of its key variable; `None` when `key` is not a valid key.
    pub(super) fn new(
        id: ModelId,
        config: UpstreamConfig,
        key: Option<&str>,
        client: Client,
        fetcher: Fetcher,
    ) -> Option<Self> {
        let key = match key {
            Some(text) => Some(ApiKey::new(text)?),
            None => None,
        };
        let base = config.base()?;
        let address = format!("{}{PATH}", base.as_str().trim_end_matches('/'));
        let sizes = config.sizes.iter().filter_map(|text| PictureSize::parse(text)).collect();
        let breaker = CircuitBreaker::new(circuit_breaker::PAUSE);
        Some(Self { id, config, sizes, address, key, client, fetcher, breaker })
    }

    pub(super) fn size_for(&self, canvas: crate::image::Size) -> Option<PictureSize> {
        PictureSize::nearest(&self.sizes, canvas)
    }

    /// Generates a picture for `prompt`, by `deadline` at the latest, and verifies it.
    pub(super) async fn picture(
        &self,
        prompt: &str,
        size: PictureSize,
        deadline: Instant,
    ) -> Result<Bytes, UpstreamError> {
        let mut call = Call { model: self.id.as_str(), began: Instant::now(), sent: false, outcome: "cancelled" };
        let result = self.within_deadline(prompt, size, deadline, &mut call).await;
        call.outcome = result.as_ref().map_or_else(UpstreamError::outcome, |_| "drawn");
        result
    }

    async fn within_deadline(
        &self,
        prompt: &str,
        size: PictureSize,
        deadline: Instant,
        call: &mut Call,
    ) -> Result<Bytes, UpstreamError> {
        let began = call.began;
        let limit = self.config.timeout.min(deadline.saturating_duration_since(began));
        if limit.is_zero() {
            // The time was spent elsewhere: the breaker does not count it as a failure of this API.
            return Err(UpstreamError::TimedOut(limit));
        }
        let permit = self.breaker.acquire(began).map_err(UpstreamError::CircuitOpen)?;
        call.sent = true;
        let result = timeout(limit, self.with_retries(prompt, size, began + limit)).await;
        let result = match result {
            Err(_) => Err(UpstreamError::TimedOut(limit)),
            // The fetch had the rest of the call's time.
            Ok(Err(UpstreamError::Fetch(FetchError::TimedOut(_)))) if began.elapsed() >= limit => {
                Err(UpstreamError::TimedOut(limit))
            }
            Ok(result) => result,
        };
        match &result {
            // An API that refuses prompts is healthy.
            Ok(_) | Err(UpstreamError::PromptRefused { .. }) => permit.succeeded(),
            // So is an API whose response concerns this request: other accounts keep their access.
            Err(UpstreamError::Status { status, .. }) if matches!(status.as_u16(), 400 | 413 | 422) => {
                permit.succeeded();
            }
            // An earlier API or the service itself used the request's time: this API may be healthy.
            Err(UpstreamError::TimedOut(_)) if limit < FAIR_TIME.min(self.config.timeout / 2) => {
                drop(permit);
            }
            Err(_) => permit.failed(Instant::now()),
        }
        result
    }

    async fn with_retries(&self, prompt: &str, size: PictureSize, end: Instant) -> Result<Bytes, UpstreamError> {
        let request = ImageRequest {
            model: &self.config.model,
            prompt,
            n: 1,
            size,
            quality: self.config.quality.as_deref(),
            response_format: self.config.response_format.as_deref(),
        };
        let request = serde_json::to_vec(&request).map_err(|error| UpstreamError::Malformed(error.to_string()))?;
        let mut pause = FIRST_PAUSE;
        let mut retries_left = RETRIES;
        let body = loop {
            let FailedAttempt { error, retry } = match self.send(&request).await {
                Ok(body) => break body,
                Err(failed) => failed,
            };
            let Some(least) = retry.filter(|_| retries_left > 0) else { return Err(error) };
            // Random jitter, so that requests refused together do not return together.
            let wait = least.unwrap_or_default().max(pause.mul_f64(0.5 + rand::random::<f64>()));
            if wait >= end.saturating_duration_since(Instant::now()) {
                return Err(error);
            }
            tracing::debug!(model = %self.id, %error, ?wait, "retrying an image API");
            sleep(wait).await;
            pause *= 2;
            retries_left -= 1;
        };
        let picture = match protocol::parse_response(&body).map_err(UpstreamError::Malformed)? {
            Payload::Inline(bytes) => bytes,
            Payload::Url(address) => self.fetch(&address, end).await?,
        };
        drop(body);
        verify::verify(picture).await
    }

    /// Sends the request once and returns the body of a successful response.
    async fn send(&self, body: &[u8]) -> Result<Vec<u8>, FailedAttempt> {
        let mut request = self.client.post(&self.address).body(body.to_vec());
        request = request.header(CONTENT_TYPE, "application/json").header(ACCEPT, "application/json");
        if let Some(key) = &self.key {
            request = request.header(AUTHORIZATION, key.header());
        }
        let broken = |error: reqwest::Error| FailedAttempt {
            error: UpstreamError::Http(error.without_url()),
            retry: Some(None),
        };
        let mut response = request.send().await.map_err(broken)?;
        let status = response.status();
        if status.is_success() {
            return match read(&mut response, MAX_RESPONSE_BYTES).await.map_err(broken)? {
                (body, true) => Ok(body),
                (_, false) => Err(UpstreamError::TooLarge { limit: MAX_RESPONSE_BYTES }.into()),
            };
        }
        let retry = (status.as_u16() == 429 || status.is_server_error()).then(|| retry_after(response.headers()));
        // An unreadable error body is treated as empty.
        let (body, _) = read(&mut response, MAX_ERROR_BYTES).await.unwrap_or_default();
        let message = self.error_message(&body);
        let error = if protocol::refuses_prompt(status, &body) {
            UpstreamError::PromptRefused { message }
        } else {
            UpstreamError::Status { status, message }
        };
        Err(FailedAttempt { error, retry })
    }

    /// An error body for the log: truncated, on one line, without the key.
    fn error_message(&self, body: &[u8]) -> String {
        let text = String::from_utf8_lossy(body);
        let text = match &self.key {
            Some(key) => key.redact(&text),
            None => text.into_owned(),
        };
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        line.chars().filter(|c| !c.is_control()).take(MAX_ERROR_CHARS).collect()
    }

    /// Fetches a picture by the address in a response. The operator does not vouch for the address, so it gets the
    /// checks of a client's URL.
    async fn fetch(&self, address: &str, end: Instant) -> Result<Bytes, UpstreamError> {
        let url = SourceUrl::parse(address).map_err(UpstreamError::Address)?;
        let left = end.saturating_duration_since(Instant::now());
        let fetched = self.fetcher.fetch_within(&url, PICTURE_LIMITS.max_bytes, left).await;
        fetched.map_err(|error| {
            metrics::fetch_failed(error.reason());
            UpstreamError::Fetch(error)
        })
    }
}

/// `Retry-After` in seconds; dates are ignored.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds: u32 = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds.into()))
}

/// Reads at most `limit` bytes of a body; the flag is whether it is complete.
async fn read(response: &mut Response, limit: usize) -> Result<(Vec<u8>, bool), reqwest::Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        let room = limit - body.len();
        if chunk.len() > room {
            body.extend_from_slice(&chunk[..room]);
            return Ok((body, false));
        }
        body.extend_from_slice(&chunk);
    }
    Ok((body, true))
}
