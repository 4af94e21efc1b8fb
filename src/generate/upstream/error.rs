//! How an image API can fail.

use crate::codec::DecodeError;
use crate::image::UrlError;
use crate::source::FetchError;
use http::StatusCode;
use std::time::Duration;

/// Why an image API gave no picture: for the log. A caller is told that it failed, and of which model.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// It is not set up, or not for this account.
    #[error("it is not available")]
    NotOffered,
    /// It has failed so often that it is left alone for a while.
    #[error("it has failed again and again, and is left alone for {0:?}")]
    LeftAlone(Duration),
    /// It does not draw such a prompt. The one failure that is the caller's.
    #[error("it refused the prompt: {told}")]
    PromptRefused {
        /// Its own words.
        told: String,
    },
    /// A status that is no success.
    #[error("it answered {status}: {told}")]
    Status {
        /// The status.
        status: StatusCode,
        /// Its own words.
        told: String,
    },
    /// No connection, or one that broke.
    #[error("HTTP failed")]
    Http(#[source] reqwest::Error),
    /// It took too long, further tries included.
    #[error("no picture within {0:?}")]
    TimedOut(Duration),
    /// An answer without end, or nearly so.
    #[error("its answer has more than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// Not an answer of the protocol.
    #[error("its answer is none of the images protocol: {0}")]
    Malformed(String),
    /// Its picture is at an address that is none to be fetched from.
    #[error("the address of its picture")]
    Address(#[source] UrlError),
    /// Its picture could not be fetched.
    #[error("its picture could not be fetched")]
    Fetch(#[source] FetchError),
    /// What it calls a picture is none that can be used.
    #[error("its picture cannot be used")]
    Picture(#[source] DecodeError),
}

impl UpstreamError {
    /// The value of the label `outcome` of a metric.
    #[must_use]
    pub const fn outcome(&self) -> &'static str {
        match self {
            Self::NotOffered => "not_offered",
            Self::LeftAlone(_) => "left_alone",
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
