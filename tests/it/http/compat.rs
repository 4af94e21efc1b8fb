//! Routes in the wire formats of remove.bg, rembg and Photoroom, field by field and code by code.

use crate::http::daemon::{Daemon, Exchange, FREE, KEY, LONG, PHOTO, Setup, TEST, Work, file, header, texts};
use crate::support::pictures;
use backdrop::engine::EngineError;
use backdrop::http::compat::CompatConfig;
use backdrop::http::config::HttpConfig;
use backdrop::image::Size;
use backdrop::matting::NoSubject;
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
    Daemon::of(Setup { compat, ..Setup::default() }).await
}

/// With the routes of every service.
async fn with_all_services() -> Daemon {
    with_compat(CompatConfig { rembg: true, ..CompatConfig::default() }).await
}

fn photo() -> Part {
    file(PHOTO.to_vec())
}

/// A photo and these fields.
fn filled(path: &str, fields: &[(&str, &str)]) -> Form {
    texts(fields).part(if path.starts_with(REMBG) { "file" } else { "image_file" }, photo())
}

impl Daemon {
    fn of_service(&self, path: &str, key: &str) -> RequestBuilder {
        self.client.post(self.url(path)).header("X-Api-Key", key).timeout(LONG)
    }

    fn with_key(&self, path: &str) -> RequestBuilder {
        self.of_service(path, KEY)
    }

    /// A photo and these fields.
    fn cut(&self, path: &str, fields: &[(&str, &str)]) -> RequestBuilder {
        self.with_key(path).multipart(filled(path, fields))
    }

    /// A photo and these fields, without a key.
    fn open(&self, path: &str, fields: &[(&str, &str)]) -> RequestBuilder {
        self.client.post(self.url(path)).timeout(LONG).multipart(filled(path, fields))
    }

    /// Checks that a request is answered 200 and that its recipe has these parts.
    async fn makes(&self, request: RequestBuilder, what: &[(&str, &str)], parts: &[&str]) -> Response {
        let response = request.answer().await;
        let status = response.status();
        assert!(status == 200, "{what:?}: {status} {}", response.text().await.expect("text"));
        let recipe = format!("{:?}", self.engine.last_recipe());
        for part in parts {
            assert!(recipe.contains(part), "{what:?}: {part} is not in {recipe}");
        }
        response
    }
}

/// Status and code of a refusal of remove.bg's route.
async fn code(request: RequestBuilder) -> (u16, String) {
    let response = request.answer().await;
    let status = response.status().as_u16();
    let body: Value = response.json().await.expect("JSON");
    let error = &body["errors"][0];
    assert!(error["title"].as_str().is_some_and(|title| !title.is_empty()), "{body}");
    (status, error["code"].as_str().expect("a code").to_owned())
}

/// The bytes of a member.
fn decoded(base64: &Value) -> Vec<u8> {
    STANDARD.decode(base64.as_str().expect("text")).expect("base64")
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
        daemon.makes(daemon.cut(REMOVEBG, fields), fields, expected).await;
    }
}

