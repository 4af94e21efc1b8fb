//! `/video/remove` and `/jobs` over real sockets, with fakes for ffprobe and the video worker.

use crate::http::daemon::{ClipWork, Daemon, FREE, KEY, LONG, PAID, TEST, raw_upload_to, refusal, until};
use backdrop::http::config::HttpConfig;
use backdrop::jobs::JobState;
use futures_util::future::join_all;
use reqwest::multipart::{Form, Part};
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

const PATH: &str = "/video/remove";
const CLIP: &str = "clip 1.5";

/// A form with these fields and then a clip.
fn form(fields: &[(&str, &str)], clip: &str) -> Form {
    let form =
        fields.iter().fold(Form::new(), |form, (name, value)| form.text((*name).to_owned(), (*value).to_owned()));
    form.part("file", Part::bytes(clip.as_bytes().to_vec()).file_name("a.mp4"))
}

impl Daemon {
    fn request(&self, key: &str, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, self.url(path)).bearer_auth(key).timeout(LONG)
    }

    async fn clip(&self, key: &str, fields: &[(&str, &str)], clip: &str) -> Response {
        self.request(key, Method::POST, PATH).multipart(form(fields, clip)).send().await.expect("an answer")
    }

    async fn clip_by_url(&self, body: &Value) -> Response {
        self.request(KEY, Method::POST, PATH).json(body).send().await.expect("an answer")
    }

    async fn named_clip(&self, name: &str, fields: &[(&str, &str)], clip: &str) -> Response {
        let request = self.request(KEY, Method::POST, PATH).header("idempotency-key", name);
        request.multipart(form(fields, clip)).send().await.expect("an answer")
    }

    pub(crate) async fn call(&self, key: &str, method: Method, path: &str) -> Response {
        self.request(key, method, path).send().await.expect("an answer")
    }

    async fn json(&self, key: &str, path: &str) -> Value {
        let response = self.call(key, Method::GET, path).await;
        assert_eq!(response.status(), 200, "{path}");
        response.json().await.expect("JSON")
    }

    /// Polls a job until it is done or has failed.
    pub(crate) async fn wait_for_end(&self, key: &str, id: &str) -> Value {
        let end = async {
            loop {
                let job = self.json(key, &format!("/jobs/{id}")).await;
                if ["done", "error"].contains(&job["status"].as_str().expect("a word")) {
                    return job;
                }
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(LONG, end).await.expect("the job ends")
    }

    /// A finished job.
    pub(crate) async fn done(&self) -> Value {
        self.done_with(CLIP).await
    }

    /// The same with another clip.
    pub(crate) async fn done_with(&self, clip: &str) -> Value {
        let id = id(&created(self.clip(KEY, &[], clip).await).await);
        self.wait_for_end(KEY, &id).await
    }
}

/// The job in a 202.
async fn created(response: Response) -> Value {
    assert_eq!(response.status(), 202);
    response.json().await.expect("JSON")
}

fn id(job: &Value) -> String {
    job["job_id"].as_str().expect("an id").to_owned()
}

#[tokio::test]
async fn a_clip_becomes_a_job_whose_result_can_be_downloaded() {
    let daemon = Daemon::start().await;
    daemon.worker.set(ClipWork::Wait);
    let fields = [("format", "mov"), ("smoothing", "7"), ("audio", "false")];
    let response = daemon.clip(KEY, &fields, CLIP).await;
    assert_eq!(response.status(), 202);
    let header = |name: &str| response.headers()[name].to_str().expect("ASCII").to_owned();
    assert_eq!(header("retry-after"), "2");
    assert!(response.headers().contains_key("x-service-latency"));
    let location = header("location");
    let job: Value = response.json().await.expect("JSON");
    assert_eq!(location, format!("/jobs/{}", id(&job)));
    assert_eq!((&job["status_url"], &job["format"], &job["progress"]), (&json!(location), &json!("mov"), &json!(0)));
    assert_eq!(job["status"], "queued");
    assert!(id(&job).starts_with("job_") && id(&job).len() == 28, "{job}");

    until("the work", || daemon.worker.started() == 1).await;
    let in_progress = daemon.call(KEY, Method::GET, &location).await;
    assert_eq!(in_progress.headers()["retry-after"], "2");
    let in_progress: Value = in_progress.json().await.expect("JSON");
    assert_eq!((&in_progress["status"], &in_progress["progress"]), (&json!("processing"), &json!(50)));
    assert!(in_progress.get("result_url").is_none() && in_progress.get("output_seconds").is_none(), "{in_progress}");
    {
        let seen = daemon.worker.seen.lock().expect("no panic inside");
        let (job, clip) = &seen[0];
        assert_eq!((job.account.as_str(), job.test, job.state), ("default", false, JobState::Processing));
        let sent: Vec<_> = job.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!((sent.as_slice(), clip.as_slice()), (fields.as_slice(), CLIP.as_bytes()));
    }

    daemon.worker.release.notify_one();
    let done = daemon.wait_for_end(KEY, &id(&job)).await;
    assert_eq!(
        (&done["status"], &done["progress"], &done["output_seconds"]),
        (&json!("done"), &json!(100), &json!(1.5))
    );
    assert_eq!((&done["job_id"], &done["created_at"]), (&job["job_id"], &job["created_at"]));
    assert_eq!(done["size_bytes"], "made of clip 1.5".len());
    let url = done["result_url"].as_str().expect("an address");
    assert!(url.starts_with(&daemon.url("/results/")), "{url}");
    let result = daemon.client.get(url).send().await.expect("an answer");
    assert_eq!((result.status().as_u16(), result.headers()["content-type"].to_str().unwrap()), (200, "video/webm"));
    assert_eq!(result.bytes().await.expect("a body"), "made of clip 1.5");
    assert!(!daemon.call(KEY, Method::GET, &location).await.headers().contains_key("retry-after"));
}

#[tokio::test]
async fn a_job_costs_its_estimate_and_a_sandbox_job_nothing() {
    let daemon = Daemon::start().await;
    let done = daemon.done().await;
    let request = json!({ "endpoint": PATH, "seconds": done["output_seconds"] });
    let estimate = daemon.request(KEY, Method::POST, "/estimate").json(&request).send().await.expect("an answer");
    let estimate: Value = estimate.json().await.expect("JSON");
    let account = daemon.json(KEY, "/account").await;
    assert_eq!(account["cost_usd"], estimate["estimated_cost_usd"]);
    assert_eq!((&account["cost_usd"], &account["used"]), (&json!(0.075), &json!(2)));
    let total = json!({ "images": 2, "seconds": 1.5, "cost_usd": 0.075 });
    assert_eq!(daemon.json(KEY, "/usage").await["total"], total);
    let sandbox = id(&created(daemon.clip(TEST, &[], CLIP).await).await);
    assert_eq!(daemon.wait_for_end(TEST, &sandbox).await["status"], "done");
    assert_eq!(daemon.json(KEY, "/account").await["cost_usd"], 0.075);
    assert!(daemon.worker.seen.lock().expect("no panic inside")[1].0.test);
}

#[tokio::test]
async fn a_clip_may_be_named_by_url() {
    let daemon = Daemon::start().await;
    let body = json!({ "url": "https://example.org/clip-2", "smoothing": 0, "audio": false, "format": "gif" });
    let job = created(daemon.clip_by_url(&body).await).await;
    assert_eq!(daemon.wait_for_end(KEY, &id(&job)).await["status"], "done");
    let seen = daemon.worker.seen.lock().expect("no panic inside");
    let (job, clip) = &seen[0];
    assert_eq!((job.format.as_str(), clip.as_slice()), ("gif", b"clip 2".as_slice()));
    // JSON's members have no order.
    let mut fields = job.fields.clone();
    fields.sort();
    let pairs = [("audio", "false"), ("format", "gif"), ("smoothing", "0")];
    assert_eq!(fields, pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

#[tokio::test]
async fn checks_of_a_clip_run_in_the_documented_order() {
    let daemon = Daemon::start().await;
    daemon.inspector.missing.store(true, Ordering::SeqCst);
    // Everything is wrong at first and is corrected step by step.
    let no_key = daemon.client.post(daemon.url(PATH)).multipart(form(&[("smoothing", "101")], "text"));
    refusal(no_key.send().await.expect("an answer")).await.is(401, "unauthorized", None);
    let refused = refusal(daemon.clip(FREE, &[("smoothing", "101")], "text").await).await;
    refused.is(400, "invalid_parameter", Some("smoothing"));
    let refused = refusal(daemon.clip(FREE, &[("egde", "soft")], "text").await).await;
    refused.is(400, "invalid_parameter", Some("egde"));
    let refused = refusal(daemon.clip(FREE, &[], "text").await).await;
    refused.is(503, "unavailable", None);
    assert!(refused.message.contains("ffmpeg") && refused.headers.contains_key("retry-after"), "{}", refused.message);
    daemon.inspector.missing.store(false, Ordering::SeqCst);
    let probes = || daemon.inspector.probes.load(Ordering::SeqCst);
    // An invalid combination is found when all fields are known.
    let refused = refusal(daemon.clip(FREE, &[("format", "mp4")], "text").await).await;
    refused.is(400, "invalid_parameter", Some("format"));
    assert!(refused.message.contains("bg_color") && refused.message.contains("channels=alpha"), "{}", refused.message);
    assert_eq!(probes(), 0, "a clip was probed in vain");
    for (clip, status, code) in [
        ("text", 400, "invalid_image"),
        ("", 400, "invalid_image"),
        ("avi", 415, "unsupported_media_type"),
        ("sound", 422, "no_subject_detected"),
        ("long", 413, "payload_too_large"),
    ] {
        refusal(daemon.clip(FREE, &[], clip).await).await.is(status, code, Some("file"));
    }
    refusal(daemon.clip(FREE, &[], "broken").await).await.is(500, "internal_error", None);
    let busy = refusal(daemon.clip(FREE, &[], "busy").await).await;
    busy.is(503, "unavailable", None);
    assert!(busy.headers.contains_key("retry-after"), "{}", busy.message);
    // 50 seconds remain, and 51 would be billed.
    let refused = refusal(daemon.clip(FREE, &[], "clip 50.1").await).await;
    refused.is(402, "payment_required", None);
    let job = created(daemon.clip(FREE, &[], "clip 50").await).await;
    assert_eq!(daemon.wait_for_end(FREE, &id(&job)).await["status"], "done");
    assert_eq!(probes(), 8, "an empty clip is not probed");
    assert_eq!(daemon.json(FREE, "/jobs").await["jobs"].as_array().expect("a list").len(), 1);
}

#[tokio::test]
async fn checks_of_a_clip_by_url_run_in_the_same_order() {
    let daemon = Daemon::start().await;
    daemon.inspector.missing.store(true, Ordering::SeqCst);
    let far = "https://example.org/nowhere";
    for (body, param) in [
        (json!({}), "url"),
        (json!({ "url": "http://example.org/clip-1" }), "url"),
        (json!({ "url": 5 }), "url"),
        (json!({ "url": far, "smoothing": "seven" }), "smoothing"),
        (json!({ "url": far, "smoothing": [7] }), "smoothing"),
        (json!({ "url": far, "file": "x" }), "file"),
        (json!({ "url": far, "format": "mp4" }), "format"),
        (json!({ "url": far, "webhook_url": "http://example.org/" }), "webhook_url"),
    ] {
        refusal(daemon.clip_by_url(&body).await).await.is(400, "invalid_parameter", Some(param));
    }
    refusal(daemon.clip_by_url(&json!({ "url": far })).await).await.is(503, "unavailable", None);
    daemon.inspector.missing.store(false, Ordering::SeqCst);
    assert_eq!(daemon.fetcher.fetches(), 0, "fetched before the checks");
    refusal(daemon.clip_by_url(&json!({ "url": far })).await).await.is(424, "fetch_failed", Some("url"));
    let large = json!({ "url": "https://example.org/large" });
    refusal(daemon.clip_by_url(&large).await).await.is(413, "payload_too_large", Some("url"));
    for other in ["avi", "sound", "text"] {
        let other = json!({ "url": format!("https://example.org/{other}") });
        let refused = refusal(daemon.clip_by_url(&other).await).await;
        refused.is(415, "unsupported_media_type", Some("url"));
        assert!(refused.message.starts_with("there is no video at the URL"), "{}", refused.message);
    }
    let response = daemon.request(KEY, Method::POST, PATH).body("x").send().await.expect("an answer");
    refusal(response).await.is(415, "unsupported_media_type", None);
    let response = daemon.request(KEY, Method::POST, &format!("{PATH}?format=gif")).multipart(form(&[], CLIP));
    refusal(response.send().await.expect("an answer")).await.is(400, "invalid_parameter", Some("format"));
}

#[tokio::test]
async fn a_form_without_a_clip_or_with_two_is_refused() {
    let daemon = Daemon::start().await;
    let without = Form::new().text("format", "gif");
    let response = daemon.request(KEY, Method::POST, PATH).multipart(without).send().await.expect("an answer");
    refusal(response).await.is(400, "invalid_parameter", Some("file"));
    let two = form(&[], CLIP).part("file", Part::bytes(b"clip 2".to_vec()));
    let response = daemon.request(KEY, Method::POST, PATH).multipart(two).send().await.expect("an answer");
    refusal(response).await.is(400, "invalid_parameter", Some("file"));
    // Fields behind the clip count as well.
    let behind = form(&[], CLIP).text("format", "gif");
    let job = created(daemon.request(KEY, Method::POST, PATH).multipart(behind).send().await.expect("an answer")).await;
    assert_eq!(job["format"], "gif");
    let behind = form(&[], CLIP).text("smoothing", "101");
    let response = daemon.request(KEY, Method::POST, PATH).multipart(behind).send().await.expect("an answer");
    refusal(response).await.is(400, "invalid_parameter", Some("smoothing"));
    assert_eq!(daemon.json(KEY, "/jobs").await["jobs"].as_array().expect("a list").len(), 1);
}

#[tokio::test]
async fn a_job_is_visible_with_its_own_key_only() {
    let daemon = Daemon::start().await;
    let job = daemon.done().await;
    let path = format!("/jobs/{}", id(&job));
    // Also the sandbox key of the same account.
    for key in [FREE, PAID, TEST] {
        for method in [Method::GET, Method::DELETE] {
            refusal(daemon.call(key, method, &path).await).await.is(404, "not_found", Some("job_id"));
        }
        assert_eq!(daemon.json(key, "/jobs").await, json!({ "jobs": [] }));
    }
    let without = daemon.client.get(daemon.url(&path)).send().await.expect("an answer");
    refusal(without).await.is(401, "unauthorized", None);
    assert_eq!(daemon.json(KEY, &path).await["status"], "done");
    for unknown in ["job_x", "%20", "%2e%2e%2f", &"x".repeat(1000)] {
        refusal(daemon.call(KEY, Method::GET, &format!("/jobs/{unknown}")).await).await.is(
            404,
            "not_found",
            Some("job_id"),
        );
    }
    // GET ignores cache-busting parameters; DELETE refuses unknown ones.
    for query in ["?", "?_=1795950000", "?x=1&y", "?limit=0", "?%ff=&&"] {
        assert_eq!(daemon.json(KEY, &format!("{path}{query}")).await["status"], "done", "{query}");
        let account = daemon.json(KEY, &format!("/account{query}")).await;
        assert_eq!(account["account"], "default", "{query}");
    }
    refusal(daemon.call(KEY, Method::DELETE, &format!("{path}?x=1")).await).await.is(
        400,
        "invalid_parameter",
        Some("x"),
    );
    let post = refusal(daemon.call(KEY, Method::POST, &path).await).await;
    post.is(405, "method_not_allowed", None);
    assert_eq!(post.headers["allow"], "GET, HEAD, PATCH, DELETE");
}

#[tokio::test]
async fn a_repeated_request_under_an_idempotency_key_is_the_same_job() {
    let daemon = Daemon::start().await;
    let first = created(daemon.named_clip("order-1", &[], CLIP).await).await;
    daemon.wait_for_end(KEY, &id(&first)).await;
    let probes = daemon.inspector.probes.load(Ordering::SeqCst);
    let again = created(daemon.named_clip("order-1", &[], CLIP).await).await;
    assert_eq!((&again["job_id"], &again["status"]), (&first["job_id"], &json!("done")));
    assert_eq!(daemon.inspector.probes.load(Ordering::SeqCst), probes, "the repetition was probed");
    for (fields, clip) in [(&[("format", "gif")][..], CLIP), (&[], "clip 2")] {
        let other = refusal(daemon.named_clip("order-1", fields, clip).await).await;
        other.is(409, "idempotency_conflict", None);
    }
    let together = join_all((0..6).map(|_| daemon.named_clip("order-2", &[], CLIP))).await;
    let mut ids = Vec::new();
    for response in together {
        ids.push(id(&created(response).await));
    }
    ids.dedup();
    assert_eq!(ids.len(), 1, "{ids:?}");
    daemon.wait_for_end(KEY, &ids[0]).await;
    assert_eq!((daemon.worker.started(), &daemon.json(KEY, "/account").await["cost_usd"]), (2, &json!(0.15)));
    let url = json!({ "url": "https://example.org/clip-2" });
    let by_url = || daemon.request(KEY, Method::POST, PATH).header("idempotency-key", "order-3").json(&url).send();
    let first = created(by_url().await.expect("an answer")).await;
    let again = created(by_url().await.expect("an answer")).await;
    assert_eq!((&first["job_id"], daemon.fetcher.fetches()), (&again["job_id"], 1), "it is fetched once");
    let unusable = refusal(daemon.named_clip("two words", &[], CLIP).await).await;
    unusable.is(400, "invalid_parameter", Some("Idempotency-Key"));
}

#[tokio::test]
async fn a_repetition_returns_its_job_although_the_quota_is_used_up() {
    let daemon = Daemon::start().await;
    let send = || {
        let request = daemon.request(FREE, Method::POST, PATH).header("idempotency-key", "all-of-it");
        request.multipart(form(&[], "clip 50")).send()
    };
    let first = created(send().await.expect("an answer")).await;
    let again = created(send().await.expect("an answer")).await;
    assert_eq!(first["job_id"], again["job_id"]);
}

#[tokio::test]
async fn waiting_jobs_reserve_quota_and_cancelled_ones_release_it() {
    let daemon = Daemon::start().await;
    daemon.worker.set(ClipWork::Wait);
    let job = id(&created(daemon.clip(FREE, &[], "clip 30").await).await);
    refusal(daemon.clip(FREE, &[], "clip 30").await).await.is(402, "payment_required", None);
    let cancelled = daemon.call(FREE, Method::DELETE, &format!("/jobs/{job}")).await;
    assert_eq!(cancelled.status(), 200);
    let again = daemon.clip(FREE, &[], "clip 30").await;
    assert_eq!(again.status(), 202);
    let account = daemon.json(FREE, "/account").await;
    assert_eq!((&account["used"], &account["cost_usd"]), (&json!(0), &json!(0.0)));
}

#[tokio::test]
async fn a_clip_that_the_quota_covers_costs_nothing() {
    let daemon = Daemon::start().await;
    let job = id(&created(daemon.clip(FREE, &[], CLIP).await).await);
    assert_eq!(daemon.wait_for_end(FREE, &job).await["status"], "done");
    let account = daemon.json(FREE, "/account").await;
    assert_eq!((&account["used"], &account["cost_usd"]), (&json!(2), &json!(0.0)));
    let total = json!({ "images": 2, "seconds": 1.5, "cost_usd": 0.0 });
    assert_eq!(daemon.json(FREE, "/usage").await["total"], total);
}

#[tokio::test]
async fn deleting_cancels_a_running_job_and_removes_an_ended_one() {
    let daemon = Daemon::start().await;
    daemon.worker.set(ClipWork::Wait);
    let path = format!("/jobs/{}", id(&created(daemon.clip(KEY, &[], CLIP).await).await));
    until("the work", || daemon.worker.started() == 1).await;
    let cancelled: Value = daemon.call(KEY, Method::DELETE, &path).await.json().await.expect("JSON");
    assert_eq!((&cancelled["status"], &cancelled["error"]["code"]), (&json!("error"), &json!("cancelled")));
    until("the end of the work", || daemon.worker.dropped.load(Ordering::SeqCst) == 1).await;
    assert_eq!(daemon.json(KEY, &path).await["error"]["code"], "cancelled");
    let deleted: Value = daemon.call(KEY, Method::DELETE, &path).await.json().await.expect("JSON");
    assert_eq!(deleted, json!({ "deleted": true, "job_id": path.trim_start_matches("/jobs/") }));
    refusal(daemon.call(KEY, Method::GET, &path).await).await.is(404, "not_found", Some("job_id"));

    daemon.worker.set(ClipWork::Make);
    let done = daemon.done().await;
    let url = done["result_url"].as_str().expect("an address");
    let path = format!("/jobs/{}", id(&done));
    assert_eq!(daemon.call(KEY, Method::DELETE, &path).await.status(), 200);
    refusal(daemon.client.get(url).send().await.expect("an answer")).await.is(404, "not_found", None);
    assert_eq!(std::fs::read_dir(daemon.folder.path().join("results")).expect("a folder").count(), 0);
}

#[tokio::test]
async fn a_failed_job_has_its_error_code_and_costs_nothing() {
    let daemon = Daemon::start().await;
    daemon.worker.set(ClipWork::Fail);
    let job = daemon.done().await;
    assert_eq!((&job["status"], &job["error"]["code"]), (&json!("error"), &json!("no_subject_detected")));
    assert!(job.get("result_url").is_none() && job.get("output_seconds").is_none(), "{job}");
    assert_eq!(daemon.json(KEY, "/account").await["used"], 0);
}

#[tokio::test]
async fn jobs_are_listed_newest_first_in_pages() {
    let daemon = Daemon::start().await;
    let mut made = Vec::new();
    for _ in 0..5 {
        made.insert(0, id(&created(daemon.clip(KEY, &[], CLIP).await).await));
    }
    let (mut listed, mut path) = (Vec::new(), "/jobs?limit=2".to_owned());
    let mut pages = 0;
    loop {
        let page = daemon.json(KEY, &path).await;
        let jobs = page["jobs"].as_array().expect("a list");
        listed.extend(jobs.iter().map(id));
        pages += 1;
        let Some(next) = page.get("next_cursor") else { break };
        assert_eq!(jobs.len(), 2);
        path = format!("/jobs?limit=2&cursor={}", next.as_str().expect("text"));
    }
    assert_eq!((listed, pages), (made.clone(), 3));
    let all = daemon.json(KEY, "/jobs").await;
    assert_eq!(all["jobs"].as_array().expect("a list").iter().map(id).collect::<Vec<_>>(), made);
    for (query, param) in
        [("limit=0", "limit"), ("limit=101", "limit"), ("limit=x", "limit"), ("cursor=x", "cursor"), ("x=1", "x")]
    {
        let refused = refusal(daemon.call(KEY, Method::GET, &format!("/jobs?{query}")).await).await;
        refused.is(400, "invalid_parameter", Some(param));
    }
    let twice = refusal(daemon.call(KEY, Method::GET, "/jobs?limit=1&limit=2").await).await;
    twice.is(400, "invalid_parameter", Some("limit"));
}

#[tokio::test]
async fn the_waiting_jobs_of_a_key_are_limited() {
    let daemon = Daemon::start().await;
    daemon.worker.set(ClipWork::Wait);
    for _ in 0..20 {
        created(daemon.clip(KEY, &[], CLIP).await).await;
    }
    let refused = refusal(daemon.clip(KEY, &[], CLIP).await).await;
    refused.is(429, "rate_limit_exceeded", None);
    assert!(refused.headers.contains_key("retry-after"));
    assert_eq!(daemon.clip(PAID, &[], CLIP).await.status(), 202, "another key has its own");
}

#[tokio::test]
async fn a_clip_above_200_megabytes_is_413_by_its_announced_and_by_its_received_length() {
    let daemon = Daemon::start().await;
    let (head, _) = raw_upload_to(PATH, b"");
    // Announced: refused when its part begins.
    let mut announced = daemon.connect().await;
    let head_of = |length: &str| {
        let lines = head.lines().filter(|line| !line.starts_with("content-length"));
        lines.map(|line| format!("{line}\r\n")).collect::<String>() + length + "\r\n\r\n"
    };
    announced.write(head_of("content-length: 300000000")).await;
    announced.write("--B\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nclip 1.5").await;
    let reply = announced.reply().await.expect("a reply");
    assert!(reply.starts_with("HTTP/1.1 413 ") && reply.contains("payload_too_large"), "{reply}");
    drop(announced);
    // Not announced: refused at the first byte too many, and the received bytes are deleted.
    let part = b"--B\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n".to_vec();
    let zeros = bytes::Bytes::from(vec![0; 1 << 20]);
    let pieces = std::iter::once(part.into()).chain(std::iter::repeat_n(zeros, 192));
    let body = reqwest::Body::wrap_stream(futures_util::stream::iter(pieces.map(Ok::<_, std::io::Error>)));
    let request = daemon.request(KEY, Method::POST, PATH).timeout(10 * LONG);
    let request = request.header("content-type", "multipart/form-data; boundary=B").body(body);
    // The rest of the body may still be on its way when the reply comes.
    if let Ok(response) = request.send().await {
        refusal(response).await.is(413, "payload_too_large", Some("file"));
    }
    assert_eq!(daemon.inspector.probes.load(Ordering::SeqCst), 0);
    let folder = daemon.folder.path().join("jobs");
    until("the deletion of the received bytes", || {
        std::fs::read_dir(&folder).is_ok_and(|entries| entries.count() == 0)
    })
    .await;
}

#[tokio::test]
async fn concurrent_uploads_of_clips_are_limited() {
    let daemon = Daemon::start().await;
    let (head, body) = raw_upload_to(PATH, CLIP.as_bytes());
    let (begin, end) = body.split_at(body.len() - 12);
    let mut slow = Vec::new();
    for _ in 0..8 {
        let mut connection = daemon.connect().await;
        connection.write(format!("{head}\r\n")).await;
        connection.write(begin).await;
        slow.push(connection);
    }
    let folder = daemon.folder.path().join("jobs");
    until("all of them", || std::fs::read_dir(&folder).is_ok_and(|entries| entries.count() == 8)).await;
    let refused = refusal(daemon.clip(KEY, &[], CLIP).await).await;
    refused.is(429, "rate_limit_exceeded", None);
    assert!(refused.headers.contains_key("retry-after"));
    let url = json!({ "url": "https://example.org/clip-2" });
    refusal(daemon.clip_by_url(&url).await).await.is(429, "rate_limit_exceeded", None);
    // The last slots are for other accounts.
    assert_eq!(daemon.clip(PAID, &[], CLIP).await.status(), 202);
    // One client disconnects; the others are served.
    slow.pop();
    until("a place", || std::fs::read_dir(&folder).is_ok_and(|entries| entries.count() == 7)).await;
    for mut connection in slow {
        connection.write(end).await;
        let reply = connection.reply().await.expect("a reply");
        assert!(reply.starts_with("HTTP/1.1 202 "), "{reply}");
    }
    assert_eq!(daemon.clip(KEY, &[], CLIP).await.status(), 202);
}

#[tokio::test]
async fn result_urls_begin_with_the_configured_public_url() {
    let config = HttpConfig { public_url: Some("https://api.example.org/cut/".into()), ..HttpConfig::default() };
    let daemon = Daemon::start_with(config, 10_000).await;
    let done = daemon.done().await;
    let url = done["result_url"].as_str().expect("an address");
    assert!(url.starts_with("https://api.example.org/cut/results/job_"), "{url}");
}

#[tokio::test]
async fn a_bulk_run_needs_a_valid_body_and_then_a_database() {
    let daemon = Daemon::start().await;
    let post = async |body: Value| {
        let request = daemon.request(KEY, Method::POST, "/bulk").json(&body);
        refusal(request.send().await.expect("an answer")).await
    };
    let places = json!({ "from": "s3://shop/photos", "to": "s3://shop/cutouts" });
    let refused = post(places.clone()).await;
    refused.is(503, "unavailable", None);
    assert!(
        refused.message.contains("store.url") && refused.headers.contains_key("retry-after"),
        "{}",
        refused.message
    );
    for (member, value) in [("from", json!("/srv/photos")), ("params", json!(1)), ("form", json!("s3://shop"))] {
        let mut body = places.clone();
        body[member] = value;
        post(body).await.is(400, "invalid_parameter", Some(member));
    }
    post(json!({ "from": "s3://shop/photos" })).await.is(400, "invalid_parameter", Some("to"));
    let form = daemon.request(KEY, Method::POST, "/bulk").multipart(Form::new().text("from", "s3://shop"));
    refusal(form.send().await.expect("an answer")).await.is(415, "unsupported_media_type", None);
    let job = daemon.request(KEY, Method::GET, "/jobs/bulk_0123456789ab").send().await.expect("an answer");
    refusal(job).await.is(404, "not_found", Some("job_id"));
}
