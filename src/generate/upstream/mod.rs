//! One image API, called as if it might do anything: be slow, be down, be wrong.
//!
//! A call has one time for all its tries. What may be over in a moment (429, 5xx, a connection that broke) is tried
//! again, at most twice, with a pause that the other side may set; what is refused is not. Who fails again and again is
//! left alone for a while ([`breaker`]). Redirects are not followed: the key goes where the operator said, and nowhere
//! else. An answer is read up to a bound; a picture at another address is fetched as a caller's would be, and a picture
//! counts as one when all of it was decoded.

mod breaker;
mod error;
mod key;
mod picture;
mod protocol;
mod size;

pub use error::UpstreamError;
pub use picture::PICTURE_LIMITS;
pub(super) use size::PictureSize;

use super::config::UpstreamConfig;
use crate::image::SourceUrl;
use crate::recipe::ModelId;
use crate::source::Fetcher;
use crate::telemetry::metrics;
use breaker::Breaker;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use key::Key;
use protocol::{Answer, Order, PATH};
use reqwest::{Client, Response};
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

/// Further tries after the first.
const RETRIES: u32 = 2;
/// Before the second try, about; twice as long before the third.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Bytes of an answer: those of a picture in base64, and what is around it.
const MOST_ANSWER: usize = PICTURE_LIMITS.max_bytes / 3 * 4 + (64 << 10);
/// Bytes of an error that are looked at, and characters of it that are logged.
const MOST_ERROR: usize = 64 << 10;
const MOST_TOLD: usize = 500;

/// An image API behind an id.
#[derive(Debug)]
pub(super) struct Upstream {
    pub(super) id: ModelId,
    pub(super) config: UpstreamConfig,
    sizes: Vec<PictureSize>,
    address: String,
    key: Option<Key>,
    client: Client,
    fetcher: Fetcher,
    breaker: Breaker,
}

/// A try that failed, and whether another one makes sense.
struct Failed {
    error: UpstreamError,
    /// The least to wait, where the other side said so; nothing where another try makes no sense.
    again: Option<Option<Duration>>,
}

impl From<UpstreamError> for Failed {
    fn from(error: UpstreamError) -> Self {
        Self { error, again: None }
    }
}

impl Upstream {
    /// The API that `config`, which has no mistakes, is about. `key` is what its variable holds; nothing where that is no
    /// key.
    pub(super) fn new(
        id: ModelId,
        config: UpstreamConfig,
        key: Option<&str>,
        client: Client,
        fetcher: Fetcher,
    ) -> Option<Self> {
        let key = match key {
            Some(text) => Some(Key::new(text)?),
            None => None,
        };
        let base = config.base()?;
        let address = format!("{}{PATH}", base.as_str().trim_end_matches('/'));
        let sizes = config.sizes.iter().filter_map(|text| PictureSize::parse(text)).collect();
        let breaker = Breaker::new(breaker::PAUSE);
        Some(Self { id, config, sizes, address, key, client, fetcher, breaker })
    }

    /// The size that is asked for a canvas.
    pub(super) fn size_for(&self, canvas: crate::image::Size) -> Option<PictureSize> {
        PictureSize::nearest(&self.sizes, canvas)
    }

    /// A picture of what `prompt` says, whole and decoded once, until `deadline` at the latest.
    pub(super) async fn picture(
        &self,
        prompt: &str,
        size: PictureSize,
        deadline: Instant,
    ) -> Result<Bytes, UpstreamError> {
        let began = Instant::now();
        let drawn = self.within(prompt, size, deadline, began).await;
        let outcome = drawn.as_ref().map_or_else(UpstreamError::outcome, |_| "drawn");
        metrics::upstream_finished(self.id.as_str(), outcome, began.elapsed());
        drawn
    }

    async fn within(
        &self,
        prompt: &str,
        size: PictureSize,
        deadline: Instant,
        began: Instant,
    ) -> Result<Bytes, UpstreamError> {
        let limit = self.config.timeout.min(deadline.saturating_duration_since(began));
        if limit.is_zero() {
            // Others have used up the time; that is not this one's failure.
            return Err(UpstreamError::TimedOut(limit));
        }
        let through = self.breaker.enter(began).map_err(UpstreamError::LeftAlone)?;
        let drawn = timeout(limit, self.tries(prompt, size, began + limit)).await;
        let drawn = drawn.unwrap_or(Err(UpstreamError::TimedOut(limit)));
        match &drawn {
            // Whoever judges prompts works.
            Ok(_) | Err(UpstreamError::PromptRefused { .. }) => through.succeeded(),
            Err(_) => through.failed(Instant::now()),
        }
        drawn
    }

