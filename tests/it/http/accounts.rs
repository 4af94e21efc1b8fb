//! Plans, quotas, scopes, `Idempotency-Key`, presets, estimates: what a key may do, and what it costs.

use crate::http::daemon::{
    CAPPED, Daemon, EXPIRED, Exchange, FREE, FREE_CAPPED, KEY, PAGE, PAID, SCOPED, TEST, Work, file, form, header,
    number, refusal, required_fields,
};
use backdrop::http::config::HttpConfig;
use backdrop::matting::NoSubject;
use backdrop::recipe::{ENDPOINTS, Input};
use backdrop::store::UnixSeconds;
use futures_util::future::join_all;
use reqwest::multipart::Form;
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};

const PHOTO: &str = "https://example.org/1234";

impl Daemon {
    async fn send_as(&self, key: &str, path: &str, fields: &[(&str, &str)]) -> Response {
        self.upload_as(key, path, fields).answer().await
    }

    pub(crate) async fn json_as(&self, key: &str, method: Method, path: &str, body: &Value) -> Response {
        self.request(key, method, path).json(body).answer().await
    }

    fn named(&self, key: &str, name: &str, fields: &[(&str, &str)]) -> RequestBuilder {
        self.upload_as(key, "/remove", fields).header("idempotency-key", name)
    }

    async fn send_idempotent(&self, key: &str, name: &str, fields: &[(&str, &str)]) -> Response {
        self.named(key, name, fields).answer().await
    }
}

fn cost(response: &Response) -> f64 {
    number(response, "x-service-cost")
}

#[tokio::test]
async fn a_field_above_the_plan_is_402_before_any_fetch_or_work() {
    let daemon = Daemon::start().await;
    let json =
        |field: &str, value: Value| daemon.post_as(FREE, "/remove-url").json(&json!({ "url": PHOTO, field: value }));
    let form = |key, field, value| daemon.upload_as(key, "/studio-shot", &[(field, value)]);
    for (request, field) in [
        (form(FREE, "detect", "high_recall"), "detect"),
        (form(FREE, "engine", "product-v1"), "engine"),
        (form(FREE, "despill", "false"), "despill"),
        (form(PAID, "despill", "true"), "despill"),
        (form(PAID, "watermark", PHOTO), "watermark"),
        (json("despill", json!(0)), "despill"),
        (json("watermark", json!("x")), "watermark"),
        (json("preset", json!("p")), "preset"),
    ] {
        let refused = request.refused(402, "payment_required", Some(field)).await;
        assert_eq!(refused.reason.as_deref(), Some("plan_required"));
    }
    form(FREE, "despill", "maybe").invalid("despill").await;
    assert_eq!((daemon.fetcher.fetches(), daemon.engine.started()), (0, 0));
    for request in [
        form(FREE, "detect", "standard"),
        form(PAID, "detect", "high_recall"),
        form(PAID, "engine", "product-v1"),
        form(KEY, "despill", "true"),
        json("watermark_opacity", json!(0.5)),
    ] {
        assert_eq!(request.answer().await.status(), 200);
    }
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
async fn a_failure_gives_its_unit_and_its_idempotency_key_back_and_each_row_of_a_batch_counts() {
    let daemon = Daemon::start().await;
    daemon.engine.set(Work::Fail(|| NoSubject.into()));
    for _ in 0..3 {
        assert_eq!(daemon.send_idempotent(FREE, "order", &[]).await.status(), 422);
    }
    assert_eq!(daemon.account(FREE).await["used"], 0);
    daemon.engine.set(Work::Answer);
    assert_eq!(daemon.send_idempotent(FREE, "order", &[]).await.status(), 200);
    let urls = json!({ "urls": ["https://example.org/1", "https://example.org/no", "https://example.org/2"] });
    assert_eq!(daemon.post_as(FREE, "/remove-batch-url").json(&urls).value().await["succeeded"], 2);
    assert_eq!(daemon.account(FREE).await["used"], 3);
    assert_eq!(daemon.account(FREE).await["cost_usd"], 0.0);
}

fn remaining_quota(response: &Response) -> Option<u64> {
    header(response, "x-quota-remaining").parse().ok()
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
        let account = daemon.get_as(key, "/account").answer().await;
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
        assert_eq!(header(&daemon.get_as(key, path).answer().await, "x-ratelimit-limit"), limit, "{key} {path}");
    }
    assert_eq!(header(&daemon.send_as(PAID, "/remove", &[]).await, "x-ratelimit-limit"), "14");
    let rate = daemon.account(PAID).await["rate"].take();
    assert_eq!((&rate["limit"], &rate["remaining"]), (&json!(14), &json!(13)), "the rate of pictures");
}

