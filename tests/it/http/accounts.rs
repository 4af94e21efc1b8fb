//! Plans, quotas, scopes, `Idempotency-Key`, presets, estimates: what a key may do, and what it costs.

use crate::http::daemon::{
    CAPPED, Daemon, EXPIRED, FREE, FREE_CAPPED, KEY, LONG, PAGE, PAID, SCOPED, TEST, Work, form, refusal,
    required_fields,
};
use backdrop::http::config::HttpConfig;
use backdrop::matting::NoSubject;
use backdrop::recipe::{ENDPOINTS, Input};
use backdrop::store::UnixSeconds;
use futures_util::future::join_all;
use reqwest::multipart::{Form, Part};
use reqwest::{Method, Response};
use serde_json::{Value, json};

const PHOTO: &str = "https://example.org/1234";

impl Daemon {
    async fn send_as(&self, key: &str, path: &str, fields: &[(&str, &str)]) -> Response {
        let request = self.client.post(self.url(path)).bearer_auth(key).timeout(LONG);
        request.multipart(form(fields)).send().await.expect("an answer")
    }

    pub(crate) async fn json_as(&self, key: &str, method: Method, path: &str, body: &Value) -> Response {
        let request = self.client.request(method, self.url(path)).bearer_auth(key).timeout(LONG);
        request.json(body).send().await.expect("an answer")
    }

    async fn get_as(&self, key: &str, path: &str) -> Response {
        self.client.get(self.url(path)).bearer_auth(key).timeout(LONG).send().await.expect("an answer")
    }

    pub(crate) async fn account(&self, key: &str) -> Value {
        self.get_as(key, "/account").await.json().await.expect("JSON")
    }

