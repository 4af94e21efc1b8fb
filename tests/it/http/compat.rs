//! Routes in the wire formats of remove.bg, rembg and Photoroom, field by field and code by code.

use crate::http::daemon::{Daemon, FREE, KEY, LONG, PHOTO, TEST, Work, refusal};
use crate::support::pictures;
use backdrop::codec::DecodeError;
use backdrop::engine::EngineError;
use backdrop::http::compat::CompatConfig;
use backdrop::http::config::HttpConfig;
use backdrop::image::Size;
use backdrop::matting::NoSubject;
use backdrop::recipe::InferenceMode;
use backdrop::source::FetchConfig;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::multipart::{Form, Part};
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};
use std::io::{Cursor, Read};
use std::time::{SystemTime, UNIX_EPOCH};

const REMOVEBG: &str = "/v1.0/removebg";
const SEGMENT: &str = "/v1/segment";
const REMBG: &str = "/api/remove";

/// [`PHOTO`] at the fake fetcher.
const ADDRESS: &str = "https://example.org/photo.png";

async fn with_compat(compat: CompatConfig) -> Daemon {
    let fetch = FetchConfig::default();
    Daemon::start_with_compat(compat, InferenceMode::Standard, &fetch, None, HttpConfig::default(), 10_000).await
}

/// With the routes of every service.
async fn with_all_services() -> Daemon {
    with_compat(CompatConfig { rembg: true, ..CompatConfig::default() }).await
}

fn texts(fields: &[(&str, &str)]) -> Form {
    fields.iter().fold(Form::new(), |form, (name, value)| form.text((*name).to_owned(), (*value).to_owned()))
}

fn photo() -> Part {
    Part::bytes(PHOTO).file_name("photo.png")
}

impl Daemon {
    fn with_key(&self, path: &str) -> RequestBuilder {
        self.client.post(self.url(path)).header("X-Api-Key", KEY).timeout(LONG)
    }

    /// A photo and these fields.
    async fn cut(&self, path: &str, fields: &[(&str, &str)]) -> Response {
        let file = if path == REMBG { "file" } else { "image_file" };
        let request = self.with_key(path).multipart(texts(fields).part(file, photo()));
        request.send().await.expect("an answer")
    }

    /// The last recipe that was worked on.
    fn recipe(&self) -> String {
        let seen = self.engine.seen.lock().expect("no panic inside");
        format!("{:?}", seen.last().expect("one job").1)
    }
}

#[track_caller]
fn header<'a>(response: &'a Response, name: &str) -> &'a str {
    response.headers().get(name).map(|value| value.to_str().expect("text")).unwrap_or_default()
}

async fn body(response: Response) -> Value {
    response.json().await.expect("JSON")
}

/// Status and code of a refusal of remove.bg's route.
async fn code(response: Response) -> (u16, String) {
    let status = response.status().as_u16();
    let body = body(response).await;
    let error = &body["errors"][0];
    assert!(error["title"].as_str().is_some_and(|title| !title.is_empty()), "{body}");
    (status, error["code"].as_str().expect("a code").to_owned())
}

