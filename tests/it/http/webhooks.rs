//! Webhooks: the end of a job told to a server with real TLS, signed as Standard Webhooks have it.

use crate::http::daemon::{Cut, Daemon, KEY, LONG, refusal, until};
use crate::source::origin::{Answer, Asked, Origin};
use backdrop::http::config::HttpConfig;
use backdrop::source::FetchConfig;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};
use sha2::Sha256;
use std::time::{SystemTime, UNIX_EPOCH};

impl Daemon {
    async fn telling(reach: &FetchConfig) -> Self {
        Self::start_telling(reach, None, HttpConfig::default(), 10_000).await
    }

    async fn clip_for(&self, webhook_url: &str) -> reqwest::Response {
        let form = Form::new().text("webhook_url", webhook_url.to_owned());
        let form = form.part("file", Part::bytes(b"clip 1.5".to_vec()));
        self.post("/video/remove").multipart(form).send().await.expect("an answer")
    }

    async fn account_secret(&self) -> String {
        let account = self.ask(KEY, Method::GET, "/account").await;
        let account: Value = account.json().await.expect("JSON");
        account["webhook_secret"].as_str().expect("text").to_owned()
    }
}

fn field<'a>(asked: &'a Asked, name: &str) -> &'a str {
    let is_it = |line: &&str| line.split_once(": ").is_some_and(|(it, _)| it.eq_ignore_ascii_case(name));
    asked.head.lines().find(is_it).and_then(|line| line.split_once(": ")).map_or("", |(_, value)| value)
}

/// Checks a message as the specification tells receivers to:
/// <https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md#verifying-signatures>.
fn is_genuine(secret: &str, asked: &Asked) -> bool {
    let key = STANDARD.decode(secret.strip_prefix("whsec_").expect("the prefix")).expect("base64");
    assert!((24..=64).contains(&key.len()), "between 192 and 512 bits");
    let (id, seconds) = (field(asked, "webhook-id"), field(asked, "webhook-timestamp"));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    assert!(seconds.parse::<u64>().expect("seconds").abs_diff(now) < 300, "within the tolerance");
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("any length");
    mac.update(format!("{id}.{seconds}.").as_bytes());
    mac.update(&asked.body);
    let expected = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
    field(asked, "webhook-signature").split(' ').any(|signature| signature == expected)
}

#[tokio::test]
async fn the_end_of_a_job_is_told_once_and_signed() {
    let origin = Origin::start([("/hook", Answer::Status(204))]);
    let daemon = Daemon::telling(&origin.config()).await;
    let job: Value = daemon.clip_for(&origin.url("/hook")).await.json().await.expect("JSON");
    let done = daemon.over(KEY, job["job_id"].as_str().expect("an id")).await;
    origin.asked_for("/hook").await;
    let asked = origin.asked().remove(0);
    assert!(asked.head.starts_with("POST /hook HTTP/1.1\r\n"), "{}", asked.head);
    assert_eq!(field(&asked, "content-type"), "application/json");
    assert!(field(&asked, "user-agent").starts_with("backdrop/"));
    assert!(!field(&asked, "webhook-id").is_empty());

    let secret = daemon.account_secret().await;
    assert!(is_genuine(&secret, &asked));
    assert!(!is_genuine(&format!("whsec_{}", STANDARD.encode([7; 32])), &asked));
    assert!(!is_genuine(&secret, &Asked { body: [asked.body.as_slice(), b" "].concat(), ..asked.clone() }));

    // The message is what asking would have answered.
    let told: Value = serde_json::from_slice(&asked.body).expect("JSON");
    assert_eq!(told, done);
    let result = daemon.client.get(told["result_url"].as_str().expect("an address")).send().await.expect("an answer");
    assert_eq!(result.text().await.expect("text"), "made of clip 1.5");
    origin.left_alone().await;
    assert_eq!(origin.asked().len(), 1);
}

