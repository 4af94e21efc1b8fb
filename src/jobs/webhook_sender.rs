//! Telling an account's server that a job is over, as Standard Webhooks have it
//! (<https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md>).
//!
//! One attempt; when there is to be another is for the schedule to say. Where it goes is looked at as hard as where a
//! picture is fetched from: https, public addresses only, the address that was checked is the one that is dialled, no
//! redirect is followed, and nothing of what is answered but the status is read.

use super::secret::DaemonSecret;
use crate::image::SourceUrl;
use crate::source::Fetcher;
use crate::store::UnixSeconds;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue};
use std::time::Duration;

/// How long an attempt may take, from the name to the status.
pub const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(10);

const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// What one webhook says, and to whom.
#[derive(Clone, Debug)]
pub struct Message {
    /// Whose secret signs it.
    pub account: String,
    /// The receiver's address, as the job has it.
    pub url: String,
    /// Name of the message, the same at every attempt: visible ASCII.
    pub id: String,
    /// JSON.
    pub body: Bytes,
}

/// What became of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Answered 2xx.
    Delivered,
    /// Something else came, or nothing; why, for the log.
    TryAgain(String),
    /// Never again: 410, or an address that cannot be one.
    Gone,
}

/// Delivers webhooks.
pub trait Deliver: Send + Sync + 'static {
    /// Makes one attempt. Dropping the future ends it.
    fn deliver<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Delivery>;
}

/// Delivers them over the network.
#[derive(Clone, Debug)]
pub struct WebhookSender {
    fetcher: Fetcher,
    secret: DaemonSecret,
}

impl WebhookSender {
    /// Reaches what `fetcher` reaches, and signs with what `secret` derives.
    #[must_use]
    pub const fn new(fetcher: Fetcher, secret: DaemonSecret) -> Self {
        Self { fetcher, secret }
    }

    async fn attempt(&self, message: &Message, now: UnixSeconds) -> Delivery {
        let Ok(url) = SourceUrl::parse(&message.url) else { return Delivery::Gone };
        let signature = self.secret.webhook(&message.account).sign(&message.id, now.0, &message.body);
        let (Ok(id), Ok(signature)) = (HeaderValue::from_str(&message.id), HeaderValue::from_str(&signature)) else {
            return Delivery::Gone;
        };
        let headers = HeaderMap::from_iter([
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (ID, id),
            (TIMESTAMP, now.0.into()),
            (SIGNATURE, signature),
        ]);
        match self.fetcher.post(&url, headers, message.body.clone(), WEBHOOK_TIMEOUT).await {
            Ok(status) if status.is_success() => Delivery::Delivered,
            Ok(http::StatusCode::GONE) => Delivery::Gone,
            Ok(status) => Delivery::TryAgain(format!("the receiver answered {status}")),
            Err(error) => Delivery::TryAgain(error.to_string()),
        }
    }
}

impl Deliver for WebhookSender {
    fn deliver<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Delivery> {
        Box::pin(self.attempt(message, UnixSeconds::now()))
    }
}
