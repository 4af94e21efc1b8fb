//! Pictures named by URL: validation before the fetch, fetch errors, precedence of backgrounds and presets.

use crate::http::daemon::{Daemon, form, refusal};
use backdrop::codec::Channels;
use backdrop::compose::{Background, Mark};
use reqwest::Response;
use reqwest::multipart::Part;
use serde_json::{Value, json};

/// The fake fetcher returns as many bytes as the path says.
const PHOTO: &str = "https://example.org/1234";
const NOWHERE: &str = "https://example.org/nowhere";

async fn send(daemon: &Daemon, path: &str, body: &Value) -> Response {
    daemon.post(path).json(body).send().await.expect("an answer")
}

#[tokio::test]
async fn a_picture_is_fetched_and_processed_with_its_fields() {
    let daemon = Daemon::start().await;
    let body = json!({
        "url": PHOTO, "format": "webp", "quality": 50, "edge": "hard", "width": 64, "despill": 40, "watermark": "© us",
        "keep_alpha": false,
    });
    let response = send(&daemon, "/remove-url", &body).await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "image/webp");
    for name in ["x-service-foreground", "x-service-width", "x-service-height", "x-service-latency", "x-service-model"]
    {
        assert!(response.headers().contains_key(name), "{name}");
    }
    let seen = daemon.engine.seen.lock().expect("no panic inside");
    let (length, recipe) = &seen[0];
    assert_eq!(*length, 1234);
    assert_eq!((recipe.encode.quality.get(), recipe.encode.channels), (50, Channels::Rgba));
    assert_eq!(recipe.scene.resize.width, Some(64));
    let cut = recipe.cut().expect("it cuts");
    assert!((cut.matting.despill - 0.4).abs() < 1e-6 && !cut.keep_alpha);
    let watermark = recipe.scene.watermark.as_ref().expect("a watermark");
    assert_eq!((&watermark.mark, watermark.opacity), (&Mark::Text("© us".into()), 0.5));
}

#[tokio::test]
async fn an_invalid_body_is_refused_before_any_fetch() {
    let daemon = Daemon::start().await;
    for (body, param) in [
        (json!({ "url": PHOTO, "edge": "fuzzy" }), "edge"),
        (json!({ "url": PHOTO, "detect": "twice" }), "detect"),
        (json!({ "url": PHOTO, "width": "wide" }), "width"),
        (json!({ "url": PHOTO, "width": true }), "width"),
        (json!({ "url": PHOTO, "width": 0 }), "width"),
        (json!({ "url": PHOTO, "width": 8193 }), "width"),
        (json!({ "url": PHOTO, "despill": 101 }), "despill"),
        (json!({ "url": PHOTO, "watermark": 5 }), "watermark"),
        (json!({ "url": PHOTO, "watermark_opacity": 1.5 }), "watermark_opacity"),
        (json!({ "url": PHOTO, "keep_alpha": [] }), "keep_alpha"),
        (json!({ "url": PHOTO, "egde": null }), "egde"),
        (json!({ "url": PHOTO, "format": "jpg" }), "format"),
        (json!({ "url": PHOTO, "egde": "soft" }), "egde"),
        (json!({ "url": "http://example.org/a.jpg" }), "url"),
        (json!({ "url": "https://user:pass@example.org/" }), "url"),
        (json!({ "url": "" }), "url"),
        (json!({ "url": null, "edge": null }), "url"),
        (json!({ "url": PHOTO, "image_base64": "AAAA" }), "image_base64"),
        (json!({ "image_base64": 5 }), "image_base64"),
        (json!({ "image_base64": "no base64!", "edge": "soft" }), "image_base64"),
        (json!({ "image_base64": "no base64!", "edge": "fuzzy" }), "edge"),
        (json!({ "url": 5 }), "url"),
        (json!({ "url": [PHOTO] }), "url"),
        (json!({}), "url"),
    ] {
        let refused = refusal(send(&daemon, "/remove-url", &body).await).await;
        refused.is(400, "invalid_parameter", Some(param));
    }
    for body in ["", "{", "[]", "null", "\"url\"", "{\"url\":\"https://example.org/1\"} x"] {
        let request = daemon.post("/remove-url").header("content-type", "application/json").body(body);
        let refused = refusal(request.send().await.expect("an answer")).await;
        refused.is(400, "invalid_parameter", None);
        assert!(refused.message.starts_with("malformed JSON"), "{}", refused.message);
    }
    let repeated = r#"{"url":"https://example.org/1","edge":"soft","edge":"soft"}"#;
    let request = daemon.post("/remove-url").header("content-type", "application/json").body(repeated);
    refusal(request.send().await.expect("an answer")).await.is(400, "invalid_parameter", Some("edge"));
    let response = send(&daemon, "/remove-url?edge=fuzzy", &json!({ "url": PHOTO })).await;
    refusal(response).await.is(400, "invalid_parameter", Some("edge"));
    let response = send(&daemon, "/remove-batch-url?format=png", &json!({ "urls": [PHOTO] })).await;
    refusal(response).await.is(400, "invalid_parameter", Some("format"));
    assert_eq!((daemon.fetcher.fetches(), daemon.engine.started()), (0, 0));
}

#[tokio::test]
async fn a_batch_with_the_other_body_type_is_415() {
    let daemon = Daemon::start().await;
    let response = daemon.post("/remove-batch-url").multipart(form(&[])).send().await.expect("an answer");
    refusal(response).await.is(415, "unsupported_media_type", None);
    let response = send(&daemon, "/remove-batch", &json!({ "urls": [PHOTO] })).await;
    refusal(response).await.is(415, "unsupported_media_type", None);
}