#[tokio::test]
async fn a_key_with_scopes_is_accepted_at_those_endpoints_only() {
    let daemon = Daemon::start().await;
    assert_eq!(daemon.send_as(SCOPED, "/remove", &[]).await.status(), 200);
    for path in ["/account", "/jobs", "/usage"] {
        assert_eq!(daemon.get_as(SCOPED, path).answer().await.status(), 200, "{path}");
    }
    let clip = daemon.send_as(SCOPED, "/video/remove", &[]).await;
    assert_ne!(clip.status(), 403);
    for path in ["/studio-shot", "/remove-url", "/presets"] {
        let refused = daemon.upload_as(SCOPED, path, &[]).refused(403, "forbidden", None).await;
        assert_eq!(refused.reason.as_deref(), Some("out_of_scope"), "{path}");
        assert!(refused.message.contains(path) && refused.message.contains("video/remove"), "{}", refused.message);
    }
    assert_eq!(daemon.engine.started(), 1);
}

#[tokio::test]
async fn the_webhook_secret_is_shown_to_keys_that_may_make_jobs() {
    let daemon = Daemon::start().await;
    for (key, shown) in [(KEY, true), (TEST, true), (SCOPED, true), (PAGE, false)] {
        let account = daemon.get_as(key, "/account").value().await;
        assert_eq!(account.get("webhook_secret").is_some(), shown, "{key}");
    }
}

#[tokio::test]
async fn an_expired_key_is_401_with_the_time_of_its_expiry() {
    let daemon = Daemon::start().await;
    for (key, message) in [(EXPIRED, "expired at 2026-01-01T00:00:00Z"), ("bd_live_other", "is not valid")] {
        let refused = daemon.get_as(key, "/account").refused(401, "unauthorized", None).await;
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
        let response = daemon.get_as(key, path).answer().await;
        let id = response.headers()["x-request-id"].to_str().expect("text").to_owned();
        let usage: Value = response.json().await.expect("JSON");
        assert_eq!(usage, json!({ "usage": rows, "total": sum, "request_id": id }), "{key} {path}");
    }
    for (query, param) in [("from=today", "from"), ("from=2024-01-01&to=2026-01-01", "from"), ("since=1", "since")] {
        daemon.get_as(PAID, &format!("/usage?{query}")).invalid(param).await;
    }
}

#[tokio::test]
async fn a_repeated_request_under_an_idempotency_key_is_billed_once() {
    let daemon = Daemon::start().await;
    let first = daemon.send_idempotent(KEY, "order-1", &[]).await;
    let second = daemon.send_idempotent(KEY, "order-1", &[]).await;
    for (response, price) in [(&first, 0.005), (&second, 0.0)] {
        assert_eq!((response.status().as_u16(), cost(response)), (200, price));
    }
    assert_eq!(first.bytes().await.expect("a body"), second.bytes().await.expect("a body"));
    assert_eq!(daemon.account(KEY).await["used"], 1);
    let other_model = daemon.named(KEY, "order-1", &[]).header("x-service-model", "fgnet-384-quality");
    for other in [daemon.named(KEY, "order-1", &[("width", "5")]), other_model] {
        other.refused(409, "idempotency_conflict", None).await;
    }
    let together = join_all((0..8).map(|_| daemon.send_idempotent(KEY, "order-2", &[]))).await;
    let billed: f64 = together.iter().map(cost).sum();
    assert!(together.iter().all(|response| response.status() == 200));
    assert!((billed - 0.005).abs() < 1e-9, "{billed}");
    assert_eq!(daemon.account(KEY).await["used"], 2);
    assert_eq!(daemon.send_idempotent(FREE, "order-1", &[("width", "5")]).await.status(), 200, "of another account");
    for name in ["", &"x".repeat(256), "two words"] {
        daemon.named(KEY, name, &[]).invalid("Idempotency-Key").await;
    }
}

