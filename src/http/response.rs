//! Replies: finished pictures, JSON, pages.

use super::error::ApiError;
use crate::account::price::in_dollars;
use crate::account::rate_limit::RateStatus;
use crate::pipeline::Output;
use bytes::Bytes;
use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper::body::Frame;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use std::convert::Infallible;
use std::future::ready;
use std::io;
use std::time::Duration;
use tokio::sync::mpsc;

/// The body of a reply as the routes make it.
pub(super) type ReplyBody = UnsyncBoxBody<Bytes, Infallible>;

/// A reply; all but those of batches and files are in memory when their head is written.
pub(super) type Reply = Response<ReplyBody>;

/// On every reply.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
pub(super) const VERSION: HeaderName = HeaderName::from_static("x-service-version");

/// On every reply to a caller with a key.
const RATE_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const RATE_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RATE_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// On every reply to a caller with a key whose plan, or which itself, has a quota.
const QUOTA_REMAINING: HeaderName = HeaderName::from_static("x-quota-remaining");

const LATENCY: HeaderName = HeaderName::from_static("x-service-latency");
/// Name and version of the weights. A request may name those that it wants.
pub(super) const MODEL: HeaderName = HeaderName::from_static("x-service-model");
const WIDTH: HeaderName = HeaderName::from_static("x-service-width");
const HEIGHT: HeaderName = HeaderName::from_static("x-service-height");
const FOREGROUND: HeaderName = HeaderName::from_static("x-service-foreground");
const FACE: HeaderName = HeaderName::from_static("x-service-face");
const UNCERTAINTY: HeaderName = HeaderName::from_static("x-service-uncertainty");
const COST: HeaderName = HeaderName::from_static("x-service-cost");
const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// Tells a caller where its key stands.
pub(super) fn write_rate(rate: &RateStatus, headers: &mut HeaderMap) {
    headers.insert(RATE_LIMIT, rate.limit.into());
    headers.insert(RATE_REMAINING, rate.remaining.into());
    headers.insert(RATE_RESET, rate.reset_seconds().into());
}

/// Says how many images a caller has left this month.
pub(super) fn write_quota(remaining: u64, headers: &mut HeaderMap) {
    headers.insert(QUOTA_REMAINING, remaining.into());
}

/// A body of one media type.
pub(super) fn page(status: StatusCode, media_type: &'static str, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Full::new(body.into()).boxed_unsync());
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    reply
}

/// A JSON body.
pub(super) fn json(status: StatusCode, value: &serde_json::Value) -> Reply {
    page(status, "application/json", value.to_string())
}

/// A JSON body, `latency` after the last byte of its request.
pub(super) fn timed_json(status: StatusCode, value: &serde_json::Value, latency: Duration) -> Result<Reply, ApiError> {
    let mut reply = json(status, value);
    reply.headers_mut().insert(LATENCY, text(latency.as_millis().to_string())?);
    Ok(reply)
}

/// A body of one media type that arrives piece by piece; `latency` after the last byte of its request.
pub(super) fn streamed(
    status: StatusCode,
    media_type: &'static str,
    pieces: mpsc::Receiver<Bytes>,
    model: String,
    latency: Duration,
) -> Result<Reply, ApiError> {
    let frames = stream::unfold(pieces, async |mut pieces| {
        let piece = pieces.recv().await?;
        Some((Ok(Frame::data(piece)), pieces))
    });
    let mut reply = Response::new(StreamBody::new(frames).boxed_unsync());
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(LATENCY, text(latency.as_millis().to_string())?);
    headers.insert(MODEL, text(model)?);
    Ok(reply)
}

/// A file of `count` bytes, read as they are sent. One that ends early ends the connection: the caller must not take it
/// for whole.
pub(super) fn file(count: u64, pieces: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Reply {
    let told = pieces.inspect_err(|error| tracing::warn!(%error, "a result could not be read to its end"));
    let frames = told.map_ok(Frame::data).take_while(|frame| ready(frame.is_ok())).filter_map(async |frame| frame.ok());
    let mut reply = Response::new(StreamBody::new(frames.map(Ok)).boxed_unsync());
    reply.headers_mut().insert(CONTENT_LENGTH, count.into());
    reply
}

/// What HEAD is answered in place of a file of `count` bytes.
pub(super) fn headless(count: u64) -> Reply {
    let mut reply = Response::new(Empty::new().boxed_unsync());
    reply.headers_mut().insert(CONTENT_LENGTH, count.into());
    reply
}

/// The number that `x-service-uncertainty` has.
pub(super) fn rounded_uncertainty(uncertainty: f32) -> f64 {
    // From the text, so that a half is rounded the same way in both.
    written_uncertainty(uncertainty).parse().expect("a decimal number")
}

fn written_uncertainty(uncertainty: f32) -> String {
    format!("{uncertainty:.3}")
}

fn text(value: String) -> Result<HeaderValue, ApiError> {
    HeaderValue::from_str(&value).map_err(|error| ApiError::internal(error.to_string()))
}

/// A finished picture that was billed with `cost` microdollars, `latency` after the last byte of its request.
pub(super) fn image(output: Output, cost: u64, latency: Duration) -> Result<Reply, ApiError> {
    let Output { image, subject, uncertainty, face, model, understood: _, timings } = output;
    let mut reply = page(StatusCode::OK, image.format.media_type(), image.bytes);
    let headers = reply.headers_mut();
    headers.insert(LATENCY, text(latency.as_millis().to_string())?);
    headers.insert(MODEL, text(model)?);
    headers.insert(WIDTH, image.size.width.into());
    headers.insert(HEIGHT, image.size.height.into());
    // Told of what was looked for.
    if let Some(subject) = subject {
        headers.insert(FOREGROUND, text(subject.to_string())?);
    }
    if let Some(uncertainty) = uncertainty {
        headers.insert(UNCERTAINTY, text(written_uncertainty(uncertainty))?);
    }
    if let Some(face) = face {
        headers.insert(FACE, text(face.to_string())?);
    }
    headers.insert(COST, text(in_dollars(cost).to_string())?);
    let stages =
        timings.stages().map(|(stage, took)| format!("{};dur={:.1}", stage.name(), took.as_secs_f64() * 1000.0));
    headers.insert(SERVER_TIMING, text(stages.join(", "))?);
    Ok(reply)
}
