//! The header `x-service-model`, which selects the model of a request.

use crate::http::daemon::{Daemon, FREE, KEY, PAID, form, refusal, required_fields};
use backdrop::http::config::HttpConfig;
use backdrop::http::router::{ROUTES, Target};
use backdrop::recipe::{InferenceMode, Input};
use backdrop::source::FetchConfig;
use reqwest::multipart::{Form, Part};
use reqwest::{RequestBuilder, Response};
use serde_json::json;

/// A valid request.
fn request(daemon: &Daemon, path: &str, input: Input) -> RequestBuilder {
    let request = daemon.post(path);
    match input {
        Input::File | Input::FileAndBackground => request.multipart(form(required_fields(path))),
        Input::Files => request.multipart(Form::new().part("files", Part::bytes(vec![1; 11]))),
        Input::Url => request.json(&json!({ "url": "https://example.org/10" })),
        Input::Urls => request.json(&json!({ "urls": ["https://example.org/10"] })),
    }
}

async fn with_model(request: RequestBuilder, model: &str) -> Response {
    request.header("x-service-model", model).send().await.expect("an answer")
}

#[tokio::test]
async fn every_picture_endpoint_accepts_its_models_and_refuses_others_before_any_work() {
    let daemon = Daemon::start().await;
    let mut endpoints = 0;
    for route in ROUTES.iter() {
        let Target::Image(endpoint) = route.target else { continue };
        endpoints += 1;
        let before = (daemon.engine.started(), daemon.fetcher.fetches());
        for model in ["fgnet-512", "fgnet-384/2", "", "FGNET-384", "upscale-4"] {
            let refused = refusal(with_model(request(&daemon, route.path, endpoint.input), model).await).await;
            refused.is(400, "invalid_parameter", Some("x-service-model"));
        }
        let twice = request(&daemon, route.path, endpoint.input).header("x-service-model", "fgnet-384");
        refusal(with_model(twice, "fgnet-384").await).await.is(400, "invalid_parameter", Some("x-service-model"));
        assert_eq!((daemon.engine.started(), daemon.fetcher.fetches()), before, "{}", route.path);
        let name = match route.path {
            "/upscale" => "upscale-2",
            "/face-restore" => "restore-256",
            _ => "fgnet-384",
        };
        let others = if name == "fgnet-384" { &["fgnet-384-quality", "fgnet-384-fast"][..] } else { &[] };
        for name in [name].into_iter().chain(others.iter().copied()) {
            for model in [name.to_owned(), format!("{name}/1")] {
                let answered = with_model(request(&daemon, route.path, endpoint.input), &model).await;
                assert_eq!(answered.status(), 200, "{}", route.path);
                assert_eq!(answered.headers()["x-service-model"], *format!("{name}/1"), "{}", route.path);
            }
        }
    }
    assert!(endpoints >= 10, "{endpoints}");
}

#[tokio::test]
async fn the_model_of_a_request_overrides_the_accounts_which_overrides_the_daemons() {
    let (standard, quality) = ("fgnet-384/1", "fgnet-384-quality/1");
    for (own, usual) in [(InferenceMode::Standard, standard), (InferenceMode::Quality, quality)] {
        let daemon = Daemon::start_with_model(own, &FetchConfig::default(), None, HttpConfig::default(), 10_000).await;
        let model = async |key: &str, header: Option<&str>| {
            let request = daemon.client.post(daemon.url("/remove")).bearer_auth(key).multipart(form(&[]));
            let request = header.iter().fold(request, |request, header| request.header("x-service-model", *header));
            let answered = request.send().await.expect("an answer");
            answered.headers()["x-service-model"].to_str().expect("a name").to_owned()
        };
        for (key, of_account) in [(KEY, usual), (FREE, standard), (PAID, quality)] {
            assert_eq!(model(key, None).await, of_account);
            assert_eq!(model(key, Some("fgnet-384-quality")).await, quality);
            assert_eq!(model(key, Some("fgnet-384/1")).await, standard);
            assert_eq!(daemon.account(key).await["model"], of_account);
        }
    }
}

