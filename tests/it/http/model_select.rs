//! The header `x-service-model`, which selects the model of a request.

use crate::http::daemon::{Daemon, Exchange, FREE, KEY, PAID, Setup, file, form, header, required_fields, texts};
use backdrop::http::router::{ROUTES, Target};
use backdrop::recipe::{InferenceMode, Input};
use reqwest::RequestBuilder;
use reqwest::multipart::Form;
use serde_json::json;

/// A valid request.
fn request(daemon: &Daemon, path: &str, input: Input) -> RequestBuilder {
    let request = daemon.post(path);
    match input {
        Input::File | Input::FileAndBackground => request.multipart(form(required_fields(path))),
        Input::Files => request.multipart(Form::new().part("files", file(vec![1; 11]))),
        Input::Url => request.json(&json!({ "url": "https://example.org/10" })),
        Input::Urls => request.json(&json!({ "urls": ["https://example.org/10"] })),
    }
}

#[tokio::test]
async fn every_picture_endpoint_runs_the_selected_model_and_refuses_others_before_any_work() {
    let daemon = Daemon::start().await;
    let networks = || {
        let seen = std::mem::take(&mut *daemon.engine.seen());
        seen.iter().map(|(_, recipe)| recipe.cut().map(|cut| cut.network.clone())).collect::<Vec<_>>()
    };
    let mut endpoints = 0;
    for route in ROUTES.iter() {
        let Target::Image(endpoint) = route.target else { continue };
        endpoints += 1;
        let send = |model: &str| request(&daemon, route.path, endpoint.input).header("x-service-model", model);
        let before = daemon.fetcher.fetches();
        for model in ["fgnet-512", "fgnet-384/2", "", "FGNET-384", "upscale-4"] {
            send(model).invalid("x-service-model").await;
        }
        send("fgnet-384").header("x-service-model", "fgnet-384").invalid("x-service-model").await;
        assert_eq!((networks(), daemon.fetcher.fetches()), (Vec::new(), before), "{}", route.path);
        let models = match route.path {
            "/upscale" => &[("upscale-2", None)][..],
            "/face-restore" => &[("restore-256", None)],
            _ => &[
                ("fgnet-384", Some(InferenceMode::Standard)),
                ("fgnet-384-quality", Some(InferenceMode::Quality)),
                ("fgnet-384-fast", Some(InferenceMode::Fast)),
            ],
        };
        for (name, mode) in models {
            for model in [(*name).to_owned(), format!("{name}/1")] {
                let answered = send(&model).answer().await;
                assert_eq!(answered.status(), 200, "{}", route.path);
                assert_eq!(header(&answered, "x-service-model"), format!("{name}/1"), "{}", route.path);
                answered.bytes().await.expect("the whole answer");
                assert_eq!(networks(), [mode.map(Into::into)], "{} {model}", route.path);
            }
        }
    }
    assert!(endpoints >= 10, "{endpoints}");
    // A preset does not affect it.
    let preset = daemon.upload("/remove", &[("preset", &daemon.preset)]).header("x-service-model", "fgnet-384-quality");
    assert_eq!(preset.answer().await.status(), 200);
    assert_eq!(networks(), [Some(InferenceMode::Quality.into())]);
    // Rows of a batch, by the account's model.
    let rows = Form::new().part("files", file(vec![1; 11])).part("files", file(vec![2; 12]));
    assert_eq!(daemon.post_as(PAID, "/remove-batch").multipart(rows).value().await["succeeded"], 2);
    assert_eq!(networks(), [Some(InferenceMode::Quality.into()), Some(InferenceMode::Quality.into())]);
}

#[tokio::test]
async fn the_model_of_a_request_overrides_the_accounts_which_overrides_the_daemons() {
    let (standard, quality) = ("fgnet-384/1", "fgnet-384-quality/1");
    for (model, usual) in [(InferenceMode::Standard, standard), (InferenceMode::Quality, quality)] {
        let daemon = Daemon::of(Setup { model, ..Setup::default() }).await;
        for (key, of_account) in [(KEY, usual), (FREE, standard), (PAID, quality)] {
            for (sent, expected) in
                [(None, of_account), (Some("fgnet-384-quality"), quality), (Some("fgnet-384/1"), standard)]
            {
                let request = daemon.upload_as(key, "/remove", &[]);
                let request = sent.iter().fold(request, |request, sent| request.header("x-service-model", *sent));
                assert_eq!(header(&request.answer().await, "x-service-model"), expected);
            }
            assert_eq!(daemon.account(key).await["model"], of_account);
        }
    }
}

#[tokio::test]
async fn an_unknown_model_is_refused_with_the_list_of_known_ones() {
    let daemon = Daemon::start().await;
    for (path, known) in [
        (
            "/remove",
            "fgnet-384 or fgnet-384/1 or fgnet-384-quality or fgnet-384-quality/1 or fgnet-384-fast or fgnet-384-fast/1",
        ),
        ("/upscale", "upscale-2 or upscale-2/1"),
    ] {
        let refused = daemon.upload(path, &[]).header("x-service-model", "another").invalid("x-service-model").await;
        assert!(refused.message.contains(&format!("expected {known}, once")), "{}", refused.message);
    }
}

#[tokio::test]
async fn an_unknown_model_is_refused_after_an_invalid_field_and_before_the_plan() {
    let daemon = Daemon::start().await;
    let (none, invalid) = ("not_found", "invalid_parameter");
    for (key, field, status, code, param) in [
        (KEY, ("quality", "0"), 400, invalid, "quality"),
        (FREE, ("detect", "high_recall"), 400, invalid, "x-service-model"),
        // With a preset the recipe is known only after its lookup, which requires a plan.
        (FREE, ("preset", "none"), 404, none, "preset"),
        (KEY, ("preset", daemon.preset.as_str()), 400, invalid, "x-service-model"),
    ] {
        let request = daemon.upload_as(key, "/remove", &[field]).header("x-service-model", "another");
        request.refused(status, code, Some(param)).await;
    }
    let wrong_key = daemon.upload_as("bd_live_wrong", "/remove", &[]).header("x-service-model", "another");
    wrong_key.refused(401, "unauthorized", None).await;
    assert_eq!(daemon.engine.started(), 0);
}

#[tokio::test]
async fn a_clip_for_an_unsupported_model_is_refused_before_its_body_is_read() {
    let daemon = Daemon::start().await;
    let post = |fields, clip: &[u8], model| {
        let form = texts(fields).part("file", file(clip.to_vec()));
        daemon.post("/video/remove").header("x-service-model", model).multipart(form)
    };
    for model in ["fgnet-512", "fgnet-384/2", "", "upscale-4", "fgnet-384-quality", "fgnet-384-fast"] {
        // The field is invalid too, but has not been read yet.
        post(&[("format", "xyz")], b"", model).invalid("x-service-model").await;
    }
    for model in ["fgnet-384", "fgnet-384/1"] {
        assert_eq!(post(&[], b"clip 1.5", model).answer().await.status(), 202, "{model}");
    }
}