#[tokio::test]
async fn every_field_of_remove_bg_reaches_the_recipe() {
    let daemon = Daemon::start().await;
    // An archive is made of a picture.
    daemon.engine.set(Work::AnswerFile(|| png(Size::new(8, 8), [9, 8, 7, 100])));
    for (fields, expected) in [
        (&[][..], &["max_pixels: Some(250000)", "format: Png", "picture: Classified", "background: Clear"][..]),
        (&[("size", "regular")], &["max_pixels: Some(250000)"]),
        (&[("size", "medium")], &["max_pixels: Some(1500000)"]),
        (&[("size", "hd")], &["max_pixels: Some(4000000)"]),
        (&[("size", "4k")], &["max_pixels: Some(10000000)"]),
        (
            &[("size", "full"), ("format", "jpg")],
            &["max_pixels: Some(25000000)", "format: Jpeg", "Color([255, 255, 255, 255])"],
        ),
        (&[("size", "50MP"), ("format", "webp")], &["max_pixels: Some(50000000)", "format: WebP"]),
        (&[("size", "auto"), ("format", "ZIP")], &["max_pixels: Some(25000000)", "format: Png"]),
        (&[("format", "auto"), ("bg_color", "f00")], &["format: Jpeg", "Color([255, 0, 0, 255])"]),
        (&[("bg_color", "81d4fa77")], &["format: Png", "Color([129, 212, 250, 119])"]),
        (&[("bg_color", "green")], &["format: Jpeg", "Color([0, 128, 0, 255])"]),
        (&[("bg_image_url", ADDRESS)], &["format: Jpeg", "fit: Cover", "background: Some(Url("]),
        (&[("channels", "alpha"), ("bg_color", "red")], &["channels: Alpha", "format: Png", "background: Clear"]),
        (&[("crop", "true")], &["Placed(Placement { crop: Some(", "scale: None"]),
        (
            &[("crop", "true"), ("crop_margin", "10% 30px")],
            &["top: Share(0.1)", "right: Pixels(30)", "left: Pixels(30)"],
        ),
        (&[("crop", "false"), ("crop_margin", "10%")], &["framing: Whole"]),
        (&[("scale", "80%")], &["scale: Some(0.8)", "position: Some((0.5, 0.5))"]),
        (&[("scale", "original"), ("position", "original")], &["framing: Whole"]),
        (&[("position", "10% 100%")], &["scale: None, position: Some((0.1, 1.0))"]),
        (
            &[("roi", "0% 10px 50% 100%")],
            &["region: Some(Region { corners: [Share(0.0), Pixels(10), Share(0.5), Share(1.0)"],
        ),
        (&[("add_shadow", "true")], &["shadow: Some(Shadow"]),
        (&[("add_shadow", "False"), ("semitransparency", "true"), ("type", "car")], &["shadow: None"]),
        (&[("type_level", "none")], &["picture: Cutout"]),
        // What a client leaves unset, and unknown names.
        (
            &[("scale", "undefined"), ("roi", ""), ("shadow_type", "3d"), ("anything", "x")],
            &["framing: Whole", "region: None"],
        ),
    ] {
        let response = daemon.cut(REMOVEBG, fields).await;
        let status = response.status();
        assert_eq!(status, 200, "{fields:?}: {}", response.text().await.expect("text"));
        let recipe = daemon.recipe();
        for part in expected {
            assert!(recipe.contains(part), "{fields:?}: {part} is not in {recipe}");
        }
    }
}

#[tokio::test]
async fn a_source_comes_as_a_file_in_base64_or_by_its_address_in_every_kind_of_body() {
    let daemon = Daemon::start().await;
    let encoded = STANDARD.encode(PHOTO);
    let form = |fields: &[(&str, &str)]| daemon.with_key(REMOVEBG).multipart(texts(fields));
    for (request, what) in [
        (daemon.with_key(REMOVEBG).multipart(Form::new().part("image_file", photo())), "a file"),
        (form(&[("image_file_b64", &encoded)]), "base64 in a form"),
        (form(&[("image_url", ADDRESS)]), "an address in a form"),
        (
            daemon.with_key(REMOVEBG).json(&json!({ "image_file_b64": encoded, "crop": false, "scale": null })),
            "base64 in JSON",
        ),
        (daemon.with_key(REMOVEBG).json(&json!({ "image_url": ADDRESS, "size": "preview" })), "an address in JSON"),
        (urlencoded(&daemon, &[("image_file_b64", &encoded)]), "base64, urlencoded"),
        (urlencoded(&daemon, &[("image_url", ADDRESS), ("size", "regular")]), "an address, urlencoded"),
    ] {
        let response = request.send().await.expect("an answer");
        assert_eq!(response.status(), 200, "{what}: {:?}", response.text().await);
        let files = daemon.engine.files.lock().expect("no panic inside");
        assert_eq!(files.last().expect("one job").source, PHOTO, "{what}");
    }
    let background = Form::new().part("image_file", photo()).part("bg_image_file", photo());
    assert_eq!(daemon.with_key(REMOVEBG).multipart(background).send().await.expect("an answer").status(), 200);
    let files = daemon.engine.files.lock().expect("no panic inside").last().cloned().expect("one job");
    assert_eq!(files.background.as_deref(), Some(PHOTO));
}

