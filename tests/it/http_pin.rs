//! `x-service-model` on a request.

use crate::http_daemon::{Daemon, FREE, KEY, form, needed, refusal};
use backdrop::http::router::{ROUTES, Target};
use backdrop::recipe::Input;
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
        for model in [name.to_owned(), format!("{name}/1")] {
            let answered = pinned(request(&daemon, route.path, endpoint.input), &model).await;
            assert_eq!(answered.status(), 200, "{}", route.path);
            assert_eq!(answered.headers()["x-service-model"], *format!("{name}/1"));
        }
    }
    assert!(endpoints >= 10, "{endpoints}");
}

#[tokio::test]
async fn an_unknown_model_is_told_after_a_bad_field_and_before_the_plan() {
    let daemon = Daemon::start().await;
    let send = async |key: &str, fields: &[(&str, &str)]| {
        let request = daemon.client.post(daemon.url("/remove")).bearer_auth(key).multipart(form(fields));
        refusal(pinned(request, "another").await).await
    };
    send(KEY, &[("quality", "0")]).await.is(400, "invalid_parameter", Some("quality"));
    send(FREE, &[("preset", "none")]).await.is(400, "invalid_parameter", Some("x-service-model"));
    let wrong_key = send("bd_live_wrong", &[]).await;
    wrong_key.is(401, "unauthorized", None);
    assert_eq!(daemon.engine.started(), 0);
}

#[tokio::test]
async fn a_clip_for_another_model_is_refused_before_it_is_read_and_one_for_this_becomes_a_job() {
    let daemon = Daemon::start().await;
    let post = |form: Form| daemon.post("/video/remove").multipart(form);
    let clip = || Form::new().part("file", Part::bytes(b"clip 1.5".to_vec()).file_name("a.mp4"));
    for model in ["fgnet-512", "fgnet-384/2", "", "upscale-4"] {
        // The field is wrong too, but nobody has read it yet.
        let refused =
            refusal(pinned(post(Form::new().text("format", "gif").part("file", Part::bytes(vec![]))), model).await);
        refused.await.is(400, "invalid_parameter", Some("x-service-model"));
    }
    for model in ["fgnet-384", "fgnet-384/1"] {
        assert_eq!(pinned(post(clip()), model).await.status(), 202, "{model}");
    }
}
