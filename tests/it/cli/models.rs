//! `backdrop models`, and added models in the other commands and in a daemon.

#![cfg(unix)]

use super::serve::Running;
use crate::http::video_process::clip;
use crate::support::command::{backdrop, json, photo, stderr, stdout};
use crate::support::hang_guard::until;
use crate::support::onnxruntime::{library, network};
use reqwest::multipart::{Form, Part};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

/// A command on a data folder.
fn command(data: &Path, library: &Path, arguments: &[&str]) -> Command {
    let mut command = backdrop();
    command.args(arguments).arg("--data-dir").arg(data).env("ORT_DYLIB_PATH", library);
    command
}

fn run(data: &Path, library: &Path, arguments: &[&str]) -> Output {
    command(data, library, arguments).output().expect("the binary starts")
}

/// Adds `first` as a network with small masks.
fn add(data: &Path, library: &Path, name: &str) -> String {
    let file = network("first");
    let mut command = command(data, library, &["models", "add", file.to_str().unwrap(), "--name", name]);
    command.args(["--type", "isnet", "--set", "size=64", "--set", "deviation=[0.25,0.25,0.25]", "--json"]);
    let output = command.output().expect("the binary starts");
    assert!(output.status.success(), "{}", stderr(&output));
    let version = json(&output)[0]["version"].as_str().expect("a version").to_owned();
    format!("{name}/{version}")
}

#[test]
fn a_model_is_added_listed_checked_used_and_removed() {
    let Some(library) = library() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (data, picture) = (folder.path().join("data"), photo("coffee.jpg"));
    let picture = picture.to_str().unwrap();
    let out = folder.path().join("out.png");
    let out = out.to_str().unwrap();
    add(&data, &library, "mine");
    let listed = json(&run(&data, &library, &["models", "list", "--json"]));
    let of = |name: &str| listed.as_array().unwrap().iter().find(|row| row["name"] == name).cloned().expect(name);
    assert_eq!((&of("mine")["architecture"], &of("mine")["parameters"]), (&"isnet".into(), &5.into()));
    let built_in = of("fgnet-384");
    assert_eq!(built_in["file"], "built in");
    let sources = built_in["training_data"].as_array().unwrap();
    assert!(sources.iter().any(|data| data["source"] == "ECSSD, training share" && data["commercial"].is_null()));
    assert!(sources.iter().any(|data| data["commercial"] == false));
    let text = stdout(&run(&data, &library, &["models", "list"]));
    assert!(text.lines().next().unwrap().contains("COMMERCIAL"));
    assert!(text.contains("TRAINED ON"), "{text}");

    let mask = folder.path().join("mask.png");
    let checked = run(&data, &library, &["models", "check", "mine", picture, "-o", mask.to_str().unwrap(), "--json"]);
    let report = json(&checked);
    assert_eq!((&report["mask"], checked.status.code()), (&"64×64".into(), Some(0)), "{report}");
    assert!(fs::read(mask).unwrap().starts_with(b"\x89PNG"));
    assert!(run(&data, &library, &["models", "verify"]).status.success());

    let removed = run(&data, &library, &["remove", picture, "-o", out, "--model", "mine"]);
    assert!(removed.status.success(), "{}", stderr(&removed));
    assert!(fs::read(out).unwrap().starts_with(b"\x89PNG"));
    let by_field = ["remove", picture, "-o", out, "--set", "segmentation_model=mine", "--json"];
    assert!(run(&data, &library, &by_field).status.success());
    let (from, to) = (folder.path().join("in"), folder.path().join("to"));
    fs::create_dir(&from).unwrap();
    fs::copy(picture, from.join("a.jpg")).unwrap();
    let [source, target] = [&from, &to].map(|folder| format!("file://{}", folder.display()));
    let report = folder.path().join("report.jsonl");
    let bulk = ["bulk", &source, &target, "--report", report.to_str().unwrap(), "--model", "mine", "--json"];
    let bulk = run(&data, &library, &bulk);
    assert!(bulk.status.success() && to.join("a.png").exists(), "{}", stderr(&bulk));
    assert!(fs::read_to_string(report).unwrap().contains("\"mine/"), "the report names the model");

    assert!(run(&data, &library, &["models", "remove", "mine"]).status.success());
    let gone = run(&data, &library, &["remove", picture, "-o", out, "--model", "mine"]);
    assert_eq!(
        (gone.status.code(), stderr(&gone).trim()),
        (Some(2), "backdrop: unknown model mine; added models: none (`backdrop models add`)")
    );
}

#[test]
fn what_looks_like_wrong_conventions_is_told() {
    let Some(library) = library() else { return };
    let data = tempfile::tempdir().unwrap();
    let file = network("constant");
    let added = run(data.path(), &library, &["models", "add", file.to_str().unwrap(), "--type", "rmbg"]);
    assert!(stderr(&added).contains("does not allow commercial use"), "{}", stderr(&added));
    let checked = run(data.path(), &library, &["models", "check", "constant", photo("coffee.jpg").to_str().unwrap()]);
    assert_eq!(checked.status.code(), Some(1));
    assert!(stdout(&checked).contains("warning: the mask is the same everywhere"), "{}", stdout(&checked));
}