fn urlencoded(daemon: &Daemon, fields: &[(&str, &str)]) -> RequestBuilder {
    let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    daemon.with_key(REMOVEBG).header("content-type", "application/x-www-form-urlencoded").body(body)
}

#[tokio::test]
async fn every_invalid_field_has_the_code_of_remove_bg() {
    let daemon = Daemon::start().await;
    for (fields, expected) in [
        (&[("image_url", ADDRESS)][..], "multiple_sources"),
        (&[("bg_color", "red"), ("bg_image_url", ADDRESS)], "multiple_bg_sources"),
        (&[("bg_color", "reddish")], "invalid_bg_color"),
        (&[("bg_image_url", "ftp://example.org/a")], "invalid_bg_image_url"),
        (&[("channels", "rgb")], "invalid_channels"),
        (&[("crop", "true"), ("crop_margin", "60%")], "invalid_crop_margin"),
        (&[("format", "gif")], "invalid_format"),
        (&[("position", "left")], "invalid_position"),
        (&[("roi", "1 2 3")], "invalid_roi"),
        (&[("roi", "0 0 5000 5000")], "roi_exceeds_bounds"),
        (&[("roi", "10 10 10 20")], "roi_region_empty"),
        (&[("scale", "5%")], "invalid_scale"),
        (&[("semitransparency", "maybe")], "invalid_semitransparency"),
        (&[("size", "huge")], "invalid_size"),
        (&[("bg_image_url", "https://example.org/nowhere")], "failed_bg_download"),
    ] {
        assert_eq!(code(daemon.cut(REMOVEBG, fields).await).await, (400, expected.to_owned()), "{fields:?}");
    }
    for (body, expected) in [
        (json!({}), "missing_source"),
        (json!({ "image_url": "not one" }), "invalid_image_url"),
        (json!({ "image_url": "https://example.org/nowhere" }), "failed_image_download"),
        (json!({ "image_url": "https://example.org/large" }), "file_too_large"),
        (json!({ "image_url": "https://example.org/30" }), "invalid_file_type"),
        (json!({ "image_file_b64": "?" }), "failed_to_read_image"),
        (json!({ "image_file_b64": STANDARD.encode(&PHOTO[..200]) }), "failed_to_read_image"),
        (json!({ "image_file_b64": STANDARD.encode(wide()) }), "resolution_too_high"),
    ] {
        let response = daemon.with_key(REMOVEBG).json(&body).send().await.expect("an answer");
        assert_eq!(code(response).await, (400, expected.to_owned()), "{body}");
    }
    assert_eq!(daemon.engine.started(), 0);
    // 22 MB are read, whatever the daemon's own limit.
    for (length, expected) in [(11 << 20, "invalid_file_type"), ((22 << 20) + 1, "file_too_large")] {
        let form = Form::new().part("image_file", Part::bytes(vec![7; length]).file_name("a"));
        let response = daemon.with_key(REMOVEBG).multipart(form).send().await.expect("an answer");
        assert_eq!(code(response).await, (400, expected.to_owned()), "{length}");
    }
}

#[tokio::test]
async fn a_cameras_photo_is_taken_as_by_the_original() {
    let daemon = Daemon::start().await;
    let photo = png(Size::new(6000, 4000), [1, 2, 3, 255]);
    for path in [REMOVEBG, SEGMENT] {
        let form = Form::new().part("image_file", Part::bytes(photo.clone()).file_name("a"));
        let response = daemon.with_key(path).multipart(form).send().await.expect("an answer");
        assert_eq!(response.status(), 200, "{path}");
    }
}

/// A PNG that is wider than any limit.
fn wide() -> Vec<u8> {
    png(Size::new(16_385, 1), [1, 2, 3, 255])
}

