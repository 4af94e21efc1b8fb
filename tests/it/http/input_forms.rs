//! The body formats of a request: multipart, JSON, and the picture itself.

use crate::http::daemon::{
    Daemon, Exchange, FREE, KEY, MAX_FILE, Work, chunked, file, in_chunks, number, refusal, refused_during_upload,
    required_fields, texts,
};
use backdrop::http::config::HttpConfig;
use backdrop::matting::NoSubject;
use backdrop::recipe::ENDPOINTS;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use reqwest::multipart::{Form, Part};
use reqwest::{Body, RequestBuilder};
use serde_json::{Value, json};
use std::collections::HashSet;

/// What the fake fetcher returns for `https://example.org/11`.
const PICTURE: [u8; 11] = [5; 11];
const PHOTO: &str = "https://example.org/11";

/// With these fields as an HTML form sends them.
fn as_form(request: RequestBuilder, fields: &[(&str, &str)]) -> RequestBuilder {
    let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    request.header("content-type", "application/x-www-form-urlencoded").body(body)
}

/// The same request in every form.
fn every_form(daemon: &Daemon, path: &str, fields: &[(&str, &str)]) -> Vec<(&'static str, RequestBuilder)> {
    let query: String = fields.iter().fold(String::new(), |query, (name, value)| {
        let value: String = url::form_urlencoded::byte_serialize(value.as_bytes()).collect();
        format!("{query}&{name}={value}")
    });
    let query = format!("{path}?{}", query.trim_start_matches('&'));
    let json = |name, value: String| {
        let members = fields.iter().map(|(name, value)| (*name, json!(value))).chain([(name, json!(value))]);
        daemon.post(path).json(&members.collect::<Value>())
    };
    let raw = |kind: &'static str| daemon.post(&query).header("content-type", kind).body(PICTURE.to_vec());
    let base64 = STANDARD.encode(PICTURE);
    vec![
        ("multipart", daemon.post(path).multipart(texts(fields).part("file", picture()))),
        ("multipart with an address", daemon.post(path).multipart(texts(fields).text("url", PHOTO))),
        ("JSON with an address", json("url", PHOTO.to_owned())),
        ("JSON with base64", json("image_base64", base64.clone())),
        ("JSON with a data URL", json("image_base64", format!("data:image/png;base64,{base64}"))),
        ("JSON with URL-safe base64", json("image_base64", URL_SAFE_NO_PAD.encode(PICTURE))),
        ("a form with an address", as_form(daemon.post(path), &[fields, &[("url", PHOTO)]].concat())),
        ("a form with base64", as_form(daemon.post(path), &[fields, &[("image_base64", &base64)]].concat())),
        ("the picture", raw("image/jpeg")),
        ("the picture, with a parameter", raw("Image/PNG; charset=binary")),
        ("bytes", raw("application/octet-stream")),
        ("bytes as Amazon calls them", raw("binary/octet-stream")),
        ("bytes without a type", daemon.post(&query).body(PICTURE.to_vec())),
    ]
}

fn picture() -> Part {
    file(PICTURE.to_vec())
}

#[tokio::test]
async fn every_endpoint_of_one_picture_accepts_every_body_format() {
    let daemon = Daemon::start().await;
    for endpoint in ENDPOINTS.iter().filter(|endpoint| endpoint.input.is_single()) {
        let fields: Vec<_> =
            [("width", "64"), ("format", "WebP")].iter().chain(required_fields(endpoint.path)).copied().collect();
        let mut recipes = Vec::new();
        for (form, request) in every_form(&daemon, endpoint.path, &fields) {
            let response = request.answer().await;
            assert_eq!(response.status(), 200, "{} as {form}", endpoint.path);
            assert_eq!(response.headers()["content-type"], "image/webp", "{} as {form}", endpoint.path);
            assert_eq!(daemon.engine.last_files().source, PICTURE.as_slice());
            recipes.push(daemon.last_recipe());
        }
        assert!(recipes.iter().all(|recipe| *recipe == recipes[0]), "{}: {recipes:?}", endpoint.path);
    }
    assert_eq!(daemon.engine.started() % 13, 0);
}

#[tokio::test]
async fn fields_are_validated_before_the_picture_in_every_body_format() {
    let daemon = Daemon::start().await;
    for path in ["/remove", "/remove-url", "/shadow"] {
        for (fields, param) in [
            (&[("quality", "0")][..], "quality"),
            (&[("egde", "soft")], "egde"),
            (&[("url2", "x")], "url2"),
            (&[("preset", "p1"), ("width", "0")], "width"),
        ] {
            for (form, request) in every_form(&daemon, path, fields) {
                let refused = refusal(request.answer().await).await;
                assert_eq!((refused.status.as_u16(), refused.param.as_deref()), (400, Some(param)), "{path} as {form}");
            }
        }
    }
    assert_eq!((daemon.fetcher.fetches(), daemon.engine.started()), (0, 0));
    let above = daemon.post_as(FREE, "/remove").json(&json!({ "url": PHOTO, "despill": false }));
    above.refused(402, "payment_required", Some("despill")).await;
    assert_eq!(daemon.fetcher.fetches(), 0);
}

