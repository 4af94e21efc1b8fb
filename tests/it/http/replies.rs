//! Replies: headers, the error envelope, the order of checks.

use crate::http::daemon::{Daemon, KEY, LONG, Work, form, refusal, until};
use crate::support::command::http_client;
use backdrop::codec::{DecodeError, EncodeError};
use backdrop::compose::OutputTooLarge;
use backdrop::engine::EngineError;
use backdrop::http::config::HttpConfig;
use backdrop::image::{OutputFormat, Size};
use backdrop::matting::NoSubject;
use backdrop::pipeline::PipelineError;
use futures_util::stream;
use reqwest::{Body, Response};
use std::time::{Duration, Instant};

#[tokio::test]
async fn a_picture_has_the_documented_headers() {
    let daemon = Daemon::start_with(HttpConfig::default(), 60).await;
    let response = daemon.send("/remove", &[]).await;
    assert_eq!(response.status(), 200);
    let header = |name: &str| response.headers()[name].to_str().expect("ASCII").to_owned();
    assert_eq!(header("content-type"), "image/png");
    assert_eq!(header("content-length"), "a picture made of 11 bytes".len().to_string());
    assert_eq!(header("x-service-model"), "fgnet-384/1");
    assert_eq!((header("x-service-width"), header("x-service-height")), ("40".into(), "30".into()));
    assert_eq!(header("x-service-foreground"), "1,2,20,25");
    assert_eq!(header("x-service-uncertainty"), "0.125");
    header("x-service-latency").parse::<u64>().expect("whole milliseconds");
    let stages = stages(&response);
    let names: Vec<_> = stages.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["fetch", "decode", "queue", "segment", "retouch", "matte", "compose", "encode"]);
    assert_eq!((stages[1].1, stages[3].1, stages[7].1), (1.5, 0.0, 0.0));
    assert_eq!((header("x-ratelimit-limit"), header("x-ratelimit-remaining")), ("60".into(), "59".into()));
    assert_eq!(header("x-service-version"), env!("CARGO_PKG_VERSION"));
    assert_eq!(header("cache-control"), "no-store");
    assert_eq!(header("x-content-type-options"), "nosniff");
    assert_eq!(response.bytes().await.expect("a body"), "a picture made of 11 bytes");

    assert_eq!(selected_edge(&daemon, &[]).await, None);
    assert_eq!(selected_edge(&daemon, &[("edge", "hard")]).await, None);
    assert_eq!(selected_edge(&daemon, &[("edge", "auto")]).await.as_deref(), Some("hard"));

    let webp = daemon.send("/mask", &[("format", "webp")]).await;
    assert_eq!(webp.headers()["content-type"], "image/webp");
}

/// The edge that the reply says was selected.
async fn selected_edge(daemon: &Daemon, fields: &[(&str, &str)]) -> Option<String> {
    let response = daemon.send("/remove", fields).await;
    response.headers().get("x-service-edge").map(|edge| edge.to_str().expect("ASCII").to_owned())
}

#[tokio::test]
async fn warnings_are_a_list_of_strings_and_absent_without_any() {
    let daemon = Daemon::start().await;
    assert!(!daemon.send("/remove", &[]).await.headers().contains_key("x-service-warnings"));
    daemon.engine.set(Work::Warn);
    let reply = daemon.send("/headshot", &[]).await;
    let header = reply.headers()["x-service-warnings"].to_str().expect("ASCII");
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
    for url in ["/docs", "/openapi.yaml", "/nowhere", "/remove"]
        .map(|path| daemon.url(path))
        .iter()
        .chain([&format!("{admin}/livez"), &format!("{admin}/nowhere")])
    {
        let get = || daemon.client.get(url);
        let kept = get().header("x-request-id", "mine-42").send().await.expect("an answer");
        assert_eq!(kept.headers()["x-request-id"], "mine-42", "{url}");
        for unusable in ["", "a b", &"x".repeat(129)] {
            let replaced = get().header("x-request-id", unusable).send().await.expect("an answer");
            let id = replaced.headers()["x-request-id"].to_str().expect("ASCII").to_owned();
            assert!(id.starts_with("req_") && id.len() == 24, "{url} {unusable:?}: {id}");
            assert!(replaced.headers().contains_key("x-service-version"), "{url}");
        }
    }
}