#[tokio::test]
async fn a_source_comes_as_a_file_in_base64_or_by_its_address_in_every_kind_of_body() {
    let daemon = Daemon::start().await;
    let base64 = STANDARD.encode(PHOTO);
    let json = |body: Value| daemon.with_key(REMOVEBG).json(&body);
    let form = |fields: &[(&str, &str)]| daemon.with_key(REMOVEBG).multipart(texts(fields));
    let urlencoded = |fields: &[(&str, &str)]| {
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        daemon.with_key(REMOVEBG).header("content-type", "application/x-www-form-urlencoded").body(body)
    };
    for (request, what) in [
        (daemon.cut(REMOVEBG, &[]), "a file"),
        (form(&[("image_file_b64", &base64)]), "base64 in a form"),
        (form(&[("image_url", ADDRESS)]), "an address in a form"),
        (json(json!({ "image_file_b64": base64, "crop": false, "scale": null })), "base64 in JSON"),
        (json(json!({ "image_url": ADDRESS, "size": "preview" })), "an address in JSON"),
        (urlencoded(&[("image_file_b64", &base64)]), "base64, urlencoded"),
        (urlencoded(&[("image_url", ADDRESS), ("size", "regular")]), "an address, urlencoded"),
    ] {
        daemon.makes(request, &[(what, "")], &[]).await;
        assert_eq!(daemon.engine.last_files().source, PHOTO, "{what}");
    }
    let background = filled(REMOVEBG, &[]).part("bg_image_file", photo());
    daemon.makes(daemon.with_key(REMOVEBG).multipart(background), &[], &[]).await;
    assert_eq!(daemon.engine.last_files().background.as_deref(), Some(PHOTO));
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
        assert_eq!(code(daemon.cut(REMOVEBG, fields)).await, (400, expected.to_owned()), "{fields:?}");
    }
    for (body, expected) in [
        (json!({}), "missing_source"),
        (json!({ "image_url": "not one" }), "invalid_image_url"),
        (json!({ "image_url": "https://example.org/nowhere" }), "failed_image_download"),
        (json!({ "image_url": "https://example.org/large" }), "file_too_large"),
        (json!({ "image_url": "https://example.org/30" }), "invalid_file_type"),
        (json!({ "image_file_b64": "?" }), "failed_to_read_image"),
        (json!({ "image_file_b64": STANDARD.encode(&PHOTO[..200]) }), "failed_to_read_image"),
        (
            json!({ "image_file_b64": STANDARD.encode(png(Size::new(16_385, 1), [1, 2, 3, 255])) }),
            "resolution_too_high",
        ),
    ] {
        assert_eq!(code(daemon.with_key(REMOVEBG).json(&body)).await, (400, expected.to_owned()), "{body}");
    }
    assert_eq!(daemon.engine.started(), 0);
    // 22 MB are read, whatever the daemon's own limit.
    for (length, expected) in [(11 << 20, "invalid_file_type"), ((22 << 20) + 1, "file_too_large")] {
        let form = Form::new().part("image_file", file(vec![7; length]));
        assert_eq!(code(daemon.with_key(REMOVEBG).multipart(form)).await, (400, expected.to_owned()), "{length}");
    }
    for (work, status, expected) in [
        (Work::Fail(|| NoSubject.into()), 400, "unknown_foreground"),
        (Work::Fail(|| EngineError::QueueFull { retry_after: LONG }.into()), 429, "rate_limit_exceeded"),
    ] {
        daemon.engine.set(work);
        assert_eq!(code(daemon.cut(REMOVEBG, &[])).await, (status, expected.to_owned()));
    }
}

#[tokio::test]
async fn a_cameras_photo_is_taken_as_by_the_original() {
    let daemon = Daemon::start().await;
    let photo = png(Size::new(6000, 4000), [1, 2, 3, 255]);
    for path in [REMOVEBG, SEGMENT] {
        let form = Form::new().part("image_file", file(photo.clone()));
        daemon.makes(daemon.with_key(path).multipart(form), &[(path, "")], &[]).await;
    }
}

fn png(size: Size, pixel: [u8; 4]) -> Vec<u8> {
    pictures::png(size, |_, _| pixel).to_vec()
}

#[tokio::test]
async fn a_picture_carries_the_headers_of_remove_bg() {
    let daemon = Daemon::start().await;
    let response = daemon.cut(REMOVEBG, &[]).answer().await;
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
    let full = daemon.cut(REMOVEBG, &[("size", "full"), ("type_level", "none")]).answer().await;
    assert_eq!((header(&full, "x-credits-charged"), header(&full, "x-type")), ("1", ""));
    let named = || daemon.cut(REMOVEBG, &[]).header("idempotency-key", "one-photo");
    let sandbox = daemon.of_service(REMOVEBG, TEST).multipart(filled(REMOVEBG, &[]));
    for (request, charged) in [(sandbox, "0"), (named(), "0.25"), (named(), "0")] {
        assert_eq!(header(&request.answer().await, "x-credits-charged"), charged);
    }
}

#[tokio::test]
async fn json_and_archives_carry_the_same_picture() {
    let daemon = Daemon::start().await;
    let as_json = |fields| daemon.cut(REMOVEBG, fields).header("accept", "application/json");
    let response = as_json(&[]).answer().await;
    assert_eq!((header(&response, "content-type"), header(&response, "x-type")), ("application/json", "person"));
    let data = response.json::<Value>().await.expect("JSON")["data"].take();
    assert!(decoded(&data["result_b64"]).starts_with(b"a picture made of"));
    let foreground = ["top", "left", "width", "height"].map(|side| data[format!("foreground_{side}")].as_u64());
    assert_eq!(foreground, [2, 1, 20, 25].map(Some));

    daemon.engine.set(Work::AnswerFile(|| png(Size::new(8, 8), [9, 8, 7, 100])));
    let fields = [("format", "zip"), ("bg_color", "red")];
    // The background is not part of an archive.
    let response = daemon.makes(daemon.cut(REMOVEBG, &fields), &fields, &["background: Clear"]).await;
    assert_eq!(header(&response, "content-type"), "application/zip");
    let bytes = response.bytes().await.expect("an archive");
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).expect("an archive");
    for (name, begins) in [("color.jpg", b"\xff\xd8".as_slice()), ("alpha.png", b"\x89PNG")] {
        let mut file = Vec::new();
        archive.by_name(name).expect(name).read_to_end(&mut file).expect(name);
        assert!(file.starts_with(begins), "{name}");
    }
    let archive = decoded(&as_json(&[("format", "zip")]).value().await["data"]["result_b64"]);
    assert_eq!(zip::ZipArchive::new(Cursor::new(archive)).expect("an archive").len(), 2);
}