    async fn tries(&self, prompt: &str, size: PictureSize, end: Instant) -> Result<Bytes, UpstreamError> {
        let order = Order {
            model: &self.config.model,
            prompt,
            n: 1,
            size,
            quality: self.config.quality.as_deref(),
            response_format: self.config.response_format.as_deref(),
        };
        let order = serde_json::to_vec(&order).map_err(|error| UpstreamError::Malformed(error.to_string()))?;
        let mut pause = FIRST_PAUSE;
        let mut left = RETRIES;
        let body = loop {
            let Failed { error, again } = match self.ask(&order).await {
                Ok(body) => break body,
                Err(failed) => failed,
            };
            let Some(least) = again.filter(|_| left > 0) else { return Err(error) };
            // Half of it by chance, so that those who were turned away together do not come back together.
            let wait = least.unwrap_or_default().max(pause.mul_f64(0.5 + rand::random::<f64>()));
            if wait >= end.saturating_duration_since(Instant::now()) {
                return Err(error);
            }
            tracing::debug!(model = %self.id, %error, ?wait, "an image API is asked again");
            sleep(wait).await;
            pause *= 2;
            left -= 1;
        };
        let picture = match protocol::picture_in(&body).map_err(UpstreamError::Malformed)? {
            Answer::Picture(bytes) => bytes,
            Answer::Address(address) => self.fetched(&address, end).await?,
        };
        drop(body);
        picture::judged(picture).await
    }

    /// Sends the order once, and gives the body of a success.
    async fn ask(&self, order: &[u8]) -> Result<Vec<u8>, Failed> {
        let mut request = self.client.post(&self.address).body(order.to_vec());
        request = request.header(CONTENT_TYPE, "application/json").header(ACCEPT, "application/json");
        if let Some(key) = &self.key {
            request = request.header(AUTHORIZATION, key.header());
        }
        let broken =
            |error: reqwest::Error| Failed { error: UpstreamError::Http(error.without_url()), again: Some(None) };
        let mut response = request.send().await.map_err(broken)?;
        let status = response.status();
        if status.is_success() {
            return match read(&mut response, MOST_ANSWER).await.map_err(broken)? {
                (body, true) => Ok(body),
                (_, false) => Err(UpstreamError::TooLarge { limit: MOST_ANSWER }.into()),
            };
        }
        let again = (status.as_u16() == 429 || status.is_server_error()).then(|| retry_after(response.headers()));
        // What cannot be read of an error makes no difference.
        let (body, _) = read(&mut response, MOST_ERROR).await.unwrap_or_default();
        let told = self.told(&body);
        let error = if protocol::refuses_prompt(status, &body) {
            UpstreamError::PromptRefused { told }
        } else {
            UpstreamError::Status { status, told }
        };
        Err(Failed { error, again })
    }

    /// The words of an error, for the log: not too many, on one line, and without the key.
    fn told(&self, body: &[u8]) -> String {
        let text = String::from_utf8_lossy(body);
        let text = match &self.key {
            Some(key) => key.hidden_in(&text),
            None => text.into_owned(),
        };
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        line.chars().filter(|c| !c.is_control()).take(MOST_TOLD).collect()
    }

    /// A picture that is somewhere else. Who answers where is not the operator's word any more: it is fetched as if a
    /// caller had named it.
    async fn fetched(&self, address: &str, end: Instant) -> Result<Bytes, UpstreamError> {
        let url = SourceUrl::parse(address).map_err(UpstreamError::Address)?;
        let left = end.saturating_duration_since(Instant::now());
        let fetched = self.fetcher.fetch_within(&url, PICTURE_LIMITS.max_bytes, left).await;
        fetched.map_err(|error| {
            metrics::fetch_failed(error.reason());
            UpstreamError::Fetch(error)
        })
    }
}

/// How long the other side wants to be left alone, where it says so in seconds.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds: u32 = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds.into()))
}

/// At most `limit` bytes of a body, and whether they are all of it.
async fn read(response: &mut Response, limit: usize) -> Result<(Vec<u8>, bool), reqwest::Error> {
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await? {
        let room = limit - body.len();
        if piece.len() > room {
            body.extend_from_slice(&piece[..room]);
            return Ok((body, false));
        }
        body.extend_from_slice(&piece);
    }
    Ok((body, true))
}
