//! Errors of fetching a URL, for the log, and the coarser class for the caller.

use crate::codec::DecodeError;
use crate::image::UrlError;
use hyper::StatusCode;
use hyper::header::HeaderValue;
use rustls::pki_types::pem;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Why a URL was not fetched, for the log. A caller receives only the [`FetchFailure`], which does not reveal the
/// addresses reachable from this machine.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The resolver failed.
    #[error("the host's name was not resolved")]
    Resolve(#[source] io::Error),
    /// The name has no address.
    #[error("the host's name has no address")]
    NoAddress,
    /// At least one of the host's addresses is not public.
    #[error("address {0} is not public")]
    PrivateAddress(IpAddr),
    /// At least one of the host's addresses is in `fetch.deny`.
    #[error("address {0} is denied")]
    DeniedAddress(IpAddr),
    /// At least one of the host's addresses belongs to this machine.
    #[error("address {0} is this machine's own")]
    OwnAddress(IpAddr),
    /// The addresses of this machine could not be listed.
    #[error("the addresses of this machine are unknown")]
    Interfaces(#[source] io::Error),
    /// No address accepted the connection.
    #[error("connection failed")]
    Connect(#[source] io::Error),
    /// A host name that no certificate can hold.
    #[error("the host's name is not a DNS name")]
    HostName,
    /// The handshake failed, usually because of the certificate.
    #[error("TLS failed")]
    Tls(#[source] io::Error),
    /// A URL that HTTP cannot request.
    #[error("not an HTTP path")]
    Request(#[source] http::Error),
    /// The connection broke, or the response is not HTTP, or its header is too long.
    #[error("HTTP failed")]
    Http(#[source] hyper::Error),
    /// The status is neither 200 nor a redirect.
    #[error("origin answered {0}")]
    Status(StatusCode),
    /// The target of a redirect is no `https` URL.
    #[error("redirected to {0}")]
    Redirect(UrlError),
    /// The target of a redirect redirects again.
    #[error("redirected more than once")]
    RedirectedTwice,
    /// The body has a content encoding, though none was requested.
    #[error("content-encoding {0:?}")]
    Encoded(HeaderValue),
    /// The body has more bytes than an input may have.
    #[error("more than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// The body is empty or has an unsupported format.
    #[error("the response is not a picture")]
    NotAPicture(#[source] DecodeError),
    /// The memory budget is exhausted.
    #[error("no memory for the response")]
    OutOfMemory,
    /// The receiver of the bytes was dropped.
    #[error("the receiver was closed")]
    ReceiverClosed,
    /// The deadline passed.
    #[error("not fetched within {0:?}")]
    TimedOut(Duration),
}

/// The class of a failed fetch that a caller receives. All failures of the host's address form one class: a name
/// without an address, a non-public address and a closed port are indistinguishable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchFailure {
    /// There is no public address, or none that accepts a connection.
    Address,
    /// The timeout expired.
    Timeout,
    /// The TLS handshake failed.
    Tls,
    /// The host did not respond with a file.
    Status,
    /// The host responded with a compressed file.
    Encoded,
    /// The file has more bytes than accepted.
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// The response is not a supported picture.
    NotAPicture,
    /// No memory was available for the response.
    OutOfMemory,
}

impl FetchFailure {
    /// The values of `reason` in the API error `fetch_failed`.
    pub const REASONS: [&'static str; 4] = ["address", "timeout", "tls", "status"];
}

impl FetchError {
    /// The class that the caller receives.
    #[must_use]
    pub fn failure(&self) -> FetchFailure {
        match self {
            Self::Connect(error) if error.kind() == io::ErrorKind::TimedOut => FetchFailure::Timeout,
            Self::Resolve(_)
            | Self::NoAddress
            | Self::PrivateAddress(_)
            | Self::DeniedAddress(_)
            | Self::OwnAddress(_)
            | Self::Interfaces(_)
            | Self::Connect(_)
            | Self::HostName => FetchFailure::Address,
            Self::TimedOut(_) => FetchFailure::Timeout,
            Self::Tls(_) => FetchFailure::Tls,
            Self::Request(_)
            | Self::Http(_)
            | Self::Status(_)
            | Self::Redirect(_)
            | Self::RedirectedTwice
            | Self::ReceiverClosed => FetchFailure::Status,
            Self::Encoded(_) => FetchFailure::Encoded,
            Self::TooLarge { limit } => FetchFailure::TooLarge { limit: *limit },
            Self::NotAPicture(_) => FetchFailure::NotAPicture,
            Self::OutOfMemory => FetchFailure::OutOfMemory,
        }
    }

    /// The metric label `reason`.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Resolve(_) | Self::NoAddress | Self::HostName => "dns",
            Self::PrivateAddress(_) => "private_address",
            Self::DeniedAddress(_) => "denied_address",
            Self::OwnAddress(_) | Self::Interfaces(_) => "own_address",
            Self::Connect(_) => "connect",
            Self::Tls(_) => "tls",
            Self::Request(_) | Self::Http(_) => "http",
            Self::Status(_) => "status",
            Self::Redirect(_) | Self::RedirectedTwice => "redirect",
            Self::Encoded(_) => "encoding",
            Self::TooLarge { .. } => "too_large",
            Self::NotAPicture(_) => "not_a_picture",
            Self::OutOfMemory => "no_room",
            Self::ReceiverClosed => "not_taken",
            Self::TimedOut(_) => "timeout",
        }
    }
}

/// Why a fetcher cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum FetchConfigError {
    /// A mistake reported by [`FetchConfig::validate`](crate::source::FetchConfig::validate).
    #[error("{0}")]
    Invalid(String),
    /// `extra_ca` cannot be read.
    #[error("fetch.extra_ca: {} cannot be read", .0.display())]
    Unreadable(PathBuf, #[source] io::Error),
    /// `extra_ca` is not PEM.
    #[error("fetch.extra_ca: {} is not a PEM file", .0.display())]
    NotPem(PathBuf, #[source] pem::Error),
    /// `extra_ca` holds no certificate.
    #[error("fetch.extra_ca: {} holds no certificate", .0.display())]
    NoCertificate(PathBuf),
    /// A certificate in `extra_ca`, or TLS itself, is unusable.
    #[error("TLS for fetching cannot be set up")]
    Tls(#[from] rustls::Error),
}