#[tokio::test]
async fn a_key_may_come_in_either_header_and_an_invalid_one_is_403() {
    let daemon = Daemon::start().await;
    for path in [REMOVEBG, "/v1.0/account", SEGMENT, "/v1/account"] {
        let request = || if path.ends_with("account") { daemon.get(path) } else { daemon.open(path, &[]) };
        for (name, value) in [("x-api-key", KEY.to_owned()), ("authorization", format!("Bearer {KEY}"))] {
            assert_eq!(request().header(name, value).answer().await.status(), 200, "{path} {name}");
        }
        for (name, value, expected) in [("x-api-key", "wrong", "API Key invalid"), ("x-other", "a", "Missing API Key")]
        {
            let response = request().header(name, value).answer().await;
            assert_eq!((response.status().as_u16(), header(&response, "www-authenticate")), (403, ""), "{path} {name}");
            let body: Value = response.json().await.expect("JSON");
            let message = if path.starts_with("/v1.0") { &body["errors"][0]["title"] } else { &body["detail"] };
            assert_eq!(message, expected, "{path}");
        }
    }
}

#[tokio::test]
async fn a_preview_counts_as_an_image_of_the_quota_and_the_account_shows_it() {
    let daemon = Daemon::start().await;
    let account = |path, key| daemon.get(path).header("x-api-key", key).value();
    let send = |path| daemon.of_service(path, FREE).multipart(filled(path, &[]));
    let attributes = |free: u64| {
        json!({ "data": { "attributes": {
            "credits": { "subscription": 0, "payg": 0, "enterprise": 0, "total": 0 },
            "api": { "free_calls": free, "sizes": "all" },
        } } })
    };
    assert_eq!(account("/v1.0/account", FREE).await, attributes(50));
    for name in ["a", "a", "b"] {
        assert_eq!(send(REMOVEBG).header("idempotency-key", name).answer().await.status(), 200);
    }
    assert_eq!(account("/v1.0/account", FREE).await, attributes(48), "a repeated request is billed once");
    assert_eq!(account("/v1/account", FREE).await, json!({ "credits": { "available": 48, "subscription": 50 } }));
    for _ in 0..48 {
        assert_eq!(send(REMOVEBG).answer().await.status(), 200);
    }
    let refused = send(REMOVEBG).answer().await;
    assert_eq!(refused.status(), 402);
    assert_eq!(refused.json::<Value>().await.expect("JSON")["errors"][0]["title"], "Insufficient credits");
    assert_eq!(send(SEGMENT).value().await["status_code"], 402);
    let plenty = account("/v1.0/account", KEY).await;
    assert_eq!(plenty["data"]["attributes"]["credits"]["total"], 1_000_000);
}

#[tokio::test]
async fn the_rate_limit_is_reported_in_the_format_of_remove_bg() {
    let daemon = Daemon::start_with(HttpConfig::default(), 1).await;
    assert_eq!(daemon.cut(REMOVEBG, &[]).answer().await.status(), 200);
    let refused = daemon.cut(REMOVEBG, &[]).answer().await;
    let seconds = |name| header(&refused, name).parse::<i64>().expect("seconds");
    let resets_in = seconds("x-ratelimit-reset") - jiff::Timestamp::now().as_second();
    assert!((-5..=60).contains(&resets_in) && seconds("retry-after") <= 60, "{resets_in}");
    assert_eq!(refused.status(), 429);
}

