//! Sends one webhook as Standard Webhooks defines it: a signed POST with the JSON of the job
//! (<https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md>).
//!
//! The address is checked as the address of a fetched picture: https, public addresses only, the connection goes to the address
//! that was checked, and no redirect is followed. Of the response only the status is read. Retries are
//! `webhook_schedule.rs`.

use super::Job;
use super::deps::{DeliveryOutcome, ResultStoreError, WebhookTransport};
use super::job_json::job_json;
use super::job_view::JobView;
use super::results::Results;
use super::secret::DaemonSecret;
use crate::image::SourceUrl;
use crate::source::Fetcher;
use crate::store::UnixSeconds;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use std::time::Duration;

/// Limit of an attempt, from name resolution to the response status.
pub const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(10);

const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// Sends webhooks over the network.
#[derive(Clone, Debug)]
pub struct WebhookClient {
    fetcher: Fetcher,
    secret: DaemonSecret,
    results: Results,
}

impl WebhookClient {
    /// Connects as `fetcher` does, signs with keys of `secret`, and puts result addresses of `results` into the message.
    #[must_use]
    pub const fn new(fetcher: Fetcher, secret: DaemonSecret, results: Results) -> Self {
        Self { fetcher, secret, results }
    }

    async fn attempt(&self, account: &str, url: &str, id: &str, body: Bytes, now: UnixSeconds) -> DeliveryOutcome {
        let Ok(url) = SourceUrl::parse(url) else { return DeliveryOutcome::Gone };
        let signature = self.secret.webhook(account).sign(id, now.0, &body);
        let (Ok(id), Ok(signature)) = (HeaderValue::from_str(id), HeaderValue::from_str(&signature)) else {
            return DeliveryOutcome::Gone;
        };
        let headers = HeaderMap::from_iter([
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (ID, id),
            (TIMESTAMP, now.0.into()),
            (SIGNATURE, signature),
        ]);
        match self.fetcher.post(&url, headers, body, WEBHOOK_TIMEOUT).await {
            Ok(status) if status.is_success() => DeliveryOutcome::Delivered,
            Ok(StatusCode::GONE) => DeliveryOutcome::Gone,
            Ok(status) => DeliveryOutcome::Retry(format!("the receiver answered {status}")),
            Err(error) => DeliveryOutcome::Retry(error.to_string()),
        }
    }
}

impl WebhookTransport for WebhookClient {
    fn body<'a>(&'a self, view: &'a JobView) -> BoxFuture<'a, Result<Vec<u8>, ResultStoreError>> {
        Box::pin(async move {
            let base = view.job.webhook.as_ref().map_or("", |webhook| &webhook.base);
            let body = job_json(view, &self.results, base, UnixSeconds::now()).await?;
            Ok(body.to_string().into_bytes())
        })
    }

    fn deliver<'a>(
        &'a self,
        job: &'a Job,
        url: &'a str,
        webhook_id: &'a str,
        body: Vec<u8>,
    ) -> BoxFuture<'a, DeliveryOutcome> {
        Box::pin(self.attempt(&job.account, url, webhook_id, body.into(), UnixSeconds::now()))
    }
}
