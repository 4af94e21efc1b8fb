//! `/replace-bg-ai` end to end: the real daemon and command line, a configuration file, a fake image API, files on disk.

#![cfg(unix)]

use crate::cli::serve::{self, KEY, serve};
use crate::generate::images_api::{ImagesApi, Reply, picture};
use crate::support::command::{backdrop, stderr, stdout};
use crate::support::pictures::{decoded, png};
use backdrop::image::{Frame, Size};
use bytes::Bytes;
use reqwest::Response;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

const SECRET: &str = "sk-very-secret";
const FLARE: &str = "famA-image-2.5-flare";
const SIZE: Size = Size::new(200, 120);
const RED: [u8; 3] = [200, 20, 20];

struct Running(serve::Running);

impl Running {
    fn start(data_dir: &Path, more: &[(&str, &str)]) -> Self {
        let settings = [("BACKDROP_LIMITS_RATE_PER_MINUTE", "100000"), ("IMAGES_KEY", SECRET)];
        Self(serve::Running::start(data_dir, &[&settings, more].concat()))
    }

    async fn request(&self, fields: &[(&str, &str)]) -> Response {
        self.request_with(photo(), fields).await
    }

    async fn request_with(&self, file: Bytes, fields: &[(&str, &str)]) -> Response {
        let form =
            fields.iter().fold(Form::new(), |form, (name, value)| form.text((*name).to_owned(), (*value).to_owned()));
        let form = form.part("file", Part::stream(file).file_name("photo.png"));
        self.0.post("/replace-bg-ai").multipart(form).send().await.expect("an answer")
    }
}

/// Coverage of the disc at a pixel.
fn coverage(x: u32, y: u32) -> u8 {
    let distance = (x as f32 + 0.5 - 80.0).hypot(y as f32 + 0.5 - 60.0);
    ((30.5 - distance).clamp(0.0, 1.0) * 255.0 + 0.5) as u8
}

/// Colour of the disc at a pixel: no two neighbours are equal.
fn color(x: u32, y: u32) -> [u8; 3] {
    [(x * 7 % 256) as u8, (y * 11 % 256) as u8, ((x * y) % 256) as u8]
}

/// A disc that is already cut out, so that nothing depends on the segmentation network.
fn photo() -> Bytes {
    png(SIZE, |x, y| {
        let [red, green, blue] = color(x, y);
        if coverage(x, y) > 0 { [red, green, blue, coverage(x, y)] } else { [0; 4] }
    })
}

/// Decodes a response and checks its size and that the subject's pixels are unchanged.
async fn checked(response: Response) -> Frame {
    let status = response.status();
    let bytes = response.bytes().await.expect("a body");
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&bytes));
    let frame = decoded(&bytes);
    assert_eq!(frame.size(), SIZE);
    let mut opaque = 0;
    for (x, y) in (0..SIZE.height).flat_map(|y| (0..SIZE.width).map(move |x| (x, y))) {
        assert_eq!(frame.pixel(x, y)[3], 255, "the result is opaque");
        if coverage(x, y) == 255 {
            let [red, green, blue, _] = frame.pixel(x, y);
            assert_eq!([red, green, blue], color(x, y), "the subject at {x},{y}");
            opaque += 1;
        }
    }
    assert!(opaque > 2000, "{opaque}");
    frame
}

fn header<'a>(response: &'a Response, name: &str) -> &'a str {
    response.headers().get(name).map_or("", |value| value.to_str().expect("text"))
}

/// A folder with a configuration file for one model.
fn configured(api: &ImagesApi) -> (TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("backdrop.toml");
    let text = format!(
        "[generate.models.\"{FLARE}\"]\nbase_url = \"{}\"\nmodel = \"image-1\"\napi_key_env = \"IMAGES_KEY\"\n",
        api.base
    );
    fs::write(&path, text).expect("writable");
    let path = path.display().to_string();
    (folder, path)
}

