//! Bodies of replies: pages, JSON, files read from a stream.

pub(super) mod cors;
mod error;
pub(super) mod picture_reply;
pub(super) mod range;
pub(super) mod request_id;

pub(crate) use error::ApiError;
pub use error::ErrorCode;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, TryStreamExt};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper::body::Frame;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use std::convert::Infallible;
use std::future::ready;
use std::io;
use std::time::Duration;

/// The body of a reply as the routes make it.
pub(crate) type ReplyBody = UnsyncBoxBody<Bytes, Infallible>;

/// A reply. Except for batches and files its body is in memory when the head is written.
pub(crate) type Reply = Response<ReplyBody>;

/// The result of a step of a request.
pub(crate) type Result<T, E = ApiError> = std::result::Result<T, E>;

/// On every reply.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
pub(crate) const VERSION: HeaderName = HeaderName::from_static("x-service-version");

/// Name and version of the weights. A request may select a model with it.
pub(crate) const MODEL: HeaderName = HeaderName::from_static("x-service-model");

/// Milliseconds between the last byte of the request and the reply.
pub(crate) const LATENCY: HeaderName = HeaderName::from_static("x-service-latency");

/// A reply with this body.
fn with_body(status: StatusCode, body: ReplyBody) -> Reply {
    let mut reply = Response::new(body);
    *reply.status_mut() = status;
    reply
}

/// A body of one media type.
pub(crate) fn page(status: StatusCode, media_type: &'static str, body: impl Into<Bytes>) -> Reply {
    let mut reply = with_body(status, Full::new(body.into()).boxed_unsync());
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    reply
}

/// No body.
pub(crate) fn empty(status: StatusCode) -> Reply {
    with_body(status, Empty::new().boxed_unsync())
}

/// A JSON body.
pub(crate) fn json(status: StatusCode, value: &serde_json::Value) -> Reply {
    page(status, "application/json", value.to_string())
}

/// A JSON body, `latency` after the last byte of its request.
pub(crate) fn timed_json(status: StatusCode, value: &serde_json::Value, latency: Duration) -> Reply {
    let mut reply = json(status, value);
    reply.headers_mut().insert(LATENCY, milliseconds(latency));
    reply
}

/// The value of [`LATENCY`].
pub(crate) fn milliseconds(latency: Duration) -> HeaderValue {
    u64::try_from(latency.as_millis()).unwrap_or(u64::MAX).into()
}

/// A body that is sent as it is made.
pub(crate) fn streamed(status: StatusCode, pieces: impl Stream<Item = Bytes> + Send + 'static) -> Reply {
    with_body(status, StreamBody::new(pieces.map(|piece| Ok(Frame::data(piece)))).boxed_unsync())
}

/// A file, read while it is sent. A read error ends the connection, so that the caller cannot take the file for complete.
pub(crate) fn file(status: StatusCode, pieces: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Reply {
    let pieces = pieces.inspect_err(|error| tracing::warn!(%error, "could not read a result to its end"));
    streamed(status, pieces.take_while(|piece| ready(piece.is_ok())).filter_map(async |piece| piece.ok()))
}