fn png(size: Size, pixel: [u8; 4]) -> Vec<u8> {
    pictures::png(size, |_, _| pixel).to_vec()
}

#[tokio::test]
async fn failures_of_the_work_have_the_codes_of_remove_bg() {
    let daemon = Daemon::start().await;
    for (work, status, expected) in [
        (Work::Fail(|| NoSubject.into()), 400, "unknown_foreground"),
        (Work::Fail(|| DecodeError::Corrupt("x".into()).into()), 400, "failed_to_read_image"),
        (Work::Fail(|| EngineError::QueueFull { retry_after: LONG }.into()), 429, "rate_limit_exceeded"),
        (Work::Fail(|| EngineError::Stopped.into()), 503, "unavailable"),
        (Work::Fail(|| EngineError::Device("secret".into()).into()), 500, "internal_error"),
    ] {
        daemon.engine.set(work);
        let response = daemon.cut(REMOVEBG, &[]).await;
        assert_eq!(response.headers().contains_key("retry-after"), matches!(status, 429 | 503), "{expected}");
        assert_eq!(code(response).await, (status, expected.to_owned()));
    }
}

#[tokio::test]
async fn a_picture_carries_the_headers_of_remove_bg() {
    let daemon = Daemon::start().await;
    let response = daemon.cut(REMOVEBG, &[]).await;
    for (name, expected) in [
        ("content-type", "image/png"),
        ("x-type", "person"),
        ("x-width", "40"),
        ("x-height", "30"),
        ("x-max-width", "451"),
        ("x-max-height", "300"),
        ("x-credits-charged", "0.25"),
        ("x-foreground-top", "2"),
        ("x-foreground-left", "1"),
        ("x-foreground-width", "20"),
        ("x-foreground-height", "25"),
        ("x-ratelimit-limit", "10000"),
    ] {
        assert_eq!(header(&response, name), expected, "{name}");
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let reset: u64 = header(&response, "x-ratelimit-reset").parse().expect("seconds");
    assert!((now..now + 120).contains(&reset), "{reset} is not a time soon after {now}");
    let full = daemon.cut(REMOVEBG, &[("size", "full"), ("type_level", "none")]).await;
    assert_eq!((header(&full, "x-credits-charged"), full.headers().contains_key("x-type")), ("1", false));
    let sandbox = daemon.client.post(daemon.url(REMOVEBG)).header("x-api-key", TEST);
    let sandbox = sandbox.multipart(Form::new().part("image_file", photo())).send().await.expect("an answer");
    assert_eq!(header(&sandbox, "x-credits-charged"), "0");
    for charged in ["0.25", "0"] {
        let again = daemon.with_key(REMOVEBG).header("idempotency-key", "one-photo");
        let again = again.multipart(Form::new().part("image_file", photo())).send().await.expect("an answer");
        assert_eq!(header(&again, "x-credits-charged"), charged);
    }
}

#[tokio::test]
async fn json_and_archives_carry_the_same_picture() {
    let daemon = Daemon::start().await;
    let request = daemon.with_key(REMOVEBG).header("accept", "application/json");
    let response = request.multipart(Form::new().part("image_file", photo())).send().await.expect("an answer");
    assert_eq!((header(&response, "content-type"), header(&response, "x-type")), ("application/json", "person"));
    let data = body(response).await["data"].take();
    let picture = STANDARD.decode(data["result_b64"].as_str().expect("text")).expect("base64");
    assert!(picture.starts_with(b"a picture made of"));
    let foreground = ["top", "left", "width", "height"].map(|side| data[format!("foreground_{side}")].as_u64());
    assert_eq!(foreground, [2, 1, 20, 25].map(Some));

    daemon.engine.set(Work::AnswerFile(|| png(Size::new(8, 8), [9, 8, 7, 100])));
    let response = daemon.cut(REMOVEBG, &[("format", "zip"), ("bg_color", "red")]).await;
    assert_eq!(header(&response, "content-type"), "application/zip");
    assert!(daemon.recipe().contains("background: Clear"), "the background is not part of an archive");
    let bytes = response.bytes().await.expect("an archive");
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).expect("an archive");
    for (name, begins) in [("color.jpg", b"\xff\xd8".as_slice()), ("alpha.png", b"\x89PNG")] {
        let mut file = Vec::new();
        archive.by_name(name).expect(name).read_to_end(&mut file).expect(name);
        assert!(file.starts_with(begins), "{name}");
    }

    let request = daemon.with_key(REMOVEBG).header("accept", "application/json");
    let form = texts(&[("format", "zip")]).part("image_file", photo());
    let response = request.multipart(form).send().await.expect("an answer");
    assert_eq!(header(&response, "content-type"), "application/json");
    let archive = STANDARD.decode(body(response).await["data"]["result_b64"].as_str().expect("text")).expect("base64");
    assert_eq!(zip::ZipArchive::new(Cursor::new(archive)).expect("an archive").len(), 2);
}

