//! `/video/remove` and `/jobs` over real sockets, with fakes for ffprobe and the video worker.

use crate::http::daemon::{
    ClipWork, Daemon, Exchange, FREE, KEY, LONG, PAID, TEST, file, header, raw_upload_to, refusal, texts, until,
};
use backdrop::http::config::HttpConfig;
use backdrop::jobs::JobState;
use futures_util::future::join_all;
use reqwest::multipart::Form;
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

const PATH: &str = "/video/remove";
const CLIP: &str = "clip 1.5";

/// A form with these fields and then a clip.
fn form(fields: &[(&str, &str)], clip: &str) -> Form {
    texts(fields).part("file", file(clip.as_bytes().to_vec()))
}

impl Daemon {
    fn clip(&self, key: &str, fields: &[(&str, &str)], clip: &str) -> RequestBuilder {
        self.post_as(key, PATH).multipart(form(fields, clip))
    }

    fn clip_by_url(&self, body: &Value) -> RequestBuilder {
        self.post(PATH).json(body)
    }

    fn named_clip(&self, name: &str, fields: &[(&str, &str)], clip: &str) -> RequestBuilder {
        self.clip(KEY, fields, clip).header("idempotency-key", name)
    }

    pub(crate) async fn call(&self, key: &str, method: Method, path: &str) -> Response {
        self.request(key, method, path).answer().await
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
        let id = id(&created(self.clip(KEY, &[], clip)).await);
        self.wait_for_end(KEY, &id).await
    }
}

/// The job in a 202.
async fn created(request: RequestBuilder) -> Value {
    let response = request.answer().await;
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
    let response = daemon.clip(KEY, &fields, CLIP).answer().await;
    assert_eq!(response.status(), 202);
    assert_eq!(header(&response, "retry-after"), "2");
    assert!(response.headers().contains_key("x-service-latency"));
    let location = header(&response, "location").to_owned();
    let job: Value = response.json().await.expect("JSON");
    assert_eq!(location, format!("/jobs/{}", id(&job)));
    assert_eq!((&job["status_url"], &job["format"], &job["progress"]), (&json!(location), &json!("mov"), &json!(0)));
    assert_eq!(job["status"], "queued");
    assert!(id(&job).starts_with("job_") && id(&job).len() == 28, "{job}");

    until("the work", || daemon.worker.started() == 1).await;
    let in_progress = daemon.call(KEY, Method::GET, &location).await;
    assert_eq!(header(&in_progress, "retry-after"), "2");
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
    assert_eq!((&done["status"], &done["progress"]), (&json!("done"), &json!(100)));
    assert_eq!(done["output_seconds"], 1.5);
    assert_eq!((&done["job_id"], &done["created_at"]), (&job["job_id"], &job["created_at"]));
    assert_eq!(done["size_bytes"], "made of clip 1.5".len());
    let url = done["result_url"].as_str().expect("an address");
    assert!(url.starts_with(&daemon.url("/results/")), "{url}");
    let result = daemon.client.get(url).answer().await;
    assert_eq!((result.status().as_u16(), header(&result, "content-type")), (200, "video/webm"));
    assert_eq!(result.bytes().await.expect("a body"), "made of clip 1.5");
    assert!(!daemon.call(KEY, Method::GET, &location).await.headers().contains_key("retry-after"));
}

