//! The body formats of a request: multipart, JSON, and the picture itself.

use crate::http::daemon::{Daemon, FREE, KEY, LONG, Raw, refusal, refused_during_upload, required_fields};
use backdrop::http::config::HttpConfig;
use backdrop::recipe::ENDPOINTS;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use reqwest::multipart::{Form, Part};
use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};

const MAX_FILE: usize = 10 << 20;

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
    let with = |mut body: Value| {
        for (name, value) in fields {
            body[*name] = (*value).into();
        }
        body
    };
    let form = || Form::new().part("file", Part::bytes(PICTURE.to_vec()).file_name("a.jpg"));
    let filled =
        |form: Form| fields.iter().fold(form, |form, (name, value)| form.text((*name).to_owned(), (*value).to_owned()));
    let raw = |kind: &'static str| daemon.post(&query).header("content-type", kind).body(PICTURE.to_vec());
    let base64 = STANDARD.encode(PICTURE);
    vec![
        ("multipart", daemon.post(path).multipart(filled(form()))),
        ("multipart with an address", daemon.post(path).multipart(filled(Form::new().text("url", PHOTO)))),
        ("JSON with an address", daemon.post(path).json(&with(json!({ "url": PHOTO })))),
        ("JSON with base64", daemon.post(path).json(&with(json!({ "image_base64": base64 })))),
        (
            "JSON with a data URL",
            daemon.post(path).json(&with(json!({ "image_base64": format!("data:image/png;base64,{base64}") }))),
        ),
        (
            "JSON with URL-safe base64",
            daemon.post(path).json(&with(json!({ "image_base64": URL_SAFE_NO_PAD.encode(PICTURE) }))),
        ),
        ("a form with an address", as_form(daemon.post(path), &[fields, &[("url", PHOTO)]].concat())),
        ("a form with base64", as_form(daemon.post(path), &[fields, &[("image_base64", &base64)]].concat())),
        ("the picture", raw("image/jpeg")),
        ("the picture, with a parameter", raw("Image/PNG; charset=binary")),
        ("bytes", raw("application/octet-stream")),
        ("bytes as Amazon calls them", raw("binary/octet-stream")),
        ("bytes without a type", daemon.post(&query).body(PICTURE.to_vec())),
    ]
}

async fn response_of(request: RequestBuilder) -> Response {
    request.send().await.expect("an answer")
}

#[tokio::test]
async fn every_endpoint_of_one_picture_accepts_every_body_format() {
    let daemon = Daemon::start().await;
    for endpoint in ENDPOINTS.iter().filter(|endpoint| endpoint.input.is_single()) {
        let fields: Vec<_> =
            [("width", "64"), ("format", "WebP")].iter().chain(required_fields(endpoint.path)).copied().collect();
        let mut recipes = Vec::new();
        for (form, request) in every_form(&daemon, endpoint.path, &fields) {
            let response = response_of(request).await;
            assert_eq!(response.status(), 200, "{} as {form}", endpoint.path);
            assert_eq!(response.headers()["content-type"], "image/webp", "{} as {form}", endpoint.path);
            assert_eq!(
                daemon.engine.files.lock().expect("no panic inside").last().expect("one").source,
                PICTURE.as_slice()
            );
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
                let refused = refusal(response_of(request).await).await;
                assert_eq!((refused.status.as_u16(), refused.param.as_deref()), (400, Some(param)), "{path} as {form}");
            }
        }
    }
    assert_eq!((daemon.fetcher.fetches(), daemon.engine.started()), (0, 0));
    let free = |body: Value| daemon.client.post(daemon.url("/remove")).bearer_auth(FREE).timeout(LONG).json(&body);
    let above = refusal(response_of(free(json!({ "url": PHOTO, "despill": false }))).await).await;
    above.is(402, "payment_required", Some("despill"));
    assert_eq!(daemon.fetcher.fetches(), 0);
}