#[tokio::test]
async fn a_disabled_service_is_404_like_any_unknown_path() {
    let daemon = with_compat(CompatConfig { removebg: false, photoroom: false, ..CompatConfig::default() }).await;
    for path in [REMOVEBG, "/v1.0/account", "/v1.0/improve", SEGMENT, "/v1/account", REMBG, "/v1.0/other"] {
        for method in [Method::GET, Method::POST, Method::OPTIONS] {
            daemon.request(KEY, method, path).refused(404, "not_found", None).await;
        }
    }
    let usual = Daemon::start().await;
    usual.with_key(REMBG).refused(404, "not_found", None).await;
    assert_eq!(code(usual.with_key("/v1.0/improve")).await, (404, "not_found".to_owned()));
    assert_eq!(header(&usual.get(REMOVEBG).answer().await, "allow"), "POST");
    assert_eq!(code(usual.get(REMOVEBG)).await, (405, "method_not_allowed".to_owned()));
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
        let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        for request in [
            daemon.open(REMBG, fields),
            daemon.open(&format!("{REMBG}?{query}"), &[]),
            daemon.get(&format!("{REMBG}?url={ADDRESS}&{query}")),
        ] {
            let response = daemon.makes(request, fields, expected).await;
            assert_eq!(header(&response, "content-type"), "image/png");
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
        let response = daemon.open(REMBG, fields).answer().await;
        assert_eq!(response.status(), status, "{fields:?}");
        let detail = response.json::<Value>().await.expect("JSON")["detail"].take();
        assert!(if status == 422 { detail[0]["loc"].is_array() } else { detail.is_string() }, "{detail}");
    }
    for (path, status) in [(REMBG, 422), ("/api/remove?url=http://example.org/a.png", 400)] {
        assert_eq!(daemon.get(path).answer().await.status(), status, "{path}");
    }
    let without = daemon.client.post(daemon.url(REMBG)).multipart(texts(&[("a", "true")])).value().await;
    assert_eq!(without["detail"][0]["loc"], json!(["body", "file"]));
    assert_eq!(daemon.engine.started(), 0);
}

#[tokio::test]
async fn rembg_needs_no_key_runs_as_its_account_and_allows_every_origin() {
    let of_account =
        |name: &str| CompatConfig { rembg: true, rembg_account: Some(name.into()), ..CompatConfig::default() };
    let daemon = with_compat(of_account("guest")).await;
    let send = || daemon.open(REMBG, &[]).header("origin", "https://page.example");
    // A key of another account is that account's.
    for (request, status, used) in
        [(send(), 200, 1), (send().bearer_auth(KEY), 200, 1), (send().bearer_auth("wrong"), 401, 1)]
    {
        let response = request.answer().await;
        assert_eq!((response.status().as_u16(), header(&response, "access-control-allow-origin")), (status, "*"));
        assert_eq!(daemon.account(FREE).await["used"], used);
    }
    let preflight = daemon.client.request(Method::OPTIONS, daemon.url(REMBG));
    let preflight = preflight.header("origin", "https://page.example").header("access-control-request-method", "POST");
    let preflight = preflight.answer().await;
    assert!(preflight.status().is_success());
    assert_eq!(header(&preflight, "access-control-allow-methods"), "GET, POST");
    let without_account = with_compat(of_account("missing")).await;
    assert_eq!(without_account.open(REMBG, &[]).answer().await.status(), 503);
}

#[tokio::test]
async fn rembg_without_a_key_is_for_no_page_of_another_site_and_no_other_host() {
    let daemon = with_all_services().await;
    for (name, value, without_key) in [
        ("sec-fetch-site", "cross-site", 403),
        ("host", "attacker.example", 403),
        ("sec-fetch-site", "same-origin", 200),
        ("host", "localhost", 200),
    ] {
        let request = || daemon.open(REMBG, &[]).header(name, value);
        assert_eq!(request().answer().await.status(), without_key, "{name}");
        assert_eq!(request().bearer_auth(KEY).answer().await.status(), 200, "{name}");
    }
    assert_eq!(daemon.account(KEY).await["used"], 6);
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
        let response = daemon.makes(daemon.cut(SEGMENT, fields), fields, expected).await;
        assert_eq!(header(&response, "x-uncertainty-score"), "-1", "the fake engine reports a face");
    }
    let body = daemon.cut(SEGMENT, &[]).header("accept", "application/json").value().await;
    assert!(decoded(&body["base64img"]).starts_with(b"a picture made of"));
}

#[tokio::test]
async fn photoroom_refuses_with_its_status_and_type() {
    let daemon = Daemon::start().await;
    daemon.engine.set(Work::Fail(|| NoSubject.into()));
    for (request, expected) in [
        (daemon.cut(SEGMENT, &[("size", "huge")]), "invalid_parameter"),
        (daemon.cut(SEGMENT, &[("format", "gif")]), "invalid_parameter"),
        (daemon.cut(SEGMENT, &[("crop", "?")]), "invalid_parameter"),
        (daemon.with_key(SEGMENT).multipart(texts(&[("size", "hd")])), "missing_image"),
        (daemon.cut(SEGMENT, &[]), "no_subject_detected"),
    ] {
        let response = request.answer().await;
        let (status, body) = (response.status(), response.json::<Value>().await.expect("JSON"));
        assert_eq!((status.as_u16(), &body["status_code"], &body["type"]), (400, &json!(400), &json!(expected)));
        assert!(body["detail"].is_string());
    }
}