#[tokio::test]
async fn the_route_is_checked_before_the_key_and_the_key_before_the_body() {
    let daemon = Daemon::start().await;
    let send = |request: reqwest::RequestBuilder| async { refusal(request.send().await.expect("an answer")).await };

    send(daemon.client.post(daemon.url("/removed"))).await.is(404, "not_found", None);
    send(daemon.client.post(daemon.url("/remove/"))).await.is(404, "not_found", None);
    for (method, path, allow) in
        [("GET", "/remove", "POST"), ("POST", "/docs", "GET, HEAD"), ("DELETE", "/mask", "POST")]
    {
        let refused = send(daemon.client.request(method.parse().expect("a method"), daemon.url(path))).await;
        refused.is(405, "method_not_allowed", None);
        assert_eq!(refused.headers["allow"], allow);
    }
    // Wrong type, unknown query and no body: the missing key is reported first.
    let no_key = send(daemon.client.post(daemon.url("/remove?x=1")).header("content-type", "text/plain")).await;
    no_key.is(401, "unauthorized", None);
    assert_eq!(no_key.headers["www-authenticate"], "Bearer");
    assert!(!no_key.headers.contains_key("x-ratelimit-limit"));
    let bad_key = send(daemon.client.post(daemon.url("/remove")).bearer_auth("bd_live_bad")).await;
    bad_key.is(401, "unauthorized", None);
    assert_eq!(bad_key.headers["www-authenticate"], r#"Bearer error="invalid_token""#);
}

#[tokio::test]
async fn the_rate_limit_is_in_every_reply_to_a_key_and_is_checked_before_the_fields() {
    let daemon = Daemon::start_with(HttpConfig::default(), 2).await;
    let first = daemon.send("/remove", &[]).await;
    assert_eq!(first.headers()["x-ratelimit-remaining"], "1");
    let second = refusal(daemon.send("/remove", &[("edge", "fuzzy")]).await).await;
    second.is(400, "invalid_parameter", Some("edge"));
    assert_eq!(second.headers["x-ratelimit-remaining"], "0");
    let third = refusal(daemon.send("/remove", &[("edge", "fuzzy")]).await).await;
    third.is(429, "rate_limit_exceeded", None);
    let seconds = |name: &str| third.headers[name].to_str().expect("ASCII").parse::<u64>().expect("seconds");
    assert!((1..=60).contains(&seconds("retry-after")), "{}", seconds("retry-after"));
    assert_eq!(seconds("retry-after"), seconds("x-ratelimit-reset"));
    assert_eq!((seconds("x-ratelimit-limit"), seconds("x-ratelimit-remaining")), (2, 0));
    assert_eq!(daemon.client.get(daemon.url("/docs")).send().await.expect("an answer").status(), 200);
}

#[tokio::test]
async fn every_failure_of_the_work_has_its_code() {
    type Case<'a> = (fn() -> PipelineError, u16, &'a str, Option<&'a str>, Option<&'a str>);
    let daemon = Daemon::start().await;
    let cases: &[Case<'_>] = &[
        (|| DecodeError::Empty.into(), 400, "invalid_image", Some("file"), None),
        (|| DecodeError::Corrupt("it ends early".into()).into(), 400, "invalid_image", Some("file"), None),
        (|| DecodeError::Unsupported { found: Some("GIF") }.into(), 415, "unsupported_media_type", Some("file"), None),
        (|| DecodeError::TooManyBytes { limit: 1 }.into(), 413, "payload_too_large", Some("file"), None),
        (
            || DecodeError::TooManyPixels { size: Size::new(4097, 1), limit: 4096 }.into(),
            413,
            "payload_too_large",
            Some("file"),
            None,
        ),
        (|| NoSubject.into(), 422, "no_subject_detected", Some("file"), None),
        (|| PipelineError::NoFace, 422, "no_face_detected", Some("file"), None),
        (|| PipelineError::NoAlpha, 400, "invalid_parameter", Some("format"), None),
        (
            || DecodeError::TooManyMegapixels { size: Size::new(1, 1), limit: 17 }.into(),
            413,
            "payload_too_large",
            Some("file"),
            None,
        ),
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
        (|| EngineError::Panicked("secret".into()).into(), 500, "internal_error", None, None),
        (|| EngineError::Device("secret".into()).into(), 500, "internal_error", None, None),
        (
            || EncodeError::Encoder { format: OutputFormat::Png, reason: "secret".into() }.into(),
            500,
            "internal_error",
            None,
            None,
        ),
    ];
    for (error, status, code, param, retry_after) in cases {
        daemon.engine.set(Work::Fail(*error));
        let refused = refusal(daemon.send("/remove", &[]).await).await;
        refused.is(*status, code, *param);
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
    refusal(daemon.send("/remove", &[]).await).await.is(500, "internal_error", None);
    daemon.engine.set(Work::Answer);
    assert_eq!(daemon.send("/remove", &[]).await.status(), 200);
}

#[tokio::test]
async fn work_past_its_deadline_is_503_and_cancelled() {
    let config = HttpConfig { request_deadline: Duration::from_secs(1), ..HttpConfig::default() };
    let daemon = Daemon::start_with(config, 60).await;
    daemon.engine.set(Work::Wait);
    refusal(daemon.send("/remove", &[]).await).await.is(503, "unavailable", None);
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
    let contract = daemon.client.get(daemon.url("/openapi.yaml")).send().await.expect("an answer");
    assert_eq!(contract.headers()["content-type"], "application/yaml");
    let yaml = contract.text().await.expect("text");
    assert!(yaml.starts_with("openapi: 3.1"));
    for path in ["/openapi.json", "/openapi.json?_=1795950000", "/openapi.yaml?_=1795950000"] {
        let response = daemon.client.get(daemon.url(path)).send().await.expect("an answer");
        assert_eq!(response.status(), 200, "{path}");
        assert_eq!(response.headers()["cache-control"], "no-store", "{path}");
        let is_json = path.contains("json");
        let expected = if is_json { "application/json" } else { "application/yaml" };
        assert_eq!(response.headers()["content-type"], expected);
        let text = response.text().await.expect("text");
        if is_json {
            let mut yaml: serde_yaml_ng::Value = serde_yaml_ng::from_str(&yaml).expect("YAML");
            yaml.apply_merge().expect("no broken merges");
            let yaml = serde_json::to_value(yaml).expect("keys are text");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&text).expect("JSON"), yaml);
        } else {
            assert_eq!(text, yaml);
        }
    }
    let page = daemon.client.get(daemon.url("/docs?theme=x")).send().await.expect("an answer");
    assert_eq!(page.headers()["content-type"], "text/html; charset=utf-8");
    assert!(page.headers()["content-security-policy"].to_str().expect("ASCII").contains("default-src 'none'"));
    assert!(page.text().await.expect("text").contains("/remove"));
    let head = daemon.client.head(daemon.url("/docs")).send().await.expect("an answer");
    assert_eq!(head.status(), 200);
    assert!(head.bytes().await.expect("no body").is_empty());
}