    /// Waits until the account has used so many images.
    pub(crate) async fn wait_until_used(&self, key: &str, images: u64) {
        let billed = async {
            while self.account(key).await["used"] != images {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(LONG, billed).await.unwrap_or_else(|_| panic!("{images} images were not billed"));
    }

    async fn send_idempotent(&self, key: &str, name: &str, fields: &[(&str, &str)]) -> Response {
        let request = self.client.post(self.url("/remove")).bearer_auth(key).timeout(LONG);
        let request = request.header("idempotency-key", name).multipart(form(fields));
        request.send().await.expect("an answer")
    }
}

fn cost(response: &Response) -> f64 {
    response.headers()["x-service-cost"].to_str().expect("text").parse().expect("dollars")
}

#[tokio::test]
async fn a_field_above_the_plan_is_402_before_any_fetch_or_work() {
    let daemon = Daemon::start().await;
    for (key, field, value, allowed) in [
        (FREE, "detect", "standard", true),
        (FREE, "detect", "high_recall", false),
        (PAID, "detect", "high_recall", true),
        (FREE, "engine", "product-v1", false),
        (PAID, "engine", "product-v1", true),
        (FREE, "despill", "false", false),
        (PAID, "despill", "true", false),
        (KEY, "despill", "true", true),
        (PAID, "watermark", PHOTO, false),
        (PAID, "watermark_opacity", "0.5", false),
        (FREE, "decontaminate", "true", true),
    ] {
        let before = (daemon.fetcher.fetches(), daemon.engine.started());
        let response = daemon.send_as(key, "/studio-shot", &[(field, value)]).await;
        if allowed {
            assert_eq!(response.status(), 200, "{key} {field}={value}");
        } else {
            let refused = refusal(response).await;
            refused.is(402, "payment_required", Some(field));
            assert_eq!(refused.reason.as_deref(), Some("plan_required"));
            assert_eq!((daemon.fetcher.fetches(), daemon.engine.started()), before, "{key} {field}={value}");
        }
    }
    for (field, value, allowed) in [
        ("despill", json!(0), false),
        ("watermark", json!("x"), false),
        ("preset", json!("p"), false),
        ("detect", json!("high_recall"), false),
        ("watermark_opacity", json!(0.5), true),
    ] {
        let body = json!({ "url": PHOTO, field: value });
        let response = daemon.json_as(FREE, Method::POST, "/remove-url", &body).await;
        if allowed {
            assert_eq!(response.status(), 200, "{field}");
        } else {
            refusal(response).await.is(402, "payment_required", Some(field));
        }
    }
    let invalid = refusal(daemon.send_as(FREE, "/remove", &[("despill", "maybe")]).await).await;
    invalid.is(400, "invalid_parameter", Some("despill"));
}

#[tokio::test]
async fn a_quota_is_exact_under_parallel_requests() {
    let daemon = Daemon::start().await;
    let requests = (0..200).map(|_| daemon.send_as(FREE, "/remove", &[]));
    let statuses: Vec<_> = join_all(requests).await.into_iter().map(|response| response.status().as_u16()).collect();
    let count = |wanted: u16| statuses.iter().filter(|status| **status == wanted).count();
    assert_eq!((count(200), count(402)), (50, 150));
    let account = daemon.account(FREE).await;
    assert_eq!((&account["used"], &account["quota"], &account["remaining"]), (&json!(50), &json!(50), &json!(0)));
    assert_eq!(daemon.send("/remove", &[]).await.status(), 200, "another account has its own");
}

#[tokio::test]
async fn a_failure_gives_its_unit_back_and_each_row_of_a_batch_counts() {
    let daemon = Daemon::start().await;
    daemon.engine.set(Work::Fail(|| NoSubject.into()));
    for _ in 0..3 {
        assert_eq!(daemon.send_as(FREE, "/remove", &[]).await.status(), 422);
    }
    assert_eq!(daemon.account(FREE).await["used"], 0);
    daemon.engine.set(Work::Answer);
    let urls = json!({ "urls": ["https://example.org/1", "https://example.org/no", "https://example.org/2"] });
    let batch = daemon.json_as(FREE, Method::POST, "/remove-batch-url", &urls).await;
    assert_eq!(batch.json::<Value>().await.expect("JSON")["succeeded"], 2);
    daemon.wait_until_used(FREE, 2).await;
    let account = daemon.account(FREE).await;
    assert_eq!((&account["used"], &account["cost_usd"]), (&json!(2), &json!(0.0)));
}

fn remaining_quota(response: &Response) -> Option<u64> {
    let value = response.headers().get("x-quota-remaining")?;
    Some(value.to_str().expect("text").parse().expect("a number"))
}

#[tokio::test]
async fn what_a_quota_covers_costs_nothing_and_each_reply_has_the_remaining_quota() {
    let daemon = Daemon::start().await;
    // Key, price of its picture, remaining quota after it, and the total in `/account`.
    for (key, price, remaining, total) in [
        (FREE, 0.0, Some(49), 0.0),
        (FREE_CAPPED, 0.0, Some(2), 0.0),
        (FREE, 0.0, Some(47), 0.0),
        (CAPPED, 0.005, Some(2), 0.005),
        (PAID, 0.005, None, 0.01),
        (CAPPED, 0.005, Some(1), 0.015),
        (TEST, 0.0, None, 0.0),
        (KEY, 0.005, None, 0.005),
    ] {
        let response = daemon.send_as(key, "/remove", &[]).await;
        assert_eq!(
            (response.status().as_u16(), cost(&response), remaining_quota(&response)),
            (200, price, remaining),
            "{key}"
        );
        let account = daemon.get_as(key, "/account").await;
        assert_eq!(remaining_quota(&account), remaining, "{key}");
        assert_eq!(account.json::<Value>().await.expect("JSON")["cost_usd"], total, "{key}");
    }
    // Errors have the header too, and are not counted.
    let invalid = daemon.send_as(FREE, "/remove", &[("edge", "fuzzy")]).await;
    assert_eq!((invalid.status().as_u16(), remaining_quota(&invalid)), (400, Some(47)));
    assert_eq!(daemon.send_as(CAPPED, "/remove", &[]).await.status(), 200);
    for (key, images) in [(CAPPED, 1), (FREE, 48)] {
        for _ in 1..images {
            daemon.send_as(key, "/remove", &[]).await;
        }
        let response = daemon.send_as(key, "/remove", &[]).await;
        assert_eq!((response.status().as_u16(), remaining_quota(&response)), (402, Some(0)), "{key}");
        let refused = refusal(response).await;
        refused.is(402, "payment_required", None);
        assert_eq!(refused.reason.as_deref(), Some("quota_exhausted"), "{key}");
        assert_eq!(refused.message.contains("API key"), key == CAPPED, "{}", refused.message);
    }
    assert_eq!(daemon.send_as(PAID, "/remove", &[]).await.status(), 200, "another key of the account");
}

#[tokio::test]
async fn the_rate_limit_of_a_plan_is_the_configured_one() {
    let daemon = Daemon::start_with(HttpConfig::default(), 7).await;
    for (key, path, limit) in
        [(FREE, "/account", "70"), (PAID, "/account", "140"), (KEY, "/presets", "70"), (PAID, "/jobs/job_x", "140")]
    {
        assert_eq!(daemon.get_as(key, path).await.headers()["x-ratelimit-limit"], limit, "{key} {path}");
    }
    assert_eq!(daemon.send_as(PAID, "/remove", &[]).await.headers()["x-ratelimit-limit"], "14");
    let account: serde_json::Value = daemon.get_as(PAID, "/account").await.json().await.expect("JSON");
    assert_eq!(
        (&account["rate"]["limit"], &account["rate"]["remaining"]),
        (&14.into(), &13.into()),
        "the rate of pictures"
    );
}

#[tokio::test]
async fn a_key_with_scopes_is_accepted_at_those_endpoints_only() {
    let daemon = Daemon::start().await;
    assert_eq!(daemon.send_as(SCOPED, "/remove", &[]).await.status(), 200);
    for path in ["/account", "/jobs", "/usage"] {
        assert_eq!(daemon.get_as(SCOPED, path).await.status(), 200, "{path}");
    }
    let clip = daemon.send_as(SCOPED, "/video/remove", &[]).await;
    assert_ne!(clip.status(), 403);
    for path in ["/studio-shot", "/remove-url", "/presets"] {
        let refused = refusal(daemon.send_as(SCOPED, path, &[]).await).await;
        refused.is(403, "forbidden", None);
        assert_eq!(refused.reason.as_deref(), Some("out_of_scope"), "{path}");
        assert!(refused.message.contains(path) && refused.message.contains("video/remove"), "{}", refused.message);
    }
    assert_eq!(daemon.engine.started(), 1);
}

#[tokio::test]
async fn the_webhook_secret_is_shown_to_keys_that_may_make_jobs() {
    let daemon = Daemon::start().await;
    for (key, shown) in [(KEY, true), (TEST, true), (SCOPED, true), (PAGE, false)] {
        let account: Value = daemon.get_as(key, "/account").await.json().await.expect("JSON");
        assert_eq!(account.get("webhook_secret").is_some(), shown, "{key}");
    }
}

#[tokio::test]
async fn an_expired_key_is_401_with_the_time_of_its_expiry() {
    let daemon = Daemon::start().await;
    for (key, message) in [(EXPIRED, "expired at 2026-01-01T00:00:00Z"), ("bd_live_other", "is not valid")] {
        let refused = refusal(daemon.get_as(key, "/account").await).await;
        refused.is(401, "unauthorized", None);
        assert!(refused.message.contains(message), "{}", refused.message);
        assert!(refused.headers.contains_key("www-authenticate"));
    }
}

#[tokio::test]
async fn usage_lists_the_keys_and_days_of_the_own_account_only() {
    let daemon = Daemon::start().await;
    for key in [PAID, CAPPED, PAID, FREE, TEST, SCOPED] {
        assert_eq!(daemon.send_as(key, "/remove", &[]).await.status(), 200);
    }
    let today = UnixSeconds::now().to_string()[..10].to_owned();
    let row = |id: &str, name: Value, images: u64, cost: f64| {
        let key = json!({ "id": id, "name": name });
        json!({ "date": today, "key": key, "images": images, "seconds": 0.0, "cost_usd": cost })
    };
    let total = |images: u64, cost: f64| json!({ "images": images, "seconds": 0.0, "cost_usd": cost });
    let shop = json!([
        row("key_2", json!("shop"), 2, 0.01),
        row("key_5", json!(""), 1, 0.005),
        row("key_6", json!(""), 1, 0.005)
    ]);
    let (all, past) = (format!("/usage?from={today}&to={today}"), "/usage?from=2026-01-01&to=2026-01-31");
    for (key, path, rows, sum) in [
        (PAID, "/usage", shop.clone(), total(4, 0.02)),
        (CAPPED, all.as_str(), shop, total(4, 0.02)),
        // A key with scopes has its own rows.
        (SCOPED, "/usage", json!([row("key_6", json!(""), 1, 0.005)]), total(1, 0.005)),
        (PAID, past, json!([]), total(0, 0.0)),
        (FREE, "/usage", json!([row("key_3", json!(""), 1, 0.0)]), total(1, 0.0)),
        (TEST, "/usage", json!([]), total(0, 0.0)),
    ] {
        let response = daemon.get_as(key, path).await;
        let id = response.headers()["x-request-id"].to_str().expect("text").to_owned();
        let usage: Value = response.json().await.expect("JSON");
        assert_eq!(usage, json!({ "usage": rows, "total": sum, "request_id": id }), "{key} {path}");
    }
    for (query, param) in [("from=today", "from"), ("from=2024-01-01&to=2026-01-01", "from"), ("since=1", "since")] {
        let refused = refusal(daemon.get_as(PAID, &format!("/usage?{query}")).await).await;
        refused.is(400, "invalid_parameter", Some(param));
    }
}

#[tokio::test]
async fn requests_of_a_sandbox_key_are_free_and_their_pictures_stamped() {
    let daemon = Daemon::start().await;
    let response = daemon.send_as(TEST, "/remove", &[]).await;
    assert_eq!((response.status().as_u16(), cost(&response)), (200, 0.0));
    assert_eq!(daemon.account(TEST).await["used"], 0);
    let seen = daemon.engine.seen.lock().expect("no panic inside");
    assert_eq!(seen[0].1.scene.stamp, Some("TEST"));
}

#[tokio::test]
async fn a_repeated_request_under_an_idempotency_key_is_billed_once() {
    let daemon = Daemon::start().await;
    let first = daemon.send_idempotent(KEY, "order-1", &[]).await;
    assert_eq!((first.status().as_u16(), cost(&first)), (200, 0.005));
    let second = daemon.send_idempotent(KEY, "order-1", &[]).await;
    assert_eq!((second.status().as_u16(), cost(&second)), (200, 0.0));
    assert_eq!(first.bytes().await.expect("a body"), second.bytes().await.expect("a body"));
    assert_eq!(daemon.account(KEY).await["used"], 1);
    let other = refusal(daemon.send_idempotent(KEY, "order-1", &[("width", "5")]).await).await;
    other.is(409, "idempotency_conflict", None);
    let request = daemon.post("/remove").header("idempotency-key", "order-1").multipart(form(&[]));
    let by_another = refusal(request.header("x-service-model", "fgnet-384-quality").send().await.expect("an answer"));
    by_another.await.is(409, "idempotency_conflict", None);
    let together = join_all((0..8).map(|_| daemon.send_idempotent(KEY, "order-2", &[]))).await;
    let billed: f64 = together.iter().map(cost).sum();
    assert!(together.iter().all(|response| response.status() == 200));
    assert!((billed - 0.005).abs() < 1e-9, "{billed}");
    assert_eq!(daemon.account(KEY).await["used"], 2);
    assert_eq!(daemon.send_idempotent(FREE, "order-1", &[("width", "5")]).await.status(), 200, "of another account");
    for name in ["", &"x".repeat(256), "two words"] {
        let refused = refusal(daemon.send_idempotent(KEY, name, &[]).await).await;
        refused.is(400, "invalid_parameter", Some("Idempotency-Key"));
    }
}

#[tokio::test]
async fn idempotency_keys_of_sandbox_and_live_keys_are_separate() {
    let daemon = Daemon::start().await;
    for _ in 0..2 {
        assert_eq!(daemon.send_idempotent(TEST, "order", &[]).await.status(), 200);
    }
    let other = refusal(daemon.send_idempotent(TEST, "order", &[("width", "5")]).await).await;
    other.is(409, "idempotency_conflict", None);
    assert_eq!(daemon.account(TEST).await["used"], 0);
    // Neither a conflict nor a free repetition.
    let paid = daemon.send_idempotent(KEY, "order", &[]).await;
    assert_eq!((paid.status().as_u16(), cost(&paid)), (200, 0.005));
    assert_eq!(daemon.send_idempotent(TEST, "order", &[]).await.status(), 200);
    assert_eq!(daemon.account(KEY).await["used"], 1);
}

#[tokio::test]
async fn a_failed_request_may_be_repeated_under_its_idempotency_key() {
    let daemon = Daemon::start().await;
    daemon.engine.set(Work::Fail(|| NoSubject.into()));
    assert_eq!(daemon.send_idempotent(KEY, "order", &[]).await.status(), 422);
    daemon.engine.set(Work::Answer);
    let again = daemon.send_idempotent(KEY, "order", &[]).await;
    assert_eq!((again.status().as_u16(), cost(&again)), (200, 0.005));
}

#[tokio::test]
async fn an_estimate_equals_the_later_bill() {
    let daemon = Daemon::start().await;
    for endpoint in ENDPOINTS.iter() {
        let count = if endpoint.input.is_single() { 1 } else { 2 };
        let request = json!({ "endpoint": endpoint.path, "count": count });
        let response = daemon.json_as(KEY, Method::POST, "/estimate", &request).await;
        assert!(response.headers().contains_key("x-service-latency"));
        let estimate: Value = response.json().await.expect("JSON");
        assert_eq!(
            (&estimate["units"], &estimate["unit"], &estimate["currency"]),
            (&json!(count), &json!("image"), &json!("USD"))
        );
        let account = daemon.account(KEY).await;
        let before = account["cost_usd"].as_f64().expect("dollars");
        let used = account["used"].as_u64().expect("a number");
        let expected = estimate["estimated_cost_usd"].as_f64().expect("dollars");
        let billed = match endpoint.input {
            Input::File | Input::FileAndBackground => {
                cost(&daemon.send(endpoint.path, required_fields(endpoint.path)).await)
            }
            Input::Url => cost(&daemon.json_as(KEY, Method::POST, endpoint.path, &json!({ "url": PHOTO })).await),
            Input::Files | Input::Urls => {
                let response = if endpoint.input == Input::Urls {
                    daemon.json_as(KEY, Method::POST, endpoint.path, &json!({ "urls": [PHOTO, PHOTO] })).await
                } else {
                    let files = Form::new().part("files", Part::bytes(vec![1])).part("files", Part::bytes(vec![2]));
                    daemon.post(endpoint.path).multipart(files).send().await.expect("an answer")
                };
                assert_eq!(response.json::<Value>().await.expect("JSON")["succeeded"], 2);
                daemon.wait_until_used(KEY, used + 2).await;
                daemon.account(KEY).await["cost_usd"].as_f64().expect("dollars") - before
            }
        };
        assert!((billed - expected).abs() < 1e-9, "{}: {billed} is not {expected}", endpoint.path);
    }
    for (body, status, code, param) in [
        (json!({ "endpoint": "/fly" }), 400, "invalid_endpoint", "endpoint"),
        (json!({}), 400, "invalid_parameter", "endpoint"),
        (json!({ "endpoint": "/upscale", "scale": 3 }), 400, "invalid_parameter", "scale"),
        (json!({ "endpoint": "/sticker", "stroke_width": 101 }), 400, "invalid_parameter", "stroke_width"),
        (json!({ "endpoint": "/remove", "x": 1 }), 400, "invalid_parameter", "x"),
    ] {
        let response = daemon.json_as(KEY, Method::POST, "/estimate", &body).await;
        refusal(response).await.is(status, code, Some(param));
    }
}

#[tokio::test]
async fn a_large_result_counts_by_its_pixels_in_price_and_rate() {
    let daemon = Daemon::start().await;
    let remaining = |response: &Response| {
        response.headers()["x-ratelimit-remaining"].to_str().expect("ASCII").parse::<u32>().expect("a number")
    };
    let before = daemon.send("/remove", &[]).await;
    let large = [("width", "8192"), ("height", "8192")];
    let answered = daemon.send("/remove", &large).await;
    let estimate = json!({ "endpoint": "/remove", "width": 8192, "height": 8192 });
    let estimated = daemon.json_as(KEY, Method::POST, "/estimate", &estimate).await;
    let after = daemon.send("/remove", &[]).await;
    assert_eq!(
        remaining(&before) - remaining(&after),
        5,
        "four times the pixels of a source, and the last; estimates have another counter"
    );
    let estimate: Value = estimated.json().await.expect("JSON");
    assert_eq!(estimate["estimated_cost_usd"].as_f64(), Some(0.02));
    assert!((cost(&answered) - 0.02).abs() < 1e-9);
}

#[tokio::test]
async fn presets_are_saved_listed_used_and_deleted() {
    let daemon = Daemon::start().await;
    let post = |body: Value| {
        let daemon = &daemon;
        async move { daemon.json_as(KEY, Method::POST, "/presets", &body).await }
    };
    let saved = post(json!({
        "name": "shop", "endpoint": "/studio-shot", "params": { "aspect": "4:5", "width": 800, "bg_color": "#eee" },
    }))
    .await;
    assert_eq!(saved.status(), 200);
    let saved: Value = saved.json().await.expect("JSON");
    let id = saved["id"].as_str().expect("an id").to_owned();
    assert_eq!((&saved["name"], &saved["params"]["width"]), (&json!("shop"), &json!(800)));

    let shot = daemon.send("/studio-shot", &[("preset", &id), ("width", "400")]).await;
    assert_eq!(shot.status(), 200);
    {
        let seen = daemon.engine.seen.lock().expect("no panic inside");
        assert_eq!(seen[0].1.scene.resize.width, Some(400), "a sent field overrides the preset's");
    }
    for (body, status, param) in [
        (json!({ "name": "shop" }), 409, Some("name")),
        (json!({ "name": "other", "id": "preset_none" }), 404, Some("id")),
        (json!({ "params": {} }), 400, Some("name")),
        (json!({ "name": "x", "endpoint": "/fly" }), 400, Some("endpoint")),
        (json!({ "name": "x", "endpoint": "/studio-shot", "params": { "angle": 5 } }), 400, Some("angle")),
        (json!({ "name": "x", "endpoint": "/studio-shot", "params": { "width": 0 } }), 400, Some("width")),
        (json!({ "name": "x", "params": { "nothing": 5 } }), 400, Some("nothing")),
        (json!({ "name": "x", "params": [] }), 400, Some("params")),
        (json!({ "name": "x", "extra": 1 }), 400, Some("extra")),
        (
            json!({ "name": "x", "params": { "bg_url": format!("https://example.org/{}", "a".repeat(20_000)) } }),
            400,
            Some("params"),
        ),
    ] {
        let refused = refusal(post(body.clone()).await).await;
        assert_eq!((refused.status.as_u16(), refused.param.as_deref()), (status, param), "{body}");
    }
    let changed = post(json!({ "id": id, "name": "boutique", "params": { "width": 77 } })).await;
    assert_eq!(changed.status(), 200);
    let list: Value = daemon.get_as(KEY, "/presets").await.json().await.expect("JSON");
    let rows = list["presets"].as_array().expect("a list");
    // The second is `p1`, which exists from the start.
    assert_eq!(rows.len(), 2);
    assert!(rows.iter().any(|row| row["name"] == "boutique" && row["id"] == id));
    let others: Value = daemon.get_as(FREE, "/presets").await.json().await.expect("JSON");
    assert_eq!(others["presets"], json!([]), "presets belong to their account");
    let by_name = json!({ "url": PHOTO, "preset": "boutique" });
    assert_eq!(daemon.json_as(KEY, Method::POST, "/remove-url", &by_name).await.status(), 200);
    let foreign = refusal(daemon.send_as(FREE, "/remove", &[("preset", &id)]).await).await;
    foreign.is(404, "not_found", Some("preset"));

    for name in ["a", "b", "c"] {
        assert_eq!(post(json!({ "name": name })).await.status(), 200);
    }
    let mut names = Vec::new();
    let mut path = "/presets?limit=2".to_owned();
    loop {
        let page: Value = daemon.get_as(KEY, &path).await.json().await.expect("JSON");
        let rows = page["presets"].as_array().expect("a list");
        assert!(rows.len() <= 2);
        names.extend(rows.iter().map(|row| row["name"].as_str().expect("a name").to_owned()));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("/presets?limit=2&cursor={cursor}");
    }
    names.sort_unstable();
    assert_eq!(names, ["a", "b", "boutique", "c", "p1"]);

    let delete = daemon.json_as(KEY, Method::DELETE, "/presets", &json!({ "id": id })).await;
    assert_eq!(delete.json::<Value>().await.expect("JSON"), json!({ "deleted": true, "id": id }));
    let deleted = refusal(daemon.json_as(KEY, Method::DELETE, &format!("/presets?id={id}"), &json!({})).await).await;
    deleted.is(404, "not_found", Some("id"));
}
