//! Replies: headers, the error envelope, the order of checks.

use crate::http::daemon::{Daemon, Exchange, KEY, LONG, Work, form, header, until};
use crate::support::command::http_client;
use backdrop::codec::{DecodeError, EncodeError};
use backdrop::compose::OutputTooLarge;
use backdrop::engine::EngineError;
use backdrop::http::config::HttpConfig;
use backdrop::image::{OutputFormat, Size};
use backdrop::matting::NoSubject;
use backdrop::pipeline::PipelineError;
use futures_util::stream;
use reqwest::{Body, Method, Response};
use std::time::{Duration, Instant};

#[tokio::test]
async fn a_picture_has_the_documented_headers() {
    let daemon = Daemon::start_with(HttpConfig::default(), 60).await;
    let response = daemon.send("/remove", &[]).await;
    for (name, value) in [
        ("content-type", "image/png"),
        ("content-length", "26"),
        ("x-service-model", "fgnet-384/1"),
        ("x-service-width", "40"),
        ("x-service-height", "30"),
        ("x-service-foreground", "1,2,20,25"),
        ("x-service-uncertainty", "0.125"),
        ("x-service-edge", ""),
        ("x-service-warnings", ""),
        ("x-ratelimit-limit", "60"),
        ("x-ratelimit-remaining", "59"),
    ] {
        assert_eq!(header(&response, name), value, "{name}");
    }
    header(&response, "x-service-latency").parse::<u64>().expect("whole milliseconds");
    let stages = stages(&response);
    let names: Vec<_> = stages.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["fetch", "decode", "queue", "segment", "retouch", "matte", "compose", "encode"]);
    assert_eq!((stages[1].1, stages[3].1, stages[7].1), (1.5, 0.0, 0.0));
    assert_eq!(response.bytes().await.expect("a body"), "a picture made of 11 bytes");

    for (edge, selected) in [("hard", ""), ("auto", "hard")] {
        assert_eq!(header(&daemon.send("/remove", &[("edge", edge)]).await, "x-service-edge"), selected);
    }
    daemon.engine.set(Work::Warn);
    let reply = daemon.send("/headshot", &[]).await;
    let header = header(&reply, "x-service-warnings");
    let warnings: Vec<String> = serde_json::from_str(&format!("[{header}]")).expect("JSON in brackets");
    assert!(matches!(&warnings[..], [one, other] if one.contains("0.75") && other.contains("face")), "{header}");
}

/// Names and milliseconds of `server-timing`.
fn stages(response: &Response) -> Vec<(String, f64)> {
    let header = response.headers()["server-timing"].to_str().expect("ASCII");
    let stage = |entry: &str| {
        let (name, took) = entry.split_once(";dur=").expect("a duration");
        (name.to_owned(), took.parse().expect("a number"))
    };
    header.split(", ").map(stage).collect()
}

#[tokio::test]
async fn the_stages_of_server_timing_add_up_to_the_time_of_the_request() {
    const PAUSE: Duration = Duration::from_millis(400);
    let daemon = Daemon::start().await;
    // So that connecting is not measured.
    daemon.send("/remove", &[]).await.bytes().await.expect("a body");
    daemon.engine.set(Work::Wait);
    let pieces = stream::unfold(0, |sent| async move {
        if sent == 1 {
            tokio::time::sleep(PAUSE).await;
        }
        (sent < 2).then(|| (Ok::<_, std::io::Error>("a picture"), sent + 1))
    });
    let started = Instant::now();
    let request = daemon.post("/remove").header("content-type", "image/png").body(Body::wrap_stream(pieces)).send();
    let release = async {
        until("the work", || daemon.engine.started() == 2).await;
        tokio::time::sleep(PAUSE).await;
        daemon.engine.release.notify_one();
    };
    let (response, ()) = tokio::join!(request, release);
    let (response, wall) = (response.expect("an answer"), started.elapsed().as_secs_f64() * 1000.0);
    assert_eq!(response.status(), 200);
    let stages = stages(&response);
    let of = |wanted: &str| stages.iter().find(|(name, _)| name == wanted).expect("a stage").1;
    let pause = PAUSE.as_secs_f64() * 1000.0;
    // The body's pause is reading, the engine's is waiting.
    assert!(of("fetch") >= 0.9 * pause && of("queue") >= 0.9 * pause, "{stages:?}");
    let sum: f64 = stages.iter().map(|(_, took)| took).sum();
    // Eight numbers of one decimal.
    assert!((0.8 * wall..=wall + 0.4).contains(&sum), "{sum} of {wall}: {stages:?}");
}

