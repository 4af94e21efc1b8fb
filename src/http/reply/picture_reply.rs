//! Replies that carry finished pictures, with the headers that describe them: size, model, subject, cost, timing.

use crate::account::price::in_dollars;
use crate::http::reply::{self, LATENCY, MODEL, Reply, Result};
use crate::image::Transferred;
use crate::pipeline::{Output, Timings, Warning};
use bytes::Bytes;
use futures_util::stream;
use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::http::response::Parts;
use std::time::Duration;
use tokio::sync::mpsc;

const WIDTH: HeaderName = HeaderName::from_static("x-service-width");
const HEIGHT: HeaderName = HeaderName::from_static("x-service-height");
const FOREGROUND: HeaderName = HeaderName::from_static("x-service-foreground");
const FACE: HeaderName = HeaderName::from_static("x-service-face");
const UNCERTAINTY: HeaderName = HeaderName::from_static("x-service-uncertainty");
const EDGE: HeaderName = HeaderName::from_static("x-service-edge");
const COST: HeaderName = HeaderName::from_static("x-service-cost");
const WARNINGS: HeaderName = HeaderName::from_static("x-service-warnings");
const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// A finished picture that was billed with `cost` microdollars, `latency` after the last byte of its request.
pub(crate) fn image(output: Output, cost: u64, latency: Duration) -> Result<Reply> {
    let Output { image, subject, uncertainty, edge, face, model, understood: _, warnings, timings } = output;
    let mut reply = reply::page(StatusCode::OK, image.format.media_type(), image.bytes);
    let headers = reply.headers_mut();
    headers.insert(LATENCY, reply::milliseconds(latency));
    headers.insert(MODEL, HeaderValue::try_from(model)?);
    headers.insert(WIDTH, image.size.width.into());
    headers.insert(HEIGHT, image.size.height.into());
    // Present only where the recipe computes them.
    if let Some(subject) = subject {
        headers.insert(FOREGROUND, HeaderValue::try_from(subject.to_string())?);
    }
    if let Some(uncertainty) = uncertainty {
        headers.insert(UNCERTAINTY, HeaderValue::try_from(written_uncertainty(uncertainty))?);
    }
    if let Some(edge) = edge {
        headers.insert(EDGE, HeaderValue::from_static(edge.name()));
    }
    if let Some(face) = face {
        headers.insert(FACE, HeaderValue::try_from(face.to_string())?);
    }
    if !warnings.is_empty() {
        headers.insert(WARNINGS, HeaderValue::try_from(listed(&warnings))?);
    }
    headers.insert(COST, HeaderValue::try_from(in_dollars(cost).to_string())?);
    // `server-timing` is written last, so that it covers the whole request.
    reply.extensions_mut().insert(timings);
    Ok(reply)
}

/// Writes `server-timing` to the reply of a picture, `wall` after the head of its request, of which reading the body took
/// `reading`.
pub(crate) fn write_server_timing(reply: &mut Reply, wall: Duration, reading: Duration) {
    let Some(timings) = reply.extensions_mut().remove::<Timings>() else { return };
    let stages = timings.within_request(wall, reading).stages();
    let stages = stages.map(|(stage, took)| format!("{};dur={:.1}", stage.name(), took.as_secs_f64() * 1000.0));
    let transferred =
        timings.transferred.map(|Transferred { up, down }| format!("device;desc=\"{up} up, {down} down\""));
    let entries: Vec<String> = stages.into_iter().chain(transferred).collect();
    let stages = HeaderValue::try_from(entries.join(", ")).expect("names and numbers are visible ASCII");
    reply.headers_mut().insert(SERVER_TIMING, stages);
}

/// A body of one media type that arrives piece by piece; `latency` after the last byte of its request.
pub(crate) fn streamed(
    status: StatusCode,
    media_type: &'static str,
    pieces: mpsc::Receiver<Bytes>,
    model: String,
    latency: Duration,
) -> Result<Reply> {
    let pieces = stream::unfold(pieces, async |mut pieces| Some((pieces.recv().await?, pieces)));
    let mut reply = reply::streamed(status, pieces);
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(LATENCY, reply::milliseconds(latency));
    headers.insert(MODEL, HeaderValue::try_from(model)?);
    Ok(reply)
}

/// A list of strings (RFC 9651), which is the inside of a JSON array too: no text of a warning needs an escape.
fn listed(warnings: &[Warning]) -> String {
    let quoted: Vec<_> = warnings.iter().map(|warning| format!("\"{warning}\"")).collect();
    quoted.join(", ")
}

/// The number in `x-service-uncertainty`.
pub(crate) fn rounded_uncertainty(uncertainty: f32) -> f64 {
    // Parsed from the text, so that header and JSON round a half alike.
    written_uncertainty(uncertainty).parse().expect("a decimal number")
}

fn written_uncertainty(uncertainty: f32) -> String {
    format!("{uncertainty:.3}")
}

/// Status, headers and body of the reply to a picture that arrived without a connection (`backdrop pipe`) and took `latency`; nothing is
/// billed.
pub(crate) async fn local_reply(result: Result<Output>, latency: Duration) -> (Parts, Bytes) {
    let reply = result.and_then(|output| image(output, 0, latency));
    let mut reply = reply.unwrap_or_else(|error| error.into_reply(""));
    write_server_timing(&mut reply, latency, Duration::ZERO);
    let (head, body) = reply.into_parts();
    let Ok(body) = body.collect().await;
    (head, body.to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_timing_has_the_stages_and_what_was_moved_to_a_gpu() {
        let written = |transferred| {
            let mut reply = reply::json(StatusCode::OK, &serde_json::json!({}));
            reply.extensions_mut().insert(Timings { transferred, ..Timings::default() });
            write_server_timing(&mut reply, Duration::from_millis(7), Duration::ZERO);
            reply.headers()[SERVER_TIMING].to_str().expect("text").to_owned()
        };
        let on_cpu = written(None);
        assert!(on_cpu.contains("queue;dur=7.0") && !on_cpu.contains("device"), "{on_cpu}");
        let on_gpu = written(Some(Transferred { up: 12, down: 34 }));
        assert_eq!(on_gpu, format!("{on_cpu}, device;desc=\"12 up, 34 down\""));
    }
}
