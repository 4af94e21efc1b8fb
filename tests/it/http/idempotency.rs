//! `Idempotency-Key` of requests with URLs: a repetition is free only for the same bytes.

use crate::http::daemon::{Daemon, Exchange, KEY, Work, file, number, until};
use backdrop::matting::NoSubject;
use futures_util::future::join_all;
use reqwest::RequestBuilder;
use reqwest::multipart::Form;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

const PHOTO: &str = "https://example.org/1234";

impl Daemon {
    fn keyed(&self, path: &str, body: &Value) -> RequestBuilder {
        self.post(path).header("idempotency-key", "order").json(body)
    }

    fn keyed_form(&self, path: &str, fields: &[(&str, &str)]) -> RequestBuilder {
        self.upload(path, fields).header("idempotency-key", "order")
    }

    fn set_edition(&self, edition: u8) {
        self.fetcher.edition.store(edition, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn changed_bytes_at_the_same_url_are_a_conflict_without_any_work() {
    let url = json!({ "url": PHOTO });
    for (what, request) in [
        ("picture", (|daemon, url| daemon.keyed("/remove-url", url)) as fn(&Daemon, &Value) -> RequestBuilder),
        ("background", |daemon, _| daemon.keyed_form("/replace-bg", &[("bg_url", PHOTO)])),
        ("watermark", |daemon, _| daemon.keyed_form("/remove", &[("watermark", PHOTO)])),
    ] {
        let daemon = Daemon::start().await;
        for is_billed in [true, false] {
            let cost = number(&request(&daemon, &url).answer().await, "x-service-cost");
            assert_eq!(cost > 0.0, is_billed, "{what}");
        }
        let started = daemon.engine.started();
        for edition in 1..=3 {
            daemon.set_edition(edition);
            request(&daemon, &url).refused(409, "idempotency_conflict", None).await;
        }
        assert_eq!(daemon.engine.started(), started, "no work for a conflict");
        daemon.set_edition(0);
        assert_eq!(request(&daemon, &url).answer().await.status(), 200, "the bytes that were billed");
        assert_eq!(daemon.account(KEY).await["used"], 1);
    }
}

#[tokio::test]
async fn a_changed_preset_makes_a_repetition_a_conflict() {
    let daemon = Daemon::start().await;
    let request = || daemon.keyed_form("/remove", &[("preset", &daemon.preset)]);
    for _ in 0..2 {
        assert_eq!(request().answer().await.status(), 200);
    }
    let changed = json!({ "id": daemon.preset, "name": "p1", "params": { "width": 78, "quality": 11 } });
    assert_eq!(daemon.post("/presets").json(&changed).answer().await.status(), 200);
    request().refused(409, "idempotency_conflict", None).await;
    assert_eq!(daemon.account(KEY).await["used"], 1);
}

#[tokio::test]
async fn a_failed_fetch_does_not_use_the_idempotency_key() {
    let daemon = Daemon::start().await;
    let request = || daemon.keyed("/remove-url", &json!({ "url": "https://example.org/later" }));
    request().refused(424, "fetch_failed", Some("url")).await;
    daemon.set_edition(1);
    for _ in 0..2 {
        assert_eq!(request().answer().await.status(), 200);
    }
    assert_eq!(daemon.account(KEY).await["used"], 1);
}

/// Statuses of the rows, and whether each was billed now.
fn rows(batch: &Value) -> Vec<(u64, bool)> {
    let rows = batch["results"].as_array().expect("rows").iter();
    rows.map(|row| (row["status"].as_u64().expect("a status"), row["cost"] != 0.0)).collect()
}

#[tokio::test]
async fn rows_of_a_repeated_batch_are_free_if_billed_409_if_changed_and_else_billed() {
    let daemon = Daemon::start().await;
    let urls = json!({ "urls": ["https://example.org/10", "https://example.org/later", "https://example.org/20"] });
    // Two change with the edition; the one that failed exists from the first edition on.
    for (edition, expected, used) in [
        (0, [(200, true), (424, false), (200, true)], 2),
        (0, [(200, false), (424, false), (200, false)], 2),
        (1, [(409, false), (200, true), (409, false)], 3),
        (1, [(409, false), (200, false), (409, false)], 3),
        (0, [(200, false), (424, false), (200, false)], 3),
        (2, [(409, false), (409, false), (409, false)], 3),
    ] {
        daemon.set_edition(edition);
        assert_eq!(rows(&daemon.keyed("/remove-batch-url", &urls).value().await), expected, "edition {edition}");
        assert_eq!(daemon.account(KEY).await["used"], used);
    }
    assert_eq!(daemon.account(KEY).await["used"], 3);
}

#[tokio::test]
async fn a_failed_file_of_a_batch_is_billed_when_a_repetition_succeeds() {
    let daemon = Daemon::start().await;
    let failure = Work::Fail(|| NoSubject.into());
    for (work, row, used) in
        [(failure, (422, false), 0), (Work::Answer, (200, true), 2), (Work::Answer, (200, false), 2)]
    {
        daemon.engine.set(work);
        let files = Form::new().part("files", file(vec![1; 9])).part("files", file(vec![2; 9]));
        let request = daemon.post("/remove-batch").header("idempotency-key", "order").multipart(files);
        assert_eq!(rows(&request.value().await), [row; 2]);
        assert_eq!(daemon.account(KEY).await["used"], used);
    }
}

#[tokio::test]
async fn concurrent_requests_by_url_under_one_key_are_billed_once() {
    let daemon = Daemon::start().await;
    daemon.engine.set(Work::Wait);
    let request = || daemon.keyed("/remove-url", &json!({ "url": PHOTO }));
    let first = tokio::spawn(request().send());
    until("the work of the first", || daemon.engine.started() == 1).await;
    let others = join_all((0..4).map(|_| request().answer()));
    let release = async {
        daemon.engine.set(Work::Answer);
        daemon.engine.release.notify_one();
    };
    let (others, ()) = tokio::join!(others, release);
    assert!(others.iter().all(|response| response.status() == 200));
    assert_eq!(first.await.expect("no panic").expect("an answer").status(), 200);
    assert_eq!(daemon.account(KEY).await["used"], 1);
}
