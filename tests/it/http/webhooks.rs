//! Webhooks: the end of a job is posted to a TLS server, signed according to Standard Webhooks.

use crate::http::daemon::{ClipWork, Daemon, Exchange, KEY, Setup, file, texts, until};
use crate::source::origin::{Answer, Origin, ReceivedRequest};
use backdrop::source::FetchConfig;
use backdrop::store::UnixSeconds;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use sha2::Sha256;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

impl Daemon {
    async fn with_webhooks(fetch: FetchConfig) -> Self {
        Self::of(Setup { webhooks: fetch, ..Setup::default() }).await
    }

    fn clip_for(&self, webhook_url: &str) -> RequestBuilder {
        let form = texts(&[("webhook_url", webhook_url)]).part("file", file(b"clip 1.5".to_vec()));
        self.post("/video/remove").multipart(form)
    }

    async fn account_secret(&self) -> String {
        self.account(KEY).await["webhook_secret"].as_str().expect("text").to_owned()
    }

    /// Waits for the first attempt to post the end of a job; returns when the next one is due, if ever.
    async fn next_attempt(&self, job: &Value) -> Option<UnixSeconds> {
        loop {
            let job = self.store.job(job["job_id"].as_str().expect("an id")).await.expect("the store reads");
            match job.expect("the job is kept").webhook {
                Some(webhook) if webhook.attempts > 0 => return webhook.next_at,
                _ => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    }
}

fn header<'a>(request: &'a ReceivedRequest, name: &str) -> &'a str {
    let has_name = |line: &&str| line.split_once(": ").is_some_and(|(it, _)| it.eq_ignore_ascii_case(name));
    request.head.lines().find(has_name).and_then(|line| line.split_once(": ")).map_or("", |(_, value)| value)
}

/// Verifies a message as specified for receivers:
/// <https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md#verifying-signatures>.
fn is_genuine(secret: &str, request: &ReceivedRequest) -> bool {
    let key = STANDARD.decode(secret.strip_prefix("whsec_").expect("the prefix")).expect("base64");
    assert!((24..=64).contains(&key.len()), "between 192 and 512 bits");
    let (id, seconds) = (header(request, "webhook-id"), header(request, "webhook-timestamp"));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    assert!(seconds.parse::<u64>().expect("seconds").abs_diff(now) < 300, "within the tolerance");
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("any length");
    mac.update(format!("{id}.{seconds}.").as_bytes());
    mac.update(&request.body);
    let expected = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
    header(request, "webhook-signature").split(' ').any(|signature| signature == expected)
}

#[tokio::test]
async fn the_end_of_a_job_is_posted_once_and_signed() {
    let origin = Origin::start([("/hook", Answer::Status(204))]);
    let daemon = Daemon::with_webhooks(origin.config()).await;
    let job = daemon.clip_for(&origin.url("/hook")).value().await;
    let done = daemon.wait_for_end(KEY, job["job_id"].as_str().expect("an id")).await;
    origin.wait_for("/hook").await;
    let request = origin.requests().remove(0);
    assert!(request.head.starts_with("POST /hook HTTP/1.1\r\n"), "{}", request.head);
    assert_eq!(header(&request, "content-type"), "application/json");
    assert!(header(&request, "user-agent").starts_with("backdrop/"));
    assert!(!header(&request, "webhook-id").is_empty());

    let secret = daemon.account_secret().await;
    assert!(is_genuine(&secret, &request));
    assert!(!is_genuine(&format!("whsec_{}", STANDARD.encode([7; 32])), &request));
    assert!(!is_genuine(
        &secret,
        &ReceivedRequest { body: [request.body.as_slice(), b" "].concat(), ..request.clone() }
    ));

    // The message equals the reply of `/jobs/{id}`.
    let posted: Value = serde_json::from_slice(&request.body).expect("JSON");
    assert_eq!(posted, done);
    let result = daemon.client.get(posted["result_url"].as_str().expect("an address")).answer().await;
    assert_eq!(result.text().await.expect("text"), "made of clip 1.5");
    origin.wait_until_idle().await;
    assert_eq!(origin.requests().len(), 1);
}

#[tokio::test]
async fn failed_and_cancelled_jobs_are_posted_too() {
    let origin = Origin::start([("/failed", Answer::Status(200)), ("/cancelled", Answer::Status(200))]);
    let daemon = Daemon::with_webhooks(origin.config()).await;
    daemon.worker.set(ClipWork::Fail);
    daemon.clip_for(&origin.url("/failed")).answer().await;
    origin.wait_for("/failed").await;
    daemon.worker.set(ClipWork::Wait);
    let job = daemon.clip_for(&origin.url("/cancelled")).value().await;
    until("the work", || daemon.worker.started() == 2).await;
    daemon.call(KEY, Method::DELETE, &format!("/jobs/{}", job["job_id"].as_str().expect("an id"))).await;
    origin.wait_for("/cancelled").await;
    let posted =
        origin.requests().into_iter().map(|request| serde_json::from_slice::<Value>(&request.body).expect("JSON"));
    let posted: Vec<_> = posted.map(|job| (job["status"].clone(), job["error"]["code"].clone())).collect();
    assert_eq!(posted, [(json!("error"), json!("no_subject_detected")), (json!("error"), json!("cancelled"))]);
}

#[tokio::test]
async fn a_webhook_url_with_a_private_address_is_refused() {
    let daemon = Daemon::start().await;
    for url in ["https://10.0.0.1/hook", "https://10.0.0.1:8443/"] {
        let refused = daemon.clip_for(url).invalid("webhook_url").await;
        assert!(refused.message.contains("a public https URL"), "{}", refused.message);
    }
    for url in ["http://example.org/", "https://a:b@example.org/", "ftp://example.org", "example.org"] {
        daemon.clip_for(url).invalid("webhook_url").await;
    }
    assert_eq!(daemon.worker.started(), 0);
}

#[tokio::test]
async fn a_receiver_whose_name_resolves_to_a_private_address_gets_no_request() {
    let origin = Origin::start([("/hook", Answer::Status(200)), ("/allowed", Answer::Status(200))]);
    // Only its address is allowed; the name is another origin, though it resolves to the same address.
    let fetch = FetchConfig { private_origins: vec![origin.authority()], ..origin.config() };
    let daemon = Daemon::with_webhooks(fetch).await;
    let job = daemon.clip_for(&origin.url_by_name("localhost", "/hook")).value().await;
    daemon.next_attempt(&job).await.expect("the name may change its address");
    // An allowed one arrives.
    daemon.clip_for(&origin.url("/allowed")).answer().await;
    origin.wait_for("/allowed").await;
    assert!(origin.requests().iter().all(|request| request.path == "/allowed"));
}

#[tokio::test]
async fn only_2xx_and_410_end_the_retries_and_no_redirect_is_followed() {
    let status = |path, status| (path, Answer::Status(status));
    let origin = Origin::start([status("/hook", 200), status("/ok", 204), status("/gone", 410), status("/bad", 500)]);
    origin.set("/moved", Answer::Redirect(307, origin.url("/hook")));
    let daemon = Daemon::with_webhooks(origin.config()).await;
    for (path, is_retried) in [("/moved", true), ("/bad", true), ("/gone", false), ("/ok", false)] {
        let job = daemon.clip_for(&origin.url(path)).value().await;
        assert_eq!(daemon.next_attempt(&job).await.is_some(), is_retried, "{path}");
    }
    assert!(origin.requests().iter().all(|request| request.path != "/hook"));
}