#[tokio::test]
async fn the_subject_is_unchanged_on_drawn_and_on_model_backdrops() {
    let api = ImagesApi::start([Reply::Picture(picture(300, 200, RED))]).await;
    let (folder, config) = configured(&api);
    let data_dir = folder.path().join("data");
    let running = Running::start(&data_dir, &[("BACKDROP_CONFIG", &config)]);

    let made = running.request(&[("prompt", "a beach"), ("format", "png"), ("model", FLARE)]).await;
    assert_eq!([header(&made, "x-service-engine"), header(&made, "x-service-backdrop-model")], ["standard", FLARE]);
    assert!(made.headers().get("x-service-prompt-words").is_none(), "only for the built-in generator");
    let frame = checked(made).await;
    assert_eq!(frame.pixel(199, 2), [200, 20, 20, 255]);
    assert_eq!((api.count(), api.received()[0].body["size"].as_str()), (1, Some("1536x1024")));
    let auto = running.request(&[("prompt", "a beach"), ("format", "png")]).await;
    assert_eq!(header(&auto, "x-service-backdrop-model"), FLARE);
    checked(auto).await;
    assert_eq!(api.count(), 1, "cached");
    assert!(data_dir.join("backdrops").is_dir());

    let missing = running.request(&[("prompt", "a beach"), ("model", "famA-image-2")]).await;
    assert_eq!(missing.status(), 403);
    // An unusable source requests no picture.
    let broken = running.request_with(photo().slice(..200), &[("prompt", "a new one")]).await;
    assert!(broken.status().is_client_error());
    let too_large = running.request(&[("prompt", "a third one"), ("height", "8192")]).await;
    assert_eq!((too_large.status().as_u16(), api.count()), (413, 1));

    api.set([Reply::Body(404, "nothing here".into())]);
    let failed = running.request(&[("prompt", "a fourth one"), ("model", FLARE)]).await;
    assert_eq!(failed.status(), 502);
    let failed: Value = failed.json().await.expect("JSON");
    assert_eq!(failed["error"]["code"], "upstream_failed");
    let message = failed["error"]["message"].as_str().expect("text");
    assert!(message.contains(FLARE) && !message.contains("nothing here"), "{message}");
    let drawn = running.request(&[("prompt", "a fourth one"), ("format", "png")]).await;
    assert_eq!(header(&drawn, "x-service-backdrop-model"), "procedural");
    assert_ne!(header(&drawn, "x-service-prompt-words"), "");
    checked(drawn).await;
    let refusal = json!({ "error": { "code": "content_policy_violation", "message": "no" } });
    api.set([Reply::Error(400, vec![], refusal)]);
    let refused = running.request(&[("prompt", "a fifth one")]).await;
    assert_eq!(refused.status(), 400);
    let refused: Value = refused.json().await.expect("JSON");
    assert_eq!(
        (&refused["error"]["code"], &refused["error"]["param"]),
        (&json!("invalid_parameter"), &json!("prompt"))
    );
}

#[tokio::test]
async fn an_error_about_the_picture_names_its_field_with_a_model_as_without() {
    let api = ImagesApi::start([Reply::Picture(picture(300, 200, RED))]).await;
    let (folder, config) = configured(&api);
    for settings in [&[][..], &[("BACKDROP_CONFIG", config.as_str())]] {
        let data_dir = tempfile::tempdir_in(folder.path()).expect("a folder");
        let running = Running::start(data_dir.path(), settings);
        // The signature of a PNG, and no more.
        let body = json!({ "prompt": "a beach", "image_base64": "iVBORw0KGgo=" });
        let refused = running.0.post("/replace-bg-ai").json(&body).send().await.expect("an answer");
        assert_eq!(refused.status(), 400);
        let refused: Value = refused.json().await.expect("JSON");
        assert_eq!(refused["error"]["param"], "image_base64", "{refused}");
    }
}

#[tokio::test]
async fn the_daily_limit_holds_for_concurrent_requests_and_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let cap = [("BACKDROP_LIMITS_BACKDROP_AI_PER_DAY", "3")];
    let running = Running::start(folder.path(), &cap);
    // A failed request is not counted.
    let failed = running.request_with(picture_without_subject(), &[("prompt", "a beach")]).await;
    assert_eq!(failed.status(), 422);
    let answers = futures_util::future::join_all((0..8).map(|_| running.request(&[("prompt", "a beach")]))).await;
    let made = answers.iter().filter(|answer| answer.status() == 200).count();
    assert_eq!(made, 3);
    for refused in answers.into_iter().filter(|answer| answer.status() != 200) {
        assert_eq!(refused.status(), 429);
        let wait: u64 = header(&refused, "retry-after").parse().expect("seconds");
        assert!((1..=86_400).contains(&wait), "{wait}");
        let refused: Value = refused.json().await.expect("JSON");
        assert_eq!(refused["error"]["code"], "rate_limit_exceeded");
    }
    running.0.daemon.drain();
    let again = Running::start(folder.path(), &cap);
    assert_eq!(again.request(&[("prompt", "a beach")]).await.status(), 429);
    drop(again);
    let more = Running::start(folder.path(), &[("BACKDROP_LIMITS_BACKDROP_AI_PER_DAY", "4")]);
    assert_eq!(more.request(&[("prompt", "a beach")]).await.status(), 200);
    assert_eq!(more.request(&[("prompt", "a beach")]).await.status(), 429);
}

#[tokio::test]
async fn the_daily_limit_counts_calls_of_an_image_api_whose_pictures_fail() {
    let api = ImagesApi::start([Reply::Picture(picture(300, 200, RED))]).await;
    let (folder, config) = configured(&api);
    let settings = [("BACKDROP_LIMITS_BACKDROP_AI_PER_DAY", "2"), ("BACKDROP_CONFIG", &config)];
    let running = Running::start(&folder.path().join("data"), &settings);
    for (prompt, status) in [("a beach", 422), ("a forest", 422), ("a meadow", 429)] {
        let failed = running.request_with(picture_without_subject(), &[("prompt", prompt), ("model", FLARE)]).await;
        assert_eq!(failed.status(), status, "{prompt}");
    }
    assert_eq!(api.count(), 2);
}

