//! `x-service-model` on a request.

use crate::http::daemon::{Daemon, FREE, KEY, PAID, form, needed, refusal};
use backdrop::http::config::HttpConfig;
use backdrop::http::router::{ROUTES, Target};
use backdrop::recipe::{InferenceMode, Input};
use backdrop::source::FetchConfig;
use reqwest::multipart::{Form, Part};
use reqwest::{RequestBuilder, Response};
use serde_json::json;

/// A request that an endpoint answers with 200.
fn request(daemon: &Daemon, path: &str, input: Input) -> RequestBuilder {
    let request = daemon.post(path);
    match input {
        Input::File | Input::FileAndBackground => request.multipart(form(needed(path))),
        Input::Files => request.multipart(Form::new().part("files", Part::bytes(vec![1; 11]))),
        Input::Url => request.json(&json!({ "url": "https://example.org/10" })),
        Input::Urls => request.json(&json!({ "urls": ["https://example.org/10"] })),
    }
}

async fn pinned(request: RequestBuilder, model: &str) -> Response {
    request.header("x-service-model", model).send().await.expect("an answer")
}

#[tokio::test]
async fn every_endpoint_of_pictures_takes_the_model_in_use_and_refuses_others_before_any_work() {
    let daemon = Daemon::start().await;
    let mut endpoints = 0;
    for route in ROUTES.iter() {
        let Target::Image(endpoint) = route.target else { continue };
        endpoints += 1;
        let (started, asked) = (daemon.engine.started(), daemon.origin.asked());
        for model in ["fgnet-512", "fgnet-384/2", "", "FGNET-384", "upscale-4"] {
            let refused = refusal(pinned(request(&daemon, route.path, endpoint.input), model).await).await;
            refused.is(400, "invalid_parameter", Some("x-service-model"));
        }
        let twice = request(&daemon, route.path, endpoint.input).header("x-service-model", "fgnet-384");
        refusal(pinned(twice, "fgnet-384").await).await.is(400, "invalid_parameter", Some("x-service-model"));
        assert_eq!((daemon.engine.started(), daemon.origin.asked()), (started, asked), "{}", route.path);
        let name = match route.path {
            "/upscale" => "upscale-2",
            "/face-restore" => "restore-256",
            _ => "fgnet-384",
        };
        let quality = (name == "fgnet-384").then_some("fgnet-384-quality");
        for name in [name].into_iter().chain(quality) {
            for model in [name.to_owned(), format!("{name}/1")] {
                let answered = pinned(request(&daemon, route.path, endpoint.input), &model).await;
                assert_eq!(answered.status(), 200, "{}", route.path);
                assert_eq!(answered.headers()["x-service-model"], *format!("{name}/1"), "{}", route.path);
            }
        }
    }
    assert!(endpoints >= 10, "{endpoints}");
}