#[tokio::test]
async fn a_key_may_come_in_either_header_and_an_invalid_one_is_403() {
    let daemon = Daemon::start().await;
    for path in [REMOVEBG, "/v1.0/account", SEGMENT, "/v1/account"] {
        let method = if path.ends_with("account") { Method::GET } else { Method::POST };
        let send = |name: &'static str, value: String| {
            let request = daemon.client.request(method.clone(), daemon.url(path)).timeout(LONG).header(name, value);
            let request = if method == Method::POST {
                request.multipart(Form::new().part("image_file", photo()))
            } else {
                request
            };
            async { request.send().await.expect("an answer") }
        };
        for (name, value) in [("x-api-key", KEY.to_owned()), ("authorization", format!("Bearer {KEY}"))] {
            assert_eq!(send(name, value).await.status(), 200, "{path} {name}");
        }
        for (name, value, expected) in [("x-api-key", "wrong", "API Key invalid"), ("x-other", "a", "Missing API Key")]
        {
            let response = send(name, value.to_owned()).await;
            assert_eq!(response.status(), 403, "{path} {name}");
            assert!(!response.headers().contains_key("www-authenticate"));
            let body = body(response).await;
            let message = if path.starts_with("/v1.0") { &body["errors"][0]["title"] } else { &body["detail"] };
            assert_eq!(message, expected, "{path}");
        }
    }
}

#[tokio::test]
async fn a_preview_counts_as_an_image_of_the_quota_and_the_account_shows_it() {
    let daemon = Daemon::start().await;
    let account = |path: &'static str| {
        let request = daemon.client.get(daemon.url(path)).header("x-api-key", FREE);
        async { body(request.send().await.expect("an answer")).await }
    };
    let send = |name: &'static str, path: &'static str| {
        let form = Form::new().part("image_file", photo());
        let request = daemon.client.post(daemon.url(path)).header("x-api-key", FREE).header("idempotency-key", name);
        async { request.multipart(form).send().await.expect("an answer") }
    };
    let attributes = |free: u64| {
        json!({ "data": { "attributes": {
            "credits": { "subscription": 0, "payg": 0, "enterprise": 0, "total": 0 },
            "api": { "free_calls": free, "sizes": "all" },
        } } })
    };
    assert_eq!(account("/v1.0/account").await, attributes(50));
    for name in ["a", "a", "b"] {
        assert_eq!(send(name, REMOVEBG).await.status(), 200);
    }
    assert_eq!(account("/v1.0/account").await, attributes(48), "a repeated request is billed once");
    assert_eq!(account("/v1/account").await, json!({ "credits": { "available": 48, "subscription": 50 } }));
    for _ in 0..48 {
        let request = daemon.client.post(daemon.url(REMOVEBG)).header("x-api-key", FREE);
        let sent = request.multipart(Form::new().part("image_file", photo())).send().await.expect("an answer");
        assert_eq!(sent.status(), 200);
    }
    let refused = send("c", REMOVEBG).await;
    assert_eq!(refused.status(), 402);
    assert_eq!(body(refused).await["errors"][0]["title"], "Insufficient credits");
    let refused = send("d", SEGMENT).await;
    assert_eq!((refused.status().as_u16(), body(refused).await["status_code"].as_u64()), (402, Some(402)));
    let plenty =
        daemon.client.get(daemon.url("/v1.0/account")).header("x-api-key", KEY).send().await.expect("an answer");
    assert_eq!(body(plenty).await["data"]["attributes"]["credits"]["total"], 1_000_000);
}