#[tokio::test]
async fn a_valid_request_id_of_the_client_is_kept_on_every_path() {
    let daemon = Daemon::start().await;
    let admin = format!("http://{}", daemon.admin);
    for url in [
        daemon.url("/docs"),
        daemon.url("/nowhere"),
        daemon.url("/remove"),
        format!("{admin}/livez"),
        format!("{admin}/no"),
    ] {
        let get = |id| daemon.client.get(&url).header("x-request-id", id).answer();
        assert_eq!(header(&get("mine-42").await, "x-request-id"), "mine-42", "{url}");
        let replaced = get("a b").await;
        let id = header(&replaced, "x-request-id");
        assert!(id.starts_with("req_") && id.len() == 24, "{url}: {id}");
        assert!(replaced.headers().contains_key("x-service-version"), "{url}");
    }
}

#[tokio::test]
async fn the_route_is_checked_before_the_key_and_the_key_before_the_body() {
    let daemon = Daemon::start().await;
    let request = |method, path| daemon.client.request(method, daemon.url(path));
    for path in ["/removed", "/remove/"] {
        request(Method::POST, path).refused(404, "not_found", None).await;
    }
    for (method, path, allow) in
        [(Method::GET, "/remove", "POST"), (Method::POST, "/docs", "GET, HEAD"), (Method::DELETE, "/mask", "POST")]
    {
        let refused = request(method, path).refused(405, "method_not_allowed", None).await;
        assert_eq!(refused.headers["allow"], allow);
    }
    // Wrong type, unknown query and no body: the missing key is reported first.
    let no_key = request(Method::POST, "/remove?x=1").header("content-type", "text/plain");
    let bad_key = request(Method::POST, "/remove").bearer_auth("bd_live_bad");
    for (request, challenge) in [(no_key, "Bearer"), (bad_key, r#"Bearer error="invalid_token""#)] {
        let refused = request.refused(401, "unauthorized", None).await;
        assert_eq!(refused.headers["www-authenticate"], challenge);
        assert!(!refused.headers.contains_key("x-ratelimit-limit"));
    }
}

#[tokio::test]
async fn the_rate_limit_is_in_every_reply_to_a_key_and_is_checked_before_the_fields() {
    let daemon = Daemon::start_with(HttpConfig::default(), 2).await;
    let first = daemon.send("/remove", &[]).await;
    assert_eq!(first.headers()["x-ratelimit-remaining"], "1");
    let second = daemon.upload("/remove", &[("edge", "fuzzy")]).invalid("edge").await;
    assert_eq!(second.headers["x-ratelimit-remaining"], "0");
    let third = daemon.upload("/remove", &[("edge", "fuzzy")]).refused(429, "rate_limit_exceeded", None).await;
    let seconds = |name: &str| third.headers[name].to_str().expect("ASCII").parse::<u64>().expect("seconds");
    assert!((1..=60).contains(&seconds("retry-after")), "{}", seconds("retry-after"));
    assert_eq!(seconds("retry-after"), seconds("x-ratelimit-reset"));
    assert_eq!((seconds("x-ratelimit-limit"), seconds("x-ratelimit-remaining")), (2, 0));
    assert_eq!(daemon.get("/docs").answer().await.status(), 200);
}

#[tokio::test]
async fn every_failure_of_the_work_has_its_code() {
    type Case<'a> = (fn() -> PipelineError, u16, &'a str, Option<&'a str>, Option<&'a str>);
    let daemon = Daemon::start().await;
    let (internal, large, image, file) = ("internal_error", "payload_too_large", "invalid_image", Some("file"));
    let cases: &[Case<'_>] = &[
        (|| DecodeError::Empty.into(), 400, image, file, None),
        (|| DecodeError::Corrupt("it ends early".into()).into(), 400, image, file, None),
        (|| DecodeError::Unsupported { found: Some("GIF") }.into(), 415, "unsupported_media_type", file, None),
        (|| DecodeError::TooManyBytes { limit: 1 }.into(), 413, large, file, None),
        (|| DecodeError::TooManyPixels { size: Size::new(4097, 1), limit: 4096 }.into(), 413, large, file, None),
        (|| NoSubject.into(), 422, "no_subject_detected", file, None),
        (|| PipelineError::NoFace, 422, "no_face_detected", file, None),
        (|| PipelineError::NoAlpha, 400, "invalid_parameter", Some("format"), None),
        (|| DecodeError::TooManyMegapixels { size: Size::new(1, 1), limit: 17 }.into(), 413, large, file, None),
        (|| OutputTooLarge { size: Size::new(8192, 8193), limit: 8192 }.into(), 413, "output_too_large", None, None),
        (
            || EngineError::QueueFull { retry_after: Duration::from_millis(2100) }.into(),
            429,
            "rate_limit_exceeded",
            None,
            Some("3"),
        ),
        (|| EngineError::Stopped.into(), 503, "unavailable", None, Some("5")),
        (|| EngineError::DeadlineExceeded.into(), 503, "unavailable", None, Some("5")),
        (|| EngineError::Failed("secret".into()).into(), 503, "unavailable", None, Some("5")),
        (|| EngineError::Panicked("secret".into()).into(), 500, internal, None, None),
        (|| EngineError::Device("secret".into()).into(), 500, internal, None, None),
        (
            || EncodeError::Encoder { format: OutputFormat::Png, reason: "secret".into() }.into(),
            500,
            internal,
            None,
            None,
        ),
    ];
    for (error, status, code, param, retry_after) in cases {
        daemon.engine.set(Work::Fail(*error));
        let refused = daemon.upload("/remove", &[]).refused(*status, code, *param).await;
        let seconds = refused.headers.get("retry-after").map(|value| value.to_str().expect("ASCII"));
        assert_eq!(seconds, *retry_after, "{code}");
        assert!(!refused.message.contains("secret"), "{}", refused.message);
        assert!(refused.headers.contains_key("x-ratelimit-limit"), "{code}");
    }
}