#[tokio::test]
async fn a_json_body_above_the_limit_is_413() {
    let daemon = Daemon::start().await;
    let body = json!({ "url": PHOTO, "watermark": "x".repeat(70_000) });
    refusal(send(&daemon, "/remove-url", &body).await).await.is(413, "payload_too_large", None);
}

#[tokio::test]
async fn a_failed_fetch_is_424_with_its_reason() {
    let daemon = Daemon::start().await;
    let refused = refusal(send(&daemon, "/remove-url", &json!({ "url": NOWHERE })).await).await;
    refused.is(424, "fetch_failed", Some("url"));
    assert_eq!(refused.message, "the host of the URL has no public address that can be reached");
    assert_eq!(refused.reason.as_deref(), Some("address"));
    let large = json!({ "url": "https://example.org/large" });
    refusal(send(&daemon, "/remove-url", &large).await).await.is(413, "payload_too_large", Some("url"));
    let text = json!({ "url": "https://example.org/text" });
    let refused = refusal(send(&daemon, "/remove-url", &text).await).await;
    refused.is(415, "unsupported_media_type", Some("url"));
    assert!(refused.message.starts_with("there is no picture at the URL"), "{}", refused.message);
    assert_eq!(daemon.engine.started(), 0);
}

#[tokio::test]
async fn a_background_file_overrides_a_url_which_overrides_a_colour() {
    let daemon = Daemon::start().await;
    let fields = [("bg_url", "https://example.org/77"), ("bg_color", "red")];
    let with_file = form(&fields).part("bg_file", Part::bytes(vec![3; 99]).file_name("b.jpg"));
    let response = daemon.post("/replace-bg").multipart(with_file).send().await.expect("an answer");
    assert_eq!(
        (response.status().as_u16(), &response.headers()["content-type"]),
        (200, &"image/jpeg".parse().unwrap())
    );
    assert_eq!(daemon.fetcher.fetches(), 0, "an address that is not used was fetched");
    assert_eq!(daemon.send("/replace-bg", &fields).await.status(), 200);
    assert_eq!(daemon.fetcher.fetches(), 1);
    assert_eq!(daemon.send("/replace-bg", &fields[1..]).await.headers()["content-type"], "image/png");
    let files = daemon.engine.files.lock().expect("no panic inside");
    let backgrounds: Vec<_> = files.iter().map(|files| files.background.as_ref().map(|bytes| bytes.len())).collect();
    assert_eq!(backgrounds, [Some(99), Some(77), None]);
    let recipes = daemon.engine.seen.lock().expect("no panic inside");
    assert!(matches!(recipes[2].1.scene.background, Background::Color(_)));
}

#[tokio::test]
async fn an_empty_a_repeated_and_a_misplaced_background_file_are_refused() {
    let daemon = Daemon::start().await;
    let post = |form| daemon.post("/replace-bg").multipart(form).send();
    let background = |length| Part::bytes(vec![3; length]).file_name("b.jpg");
    let empty = post(form(&[]).part("bg_file", background(0))).await.expect("an answer");
    refusal(empty).await.is(400, "invalid_image", Some("bg_file"));
    let twice = form(&[]).part("bg_file", background(9)).part("bg_file", background(9));
    refusal(post(twice).await.expect("an answer")).await.is(400, "invalid_parameter", Some("bg_file"));
    let elsewhere = form(&[]).part("bg_file", background(9));
    let response = daemon.post("/remove").multipart(elsewhere).send().await.expect("an answer");
    refusal(response).await.is(400, "invalid_parameter", Some("bg_file"));
}

#[tokio::test]
async fn a_watermark_is_fetched_once_and_its_failure_names_its_field() {
    let daemon = Daemon::start().await;
    for path in ["/remove", "/replace-bg", "/studio-shot", "/smart-crop", "/shadow", "/sticker"] {
        let before = daemon.fetcher.fetches();
        let response = daemon.send(path, &[("watermark", "https://example.org/55")]).await;
        assert_eq!((response.status().as_u16(), daemon.fetcher.fetches() - before), (200, 1), "{path}");
        let refused = refusal(daemon.send(path, &[("watermark", NOWHERE)]).await).await;
        refused.is(424, "fetch_failed", Some("watermark"));
    }
    {
        let files = daemon.engine.files.lock().expect("no panic inside");
        assert!(files.iter().all(|files| files.mark.as_ref().is_some_and(|mark| mark.len() == 55)));
    }
    // A matte has none.
    let before = daemon.fetcher.fetches();
    let response = daemon.send("/mask", &[("watermark", "https://example.org/55")]).await;
    assert_eq!((response.status().as_u16(), daemon.fetcher.fetches() - before), (200, 0));
}

#[tokio::test]
async fn sent_fields_override_the_preset() {
    let daemon = Daemon::start().await;
    let response = daemon.send("/studio-shot", &[("preset", &daemon.preset), ("quality", "99")]).await;
    assert_eq!(response.status(), 200);
    {
        let seen = daemon.engine.seen.lock().expect("no panic inside");
        assert_eq!((seen[0].1.scene.resize.width, seen[0].1.encode.quality.get()), (Some(77), 99));
    }
    let unknown = refusal(daemon.send("/remove", &[("preset", "p2"), ("watermark", NOWHERE)]).await).await;
    unknown.is(404, "not_found", Some("preset"));
    let invalid = refusal(daemon.send("/remove", &[("preset", "p2"), ("edge", "fuzzy")]).await).await;
    invalid.is(400, "invalid_parameter", Some("edge"));
    assert_eq!(daemon.fetcher.fetches(), 0, "fetched before the preset was found");
}