#[tokio::test]
async fn a_request_without_a_picture_or_with_two_is_refused() {
    let daemon = Daemon::start().await;
    let invalid = "invalid_parameter";
    let form = |form: Form| daemon.post("/remove").multipart(form);
    let json = |body: Value| daemon.post("/remove").json(&body);
    let raw = |kind: &str, body: &'static str| daemon.post("/remove").header("content-type", kind).body(body);
    for (what, request, code, param) in [
        ("an empty form", form(texts(&[("edge", "soft")])), invalid, "file"),
        ("no file chosen", form(Form::new().part("file", file(Vec::new()).file_name(""))), invalid, "file"),
        ("an empty file", form(Form::new().part("file", file(Vec::new()))), "invalid_image", "file"),
        ("empty JSON", json(json!({})), invalid, "url"),
        ("an empty body", raw("image/png", ""), "invalid_image", "file"),
        ("no body", daemon.post("/remove"), "invalid_image", "file"),
        ("two files", form(Form::new().part("file", picture()).part("file", picture())), invalid, "file"),
        ("file and address", form(texts(&[("url", PHOTO)]).part("file", picture())), invalid, "file"),
        ("two addresses", form(texts(&[("url", PHOTO), ("image_url", PHOTO)])), invalid, "url"),
        ("base64 and address", json(json!({ "url": PHOTO, "image_base64": "AAAA" })), invalid, "image_base64"),
        (
            "base64 twice",
            raw("application/json", r#"{"image_base64":"AAAA","image_base64":"AAAA"}"#),
            invalid,
            "image_base64",
        ),
        ("no base64", json(json!({ "image_base64": "***" })), invalid, "image_base64"),
        ("an address that is none", form(texts(&[("url", "http://a/")])), invalid, "url"),
    ] {
        let refused = refusal(request.answer().await).await;
        let found = (refused.status.as_u16(), refused.code.as_str(), refused.param.as_deref());
        assert_eq!(found, (400, code, Some(param)), "{what}: {}", refused.message);
    }
    assert_eq!(daemon.engine.started(), 0);
}

#[tokio::test]
async fn errors_of_a_picture_name_the_field_that_carried_it() {
    let daemon = Daemon::start().await;
    daemon.engine.set(Work::Fail(|| NoSubject.into()));
    for (form, request) in every_form(&daemon, "/remove", &[]) {
        let refused = refusal(request.answer().await).await;
        let param = match form {
            form if form.ends_with("with an address") => "url",
            form if form.starts_with("JSON") || form == "a form with base64" => "image_base64",
            _ => "file",
        };
        assert_eq!((refused.status.as_u16(), refused.param.as_deref()), (422, Some(param)), "{form}");
    }
}

#[tokio::test]
async fn ten_mebibytes_are_accepted_in_every_body_format_and_one_more_byte_is_413() {
    let daemon = Daemon::start().await;
    let form = |part| daemon.post("/remove").multipart(Form::new().part("file", part));
    let raw = |kind: &str, body: Body| daemon.post("/remove").header("content-type", kind).body(body);
    for (length, status) in [(MAX_FILE, 200), (MAX_FILE + 1, 413)] {
        let picture = vec![0xff; length];
        let base64 = STANDARD.encode(&picture);
        // Every character escaped: twice the usual length.
        let escaped = format!(r#"{{"image_base64":"{}"}}"#, base64.replace('/', "\\/"));
        for (what, request, param) in [
            ("multipart", form(file(vec![b'\r'; length])), "file"),
            ("chunked multipart", form(chunked(vec![b'\n'; length])), "file"),
            ("raw", raw("image/jpeg", picture.clone().into()), "file"),
            ("chunked", raw("application/octet-stream", in_chunks(&picture)), "file"),
            ("escaped", raw("application/json", escaped.into()), "image_base64"),
            ("JSON", daemon.post("/remove-url").json(&json!({ "image_base64": base64 })), "image_base64"),
        ] {
            let response = request.answer().await;
            assert_eq!(response.status(), status, "{length} bytes, {what}");
            if status == 413 {
                refusal(response).await.is(413, "payload_too_large", Some(param));
            } else {
                assert_eq!(daemon.engine.last_files().source.len(), length, "{what}");
            }
        }
    }
    let blank = format!(r#"{{"image_base64":"{}"}}"#, " ".repeat(40 << 20));
    raw("application/json", blank.into()).refused(413, "payload_too_large", Some("image_base64")).await;
    let deep = json!({ "image_base64": "AAAA", "watermark": "x".repeat(70_000) });
    daemon.post("/remove").json(&deep).refused(413, "payload_too_large", None).await;
}

#[tokio::test]
async fn fields_in_the_query_belong_to_a_picture_that_is_the_body() {
    let daemon = Daemon::start().await;
    for endpoint in ENDPOINTS.iter().filter(|endpoint| endpoint.input.is_single()) {
        let path = format!("{}?width=50", endpoint.path);
        for request in [
            daemon.post(&path).multipart(Form::new().part("file", picture())),
            daemon.post(&path).json(&json!({ "url": PHOTO })),
            as_form(daemon.post(&path), &[("url", PHOTO)]),
        ] {
            let refused = request.invalid("width").await;
            assert!(refused.message.contains("query string"), "{}", refused.message);
        }
    }
    assert_eq!((daemon.fetcher.fetches(), daemon.engine.started()), (0, 0));
}

#[tokio::test]
async fn bodies_are_taken_as_other_programs_write_them() {
    let daemon = Daemon::start().await;
    let head = "--B\r\nContent-Disposition: form-data;\r\n name=\"file\";\r\n\tfilename=\"a.jpg\"\r\nContent-Transfer-Encoding: base64\r\n\r\n";
    let folded = format!("{head}{}\r\n--B--\r\n", STANDARD.encode(PICTURE));
    let with_mark = format!("\u{feff}{}", json!({ "url": PHOTO }));
    for request in [
        daemon.post("/remove").header("content-type", "multipart/form-data; boundary=B").body(folded),
        daemon.post("/remove").header("content-type", "application/json").body(with_mark),
        daemon.post("/remove").header("content-encoding", "Identity").json(&json!({ "url": PHOTO })),
        daemon.post("/studio-shot").json(&json!({ "url": PHOTO, "bg_color": "ffffff" })),
    ] {
        assert_eq!(request.answer().await.status(), 200);
        assert_eq!(daemon.engine.last_files().source, PICTURE.as_slice());
    }
    let listed = as_form(daemon.post("/remove-batch-url"), &[("urls[]", PHOTO), ("urls[]", PHOTO)]);
    assert_eq!(listed.value().await["succeeded"], 2);
}

/// The head of a request with this content-length.
fn head(path: &str, kind: &str, length: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n"
    )
}

#[tokio::test]
async fn an_announced_length_and_a_bad_query_are_refused_before_the_body() {
    let daemon = Daemon::start().await;
    for (path, kind, length, status) in [
        ("/remove", "image/jpeg", MAX_FILE + 1, "413"),
        ("/remove", "application/json", 40 << 20, "413"),
        ("/remove", "multipart/form-data; boundary=B", 30 << 20, "413"),
        ("/remove?edge=fuzzy", "image/jpeg", 1000, "400"),
        ("/remove?edge=soft&edge=soft", "application/json", 1000, "400"),
        ("/remove", "video/mp4", 1000, "415"),
    ] {
        let mut connection = daemon.connect().await;
        connection.write(head(path, kind, length)).await;
        let reply = connection.reply().await.expect("a refusal, though no body was sent");
        assert!(reply.starts_with(&format!("HTTP/1.1 {status} ")), "{path} {kind} {length}: {reply}");
    }
}

#[tokio::test]
async fn a_picture_in_json_reserves_the_memory_of_its_bytes() {
    let config = HttpConfig { max_body_megabytes_in_flight: 16, ..HttpConfig::default() };
    let daemon = Daemon::start_with(config, 1000).await;
    let body = json!({ "image_base64": STANDARD.encode(vec![7; 9 << 20]) }).to_string();
    let kind = "application/json";
    for _ in 0..3 {
        let request = daemon.post("/remove").header("content-type", kind).body(body.clone());
        assert_eq!(request.answer().await.status(), 200, "the memory was not given back");
    }
    // An unfinished upload reserves what it has sent.
    let raw =
        async || daemon.post("/remove").header("content-type", "image/jpeg").body(vec![0; 9 << 20]).answer().await;
    let head = head("/remove", kind, body.len());
    let refused = refused_during_upload(&daemon, &head, body.as_bytes(), raw).await;
    refusal(refused).await.is(429, "rate_limit_exceeded", None);
    assert_eq!(raw().await.status(), 200);
}

#[tokio::test]
async fn the_body_format_does_not_matter_to_the_idempotency_key() {
    let daemon = Daemon::start().await;
    let json = |body: Value| daemon.post("/remove").json(&body);
    let mut named = HashSet::new();
    for (form, request) in every_form(&daemon, "/remove", &[("width", "64")]) {
        let name = if form.ends_with("an address") { "address" } else { "bytes" };
        let response = request.header("idempotency-key", name).answer().await;
        assert_eq!(response.status(), 200, "{form}");
        assert_eq!(number(&response, "x-service-cost") > 0.0, named.insert(name), "{form}");
    }
    // An address is another request than its bytes, and other bytes are another than these.
    for (name, body) in [
        ("bytes", json!({ "url": PHOTO, "width": 64 })),
        ("bytes", json!({ "image_base64": STANDARD.encode([6; 11]), "width": 64 })),
        ("bytes", json!({ "image_base64": STANDARD.encode(PICTURE), "width": 65 })),
        ("bytes", json!({ "image_base64": STANDARD.encode(PHOTO), "width": 64 })),
        ("address", json!({ "image_base64": STANDARD.encode(PICTURE), "width": 64 })),
        ("address", json!({ "image_base64": STANDARD.encode(PHOTO), "width": 64 })),
    ] {
        json(body).header("idempotency-key", name).refused(409, "idempotency_conflict", None).await;
    }
    assert_eq!(daemon.account(KEY).await["used"], 2);
}