#[tokio::test]
async fn the_request_decides_before_the_account_and_the_account_before_the_daemon() {
    let (standard, quality) = ("fgnet-384/1", "fgnet-384-quality/1");
    for (own, usual) in [(InferenceMode::Standard, standard), (InferenceMode::Quality, quality)] {
        let daemon = Daemon::start_by(own, &FetchConfig::default(), None, HttpConfig::default(), 10_000).await;
        let model = async |key: &str, pin: Option<&str>| {
            let request = daemon.client.post(daemon.url("/remove")).bearer_auth(key).multipart(form(&[]));
            let request = pin.iter().fold(request, |request, pin| request.header("x-service-model", *pin));
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
async fn every_endpoint_that_cuts_out_pictures_does_it_by_the_model_that_was_chosen() {
    let daemon = Daemon::start().await;
    let chosen = || {
        let mut seen = daemon.engine.seen.lock().expect("no panic inside");
        seen.drain(..).map(|(_, recipe)| recipe.cut().map(|cut| cut.model)).collect::<Vec<_>>()
    };
    for route in ROUTES.iter() {
        let Target::Image(endpoint) = route.target else { continue };
        if ["/upscale", "/face-restore"].contains(&route.path) {
            continue;
        }
        let answered = pinned(request(&daemon, route.path, endpoint.input), "fgnet-384-quality").await;
        assert_eq!(answered.status(), 200, "{}", route.path);
        answered.bytes().await.expect("the whole answer");
        assert_eq!(chosen(), [Some(InferenceMode::Quality)], "{}", route.path);
    }
    // A preset leaves it as it is.
    let preset = daemon.post("/remove").multipart(form(&[("preset", &daemon.preset)]));
    assert_eq!(pinned(preset, "fgnet-384-quality").await.status(), 200);
    assert_eq!(chosen(), [Some(InferenceMode::Quality)]);
    // Rows of a batch, by the account's model.
    let rows = Form::new().part("files", Part::bytes(vec![1; 11])).part("files", Part::bytes(vec![2; 12]));
    let batch = daemon.client.post(daemon.url("/remove-batch")).bearer_auth(PAID).multipart(rows).send().await;
    assert!(batch.expect("an answer").text().await.expect("a text").contains("\"succeeded\":2"));
    assert_eq!(chosen(), [Some(InferenceMode::Quality); 2]);
}

#[tokio::test]
async fn a_model_that_is_not_known_is_answered_with_those_that_are() {
    let daemon = Daemon::start().await;
    let told = async |path: &str, form: Form| {
        refusal(pinned(daemon.post(path).multipart(form), "another").await).await.message
    };
    let cut = told("/remove", form(&[])).await;
    let known = "expected fgnet-384 or fgnet-384/1 or fgnet-384-quality or fgnet-384-quality/1, once";
    assert!(cut.contains(known), "{cut}");
    let enlarged = told("/upscale", form(needed("/upscale"))).await;
    assert!(enlarged.contains("expected upscale-2 or upscale-2/1, once"), "{enlarged}");
}

#[tokio::test]
async fn an_unknown_model_is_told_after_a_bad_field_and_before_the_plan() {
    let daemon = Daemon::start().await;
    let send = async |key: &str, fields: &[(&str, &str)]| {
        let request = daemon.client.post(daemon.url("/remove")).bearer_auth(key).multipart(form(fields));
        refusal(pinned(request, "another").await).await
    };
    send(KEY, &[("quality", "0")]).await.is(400, "invalid_parameter", Some("quality"));
    send(FREE, &[("detect", "high_recall")]).await.is(400, "invalid_parameter", Some("x-service-model"));
    // What a preset makes of it is known only when it was found, which needs a plan.
    send(FREE, &[("preset", "none")]).await.is(404, "not_found", Some("preset"));
    let preset = daemon.preset.as_str();
    send(KEY, &[("preset", preset)]).await.is(400, "invalid_parameter", Some("x-service-model"));
    let wrong_key = send("bd_live_wrong", &[]).await;
    wrong_key.is(401, "unauthorized", None);
    assert_eq!(daemon.engine.started(), 0);
}

#[tokio::test]
async fn a_clip_for_another_model_is_refused_before_it_is_read_and_one_for_this_becomes_a_job() {
    let daemon = Daemon::start().await;
    let post = |form: Form| daemon.post("/video/remove").multipart(form);
    let clip = || Form::new().part("file", Part::bytes(b"clip 1.5".to_vec()).file_name("a.mp4"));
    for model in ["fgnet-512", "fgnet-384/2", "", "upscale-4", "fgnet-384-quality"] {
        // The field is wrong too, but nobody has read it yet.
        let refused =
            refusal(pinned(post(Form::new().text("format", "gif").part("file", Part::bytes(vec![]))), model).await);
        refused.await.is(400, "invalid_parameter", Some("x-service-model"));
    }
    for model in ["fgnet-384", "fgnet-384/1"] {
        assert_eq!(pinned(post(clip()), model).await.status(), 202, "{model}");
    }
}
