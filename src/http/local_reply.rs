//! Status, headers and body of the API's reply to a picture that arrived without a connection (`backdrop pipe`).

use super::reply::error::ApiError;
use super::reply::picture_reply;
use crate::pipeline::Output;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::http::response::Parts;
use std::time::Duration;

/// The reply to a request that took `latency`; nothing is billed.
pub(crate) async fn local_reply(result: Result<Output, ApiError>, latency: Duration) -> (Parts, Bytes) {
    let reply = result.and_then(|output| picture_reply::image(output, 0, latency));
    let mut reply = reply.unwrap_or_else(|error| error.into_reply(""));
    picture_reply::write_server_timing(&mut reply, latency, Duration::ZERO);
    let (head, body) = reply.into_parts();
    let Ok(body) = body.collect().await;
    (head, body.to_bytes())
}