#[tokio::test]
async fn a_sandbox_key_is_free_stamps_its_pictures_and_has_separate_idempotency_keys() {
    let daemon = Daemon::start().await;
    for _ in 0..2 {
        let response = daemon.send_idempotent(TEST, "order", &[]).await;
        assert_eq!((response.status().as_u16(), cost(&response)), (200, 0.0));
        assert_eq!(daemon.engine.last_recipe().scene.stamp, Some("TEST"));
    }
    daemon.named(TEST, "order", &[("width", "5")]).refused(409, "idempotency_conflict", None).await;
    assert_eq!(daemon.account(TEST).await["used"], 0);
    // Neither a conflict nor a free repetition.
    let paid = daemon.send_idempotent(KEY, "order", &[]).await;
    assert_eq!((paid.status().as_u16(), cost(&paid)), (200, 0.005));
    assert_eq!(daemon.send_idempotent(TEST, "order", &[]).await.status(), 200);
    assert_eq!(daemon.account(KEY).await["used"], 1);
}

#[tokio::test]
async fn an_estimate_equals_the_later_bill() {
    let daemon = Daemon::start().await;
    let estimate = |body: Value| daemon.post("/estimate").json(&body);
    for endpoint in ENDPOINTS.iter() {
        let count = if endpoint.input.is_single() { 1 } else { 2 };
        let estimated = estimate(json!({ "endpoint": endpoint.path, "count": count })).value().await;
        assert_eq!(
            (&estimated["units"], &estimated["unit"], &estimated["currency"]),
            (&json!(count), &json!("image"), &json!("USD"))
        );
        let cost = async || daemon.account(KEY).await["cost_usd"].as_f64().expect("dollars");
        let before = cost().await;
        let request = daemon.post(endpoint.path);
        let request = match endpoint.input {
            Input::File | Input::FileAndBackground => request.multipart(form(required_fields(endpoint.path))),
            Input::Url => request.json(&json!({ "url": PHOTO })),
            Input::Urls => request.json(&json!({ "urls": [PHOTO, PHOTO] })),
            Input::Files => request.multipart(Form::new().part("files", file(vec![1])).part("files", file(vec![2]))),
        };
        let response = request.answer().await;
        assert_eq!(response.status(), 200, "{}", endpoint.path);
        // A batch has finished when its body ends.
        response.bytes().await.expect("a body");
        let billed = cost().await - before;
        let expected = estimated["estimated_cost_usd"].as_f64().expect("dollars");
        assert!((billed - expected).abs() < 1e-9, "{}: {billed} is not {expected}", endpoint.path);
    }
    estimate(json!({ "endpoint": "/fly" })).refused(400, "invalid_endpoint", Some("endpoint")).await;
    for (body, param) in [
        (json!({}), "endpoint"),
        (json!({ "endpoint": "/upscale", "scale": 3 }), "scale"),
        (json!({ "endpoint": "/sticker", "stroke_width": 101 }), "stroke_width"),
        (json!({ "endpoint": "/remove", "x": 1 }), "x"),
    ] {
        estimate(body).invalid(param).await;
    }
}

#[tokio::test]
async fn a_large_result_counts_by_its_pixels_in_price_and_rate() {
    let daemon = Daemon::start().await;
    let remaining = async || number(&daemon.send("/remove", &[]).await, "x-ratelimit-remaining");
    let before = remaining().await;
    let answered = daemon.send("/remove", &[("width", "8192"), ("height", "8192")]).await;
    let estimate = json!({ "endpoint": "/remove", "width": 8192, "height": 8192 });
    let estimate = daemon.post("/estimate").json(&estimate).value().await;
    // Four times the pixels of a source, and the last picture; estimates have another counter.
    assert_eq!(before - remaining().await, 5.0);
    assert_eq!(estimate["estimated_cost_usd"], 0.02);
    assert!((cost(&answered) - 0.02).abs() < 1e-9);
}

