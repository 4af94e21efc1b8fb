//! CORS, the headers of every reply, and the throttle of wrong keys.

use crate::http::daemon::{Daemon, Exchange, KEY, LONG, Work, file, form};
use backdrop::engine::EngineError;
use backdrop::http::config::HttpConfig;
use backdrop::http::router::ROUTES;
use reqwest::header::HeaderMap;
use reqwest::{Method, RequestBuilder, Response};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const ORIGIN: &str = "https://example.org";

async fn allowing(origins: &[&str]) -> Daemon {
    let cors_origins = origins.iter().map(|&origin| origin.to_owned()).collect();
    Daemon::start_with(HttpConfig { cors_origins, ..HttpConfig::default() }, 1000).await
}

fn preflight(daemon: &Daemon, path: &str, origin: &str) -> RequestBuilder {
    let request = daemon.client.request(Method::OPTIONS, daemon.url(path)).timeout(LONG).header("origin", origin);
    request.header("access-control-request-method", "POST").header("access-control-request-headers", "authorization")
}

/// The headers of CORS in a reply.
fn cors_of(headers: &HeaderMap) -> BTreeMap<&str, &str> {
    let ours = headers.iter().filter(|(name, _)| name.as_str().starts_with("access-control-") || *name == "vary");
    ours.map(|(name, value)| (name.as_str(), value.to_str().expect("ASCII"))).collect()
}

#[tokio::test]
async fn without_configured_origins_no_cors_header_is_sent() {
    let daemon = Daemon::start().await;
    let refused = preflight(&daemon, "/remove", ORIGIN).refused(405, "method_not_allowed", None).await;
    assert_eq!(cors_of(&refused.headers), BTreeMap::new());
    let response = daemon.post("/remove").header("origin", ORIGIN).multipart(form(&[])).answer().await;
    assert_eq!((response.status().as_u16(), cors_of(response.headers())), (200, BTreeMap::new()));
}

#[tokio::test]
async fn a_preflight_needs_no_key_and_lists_the_methods_of_the_path() {
    let daemon = allowing(&["http://localhost:3000", ORIGIN]).await;
    for path in ROUTES.iter().map(|route| route.path) {
        let response = preflight(&daemon, path, ORIGIN).answer().await;
        assert_eq!(response.status(), 204, "{path}");
        let headers = response.headers();
        assert!(!headers.contains_key("content-type") && !headers.contains_key("x-ratelimit-limit"), "{headers:?}");
        let cors = cors_of(headers);
        let allowed: BTreeSet<_> = cors["access-control-allow-methods"].split(", ").collect();
        let existing: BTreeSet<_> =
            ROUTES.iter().filter(|route| route.path == path).map(|route| route.method.as_str()).collect();
        assert!(existing.is_subset(&allowed), "{path}: {allowed:?}");
        assert!(allowed.iter().all(|method| *method == "HEAD" || existing.contains(method)), "{path}: {allowed:?}");
        assert_eq!(cors["access-control-allow-origin"], ORIGIN);
        for header in ["authorization", "idempotency-key", "if-range", "range", "x-service-model"] {
            assert!(cors["access-control-allow-headers"].contains(header), "{header}");
        }
        assert_eq!((cors["access-control-max-age"], cors["vary"]), ("7200", "Origin"));
        assert_eq!(cors.len(), 5, "{cors:?}");
        let body = response.bytes().await.expect("no body");
        assert!(body.is_empty());
    }
    assert_eq!(daemon.engine.started(), 0);
}

#[tokio::test]
async fn a_preflight_of_a_foreign_origin_or_an_unknown_path_is_refused() {
    let daemon = allowing(&[ORIGIN]).await;
    for origin in ["https://example.com", "http://example.org", "https://example.org.evil.com", "null"] {
        let refused = preflight(&daemon, "/remove", origin).refused(405, "method_not_allowed", None).await;
        assert_eq!(cors_of(&refused.headers), BTreeMap::from([("vary", "Origin")]), "{origin}");
    }
    preflight(&daemon, "/nowhere", ORIGIN).refused(404, "not_found", None).await;
    // OPTIONS without the headers of a preflight.
    let plain = daemon.client.request(Method::OPTIONS, daemon.url("/remove")).header("origin", ORIGIN);
    plain.refused(405, "method_not_allowed", None).await;
}

#[tokio::test]
async fn an_allowed_origin_may_read_replies_and_errors() {
    let daemon = allowing(&[ORIGIN]).await;
    let send = async |key: &str, origin: &str, fields: &[(&str, &str)]| {
        let request = daemon.post_as(key, "/remove").header("origin", origin);
        request.multipart(form(fields)).timeout(LONG).answer().await
    };
    let exposed = async |response: Response, status: u16| {
        assert_eq!(response.status(), status);
        let cors = cors_of(response.headers());
        assert_eq!((cors["access-control-allow-origin"], cors["vary"], cors.len()), (ORIGIN, "Origin", 3), "{cors:?}");
        let exposed: BTreeSet<_> = cors["access-control-expose-headers"].split(", ").map(str::to_owned).collect();
        let there = |name: &String| response.headers().contains_key(name);
        assert!(exposed.iter().all(there) && !exposed.contains("x-content-type-options"), "{exposed:?}");
        exposed
    };
    let of_picture = exposed(send(KEY, ORIGIN, &[]).await, 200).await;
    for name in ["x-request-id", "x-ratelimit-remaining", "x-service-width", "x-service-latency", "server-timing"] {
        assert!(of_picture.contains(name), "{name}: {of_picture:?}");
    }
    exposed(send(KEY, ORIGIN, &[("edge", "fuzzy")]).await, 400).await;
    assert!(exposed(send("bd_live_bad", ORIGIN, &[]).await, 401).await.contains("www-authenticate"));
    daemon.engine.set(Work::Panic);
    exposed(send(KEY, ORIGIN, &[]).await, 500).await;
    daemon.engine.set(Work::Fail(|| EngineError::QueueFull { retry_after: Duration::from_secs(1) }.into()));
    assert!(exposed(send(KEY, ORIGIN, &[]).await, 429).await.contains("retry-after"));
    daemon.engine.set(Work::Answer);
    // A browser withholds it from the page; other clients get it.
    let foreign = send(KEY, "https://example.com", &[]).await;
    assert_eq!(foreign.status(), 200);
    assert_eq!(cors_of(foreign.headers()), BTreeMap::from([("vary", "Origin")]));
}