#[test]
fn without_a_library_a_model_is_added_untried_and_its_use_fails_with_what_to_do() {
    let data = tempfile::tempdir().unwrap();
    let (missing, file, picture) = (Path::new("/nonexistent/libonnxruntime.so"), network("first"), photo("coffee.jpg"));
    let added = run(data.path(), missing, &["models", "add", file.to_str().unwrap(), "--type", "isnet"]);
    assert!(added.status.success() && stderr(&added).starts_with("The model was not tried"), "{}", stderr(&added));
    let out = data.path().join("out.png");
    let arguments = ["remove", picture.to_str().unwrap(), "-o", out.to_str().unwrap(), "--model", "first"];
    let used = run(data.path(), missing, &arguments);
    assert_eq!(used.status.code(), Some(2));
    assert!(stderr(&used).contains("failed to load from `/nonexistent/libonnxruntime.so`"), "{}", stderr(&used));
    // No library: a text.
    fs::write(data.path().join("text.so"), "text").unwrap();
    let used = run(data.path(), &data.path().join("text.so"), &arguments);
    assert!(
        used.status.code() == Some(2) && stderr(&used).contains("ONNX Runtime cannot be used"),
        "{}",
        stderr(&used)
    );
    let report = json(&run(data.path(), missing, &["doctor", "--json"]));
    let checks = report["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["name"] == "models").expect("it is there");
    assert!(
        check["status"] == "failed" && check["remedy"].as_str().unwrap().contains("pip install onnxruntime"),
        "{check}"
    );
}

#[tokio::test]
async fn requests_select_added_models_by_header_field_and_rembgs_name() {
    let Some(library) = library() else { return };
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let mine = add(data, &library, "isnet-general-use");
    let variables = [("ORT_DYLIB_PATH", library.to_str().unwrap()), ("BACKDROP_COMPAT_REMBG", "true")];
    let running = Running::start(data, &variables);
    let post = |path: &str, header: Option<&str>, file: Part, fields: &[(&'static str, &str)]| {
        let form = fields
            .iter()
            .fold(Form::new().part("file", file), |form, (name, value)| form.text(*name, (*value).to_owned()));
        let request = running.post(path).multipart(form);
        header.iter().fold(request, |request, model| request.header("x-service-model", *model)).send()
    };
    let send = async |path: &str, header: Option<&str>, fields: &[(&'static str, &str)]| {
        let file = Part::bytes(fs::read(photo("coffee.jpg")).unwrap());
        let response = post(path, header, file, fields).await.unwrap();
        let model = response.headers().get("x-service-model").map(|model| model.to_str().unwrap().to_owned());
        (response.status().as_u16(), model, response.bytes().await.unwrap())
    };
    let models = async || running.get("/models").await["models"].as_array().unwrap().clone();
    let listed = models().await;
    let names: Vec<_> = listed.iter().map(|model| model["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["fgnet-384/10", "fgnet-384-quality/10", "fgnet-384-fast/10", &mine]);
    assert_eq!(
        (&listed[0]["is_default"], &listed[3]["type"], &listed[3]["loaded"]),
        (&true.into(), &"isnet".into(), &false.into())
    );
    assert_eq!((&listed[3]["parameters"], &listed[3]["commercial_use"]), (&5.into(), &Value::Null));
    assert!(listed[0]["parameters"].as_u64() > Some(1_000_000));

    let by_header = send("/remove", Some("isnet-general-use"), &[]).await;
    assert_eq!((by_header.0, by_header.1.as_deref()), (200, Some(mine.as_str())));
    let built_in = send("/remove", None, &[]).await;
    assert_eq!(built_in.1.as_deref(), Some("fgnet-384/10"));
    assert_ne!(by_header.2, built_in.2);
    for (header, field) in [(None, mine.as_str()), (Some(mine.as_str()), "isnet-general-use")] {
        let by_field = send("/remove", header, &[("segmentation_model", field)]).await;
        assert_eq!(by_field, by_header, "{header:?} {field}");
    }
    for path in ["/mask", "/studio-shot", "/shadow", "/sticker", "/smart-crop"] {
        let answered = send(path, Some(&mine), &[]).await;
        assert_eq!((answered.0, answered.1.as_deref()), (200, Some(mine.as_str())), "{path}");
    }
    let refused = async |header: Option<&str>, fields: &[(&'static str, &str)]| {
        let (status, _, body) = send("/remove", header, fields).await;
        assert_eq!(status, 400);
        let body: Value = serde_json::from_slice(&body).unwrap();
        (body["error"]["param"].as_str().unwrap().to_owned(), body["error"]["message"].as_str().unwrap().to_owned())
    };
    let (param, message) = refused(Some("fgnet-384"), &[("segmentation_model", "isnet-general-use")]).await;
    assert_eq!(param, "segmentation_model");
    assert!(message.contains("the model of the header"), "{message}");
    for (header, fields, param) in [
        (Some("isnet-general-use/00000000"), &[][..], "x-service-model"),
        (Some("../isnet-general-use"), &[], "x-service-model"),
        (None, &[("segmentation_model", "other")], "segmentation_model"),
    ] {
        let (refused, message) = refused(header, fields).await;
        assert_eq!(refused, param);
        assert!(message.contains(&format!("isnet-general-use or {mine}, once")), "{message}");
    }
    assert_eq!(models().await[3]["loaded"], true);

    // All frames of a clip.
    let images = async || {
        let metrics = running.page("/metrics").await;
        let line = format!("backdrop_model_images_total{{model=\"{mine}\"}} ");
        metrics.lines().find_map(|text| text.strip_prefix(&line)?.parse::<u32>().ok()).expect("the model was used")
    };
    let clip = clip(data);
    let by_clip = async |header: Option<&str>, field: Option<&str>| {
        let fields = field.map(|model| ("segmentation_model", model));
        let file = Part::bytes(clip.clone()).file_name("clip.mp4");
        let response = post("/video/remove", header, file, fields.as_slice()).await.unwrap();
        (response.status().as_u16(), response.json::<Value>().await.unwrap())
    };
    for (header, field, param) in [
        (Some("other"), None, "x-service-model"),
        (None, Some("other"), "segmentation_model"),
        (None, Some("fgnet-384-quality"), "segmentation_model"),
        (Some("fgnet-384"), Some("isnet-general-use"), "segmentation_model"),
    ] {
        let (status, body) = by_clip(header, field).await;
        assert_eq!((status, body["error"]["param"].as_str()), (400, Some(param)), "{body}");
    }
    for (header, field) in [(Some("isnet-general-use"), None), (None, Some(mine.as_str()))] {
        let before = images().await;
        let (status, mut job) = by_clip(header, field).await;
        assert_eq!(status, 202, "{job}");
        let path = format!("/jobs/{}", job["job_id"].as_str().unwrap());
        while ["queued", "processing"].contains(&job["status"].as_str().unwrap()) {
            tokio::time::sleep(Duration::from_millis(50)).await;
            job = running.get(&path).await;
        }
        assert_eq!((job["status"].as_str(), images().await), (Some("done"), before + 30), "{job}");
    }

    // On rembg's route by its own names.
    let rembg = async |name: &str| send("/api/remove", None, &[("model", name)]).await;
    assert_eq!(rembg("isnet-general-use").await.0, 200);
    assert_eq!(rembg("u2net").await.0, 200);
    let (status, _, body) = rembg("birefnet-general").await;
    assert_eq!(status, 400);
    assert!(String::from_utf8_lossy(&body).contains("backdrop models add"), "{}", String::from_utf8_lossy(&body));

    // One that is added while the daemon runs, as the account's default.
    let unknown = run(data, &library, &["accounts", "set", "default", "--model", "later"]);
    assert!(
        unknown.status.code() == Some(2) && stderr(&unknown).contains("unknown model later"),
        "{}",
        stderr(&unknown)
    );
    let later = add(data, &library, "later");
    let set = run(data, &library, &["accounts", "set", "default", "--model", "later"]);
    assert!(set.status.success(), "{}", stderr(&set));
    assert_eq!(send("/remove", None, &[]).await.1.as_deref(), Some(later.as_str()));
    assert_eq!(models().await[0]["name"], later.as_str());
    let metrics = running.page("/metrics").await;
    assert!(metrics.contains(&format!("backdrop_model_images_total{{model=\"{later}\"}} 1")), "{metrics}");
    assert!(run(data, &library, &["models", "remove", "later"]).status.success());
    let (status, _, body) = send("/remove", None, &[]).await;
    assert_eq!(status, 400);
    assert!(String::from_utf8_lossy(&body).contains("the default model of this account cannot be used"));
    assert_eq!(send("/remove", Some("fgnet-384"), &[]).await.0, 200);
    assert_eq!(by_clip(None, None).await.0, 400);
    assert_eq!(by_clip(None, Some("fgnet-384")).await.0, 202);
    running.daemon.drain();
}

#[tokio::test]
async fn a_daemon_whose_default_is_an_added_model_loads_it_at_the_start() {
    let Some(library) = library() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mine = add(folder.path(), &library, "mine");
    let variables = [("ORT_DYLIB_PATH", library.to_str().unwrap()), ("BACKDROP_ENGINE_MODEL", "mine")];
    let running = Running::start(folder.path(), &variables);
    let is_loaded = async || {
        let first = &running.get("/models").await["models"][0];
        assert_eq!((&first["name"], &first["is_default"]), (&mine.as_str().into(), &true.into()));
        first["loaded"] == true
    };
    until("it is loaded", is_loaded).await;
    running.daemon.drain();
    let unknown = [("BACKDROP_ENGINE_MODEL", "other")];
    let refused = backdrop().args(["serve", "--data-dir"]).arg(folder.path()).envs(unknown).output().unwrap();
    assert!(
        refused.status.code() == Some(2) && stderr(&refused).contains("unknown model other"),
        "{}",
        stderr(&refused)
    );
}