#[tokio::test]
async fn the_rate_limit_is_reported_in_the_format_of_remove_bg() {
    let daemon = Daemon::start_with(HttpConfig::default(), 1).await;
    assert_eq!(daemon.cut(REMOVEBG, &[]).await.status(), 200);
    let refused = daemon.cut(REMOVEBG, &[]).await;
    let seconds = |name| header(&refused, name).parse::<i64>().expect("seconds");
    let resets_in = seconds("x-ratelimit-reset") - jiff::Timestamp::now().as_second();
    assert!((-5..=60).contains(&resets_in) && seconds("retry-after") <= 60, "{resets_in}");
    assert_eq!(code(refused).await, (429, "rate_limit_exceeded".to_owned()));
}

#[tokio::test]
async fn a_disabled_service_is_404_like_any_unknown_path() {
    let daemon = with_compat(CompatConfig { removebg: false, photoroom: false, ..CompatConfig::default() }).await;
    for path in [REMOVEBG, "/v1.0/account", "/v1.0/improve", SEGMENT, "/v1/account", REMBG, "/v1.0/other"] {
        for method in [Method::GET, Method::POST, Method::OPTIONS] {
            let response = daemon.client.request(method, daemon.url(path)).bearer_auth(KEY).send().await;
            refusal(response.expect("an answer")).await.is(404, "not_found", None);
        }
    }
    let usual = Daemon::start().await;
    refusal(usual.with_key(REMBG).send().await.expect("an answer")).await.is(404, "not_found", None);
    let improve = usual.with_key("/v1.0/improve").send().await.expect("an answer");
    assert_eq!(code(improve).await, (404, "not_found".to_owned()));
    let method = usual.client.get(usual.url(REMOVEBG)).send().await.expect("an answer");
    assert_eq!(header(&method, "allow"), "POST");
    assert_eq!(code(method).await, (405, "method_not_allowed".to_owned()));
}