#[tokio::test]
async fn a_panic_is_a_500_with_the_envelope_and_the_daemon_continues() {
    let daemon = Daemon::start().await;
    daemon.engine.set(Work::Panic);
    daemon.upload("/remove", &[]).refused(500, "internal_error", None).await;
    daemon.engine.set(Work::Answer);
    assert_eq!(daemon.send("/remove", &[]).await.status(), 200);
}

#[tokio::test]
async fn work_past_its_deadline_is_503_and_cancelled() {
    let config = HttpConfig { request_deadline: Duration::from_secs(1), ..HttpConfig::default() };
    let daemon = Daemon::start_with(config, 60).await;
    daemon.engine.set(Work::Wait);
    daemon.upload("/remove", &[]).refused(503, "unavailable", None).await;
    assert_eq!(daemon.engine.cancelled.load(std::sync::atomic::Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_disconnected_client_cancels_its_work() {
    for http2 in [false, true] {
        let daemon = Daemon::start().await;
        daemon.engine.set(Work::Wait);
        let builder = http_client();
        let client = if http2 { builder.http2_prior_knowledge() } else { builder }.build().expect("a client");
        let request = client.post(daemon.url("/remove")).bearer_auth(KEY).multipart(form(&[])).timeout(LONG);
        let sent = tokio::spawn(request.send());
        until("the work", || daemon.engine.started() == 1).await;
        sent.abort();
        let cancelled = &daemon.engine.cancelled;
        until("the end of the work", || cancelled.load(std::sync::atomic::Ordering::SeqCst) == 1).await;
    }
}

#[tokio::test]
async fn the_contract_and_the_page_need_no_key() {
    let daemon = Daemon::start().await;
    for (path, media_type, text) in [
        ("/openapi.yaml", "application/yaml", "openapi: 3.1"),
        ("/openapi.yaml?_=1795950000", "application/yaml", "openapi: 3.1"),
        ("/openapi.json?_=1795950000", "application/json", "{"),
        ("/docs?theme=x", "text/html; charset=utf-8", "<"),
    ] {
        let response = daemon.get(path).answer().await;
        assert_eq!((response.status().as_u16(), header(&response, "content-type")), (200, media_type), "{path}");
        assert!(response.text().await.expect("text").starts_with(text), "{path}");
    }
    let head = daemon.client.head(daemon.url("/docs")).answer().await;
    assert_eq!(head.status(), 200);
    assert!(head.bytes().await.expect("no body").is_empty());
}
