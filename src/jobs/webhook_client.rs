//! Telling an account's server that a job is over, as Standard Webhooks have it
//! (<https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md>).
//!
//! One attempt; when there is to be another is for the schedule to say. Where it goes is looked at as hard as where a
//! picture is fetched from: https, public addresses only, the address that was checked is the one that is dialled, no
//! redirect is followed, and nothing of what is answered but the status is read.

use super::document::document;
use super::results::Results;
use super::secret::DaemonSecret;
use super::{Deliver, Delivery, Job, KeepError, Shown};
use crate::image::SourceUrl;
use crate::source::Fetcher;
use crate::store::UnixSeconds;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use std::time::Duration;

/// How long an attempt may take, from the name to the status.
pub const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(10);

const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// Delivers webhooks over the network.
#[derive(Clone, Debug)]
pub struct WebhookSender {
    fetcher: Fetcher,
    secret: DaemonSecret,
    results: Results,
}

impl WebhookSender {
    /// Reaches what `fetcher` reaches, signs with what `secret` derives, and tells where in `results` a result is.
    #[must_use]
    pub const fn new(fetcher: Fetcher, secret: DaemonSecret, results: Results) -> Self {
        Self { fetcher, secret, results }
    }

    async fn attempt(&self, account: &str, url: &str, id: &str, body: Bytes, now: UnixSeconds) -> Delivery {
        let Ok(url) = SourceUrl::parse(url) else { return Delivery::Gone };
        let signature = self.secret.webhook(account).sign(id, now.0, &body);
        let (Ok(id), Ok(signature)) = (HeaderValue::from_str(id), HeaderValue::from_str(&signature)) else {
            return Delivery::Gone;
        };
        let headers = HeaderMap::from_iter([
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (ID, id),
            (TIMESTAMP, now.0.into()),
            (SIGNATURE, signature),
        ]);
        match self.fetcher.post(&url, headers, body, WEBHOOK_TIMEOUT).await {
            Ok(status) if status.is_success() => Delivery::Delivered,
            Ok(StatusCode::GONE) => Delivery::Gone,
            Ok(status) => Delivery::Retry(format!("the receiver answered {status}")),
            Err(error) => Delivery::Retry(error.to_string()),
        }
    }
}

impl Deliver for WebhookSender {
    fn body<'a>(&'a self, shown: &'a Shown) -> BoxFuture<'a, Result<Vec<u8>, KeepError>> {
        Box::pin(async move {
            let base = shown.job.webhook.as_ref().map_or("", |webhook| &webhook.base);
            let body = document(shown, &self.results, base, UnixSeconds::now()).await?;
            Ok(body.to_string().into_bytes())
        })
    }

    fn deliver<'a>(
        &'a self,
        job: &'a Job,
        url: &'a str,
        webhook_id: &'a str,
        body: Vec<u8>,
    ) -> BoxFuture<'a, Delivery> {
        Box::pin(self.attempt(&job.account, url, webhook_id, body.into(), UnixSeconds::now()))
    }
}
