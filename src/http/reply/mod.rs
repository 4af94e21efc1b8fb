//! Bodies of replies: pages, JSON, files read from a stream.

pub(super) mod cors;
pub(super) mod error;
pub(super) mod error_code;
pub(super) mod picture_reply;
pub(super) mod range;
pub(super) mod request_id;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, TryStreamExt};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper::body::Frame;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use std::convert::Infallible;
use std::future::ready;
use std::io;
use std::time::Duration;

/// The body of a reply as the routes make it.
pub(crate) type ReplyBody = UnsyncBoxBody<Bytes, Infallible>;

/// A reply; all but those of batches and files are in memory when their head is written.
pub(crate) type Reply = Response<ReplyBody>;

/// On every reply.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
pub(crate) const VERSION: HeaderName = HeaderName::from_static("x-service-version");

/// Name and version of the weights. A request may select a model with it.
pub(crate) const MODEL: HeaderName = HeaderName::from_static("x-service-model");

/// Milliseconds between the last byte of the request and the reply.
pub(crate) const LATENCY: HeaderName = HeaderName::from_static("x-service-latency");

/// A body of one media type.
pub(crate) fn page(status: StatusCode, media_type: &'static str, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Full::new(body.into()).boxed_unsync());
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    reply
}

/// No body.
pub(crate) fn empty(status: StatusCode) -> Reply {
    let mut reply = Response::new(Empty::new().boxed_unsync());
    *reply.status_mut() = status;
    reply
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

/// A file of `count` bytes, read while it is sent. A read error ends the connection, so that the caller cannot take the
/// file for complete.
pub(crate) fn file(count: u64, pieces: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Reply {
    let pieces = pieces.inspect_err(|error| tracing::warn!(%error, "could not read a result to its end"));
    let frames =
        pieces.map_ok(Frame::data).take_while(|frame| ready(frame.is_ok())).filter_map(async |frame| frame.ok());
    let mut reply = Response::new(StreamBody::new(frames.map(Ok)).boxed_unsync());
    reply.headers_mut().insert(CONTENT_LENGTH, count.into());
    reply
}

/// The reply to HEAD for a file of `count` bytes.
pub(crate) fn head_of_file(count: u64) -> Reply {
    let mut reply = Response::new(Empty::new().boxed_unsync());
    reply.headers_mut().insert(CONTENT_LENGTH, count.into());
    reply
}