#[tokio::test]
async fn presets_are_saved_listed_used_and_deleted() {
    let daemon = Daemon::start().await;
    let post = |body: Value| daemon.post("/presets").json(&body);
    let params = json!({ "aspect": "4:5", "width": 800, "bg_color": "#eee" });
    let saved = post(json!({ "name": "shop", "endpoint": "/studio-shot", "params": params })).value().await;
    let id = saved["id"].as_str().expect("an id").to_owned();
    assert_eq!((&saved["name"], &saved["params"]["width"]), (&json!("shop"), &json!(800)));

    let shot = daemon.send("/studio-shot", &[("preset", &id), ("width", "400")]).await;
    assert_eq!(shot.status(), 200);
    let width = daemon.engine.last_recipe().scene.resize.width;
    assert_eq!(width, Some(400), "a sent field overrides the preset's");
    let long = format!("https://example.org/{}", "a".repeat(20_000));
    for (body, status, param) in [
        (json!({ "name": "shop" }), 409, "name"),
        (json!({ "name": "other", "id": "preset_none" }), 404, "id"),
        (json!({ "params": {} }), 400, "name"),
        (json!({ "name": "x", "endpoint": "/fly" }), 400, "endpoint"),
        (json!({ "name": "x", "endpoint": "/studio-shot", "params": { "angle": 5 } }), 400, "angle"),
        (json!({ "name": "x", "endpoint": "/studio-shot", "params": { "width": 0 } }), 400, "width"),
        (json!({ "name": "x", "params": { "nothing": 5 } }), 400, "nothing"),
        (json!({ "name": "x", "params": [] }), 400, "params"),
        (json!({ "name": "x", "extra": 1 }), 400, "extra"),
        (json!({ "name": "x", "params": { "bg_url": long } }), 400, "params"),
    ] {
        let refused = refusal(post(body.clone()).answer().await).await;
        assert_eq!((refused.status.as_u16(), refused.param.as_deref()), (status, Some(param)), "{body}");
    }
    let changed = post(json!({ "id": id, "name": "boutique", "params": { "width": 77 } })).answer().await;
    assert_eq!(changed.status(), 200);
    let list = daemon.get_as(KEY, "/presets").value().await;
    let rows = list["presets"].as_array().expect("a list");
    // The second is `p1`, which exists from the start.
    assert_eq!(rows.len(), 2);
    assert!(rows.iter().any(|row| row["name"] == "boutique" && row["id"] == id));
    let others = daemon.get_as(FREE, "/presets").value().await;
    assert_eq!(others["presets"], json!([]), "presets belong to their account");
    let by_name = json!({ "url": PHOTO, "preset": "boutique" });
    assert_eq!(daemon.json_as(KEY, Method::POST, "/remove-url", &by_name).await.status(), 200);
    daemon.upload_as(FREE, "/remove", &[("preset", &id)]).refused(404, "not_found", Some("preset")).await;

    assert_eq!(post(json!({ "name": "other" })).answer().await.status(), 200);
    let mut page = daemon.get_as(KEY, "/presets?limit=2").value().await;
    assert_eq!(page["presets"].as_array().map(Vec::len), Some(2));
    let cursor = page["next_cursor"].as_str().expect("there is one more");
    page = daemon.get_as(KEY, &format!("/presets?limit=2&cursor={cursor}")).value().await;
    assert_eq!((page["presets"].as_array().map(Vec::len), page["next_cursor"].as_str()), (Some(1), None));

    let delete = daemon.json_as(KEY, Method::DELETE, "/presets", &json!({ "id": id })).await;
    assert_eq!(delete.json::<Value>().await.expect("JSON"), json!({ "deleted": true, "id": id }));
    let again = daemon.request(KEY, Method::DELETE, &format!("/presets?id={id}")).json(&json!({}));
    again.refused(404, "not_found", Some("id")).await;
}