#[tokio::test]
async fn every_cutout_endpoint_runs_the_selected_model() {
    let daemon = Daemon::start().await;
    let chosen = || {
        let mut seen = daemon.engine.seen.lock().expect("no panic inside");
        seen.drain(..).map(|(_, recipe)| recipe.cut().map(|cut| cut.network.clone())).collect::<Vec<_>>()
    };
    for route in ROUTES.iter() {
        let Target::Image(endpoint) = route.target else { continue };
        if ["/upscale", "/face-restore"].contains(&route.path) {
            continue;
        }
        let answered = with_model(request(&daemon, route.path, endpoint.input), "fgnet-384-quality").await;
        assert_eq!(answered.status(), 200, "{}", route.path);
        answered.bytes().await.expect("the whole answer");
        assert_eq!(chosen(), [Some(InferenceMode::Quality.into())], "{}", route.path);
    }
    // A preset does not affect it.
    let preset = daemon.post("/remove").multipart(form(&[("preset", &daemon.preset)]));
    assert_eq!(with_model(preset, "fgnet-384-quality").await.status(), 200);
    assert_eq!(chosen(), [Some(InferenceMode::Quality.into())]);
    // Rows of a batch, by the account's model.
    let rows = Form::new().part("files", Part::bytes(vec![1; 11])).part("files", Part::bytes(vec![2; 12]));
    let batch = daemon.client.post(daemon.url("/remove-batch")).bearer_auth(PAID).multipart(rows).send().await;
    assert!(batch.expect("an answer").text().await.expect("a text").contains("\"succeeded\":2"));
    assert_eq!(chosen(), [Some(InferenceMode::Quality.into()), Some(InferenceMode::Quality.into())]);
}

#[tokio::test]
async fn an_unknown_model_is_refused_with_the_list_of_known_ones() {
    let daemon = Daemon::start().await;
    let message = async |path: &str, form: Form| {
        refusal(with_model(daemon.post(path).multipart(form), "another").await).await.message
    };
    let cut = message("/remove", form(&[])).await;
    let known = "expected fgnet-384 or fgnet-384/1 or fgnet-384-quality or fgnet-384-quality/1 or fgnet-384-fast or fgnet-384-fast/1, once";
    assert!(cut.contains(known), "{cut}");
    let enlarged = message("/upscale", form(required_fields("/upscale"))).await;
    assert!(enlarged.contains("expected upscale-2 or upscale-2/1, once"), "{enlarged}");
}

#[tokio::test]
async fn an_unknown_model_is_refused_after_an_invalid_field_and_before_the_plan() {
    let daemon = Daemon::start().await;
    let send = async |key: &str, fields: &[(&str, &str)]| {
        let request = daemon.client.post(daemon.url("/remove")).bearer_auth(key).multipart(form(fields));
        refusal(with_model(request, "another").await).await
    };
    send(KEY, &[("quality", "0")]).await.is(400, "invalid_parameter", Some("quality"));
    send(FREE, &[("detect", "high_recall")]).await.is(400, "invalid_parameter", Some("x-service-model"));
    // With a preset the recipe is known only after its lookup, which requires a plan.
    send(FREE, &[("preset", "none")]).await.is(404, "not_found", Some("preset"));
    let preset = daemon.preset.as_str();
    send(KEY, &[("preset", preset)]).await.is(400, "invalid_parameter", Some("x-service-model"));
    let wrong_key = send("bd_live_wrong", &[]).await;
    wrong_key.is(401, "unauthorized", None);
    assert_eq!(daemon.engine.started(), 0);
}

#[tokio::test]
async fn a_clip_for_an_unsupported_model_is_refused_before_its_body_is_read() {
    let daemon = Daemon::start().await;
    let post = |form: Form| daemon.post("/video/remove").multipart(form);
    let clip = || Form::new().part("file", Part::bytes(b"clip 1.5".to_vec()).file_name("a.mp4"));
    for model in ["fgnet-512", "fgnet-384/2", "", "upscale-4", "fgnet-384-quality", "fgnet-384-fast"] {
        // The field is invalid too, but has not been read yet.
        let refused =
            refusal(with_model(post(Form::new().text("format", "gif").part("file", Part::bytes(vec![]))), model).await);
        refused.await.is(400, "invalid_parameter", Some("x-service-model"));
    }
    for model in ["fgnet-384", "fgnet-384/1"] {
        assert_eq!(with_model(post(clip()), model).await.status(), 202, "{model}");
    }
}