#[tokio::test]
async fn a_job_costs_its_estimate_unless_a_quota_covers_it_and_a_sandbox_job_nothing() {
    let daemon = Daemon::start().await;
    let estimate = daemon.post("/estimate").json(&json!({ "endpoint": PATH, "seconds": 1.5 })).value().await;
    let (cost, units, unit) = (&estimate["estimated_cost_usd"], &estimate["units"], &estimate["unit"]);
    assert_eq!((cost, units, unit), (&json!(0.075), &json!(1.5), &json!("second")));
    for (key, account, used, cost) in [(KEY, KEY, 2, 0.075), (TEST, KEY, 2, 0.075), (FREE, FREE, 2, 0.0)] {
        let job = created(daemon.clip(key, &[], CLIP)).await;
        assert_eq!(daemon.wait_for_end(key, &id(&job)).await["status"], "done");
        let shown = daemon.account(account).await;
        assert_eq!((&shown["used"], &shown["cost_usd"]), (&json!(used), &json!(cost)), "{key}");
        let total = json!({ "images": used, "seconds": 1.5, "cost_usd": cost });
        assert_eq!(daemon.json(account, "/usage").await["total"], total, "{key}");
    }
    let seen = daemon.worker.seen.lock().expect("no panic inside");
    assert_eq!(seen.iter().map(|(job, _)| job.test).collect::<Vec<_>>(), [false, true, false]);
}

#[tokio::test]
async fn a_clip_may_be_named_by_url() {
    let daemon = Daemon::start().await;
    let body = json!({ "url": "https://example.org/clip-2", "smoothing": 0, "audio": false, "format": "gif" });
    let job = created(daemon.clip_by_url(&body)).await;
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
    no_key.refused(401, "unauthorized", None).await;
    daemon.clip(FREE, &[("smoothing", "101")], "text").invalid("smoothing").await;
    daemon.clip(FREE, &[("egde", "soft")], "text").invalid("egde").await;
    let refused = daemon.clip(FREE, &[], "text").refused(503, "unavailable", None).await;
    assert!(refused.message.contains("ffmpeg") && refused.headers.contains_key("retry-after"), "{}", refused.message);
    daemon.inspector.missing.store(false, Ordering::SeqCst);
    let probes = || daemon.inspector.probes.load(Ordering::SeqCst);
    // An invalid combination is found when all fields are known.
    let refused = daemon.clip(FREE, &[("format", "mp4")], "text").invalid("format").await;
    assert!(refused.message.contains("bg_color") && refused.message.contains("channels=alpha"), "{}", refused.message);
    assert_eq!(probes(), 0, "a clip was probed in vain");
    for (clip, status, code) in [
        ("text", 400, "invalid_image"),
        ("", 400, "invalid_image"),
        ("avi", 415, "unsupported_media_type"),
        ("sound", 422, "no_subject_detected"),
        ("long", 413, "payload_too_large"),
    ] {
        daemon.clip(FREE, &[], clip).refused(status, code, Some("file")).await;
    }
    daemon.clip(FREE, &[], "broken").refused(500, "internal_error", None).await;
    let busy = daemon.clip(FREE, &[], "busy").refused(503, "unavailable", None).await;
    assert!(busy.headers.contains_key("retry-after"), "{}", busy.message);
    // 50 seconds remain, and 51 would be billed.
    daemon.clip(FREE, &[], "clip 50.1").refused(402, "payment_required", None).await;
    let job = created(daemon.clip(FREE, &[], "clip 50")).await;
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
        daemon.clip_by_url(&body).invalid(param).await;
    }
    daemon.clip_by_url(&json!({ "url": far })).refused(503, "unavailable", None).await;
    daemon.inspector.missing.store(false, Ordering::SeqCst);
    assert_eq!(daemon.fetcher.fetches(), 0, "fetched before the checks");
    daemon.clip_by_url(&json!({ "url": far })).refused(424, "fetch_failed", Some("url")).await;
    let large = json!({ "url": "https://example.org/large" });
    daemon.clip_by_url(&large).refused(413, "payload_too_large", Some("url")).await;
    for other in ["avi", "sound", "text"] {
        let other = json!({ "url": format!("https://example.org/{other}") });
        let refused = daemon.clip_by_url(&other).refused(415, "unsupported_media_type", Some("url")).await;
        assert!(refused.message.starts_with("there is no video at the URL"), "{}", refused.message);
    }
    daemon.post(PATH).body("x").refused(415, "unsupported_media_type", None).await;
    daemon.post(&format!("{PATH}?format=gif")).multipart(form(&[], CLIP)).invalid("format").await;
}

