//! `/replace-bg-ai` over HTTP: allow-list, order of the checks, response headers, presets and price.

use crate::http::daemon::{Daemon, FREE, KEY, PAID, TEST, Work, form, refusal};
use backdrop::image::OutputFormat;
use backdrop::matting::NoSubject;
use backdrop::recipe::{PromptRequest, Source};
use reqwest::{Method, Response};
use serde_json::{Value, json};

const PATH: &str = "/replace-bg-ai";
const PROMPT: (&str, &str) = ("prompt", "a beach");

impl Daemon {
    async fn backdrop(&self, key: &str, fields: &[(&str, &str)]) -> Response {
        // Not `post`, which sends a default key.
        self.client.post(self.url(PATH)).bearer_auth(key).multipart(form(fields)).send().await.expect("an answer")
    }
}

fn header<'a>(response: &'a Response, name: &str) -> Option<&'a str> {
    response.headers().get(name).and_then(|value| value.to_str().ok())
}

#[tokio::test]
async fn response_headers_name_the_model_and_the_recognized_words() {
    let daemon = Daemon::start().await;
    let answer = daemon.send(PATH, &[("prompt", "  a\n beach ")]).await;
    assert_eq!(answer.status(), 200);
    let headers = ["x-service-engine", "x-service-backdrop-model", "x-service-prompt-words", "x-service-cost"]
        .map(|name| header(&answer, name));
    assert_eq!(headers, [Some("standard"), Some("procedural"), Some("beach"), Some("0")]);
    let (_, recipe) = daemon.engine.seen.lock().expect("no panic inside").pop().expect("a processed recipe");
    let request = PromptRequest { prompt: "a beach".into(), model: None };
    assert_eq!(recipe.inputs.background, Some(Source::Generated(request)));
    assert_eq!((recipe.encode.format, recipe.encode.quality.get()), (OutputFormat::Jpeg, 92));
    assert!(header(&daemon.send("/remove", &[]).await, "x-service-engine").is_none());
}

#[tokio::test]
async fn checks_run_in_the_documented_order() {
    let daemon = Daemon::start().await;
    let refused = async |key: &str, fields: &[(&str, &str)]| refusal(daemon.backdrop(key, fields).await).await;
    let too_long = "ü".repeat(501);
    // Fields before the allow-list, the allow-list before the model, the model before the plan.
    refused(PAID, &[]).await.is(400, "invalid_parameter", Some("prompt"));
    refused(PAID, &[("prompt", " \n")]).await.is(400, "invalid_parameter", Some("prompt"));
    refused(PAID, &[("prompt", &too_long)]).await.is(400, "invalid_parameter", Some("prompt"));
    refused(PAID, &[PROMPT, ("model", "famA-image-3")]).await.is(400, "invalid_parameter", Some("model"));
    refused(PAID, &[PROMPT, ("width", "0")]).await.is(400, "invalid_parameter", Some("width"));
    refused(PAID, &[PROMPT, ("despill", "50"), ("model", "famA-image-2")]).await.is(403, "forbidden", None);
    refused(FREE, &[PROMPT, ("despill", "50"), ("model", "famA-image-2")]).await.is(403, "forbidden", Some("model"));
    for field in [("despill", "100"), ("watermark", "https://example.org/1"), ("watermark_opacity", "1")] {
        refused(FREE, &[PROMPT, field]).await.is(402, "payment_required", Some(field.0));
    }
    refused(FREE, &[PROMPT, ("detect", "high_recall")]).await.is(402, "payment_required", Some("detect"));
    refused("bd_live_none", &[PROMPT]).await.is(401, "unauthorized", None);
    assert_eq!(daemon.engine.started(), 0);
    assert_eq!(daemon.backdrop(FREE, &[PROMPT]).await.status(), 200, "the default despill needs no plan");
    assert_eq!(daemon.backdrop(KEY, &[PROMPT, ("despill", "0")]).await.status(), 200);
    assert_eq!(daemon.backdrop(TEST, &[PROMPT]).await.status(), 200);
    let umlauts = "ü".repeat(500);
    assert_eq!(
        daemon.backdrop(FREE, &[("prompt", &umlauts)]).await.status(),
        200,
        "the limit counts characters, not bytes"
    );
}

#[tokio::test]
async fn nothing_is_billed_and_no_quota_is_used() {
    let daemon = Daemon::start().await;
    // More than the free images per month.
    for _ in 0..51 {
        assert_eq!(daemon.backdrop(FREE, &[PROMPT]).await.status(), 200);
    }
    let account = daemon.account(FREE).await;
    assert_eq!((&account["used"], &account["cost_usd"]), (&json!(0), &json!(0.0)), "{account}");
    let body = json!({ "endpoint": PATH, "count": 7 });
    let estimate: Value = daemon.json_as(FREE, Method::POST, "/estimate", &body).await.json().await.expect("JSON");
    assert_eq!(estimate["estimated_cost_usd"], json!(0.0), "{estimate}");
}

#[tokio::test]
async fn prompt_and_model_of_a_preset_are_validated_like_those_of_a_request() {
    let daemon = Daemon::start().await;
    let save = async |name: &str, params: Value| {
        let body = json!({ "name": name, "endpoint": PATH, "params": params });
        let saved = daemon.json_as(KEY, Method::POST, "/presets", &body).await;
        assert_eq!(saved.status(), 200);
        let saved: Value = saved.json().await.expect("JSON");
        saved["id"].as_str().expect("an id").to_owned()
    };
    let beach = save("beach", json!({ "prompt": "a beach at noon", "format": "png" })).await;
    assert_eq!(daemon.send(PATH, &[("preset", &beach)]).await.headers()["content-type"], "image/png");
    let wide = save("wide", json!({ "width": 640 })).await;
    assert_eq!(daemon.send(PATH, &[("preset", &wide), PROMPT]).await.status(), 200);
    refusal(daemon.send(PATH, &[("preset", &wide)]).await).await.is(400, "invalid_parameter", Some("prompt"));
    let other = save("other", json!({ "prompt": "x", "model": "famA-image-2" })).await;
    refusal(daemon.send(PATH, &[("preset", &other)]).await).await.is(403, "forbidden", Some("model"));
    let body = json!({ "name": "bad", "endpoint": PATH, "params": { "prompt": "x".repeat(501) } });
    let bad = daemon.json_as(KEY, Method::POST, "/presets", &body).await;
    refusal(bad).await.is(400, "invalid_parameter", Some("prompt"));
}

#[tokio::test]
async fn a_repeated_request_generates_again_and_a_failed_one_is_not_counted() {
    let daemon = Daemon::start().await;
    let repeatable = async |fields: &[(&str, &str)]| {
        daemon.post(PATH).header("idempotency-key", "order").multipart(form(fields)).send().await.expect("an answer")
    };
    daemon.engine.set(Work::Fail(|| NoSubject.into()));
    assert_eq!(repeatable(&[PROMPT]).await.status(), 422);
    daemon.engine.set(Work::Answer);
    assert_eq!(repeatable(&[PROMPT]).await.status(), 200);
    assert_eq!(repeatable(&[PROMPT]).await.status(), 200);
    refusal(repeatable(&[("prompt", "a meadow")]).await).await.is(409, "idempotency_conflict", None);
    assert_eq!(daemon.engine.started(), 3);
}