#[tokio::test]
async fn every_parameter_of_rembg_reaches_the_recipe() {
    let daemon = with_all_services().await;
    for (fields, expected) in [
        (
            &[][..],
            &["format: Png", "method: None", "network: BuiltIn(Standard)", "max_pixels: None", "picture: Cutout"][..],
        ),
        (&[("a", "true"), ("af", "240"), ("ab", "10"), ("ae", "10")], &["method: ClosedForm"]),
        (&[("om", "true"), ("bgc", "1,2,3,4")], &["channels: Alpha", "background: Clear"]),
        (&[("bgc", "255,0,0,128")], &["Color([255, 0, 0, 128])"]),
        (&[("vm", "true"), ("ppm", "true"), ("dc", "True")], &["network: BuiltIn(Standard)"]),
        (&[("model", "u2net")], &["network: BuiltIn(Standard)"]),
        (&[("extras", "{not json")], &["area: None"]),
        (
            &[("extras", r#"{"sam_prompt":[{"type":"rectangle","data":[1,2,30,40],"label":1}]}"#)],
            &["region: Region { corners: [Pixels(1), Pixels(2), Pixels(30), Pixels(40)"],
        ),
        (
            &[(
                "extras",
                r#"{"sam_prompt":[{"type":"point","data":[5,6],"label":1},{"type":"point","data":[7.8,9],"label":0}]}"#,
            )],
            &["subject: Points([Point { text: \"5,6\", at: [Pixels(5), Pixels(6)]", "at: [Pixels(7), Pixels(9)]"],
        ),
    ] {
        // In the form, in the query of a form, and of an address.
        let post = daemon.client.post(daemon.url(REMBG)).timeout(LONG).multipart(texts(fields).part("file", photo()));
        let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let queried = daemon.client.post(daemon.url(&format!("{REMBG}?{query}"))).timeout(LONG);
        let queried = queried.multipart(Form::new().part("file", photo()));
        let get = daemon.client.get(daemon.url(&format!("{REMBG}?url={ADDRESS}&{query}"))).timeout(LONG);
        for request in [post, queried, get] {
            let response = request.send().await.expect("an answer");
            assert_eq!(response.status(), 200, "{fields:?}: {:?}", response.text().await);
            assert_eq!(header(&response, "content-type"), "image/png");
            let recipe = daemon.recipe();
            for part in expected {
                assert!(recipe.contains(part), "{fields:?}: {part} is not in {recipe}");
            }
        }
    }
}

#[tokio::test]
async fn rembg_errors_have_the_status_and_form_of_its_server() {
    let daemon = with_all_services().await;
    for (fields, status) in [
        (&[("model", "isnet-anime")][..], 400),
        (&[("model", "u2net_cloth_seg")], 400),
        (&[("model", "u2net_custom")], 400),
        (&[("extras", r#"{"sam_prompt":[{"type":"point","data":[1,2],"label":2}]}"#)], 400),
        (&[("a", "maybe")], 422),
        (&[("af", "256")], 422),
        (&[("bgc", "red")], 422),
    ] {
        let request = daemon.client.post(daemon.url(REMBG)).multipart(texts(fields).part("file", photo()));
        let response = request.send().await.expect("an answer");
        assert_eq!(response.status(), status, "{fields:?}");
        let detail = body(response).await["detail"].take();
        assert!(if status == 422 { detail[0]["loc"].is_array() } else { detail.is_string() }, "{detail}");
    }
    for (path, status) in [(REMBG, 422), ("/api/remove?url=http://example.org/a.png", 400)] {
        let response = daemon.client.get(daemon.url(path)).send().await.expect("an answer");
        assert_eq!(response.status(), status, "{path}");
    }
    let response = daemon.client.post(daemon.url(REMBG)).multipart(texts(&[("a", "true")])).send().await;
    assert_eq!(body(response.expect("an answer")).await["detail"][0]["loc"], json!(["body", "file"]));
    assert_eq!(daemon.engine.started(), 0);
}

#[tokio::test]
async fn rembg_needs_no_key_runs_as_its_account_and_allows_every_origin() {
    let guest_account = CompatConfig { rembg: true, rembg_account: Some("guest".into()), ..CompatConfig::default() };
    let daemon = with_compat(guest_account).await;
    let send = |key: Option<&'static str>| {
        let request = daemon.client.post(daemon.url(REMBG)).header("origin", "https://page.example");
        let request = key.into_iter().fold(request, |request, key| request.bearer_auth(key));
        let form = Form::new().part("file", photo());
        async { request.multipart(form).send().await.expect("an answer") }
    };
    let response = send(None).await;
    assert_eq!((response.status().as_u16(), header(&response, "access-control-allow-origin")), (200, "*"));
    assert_eq!(daemon.account(FREE).await["used"], 1);
    assert_eq!(send(Some(KEY)).await.status(), 200);
    assert_eq!(daemon.account(FREE).await["used"], 1, "a key of another account is that account's");
    let wrong = send(Some("wrong")).await;
    assert_eq!((wrong.status().as_u16(), header(&wrong, "access-control-allow-origin")), (401, "*"));
    let preflight = daemon.client.request(Method::OPTIONS, daemon.url(REMBG));
    let preflight = preflight.header("origin", "https://page.example").header("access-control-request-method", "POST");
    let preflight = preflight.send().await.expect("an answer");
    assert!(preflight.status().is_success());
    assert_eq!(header(&preflight, "access-control-allow-methods"), "GET, POST");
    let without_account =
        with_compat(CompatConfig { rembg: true, rembg_account: Some("missing".into()), ..CompatConfig::default() });
    let daemon = without_account.await;
    let response = daemon.client.post(daemon.url(REMBG)).multipart(Form::new().part("file", photo())).send().await;
    assert_eq!(response.expect("an answer").status(), 503);
}

#[tokio::test]
async fn rembg_without_a_key_is_for_no_page_of_another_site_and_no_other_host() {
    let daemon = with_all_services().await;
    let send = async |name: &'static str, value: &'static str, key: Option<&'static str>| {
        let request = daemon.client.post(daemon.url(REMBG)).header(name, value);
        let request = key.into_iter().fold(request, |request, key| request.bearer_auth(key));
        let response = request.multipart(Form::new().part("file", photo())).send().await.expect("an answer");
        response.status().as_u16()
    };
    for (name, value) in [("sec-fetch-site", "cross-site"), ("host", "attacker.example")] {
        assert_eq!(send(name, value, None).await, 403, "{name}");
        assert_eq!(send(name, value, Some(KEY)).await, 200, "{name}");
    }
    for (name, value) in [("sec-fetch-site", "same-origin"), ("host", "localhost")] {
        assert_eq!(send(name, value, None).await, 200, "{name}");
    }
    assert_eq!(daemon.account(KEY).await["used"], 4);
}

#[tokio::test]
async fn every_field_of_photoroom_reaches_the_recipe() {
    let daemon = Daemon::start().await;
    for (fields, expected) in [
        (&[][..], &["max_pixels: Some(36000000)", "format: Png", "despill: 0.0", "framing: Whole"][..]),
        (&[("size", "preview"), ("format", "webp")], &["max_pixels: Some(250000)", "format: WebP"]),
        (
            &[("size", "hd"), ("format", "jpg")],
            &["max_pixels: Some(4000000)", "format: Jpeg", "Color([255, 255, 255, 255])"],
        ),
        (&[("channels", "alpha")], &["channels: Alpha"]),
        (&[("bg_color", "00FF00")], &["Color([0, 255, 0, 255])"]),
        (&[("crop", "true"), ("despill", "true")], &["crop: Some(", "despill: 1.0"]),
        (&[("crop", "false"), ("despill", "false"), ("other", "x")], &["framing: Whole", "despill: 0.0"]),
    ] {
        let response = daemon.cut(SEGMENT, fields).await;
        assert_eq!(response.status(), 200, "{fields:?}: {:?}", response.text().await);
        assert_eq!(header(&response, "x-uncertainty-score"), "-1", "the fake engine reports a face");
        let recipe = daemon.recipe();
        for part in expected {
            assert!(recipe.contains(part), "{fields:?}: {part} is not in {recipe}");
        }
    }
    let request = daemon.with_key(SEGMENT).header("accept", "application/json");
    let response = request.multipart(Form::new().part("image_file", photo())).send().await.expect("an answer");
    let picture = STANDARD.decode(body(response).await["base64img"].as_str().expect("text")).expect("base64");
    assert!(picture.starts_with(b"a picture made of"));
}

#[tokio::test]
async fn photoroom_refuses_with_its_status_and_type() {
    let daemon = Daemon::start().await;
    for (fields, expected) in [
        (&[("size", "huge")][..], "invalid_parameter"),
        (&[("format", "gif")], "invalid_parameter"),
        (&[("crop", "?")], "invalid_parameter"),
    ] {
        let response = daemon.cut(SEGMENT, fields).await;
        assert_eq!(response.status(), 400, "{fields:?}");
        let body = body(response).await;
        assert_eq!((body["status_code"].as_u64(), body["type"].as_str()), (Some(400), Some(expected)), "{body}");
        assert!(body["detail"].is_string());
    }
    let missing = daemon.with_key(SEGMENT).multipart(texts(&[("size", "hd")])).send().await.expect("an answer");
    assert_eq!(body(missing).await["type"], "missing_image");
    daemon.engine.set(Work::Fail(|| NoSubject.into()));
    let response = daemon.cut(SEGMENT, &[]).await;
    assert_eq!(
        (response.status().as_u16(), body(response).await["type"].as_str().map(str::to_owned)),
        (400, Some("no_subject_detected".to_owned()))
    );
}