/// Transparent except for one nearly transparent corner: no subject.
fn picture_without_subject() -> Bytes {
    png(SIZE, |x, y| [0, 0, 0, u8::from((x, y) == (0, 0))])
}

#[tokio::test]
async fn the_api_key_is_neither_logged_nor_printed_with_the_configuration() {
    let api = ImagesApi::start([Reply::Echo(401)]).await;
    let (folder, config) = configured(&api);
    let shown = backdrop().args(["config", "--config", &config]).env("IMAGES_KEY", SECRET).output().expect("it runs");
    assert!(shown.status.success(), "{}", stderr(&shown));
    assert!(stdout(&shown).contains("IMAGES_KEY") && !stdout(&shown).contains(SECRET), "{}", stdout(&shown));

    let variables = [
        ("BACKDROP_BOOTSTRAP_KEY", KEY),
        ("BACKDROP_CONFIG", &config),
        ("BACKDROP_LOG_FILTER", "trace"),
        ("IMAGES_KEY", SECRET),
    ];
    let daemon = serve::Daemon::start_with(&folder.path().join("data"), &variables);
    let (running, log) = serve::Running::of_logged(daemon);
    let running = Running(running);
    let failed = running.request(&[("prompt", "a beach"), ("model", FLARE)]).await;
    assert_eq!(failed.status(), 502);
    let body = failed.text().await.expect("text");
    running.0.daemon.drain();
    assert_eq!(api.received()[0].authorization.as_deref(), Some("Bearer sk-very-secret"), "the key was sent");
    let log = log.join().expect("no panic").concat();
    assert!(log.contains("no such key"), "the API's error message is logged");
    assert!(!log.contains(SECRET) && !body.contains(SECRET));
}

#[test]
fn a_missing_api_key_is_reported_at_startup() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("backdrop.toml");
    let model = format!("[generate.models.\"{FLARE}\"]\nbase_url = \"https://api.example.org\"\nmodel = \"x\"\n");
    fs::write(&config, format!("{model}api_key_env = \"NOT_THERE\"\n")).expect("writable");
    let mut serve = serve(backdrop(), &folder.path().join("data"));
    serve.arg("--config").arg(&config);
    let output = serve.output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("the environment variable NOT_THERE holds no key"), "{}", stderr(&output));
    fs::write(&config, format!("{model}api_key_env = \"sk-secret\"\nsizes = []\n")).expect("writable");
    let output = serve.output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    let errors = stderr(&output);
    assert!(errors.contains("api_key_env: expected the name") && errors.contains("sizes: expected"), "{errors}");
    assert!(!errors.contains("sk-secret"), "{errors}");
}

#[test]
fn the_command_line_needs_no_allow_list_and_uses_only_the_built_in_generator() {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, output) = (folder.path().join("disc.png"), folder.path().join("out.png"));
    fs::write(&input, photo()).expect("writable");
    let run = |set: &[&str]| {
        let mut command = backdrop();
        command.arg("remove").arg(&input).arg("-o").arg(&output).args(["--force", "--endpoint", "replace-bg-ai"]);
        command.args(set.iter().flat_map(|set| ["--set", set])).output().expect("it runs")
    };
    let drawn = run(&["prompt=a beach at sunset"]);
    assert!(drawn.status.success(), "{}", stderr(&drawn));
    let first = fs::read(&output).expect("a picture");
    let frame = decoded(&first);
    assert_eq!(frame.size(), SIZE);
    let [red, green, blue, _] = frame.pixel(80, 60);
    assert_eq!([red, green, blue], color(80, 60));
    assert!(run(&["prompt=a beach at sunset"]).status.success());
    assert!(fs::read(&output).expect("a picture") == first, "the same prompt gives the same bytes");
    for (set, expected) in [
        (&[][..], "`prompt` is missing"),
        (&["prompt=a beach", "model=famA-image-2"], "only a daemon calls image APIs"),
        (&["prompt=a beach", "model=famZ"], "invalid `model`"),
    ] {
        let refused = run(set);
        assert_eq!(refused.status.code(), Some(2), "{set:?}");
        assert!(stderr(&refused).contains(expected), "{}", stderr(&refused));
    }
    let from = format!("file://{}", folder.path().display());
    let to = format!("file://{}/bulk", folder.path().display());
    let bulk = backdrop()
        .args(["bulk", &from, &to, "--endpoint", "replace-bg-ai", "--set", "prompt=oak", "--include", "disc.png"])
        .arg("--report")
        .arg(folder.path().join("report.jsonl"))
        .output()
        .expect("it runs");
    assert!(bulk.status.success(), "{}", stderr(&bulk));
    assert!(folder.path().join("bulk/disc.jpg").is_file());
}
