//! Failures of an image API, and their metric labels.

use crate::codec::DecodeError;
use crate::image::UrlError;
use crate::source::FetchError;
use http::StatusCode;
use std::time::Duration;

/// Why an image API delivered no picture, for the log. API clients only learn that the model failed.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// The model is not configured, or not for this account.
    #[error("not available")]
    NotOffered,
    /// The circuit breaker is open.
    #[error("suspended for {0:?} after repeated failures")]
    CircuitOpen(Duration),
    /// The API's content policy refuses the prompt. This is the only failure caused by the API client.
    #[error("prompt refused: {message}")]
    PromptRefused {
        /// The API's error message.
        message: String,
    },
    /// The status is no success.
    #[error("status {status}: {message}")]
    Status {
        /// The status.
        status: StatusCode,
        /// The API's error message.
        message: String,
    },
    /// The connection failed or broke.
    #[error("HTTP failed")]
    Http(#[source] reqwest::Error),
    /// The time limit passed, including retries.
    #[error("no picture within {0:.1?}")]
    TimedOut(Duration),
    /// The response body exceeds the limit.
    #[error("response larger than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// The response does not follow the protocol.
    #[error("malformed response: {0}")]
    Malformed(String),
    /// The picture's address is not acceptable.
    #[error("invalid picture address")]
    Address(#[source] UrlError),
    /// The picture could not be fetched.
    #[error("picture could not be fetched")]
    Fetch(#[source] FetchError),
    /// The picture cannot be decoded within the limits.
    #[error("picture cannot be decoded")]
    Picture(#[source] DecodeError),
}

impl UpstreamError {
    /// Value of the metric label `outcome`.
    #[must_use]
    pub const fn outcome(&self) -> &'static str {
        match self {
            Self::NotOffered => "not_offered",
            Self::CircuitOpen(_) => "left_alone",
            Self::PromptRefused { .. } => "prompt_refused",
            Self::Status { .. } => "status",
            Self::Http(_) => "http",
            Self::TimedOut(_) => "timeout",
            Self::TooLarge { .. } => "too_large",
            Self::Malformed(_) => "malformed",
            Self::Address(_) | Self::Fetch(_) => "fetch",
            Self::Picture(_) => "picture",
        }
    }
}