#[tokio::test]
async fn a_form_without_a_clip_or_with_two_is_refused() {
    let daemon = Daemon::start().await;
    // Fields behind the clip count as well.
    for (form, param) in [
        (texts(&[("format", "gif")]), "file"),
        (form(&[], CLIP).part("file", file(b"clip 2".to_vec())), "file"),
        (form(&[], CLIP).text("smoothing", "101"), "smoothing"),
    ] {
        daemon.post(PATH).multipart(form).invalid(param).await;
    }
    let job = created(daemon.post(PATH).multipart(form(&[], CLIP).text("format", "gif"))).await;
    assert_eq!(job["format"], "gif");
    assert_eq!(daemon.json(KEY, "/jobs").await["jobs"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn a_job_is_visible_with_its_own_key_only() {
    let daemon = Daemon::start().await;
    let job = daemon.done().await;
    let path = format!("/jobs/{}", id(&job));
    // Also the sandbox key of the same account.
    for key in [FREE, PAID, TEST] {
        for method in [Method::GET, Method::DELETE] {
            daemon.request(key, method, &path).refused(404, "not_found", Some("job_id")).await;
        }
        assert_eq!(daemon.json(key, "/jobs").await, json!({ "jobs": [] }));
    }
    daemon.get(&path).refused(401, "unauthorized", None).await;
    assert_eq!(daemon.json(KEY, &path).await["status"], "done");
    for unknown in ["job_x", "%20", "%2e%2e%2f", &"x".repeat(1000)] {
        daemon.get_as(KEY, &format!("/jobs/{unknown}")).refused(404, "not_found", Some("job_id")).await;
    }
    // GET ignores cache-busting parameters; DELETE refuses unknown ones.
    for query in ["?", "?_=1795950000", "?x=1&y", "?limit=0", "?%ff=&&"] {
        assert_eq!(daemon.json(KEY, &format!("{path}{query}")).await["status"], "done", "{query}");
        let account = daemon.json(KEY, &format!("/account{query}")).await;
        assert_eq!(account["account"], "default", "{query}");
    }
    daemon.request(KEY, Method::DELETE, &format!("{path}?x=1")).invalid("x").await;
    let post = daemon.post(&path).refused(405, "method_not_allowed", None).await;
    assert_eq!(post.headers["allow"], "GET, HEAD, PATCH, DELETE");
}

#[tokio::test]
async fn a_repeated_request_under_an_idempotency_key_is_the_same_job() {
    let daemon = Daemon::start().await;
    let first = created(daemon.named_clip("order-1", &[], CLIP)).await;
    daemon.wait_for_end(KEY, &id(&first)).await;
    let probes = daemon.inspector.probes.load(Ordering::SeqCst);
    let again = created(daemon.named_clip("order-1", &[], CLIP)).await;
    assert_eq!((&again["job_id"], &again["status"]), (&first["job_id"], &json!("done")));
    assert_eq!(daemon.inspector.probes.load(Ordering::SeqCst), probes, "the repetition was probed");
    for (fields, clip) in [(&[("format", "gif")][..], CLIP), (&[], "clip 2")] {
        daemon.named_clip("order-1", fields, clip).refused(409, "idempotency_conflict", None).await;
    }
    let together = join_all((0..6).map(|_| created(daemon.named_clip("order-2", &[], CLIP)))).await;
    let mut ids: Vec<_> = together.iter().map(id).collect();
    ids.dedup();
    assert_eq!(ids.len(), 1, "{ids:?}");
    daemon.wait_for_end(KEY, &ids[0]).await;
    assert_eq!((daemon.worker.started(), &daemon.json(KEY, "/account").await["cost_usd"]), (2, &json!(0.15)));
    let url = json!({ "url": "https://example.org/clip-2" });
    let by_url = || daemon.post(PATH).header("idempotency-key", "order-3").json(&url);
    let first = created(by_url()).await;
    let again = created(by_url()).await;
    assert_eq!((&first["job_id"], daemon.fetcher.fetches()), (&again["job_id"], 1), "it is fetched once");
    daemon.named_clip("two words", &[], CLIP).invalid("Idempotency-Key").await;
}

#[tokio::test]
async fn a_repetition_returns_its_job_although_the_quota_is_used_up() {
    let daemon = Daemon::start().await;
    let send = || created(daemon.clip(FREE, &[], "clip 50").header("idempotency-key", "all-of-it"));
    assert_eq!(send().await["job_id"], send().await["job_id"]);
}

#[tokio::test]
async fn waiting_jobs_reserve_quota_and_cancelled_ones_release_it() {
    let daemon = Daemon::start().await;
    daemon.worker.set(ClipWork::Wait);
    let job = id(&created(daemon.clip(FREE, &[], "clip 30")).await);
    daemon.clip(FREE, &[], "clip 30").refused(402, "payment_required", None).await;
    let cancelled = daemon.call(FREE, Method::DELETE, &format!("/jobs/{job}")).await;
    assert_eq!(cancelled.status(), 200);
    let again = daemon.clip(FREE, &[], "clip 30").answer().await;
    assert_eq!(again.status(), 202);
    let account = daemon.json(FREE, "/account").await;
    assert_eq!((&account["used"], &account["cost_usd"]), (&json!(0), &json!(0.0)));
}

#[tokio::test]
async fn deleting_cancels_a_running_job_and_removes_an_ended_one() {
    let daemon = Daemon::start().await;
    daemon.worker.set(ClipWork::Wait);
    let path = format!("/jobs/{}", id(&created(daemon.clip(KEY, &[], CLIP)).await));
    until("the work", || daemon.worker.started() == 1).await;
    let cancelled = daemon.request(KEY, Method::DELETE, &path).value().await;
    assert_eq!((&cancelled["status"], &cancelled["error"]["code"]), (&json!("error"), &json!("cancelled")));
    until("the end of the work", || daemon.worker.dropped.load(Ordering::SeqCst) == 1).await;
    assert_eq!(daemon.json(KEY, &path).await["error"]["code"], "cancelled");
    let deleted = daemon.request(KEY, Method::DELETE, &path).value().await;
    assert_eq!(deleted, json!({ "deleted": true, "job_id": path.trim_start_matches("/jobs/") }));
    daemon.get_as(KEY, &path).refused(404, "not_found", Some("job_id")).await;

    daemon.worker.set(ClipWork::Make);
    let done = daemon.done().await;
    let url = done["result_url"].as_str().expect("an address");
    let path = format!("/jobs/{}", id(&done));
    assert_eq!(daemon.call(KEY, Method::DELETE, &path).await.status(), 200);
    daemon.client.get(url).refused(404, "not_found", None).await;
    assert_eq!(std::fs::read_dir(daemon.folder.path().join("results")).expect("a folder").count(), 0);
}

#[tokio::test]
async fn jobs_are_listed_newest_first_in_pages() {
    let daemon = Daemon::start().await;
    let mut made = Vec::new();
    for _ in 0..3 {
        made.insert(0, id(&created(daemon.clip(KEY, &[], CLIP)).await));
    }
    let listed = |page: &Value| page["jobs"].as_array().expect("a list").iter().map(id).collect::<Vec<_>>();
    let first = daemon.json(KEY, "/jobs?limit=2").await;
    let cursor = first["next_cursor"].as_str().expect("text");
    let second = daemon.json(KEY, &format!("/jobs?limit=2&cursor={cursor}")).await;
    assert_eq!([listed(&first), listed(&second)], [&made[..2], &made[2..]]);
    assert_eq!(second.get("next_cursor"), None);
    assert_eq!(listed(&daemon.json(KEY, "/jobs").await), made);
    for (query, param) in [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=1&limit=2", "limit"),
        ("cursor=x", "cursor"),
        ("x=1", "x"),
    ] {
        daemon.get_as(KEY, &format!("/jobs?{query}")).invalid(param).await;
    }
}

#[tokio::test]
async fn a_clip_above_200_megabytes_is_413_by_its_announced_and_by_its_received_length() {
    let daemon = Daemon::start().await;
    let (head, body) = raw_upload_to(PATH, b"");
    // Announced: refused when its part begins.
    let mut announced = daemon.connect().await;
    let length = format!("content-length: {}\r\n", body.len());
    announced.write(head.replace(&length, "content-length: 300000000\r\n\r\n")).await;
    announced.write("--B\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nclip 1.5").await;
    let reply = announced.reply().await.expect("a reply");
    assert!(reply.starts_with("HTTP/1.1 413 ") && reply.contains("payload_too_large"), "{reply}");
    drop(announced);
    // Not announced: refused at the first byte too many, and the received bytes are deleted.
    let part = b"--B\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n".to_vec();
    let zeros = bytes::Bytes::from(vec![0; 1 << 20]);
    let pieces = std::iter::once(part.into()).chain(std::iter::repeat_n(zeros, 192));
    let body = reqwest::Body::wrap_stream(futures_util::stream::iter(pieces.map(Ok::<_, std::io::Error>)));
    let request = daemon.post(PATH).timeout(10 * LONG);
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
    // Each counts as a file of 10 MiB; an account alone has two thirds of 256 MB.
    for _ in 0..16 {
        let mut connection = daemon.connect().await;
        connection.write(format!("{head}\r\n")).await;
        connection.write(begin).await;
        slow.push(connection);
    }
    let folder = daemon.folder.path().join("jobs");
    until("all of them", || std::fs::read_dir(&folder).is_ok_and(|entries| entries.count() == 16)).await;
    let refused = daemon.clip(KEY, &[], CLIP).refused(429, "rate_limit_exceeded", None).await;
    assert!(refused.headers.contains_key("retry-after"));
    let url = json!({ "url": "https://example.org/clip-2" });
    daemon.clip_by_url(&url).refused(429, "rate_limit_exceeded", None).await;
    // The rest is for other accounts.
    assert_eq!(daemon.clip(PAID, &[], CLIP).answer().await.status(), 202);
    // One client disconnects; the others are served.
    slow.pop();
    until("a place", || std::fs::read_dir(&folder).is_ok_and(|entries| entries.count() == 15)).await;
    for mut connection in slow {
        connection.write(end).await;
        let reply = connection.reply().await.expect("a reply");
        assert!(reply.starts_with("HTTP/1.1 202 "), "{reply}");
    }
    assert_eq!(daemon.clip(KEY, &[], CLIP).answer().await.status(), 202);
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
    let post = |body: Value| daemon.post("/bulk").json(&body);
    let places = json!({ "from": "s3://shop/photos", "to": "s3://shop/cutouts" });
    let refused = post(places.clone()).refused(503, "unavailable", None).await;
    let names_it = refused.message.contains("store.url");
    assert!(names_it && refused.headers.contains_key("retry-after"), "{}", refused.message);
    for (member, value) in [("from", json!("/srv/photos")), ("params", json!(1)), ("form", json!("s3://shop"))] {
        let mut body = places.clone();
        body[member] = value;
        post(body).invalid(member).await;
    }
    post(json!({ "from": "s3://shop/photos" })).invalid("to").await;
    let form = daemon.post("/bulk").multipart(texts(&[("from", "s3://shop")]));
    form.refused(415, "unsupported_media_type", None).await;
    daemon.get_as(KEY, "/jobs/bulk_0123456789ab").refused(404, "not_found", Some("job_id")).await;
}
