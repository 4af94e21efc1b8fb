//! `Idempotency-Key` of requests with URLs: a repetition is free only for the same bytes.

use crate::http::daemon::{Daemon, KEY, LONG, Work, form, refusal, until};
use backdrop::matting::NoSubject;
use futures_util::future::join_all;
use reqwest::{Method, Response};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

const PHOTO: &str = "https://example.org/1234";

impl Daemon {
    async fn keyed(&self, name: &str, path: &str, body: &Value) -> Response {
        let request = self.client.post(self.url(path)).bearer_auth(KEY).timeout(LONG).header("idempotency-key", name);
        request.json(body).send().await.expect("an answer")
    }

    async fn keyed_form(&self, name: &str, path: &str, fields: &[(&str, &str)]) -> Response {
        let request = self.client.post(self.url(path)).bearer_auth(KEY).timeout(LONG).header("idempotency-key", name);
        request.multipart(form(fields)).send().await.expect("an answer")
    }

    fn set_edition(&self, edition: u8) {
        self.fetcher.edition.store(edition, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn changed_bytes_at_the_same_url_are_a_conflict_without_any_work() {
    let daemon = Daemon::start().await;
    let body = json!({ "url": PHOTO });
    assert_eq!(daemon.keyed("order", "/remove-url", &body).await.status(), 200);
    let again = daemon.keyed("order", "/remove-url", &body).await;
    assert_eq!(again.status(), 200);
    assert_eq!(again.headers()["x-service-cost"].to_str().expect("text").parse(), Ok(0.0));
    let started = daemon.engine.started();
    for edition in 1..=3 {
        daemon.set_edition(edition);
        let other = refusal(daemon.keyed("order", "/remove-url", &body).await).await;
        other.is(409, "idempotency_conflict", None);
    }
    assert_eq!(daemon.engine.started(), started, "no work for a conflict");
    daemon.set_edition(0);
    assert_eq!(daemon.keyed("order", "/remove-url", &body).await.status(), 200, "the bytes that were billed");
    assert_eq!(daemon.account(KEY).await["used"], 1);
}

#[tokio::test]
async fn changed_bytes_of_a_background_or_watermark_are_a_conflict() {
    let daemon = Daemon::start().await;
    for (name, path, field) in [("a", "/replace-bg", "bg_url"), ("b", "/remove", "watermark")] {
        daemon.set_edition(0);
        let fields = [(field, PHOTO)];
        for _ in 0..2 {
            assert_eq!(daemon.keyed_form(name, path, &fields).await.status(), 200, "{field}");
        }
        daemon.set_edition(1);
        let other = refusal(daemon.keyed_form(name, path, &fields).await).await;
        other.is(409, "idempotency_conflict", None);
    }
    assert_eq!(daemon.account(KEY).await["used"], 2);
}

#[tokio::test]
async fn a_changed_preset_makes_a_repetition_a_conflict() {
    let daemon = Daemon::start().await;
    let fields = [("preset", daemon.preset.as_str())];
    for _ in 0..2 {
        assert_eq!(daemon.keyed_form("order", "/remove", &fields).await.status(), 200);
    }
    let changed = json!({ "id": daemon.preset, "name": "p1", "params": { "width": 78, "quality": 11 } });
    assert_eq!(daemon.json_as(KEY, Method::POST, "/presets", &changed).await.status(), 200);
    let other = refusal(daemon.keyed_form("order", "/remove", &fields).await).await;
    other.is(409, "idempotency_conflict", None);
    assert_eq!(daemon.account(KEY).await["used"], 1);
}

#[tokio::test]
async fn a_failed_fetch_does_not_use_the_idempotency_key() {
    let daemon = Daemon::start().await;
    let body = json!({ "url": "https://example.org/later" });
    let failed = refusal(daemon.keyed("order", "/remove-url", &body).await).await;
    failed.is(424, "fetch_failed", Some("url"));
    daemon.set_edition(1);
    for _ in 0..2 {
        assert_eq!(daemon.keyed("order", "/remove-url", &body).await.status(), 200);
    }
    assert_eq!(daemon.account(KEY).await["used"], 1);
}

fn statuses(batch: &Value) -> Vec<u64> {
    let rows = batch["results"].as_array().expect("rows");
    rows.iter().map(|row| row["status"].as_u64().expect("a status")).collect()
}

#[tokio::test]
async fn rows_of_a_repeated_batch_are_free_if_billed_409_if_changed_and_else_billed() {
    let daemon = Daemon::start().await;
    let urls = json!({ "urls": ["https://example.org/10", "https://example.org/later", "https://example.org/20"] });
    let send = async || {
        let response = daemon.keyed("order", "/remove-batch-url", &urls).await;
        assert_eq!(response.status(), 200);
        statuses(&response.json().await.expect("JSON"))
    };
    assert_eq!(send().await, [200, 424, 200]);
    daemon.wait_until_used(KEY, 2).await;
    assert_eq!(send().await, [200, 424, 200], "the same again");
    assert_eq!(daemon.account(KEY).await["used"], 2);
    // Two have changed; the one that failed exists now.
    daemon.set_edition(1);
    assert_eq!(send().await, [409, 200, 409]);
    daemon.wait_until_used(KEY, 3).await;
    assert_eq!(send().await, [409, 200, 409]);
    daemon.set_edition(0);
    assert_eq!(send().await, [200, 424, 200]);
    daemon.set_edition(2);
    assert_eq!(send().await, [409, 409, 409]);
    assert_eq!(daemon.account(KEY).await["used"], 3);
}

#[tokio::test]
async fn a_failed_file_of_a_batch_is_billed_when_a_repetition_succeeds() {
    let daemon = Daemon::start().await;
    let send = async || {
        let part = |byte| reqwest::multipart::Part::bytes(vec![byte; 9]).file_name("a.jpg");
        let files = reqwest::multipart::Form::new().part("files", part(1)).part("files", part(2));
        let request = daemon.post("/remove-batch").header("idempotency-key", "order").multipart(files);
        statuses(&request.send().await.expect("an answer").json().await.expect("JSON"))
    };
    daemon.engine.set(Work::Fail(|| NoSubject.into()));
    assert_eq!(send().await, [422, 422]);
    daemon.engine.set(Work::Answer);
    assert_eq!(send().await, [200, 200]);
    daemon.wait_until_used(KEY, 2).await;
    assert_eq!(send().await, [200, 200]);
    assert_eq!(daemon.account(KEY).await["used"], 2);
}

#[tokio::test]
async fn concurrent_requests_by_url_under_one_key_are_billed_once() {
    let daemon = Daemon::start().await;
    daemon.engine.set(Work::Wait);
    let first = tokio::spawn({
        let request = daemon.post("/remove-url").header("idempotency-key", "order").json(&json!({ "url": PHOTO }));
        request.send()
    });
    until("the work of the first", || daemon.engine.started() == 1).await;
    let body = json!({ "url": PHOTO });
    let others = async { join_all((0..4).map(|_| daemon.keyed("order", "/remove-url", &body))).await };
    let release = async {
        daemon.engine.set(Work::Answer);
        daemon.engine.release.notify_one();
    };
    let (others, ()) = tokio::join!(others, release);
    assert!(others.iter().all(|response| response.status() == 200));
    assert_eq!(first.await.expect("no panic").expect("an answer").status(), 200);
    assert_eq!(daemon.account(KEY).await["used"], 1);
}