#[tokio::test]
async fn a_failed_job_is_told_too_and_a_cancelled_one() {
    let origin = Origin::start([("/failed", Answer::Status(200)), ("/cancelled", Answer::Status(200))]);
    let daemon = Daemon::telling(&origin.config()).await;
    daemon.cutter.set(Cut::Fail);
    daemon.clip_for(&origin.url("/failed")).await;
    origin.asked_for("/failed").await;
    daemon.cutter.set(Cut::Wait);
    let job: Value = daemon.clip_for(&origin.url("/cancelled")).await.json().await.expect("JSON");
    until("the work", || daemon.cutter.started() == 2).await;
    daemon.ask(KEY, Method::DELETE, &format!("/jobs/{}", job["job_id"].as_str().expect("an id"))).await;
    origin.asked_for("/cancelled").await;
    let told = origin.asked().into_iter().map(|asked| serde_json::from_slice::<Value>(&asked.body).expect("JSON"));
    let told: Vec<_> = told.map(|job| (job["status"].clone(), job["error"]["code"].clone())).collect();
    assert_eq!(told, [(json!("error"), json!("no_subject_detected")), (json!("error"), json!("cancelled"))]);
}

#[tokio::test]
async fn a_message_that_was_not_taken_comes_again_under_the_same_id() {
    let origin = Origin::start([("/hook", Answer::Status(500))]);
    let daemon = Daemon::telling(&origin.config()).await;
    daemon.clip_for(&origin.url("/hook")).await;
    origin.asked_for("/hook").await;
    origin.set("/hook", Answer::Status(200));
    let twice = async {
        while origin.asked().len() < 2 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(3 * LONG, twice).await.expect("it is tried again after some seconds");
    let asked = origin.asked();
    let secret = daemon.account_secret().await;
    assert!(asked.iter().all(|asked| is_genuine(&secret, asked)));
    assert_eq!(field(&asked[0], "webhook-id"), field(&asked[1], "webhook-id"));
}

#[tokio::test]
async fn a_receiver_that_is_not_public_is_refused_when_it_is_an_address() {
    let daemon = Daemon::start().await;
    for url in ["https://10.0.0.1/hook", "https://10.0.0.1:8443/"] {
        let refused = refusal(daemon.clip_for(url).await).await;
        refused.is(400, "invalid_parameter", Some("webhook_url"));
        assert!(refused.message.contains("a public https URL"), "{}", refused.message);
    }
    for url in ["http://example.org/", "https://a:b@example.org/", "ftp://example.org", "example.org"] {
        refusal(daemon.clip_for(url).await).await.is(400, "invalid_parameter", Some("webhook_url"));
    }
    assert_eq!(daemon.cutter.started(), 0);
}

#[tokio::test]
async fn a_receiver_whose_name_leads_to_a_private_address_never_hears_anything() {
    let origin = Origin::start([("/hook", Answer::Status(200)), ("/allowed", Answer::Status(200))]);
    // Its address alone may be reached; the name is another origin, though it leads to the same place.
    let reach = FetchConfig { private_origins: vec![origin.authority()], ..origin.config() };
    let daemon = Daemon::telling(&reach).await;
    let job: Value = daemon.clip_for(&origin.url_by_name("localhost", "/hook")).await.json().await.expect("JSON");
    daemon.over(KEY, job["job_id"].as_str().expect("an id")).await;
    // One that may be reached comes after it, so that the first had its turn.
    daemon.clip_for(&origin.url("/allowed")).await;
    origin.asked_for("/allowed").await;
    assert!(origin.asked().iter().all(|asked| asked.path == "/allowed"));
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_a_receiver_that_is_gone_is_left_alone() {
    let origin = Origin::start([("/hook", Answer::Status(200)), ("/gone", Answer::Status(410))]);
    origin.set("/moved", Answer::Redirect(307, origin.url("/hook")));
    let daemon = Daemon::telling(&origin.config()).await;
    for path in ["/moved", "/gone"] {
        daemon.clip_for(&origin.url(path)).await;
        origin.asked_for(path).await;
        origin.left_alone().await;
    }
    assert!(origin.asked().iter().all(|asked| asked.path != "/hook"));
}