#[tokio::test]
async fn a_request_without_a_picture_or_with_two_is_refused() {
    let daemon = Daemon::start().await;
    let file = || Form::new().part("file", Part::bytes(PICTURE.to_vec()).file_name("a.jpg"));
    let raw = |kind: &'static str| daemon.post("/remove").header("content-type", kind);
    for (what, request, code, param) in [
        (
            "an empty form",
            daemon.post("/remove-url").multipart(Form::new().text("edge", "soft")),
            "invalid_parameter",
            "file",
        ),
        ("empty JSON", daemon.post("/remove").json(&json!({})), "invalid_parameter", "url"),
        ("an empty body", raw("image/png").body(""), "invalid_image", "file"),
        ("file and address", daemon.post("/remove").multipart(file().text("url", PHOTO)), "invalid_parameter", "file"),
        (
            "two addresses",
            daemon.post("/remove").multipart(Form::new().text("url", PHOTO).text("image_url", PHOTO)),
            "invalid_parameter",
            "url",
        ),
        (
            "base64 and address",
            daemon.post("/remove").json(&json!({ "url": PHOTO, "image_base64": "AAAA" })),
            "invalid_parameter",
            "image_base64",
        ),
        (
            "base64 twice",
            raw("application/json").body(r#"{"image_base64":"AAAA","image_base64":"AAAA"}"#),
            "invalid_parameter",
            "image_base64",
        ),
        (
            "no base64",
            daemon.post("/remove").json(&json!({ "image_base64": "***" })),
            "invalid_parameter",
            "image_base64",
        ),
        (
            "an address that is none",
            daemon.post("/remove").multipart(Form::new().text("url", "http://a/")),
            "invalid_parameter",
            "url",
        ),
    ] {
        let refused = refusal(response_of(request).await).await;
        assert_eq!(
            (refused.status.as_u16(), refused.code.as_str(), refused.param.as_deref()),
            (400, code, Some(param)),
            "{what}: {}",
            refused.message
        );
    }
    let unreachable = json!({ "url": "https://example.org/nowhere" });
    refusal(daemon.send_json("/shadow", &unreachable).await).await.is(424, "fetch_failed", Some("url"));
    assert_eq!(daemon.engine.started(), 0);
}

#[tokio::test]
async fn errors_of_a_picture_name_the_field_that_carried_it() {
    use crate::http::daemon::Work;
    use backdrop::matting::NoSubject;
    let daemon = Daemon::start().await;
    daemon.engine.set(Work::Fail(|| NoSubject.into()));
    for (form, request) in every_form(&daemon, "/remove", &[]) {
        let refused = refusal(response_of(request).await).await;
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
    for (length, status) in [(MAX_FILE, 200), (MAX_FILE + 1, 413)] {
        let picture = vec![0xff; length];
        let raw = daemon.post("/remove").header("content-type", "image/jpeg").body(picture.clone());
        let chunks: Vec<_> = picture.chunks(60_000).map(|chunk| Ok::<_, std::io::Error>(chunk.to_vec())).collect();
        let chunked = reqwest::Body::wrap_stream(futures_util::stream::iter(chunks));
        let chunked = daemon.post("/remove").header("content-type", "application/octet-stream").body(chunked);
        // Every character escaped: twice the usual length.
        let base64 = STANDARD.encode(&picture);
        let escaped = format!(r#"{{"image_base64":"{}"}}"#, base64.replace('/', "\\/"));
        let escaped = daemon.post("/remove").header("content-type", "application/json").body(escaped);
        let json = daemon.post("/remove-url").json(&json!({ "image_base64": base64 }));
        for (form, request, param) in [
            ("raw", raw, "file"),
            ("chunked", chunked, "file"),
            ("escaped", escaped, "image_base64"),
            ("JSON", json, "image_base64"),
        ] {
            let response = response_of(request).await;
            assert_eq!(response.status(), status, "{length} bytes, {form}");
            if status == 413 {
                refusal(response).await.is(413, "payload_too_large", Some(param));
            }
        }
    }
    let blank = format!(r#"{{"image_base64":"{}"}}"#, " ".repeat(40 << 20));
    let blank = daemon.post("/remove").header("content-type", "application/json").body(blank);
    refusal(response_of(blank).await).await.is(413, "payload_too_large", Some("image_base64"));
    let deep = json!({ "image_base64": "AAAA", "watermark": "x".repeat(70_000) });
    refusal(daemon.send_json("/remove", &deep).await).await.is(413, "payload_too_large", None);
}

#[tokio::test]
async fn fields_in_the_query_belong_to_a_picture_that_is_the_body() {
    let daemon = Daemon::start().await;
    for endpoint in ENDPOINTS.iter().filter(|endpoint| endpoint.input.is_single()) {
        let path = format!("{}?width=50", endpoint.path);
        let file = Form::new().part("file", Part::bytes(PICTURE.to_vec()).file_name("a.jpg"));
        for request in [
            daemon.post(&path).multipart(file),
            daemon.post(&path).json(&json!({ "url": PHOTO })),
            as_form(daemon.post(&path), &[("url", PHOTO)]),
        ] {
            let refused = refusal(response_of(request).await).await;
            refused.is(400, "invalid_parameter", Some("width"));
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
        assert_eq!(response_of(request).await.status(), 200);
        assert_eq!(
            daemon.engine.files.lock().expect("no panic inside").last().expect("one").source,
            PICTURE.as_slice()
        );
    }
    let part = || Part::bytes(PICTURE.to_vec()).file_name("a.jpg");
    let numbered = Form::new().part("files[0]", part()).part("files[1]", part());
    assert_eq!(response_of(daemon.post("/remove-batch").multipart(numbered)).await.status(), 200);
    let listed = as_form(daemon.post("/remove-batch-url"), &[("urls[]", PHOTO), ("urls[]", PHOTO)]);
    let rows: Value = response_of(listed).await.json().await.expect("JSON");
    assert_eq!(rows["results"].as_array().map(Vec::len), Some(2), "{rows}");
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
        ("/remove-url", "multipart/form-data; boundary=B", 30 << 20, "413"),
        ("/remove?egde=soft", "image/jpeg", 1000, "400"),
        ("/remove?edge=fuzzy", "image/jpeg", 1000, "400"),
        ("/remove?edge=soft&edge=soft", "application/json", 1000, "400"),
        ("/remove", "video/mp4", 1000, "415"),
    ] {
        let mut connection: Raw = daemon.connect().await;
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
        let response = response_of(daemon.post("/remove").header("content-type", kind).body(body.clone())).await;
        assert_eq!(response.status(), 200, "the memory was not given back");
    }
    // An unfinished upload reserves what it has sent.
    let raw = || daemon.post("/remove").header("content-type", "image/jpeg").body(vec![0; 9 << 20]);
    let head = head("/remove", kind, body.len());
    let refused = refused_during_upload(&daemon, &head, body.as_bytes(), async || response_of(raw()).await).await;
    refusal(refused).await.is(429, "rate_limit_exceeded", None);
    assert_eq!(response_of(raw()).await.status(), 200);
}

#[tokio::test]
async fn the_body_format_does_not_matter_to_the_idempotency_key() {
    let daemon = Daemon::start().await;
    let fields = [("width", "64")];
    let cost = |response: &Response| {
        assert_eq!(response.status(), 200);
        response.headers()["x-service-cost"].to_str().expect("text").parse::<f64>().expect("dollars")
    };
    for path in ["/remove", "/remove-url"] {
        let (mut first_by_bytes, mut first_by_address) = (true, true);
        for (form, request) in every_form(&daemon, path, &fields) {
            let by_address = form.ends_with("an address");
            let key = if by_address { format!("{path}-address") } else { format!("{path}-bytes") };
            let first = std::mem::take(if by_address { &mut first_by_address } else { &mut first_by_bytes });
            let paid = cost(&response_of(request.header("idempotency-key", key)).await);
            assert_eq!(paid > 0.0, first, "{path} as {form}");
        }
        // An address is another request than its bytes, and other bytes are another than these.
        for (key, body) in [
            ("bytes", json!({ "url": PHOTO, "width": 64 })),
            ("bytes", json!({ "image_base64": STANDARD.encode([6; 11]), "width": 64 })),
            ("bytes", json!({ "image_base64": STANDARD.encode(PICTURE), "width": 65 })),
            ("bytes", json!({ "image_base64": STANDARD.encode(PHOTO), "width": 64 })),
            ("address", json!({ "image_base64": STANDARD.encode(PICTURE), "width": 64 })),
            ("address", json!({ "image_base64": STANDARD.encode(PHOTO), "width": 64 })),
        ] {
            let request = daemon.post(path).header("idempotency-key", format!("{path}-{key}")).json(&body);
            refusal(response_of(request).await).await.is(409, "idempotency_conflict", None);
        }
    }
    assert_eq!(daemon.account(KEY).await["used"], 4);
}