#[tokio::test]
async fn a_wildcard_origin_is_answered_with_a_star_and_without_credentials() {
    let daemon = allowing(&["*"]).await;
    for origin in [ORIGIN, "null"] {
        let response = preflight(&daemon, "/remove", origin).answer().await;
        assert_eq!(response.status(), 204);
        let cors = cors_of(response.headers());
        assert_eq!((cors["access-control-allow-origin"], cors.get("vary")), ("*", None));
        assert!(!cors.contains_key("access-control-allow-credentials"), "{cors:?}");
    }
    let response = daemon.send("/remove", &[]).await;
    assert_eq!(
        cors_of(response.headers())["access-control-allow-origin"],
        "*",
        "the same for every origin, so that it may be cached"
    );
}

#[tokio::test]
async fn requests_of_web_pages_are_refused_on_the_admin_listener() {
    let daemon = allowing(&["*"]).await;
    for method in [Method::OPTIONS, Method::GET, Method::POST] {
        let request = daemon.client.request(method, format!("http://{}/livez", daemon.admin)).header("origin", ORIGIN);
        let request = request.header("access-control-request-method", "POST");
        let refused = request.refused(403, "forbidden", None).await;
        assert_eq!(cors_of(&refused.headers), BTreeMap::new());
    }
}

#[tokio::test]
async fn too_many_wrong_keys_of_an_address_are_429_while_valid_keys_are_accepted() {
    let daemon = Daemon::start_with(HttpConfig { wrong_keys_per_minute: 3, ..HttpConfig::default() }, 1000).await;
    let is_accepted = async || daemon.send("/remove", &[]).await.status() == 200;
    for n in 0..3 {
        // A different key each time: counted by address.
        daemon.upload_as(&format!("bd_live_{n}"), "/remove", &[]).refused(401, "unauthorized", None).await;
        assert!(is_accepted().await);
    }
    for _ in 0..3 {
        let refused = daemon.upload_as("bd_live_3", "/remove", &[]).refused(429, "rate_limit_exceeded", None).await;
        let wait: u64 = refused.headers["retry-after"].to_str().expect("ASCII").parse().expect("seconds");
        assert!((1..=60).contains(&wait), "{wait}");
        assert!(!refused.headers.contains_key("x-ratelimit-limit"), "this is not the limit of a key");
        assert!(is_accepted().await, "a good key from the same address");
    }
    let without = daemon.client.post(daemon.url("/remove")).multipart(form(&[]));
    without.refused(401, "unauthorized", None).await;
    assert_eq!(daemon.get("/docs").answer().await.status(), 200, "pages need no key");
}

#[tokio::test]
async fn every_reply_forbids_caching_and_sniffing_and_names_only_our_version() {
    let daemon = allowing(&[ORIGIN]).await;
    let get = |path| daemon.get(path).answer();
    let admin = |path| daemon.page(path).answer();
    let batch = reqwest::multipart::Form::new().part("files", file(b"the picture".to_vec()));
    let mut replies = vec![
        (200, daemon.send("/remove", &[]).await),
        (200, daemon.send("/remove", &[("format", "webp")]).await),
        (200, daemon.send("/mask", &[]).await),
        (200, daemon.post("/remove-batch").multipart(batch).answer().await),
        (400, daemon.send("/remove", &[("edge", "fuzzy")]).await),
        (401, daemon.client.post(daemon.url("/remove")).answer().await),
        (404, get("/nowhere").await),
        (405, get("/remove").await),
        (204, preflight(&daemon, "/remove", ORIGIN).answer().await),
        (200, get("/docs").await),
        (200, get("/openapi.yaml").await),
        (200, get("/openapi.json").await),
        (200, admin("/livez").await),
        (200, admin("/metrics").await),
        (404, admin("/nowhere").await),
    ];
    daemon.engine.set(Work::Panic);
    replies.push((500, daemon.send("/remove", &[]).await));
    for (status, response) in replies {
        let (url, headers) = (response.url().clone(), response.headers());
        assert_eq!(response.status(), status, "{url}");
        assert_eq!(headers["x-content-type-options"], "nosniff", "{url}");
        assert_eq!(headers["cache-control"], "no-store", "{url}");
        assert_eq!(headers["x-service-version"], env!("CARGO_PKG_VERSION"), "{url}");
        for name in ["server", "x-powered-by", "via"] {
            assert!(!headers.contains_key(name), "{url}: {headers:?}");
        }
    }
}
