//! Pictures named by URL: validation before the fetch, fetch errors, precedence of backgrounds.

use crate::http::daemon::{Daemon, Exchange, file, form, header};
use backdrop::compose::Background;
use serde_json::json;

/// The fake fetcher returns as many bytes as the path says.
const PHOTO: &str = "https://example.org/1234";
const NOWHERE: &str = "https://example.org/nowhere";

#[tokio::test]
async fn an_invalid_body_is_refused_before_any_fetch() {
    let daemon = Daemon::start().await;
    let of_type = |path, body: &'static str| daemon.post(path).header("content-type", "application/json").body(body);
    for (body, param) in [
        (json!({ "url": PHOTO, "width": true }), "width"),
        (json!({ "url": PHOTO, "width": 8193 }), "width"),
        (json!({ "url": PHOTO, "watermark": 5 }), "watermark"),
        (json!({ "url": PHOTO, "egde": null }), "egde"),
        (json!({ "url": "https://user:pass@example.org/" }), "url"),
        (json!({ "url": [PHOTO] }), "url"),
        (json!({ "image_base64": 5 }), "image_base64"),
        (json!({ "image_base64": "no base64!", "edge": "fuzzy" }), "edge"),
        (json!({ "url": PHOTO, "preset": "p2", "edge": "fuzzy" }), "edge"),
    ] {
        daemon.post("/remove-url").json(&body).invalid(param).await;
    }
    for body in ["", "[]", "{\"url\":\"https://example.org/1\"} x"] {
        let refused = of_type("/remove-url", body).refused(400, "invalid_parameter", None).await;
        assert!(refused.message.starts_with("malformed JSON"), "{}", refused.message);
    }
    for (path, body, param) in [
        ("/remove-url", r#"{"url":"https://example.org/1","edge":"soft","edge":"soft"}"#, "edge"),
        ("/remove-url?edge=fuzzy", r#"{"url":"https://example.org/1"}"#, "edge"),
        ("/remove-batch-url?format=png", r#"{"urls":["https://example.org/1"]}"#, "format"),
    ] {
        of_type(path, body).invalid(param).await;
    }
    let unknown = json!({ "url": PHOTO, "preset": "p2", "watermark": "a text" });
    daemon.post("/remove-url").json(&unknown).refused(404, "not_found", Some("preset")).await;
    assert_eq!((daemon.fetcher.fetches(), daemon.engine.started()), (0, 0));
}

#[tokio::test]
async fn a_batch_with_the_other_body_type_is_415() {
    let daemon = Daemon::start().await;
    let json = daemon.post("/remove-batch").json(&json!({ "urls": [PHOTO] }));
    for request in [daemon.upload("/remove-batch-url", &[]), json] {
        request.refused(415, "unsupported_media_type", None).await;
    }
}

#[tokio::test]
async fn a_failed_fetch_is_424_with_its_reason() {
    let daemon = Daemon::start().await;
    for (url, status, code, reason, message) in [
        (
            NOWHERE,
            424,
            "fetch_failed",
            Some("address"),
            "the host of the URL has no public address that can be reached",
        ),
        ("https://example.org/large", 413, "payload_too_large", None, ""),
        ("https://example.org/text", 415, "unsupported_media_type", None, "there is no picture at the URL"),
    ] {
        let refused = daemon.post("/remove-url").json(&json!({ "url": url })).refused(status, code, Some("url")).await;
        assert!(refused.message.starts_with(message), "{}", refused.message);
        assert_eq!(refused.reason.as_deref(), reason, "{url}");
    }
    assert_eq!(daemon.engine.started(), 0);
}

#[tokio::test]
async fn a_background_file_overrides_a_url_which_overrides_a_colour() {
    let daemon = Daemon::start().await;
    let fields = [("bg_url", "https://example.org/77"), ("bg_color", "red")];
    let with_file = daemon.post("/replace-bg").multipart(form(&fields).part("bg_file", file(vec![3; 99])));
    for (request, fetches, length, media_type) in [
        (with_file, 0, Some(99), "image/jpeg"),
        (daemon.upload("/replace-bg", &fields), 1, Some(77), "image/jpeg"),
        (daemon.upload("/replace-bg", &fields[1..]), 1, None, "image/png"),
    ] {
        assert_eq!(header(&request.answer().await, "content-type"), media_type);
        assert_eq!(daemon.fetcher.fetches(), fetches, "an address that is not used was fetched");
        assert_eq!(daemon.engine.last_files().background.map(|file| file.len()), length);
    }
    assert!(matches!(daemon.engine.last_recipe().scene.background, Background::Color(_)));
    let twice = form(&[]).part("bg_file", file(vec![3; 9])).part("bg_file", file(vec![3; 9]));
    daemon.post("/replace-bg").multipart(twice).invalid("bg_file").await;
    daemon.post("/remove").multipart(form(&[]).part("bg_file", file(vec![3; 9]))).invalid("bg_file").await;
    let empty = daemon.post("/replace-bg").multipart(form(&[]).part("bg_file", file(Vec::new())));
    empty.refused(400, "invalid_image", Some("bg_file")).await;
}

#[tokio::test]
async fn a_watermark_is_fetched_once_and_its_failure_names_its_field() {
    let daemon = Daemon::start().await;
    for (path, fetched) in [
        ("/remove", 1),
        ("/replace-bg", 1),
        ("/studio-shot", 1),
        ("/smart-crop", 1),
        ("/shadow", 1),
        ("/sticker", 1),
        // A matte has none.
        ("/mask", 0),
    ] {
        let before = daemon.fetcher.fetches();
        assert_eq!(daemon.send(path, &[("watermark", "https://example.org/55")]).await.status(), 200, "{path}");
        assert_eq!(daemon.fetcher.fetches() - before, fetched, "{path}");
        assert_eq!(daemon.engine.last_files().mark.map_or(0, |mark| mark.len()), 55 * fetched, "{path}");
    }
    daemon.upload("/remove", &[("watermark", NOWHERE)]).refused(424, "fetch_failed", Some("watermark")).await;
}
