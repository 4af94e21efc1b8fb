//! The page at `/`, its files and the reference: media types, caching, content policy, and the setting that turns the page off.

use crate::http::daemon::{Daemon, Exchange, LONG, header};
use backdrop::http::config::HttpConfig;
use reqwest::Method;
use std::collections::BTreeSet;

/// Values of `attribute="…"` in a document.
fn attributes(html: &str, attribute: &str) -> BTreeSet<String> {
    let start = format!(" {attribute}=\"");
    html.split(start.as_str()).skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())).collect()
}

/// Names that a module imports: `from "./name.js"`.
fn imports(script: &str) -> BTreeSet<String> {
    script.split("from \"./").skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())).collect()
}

#[tokio::test]
async fn the_page_and_all_that_it_loads_is_served_with_its_media_type() {
    let daemon = Daemon::start().await;
    let page = daemon.get("/").answer().await;
    assert_eq!((page.status().as_u16(), header(&page, "content-type")), (200, "text/html; charset=utf-8"));
    let html = page.text().await.expect("text");
    let files = attributes(&html, "src").into_iter().chain(attributes(&html, "href"));
    let mut waiting: Vec<_> = files.filter_map(|path| path.strip_prefix("assets/").map(str::to_owned)).collect();
    let mut seen = BTreeSet::new();
    while let Some(name) = waiting.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        let response = daemon.get(&format!("/assets/{name}")).answer().await;
        assert_eq!(response.status(), 200, "{name}");
        let expected = match name.rsplit_once('.').expect("an extension").1 {
            "js" => "text/javascript; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            "svg" => "image/svg+xml",
            other => panic!("{other}"),
        };
        assert_eq!(header(&response, "content-type"), expected, "{name}");
        assert_eq!(header(&response, "x-content-type-options"), "nosniff");
        waiting.extend(imports(&response.text().await.expect("text")));
    }
    assert!(seen.contains("main.js") && seen.contains("contract.js") && seen.contains("page.css"), "{seen:?}");
    let sample = daemon.get("/assets/cat.jpg").answer().await;
    assert_eq!((sample.status().as_u16(), header(&sample, "content-type")), (200, "image/jpeg"));
}

#[tokio::test]
async fn the_content_policy_allows_only_files_of_this_server() {
    let daemon = Daemon::start().await;
    for path in ["/", "/docs", "/assets/main.js"] {
        let response = daemon.get(path).answer().await;
        assert_eq!(response.status(), 200, "{path}");
        let policy = header(&response, "content-security-policy");
        let directives: Vec<_> = policy.split(';').map(str::trim).collect();
        for directive in ["default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'"] {
            assert!(directives.contains(&directive), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains("http") && !policy.contains('*'), "{policy}");
        assert_eq!(header(&response, "referrer-policy"), "no-referrer", "{path}");
    }
}

#[tokio::test]
async fn a_file_that_the_browser_has_is_not_sent_again() {
    let daemon = Daemon::start().await;
    let first = daemon.get("/assets/main.js").answer().await;
    assert_eq!(header(&first, "cache-control"), "no-cache");
    let etag = header(&first, "etag").to_owned();
    assert!(etag.starts_with('"') && etag.len() > 10, "{etag}");
    let ask = |tags: &str| daemon.get("/assets/main.js").header("if-none-match", tags).answer();
    for tags in [etag.as_str(), &format!("\"other\", W/{etag}"), "*"] {
        let response = ask(tags).await;
        assert_eq!((response.status().as_u16(), header(&response, "etag")), (304, etag.as_str()), "{tags}");
        assert!(response.bytes().await.expect("no body").is_empty(), "{tags}");
    }
    let other = ask("\"other\"").await;
    assert_eq!(other.status(), 200);
    assert!(!other.bytes().await.expect("a body").is_empty());
    assert_ne!(header(&daemon.get("/assets/page.css").answer().await, "etag"), etag, "each file has its own");
}

#[tokio::test]
async fn files_are_read_by_get_and_head_and_nothing_else_is_found() {
    let daemon = Daemon::start().await;
    let head = daemon.client.head(daemon.url("/")).timeout(LONG).answer().await;
    assert_eq!((head.status().as_u16(), header(&head, "content-type")), (200, "text/html; charset=utf-8"));
    for method in [Method::POST, Method::DELETE, Method::PUT] {
        let refused =
            daemon.client.request(method, daemon.url("/")).timeout(LONG).refused(405, "method_not_allowed", None).await;
        assert_eq!(refused.headers["allow"], "GET, HEAD");
    }
    for path in ["/assets/", "/assets/nothing.js", "/assets/index.html", "/assets/%2e%2e/main.js", "/index.html"] {
        daemon.get(path).refused(404, "not_found", None).await;
    }
}

#[tokio::test]
async fn the_page_gets_the_settings_of_the_daemon() {
    let config = HttpConfig { show_prices: Some(true), ..HttpConfig::default() };
    let response = Daemon::start_with(config, 1000).await.get("/assets/daemon.json").answer().await;
    assert_eq!((response.status().as_u16(), header(&response, "content-type")), (200, "application/json"));
    let settings: serde_json::Value = response.json().await.expect("JSON");
    let expected = serde_json::json!({
        "max_bytes": 10 << 20, "max_side": 4096, "max_megapixels": 17, "models": [], "show_prices": true,
    });
    assert_eq!(settings, expected);
}

#[tokio::test]
async fn without_the_page_the_reference_stays_and_does_not_lead_to_it() {
    let daemon = Daemon::start_with(HttpConfig { page: false, ..HttpConfig::default() }, 1000).await;
    for path in ["/", "/assets/main.js", "/assets/page.css", "/assets/cat.jpg", "/assets/daemon.json"] {
        daemon.get(path).refused(404, "not_found", None).await;
    }
    let reference = daemon.get("/docs").answer().await;
    assert_eq!((reference.status().as_u16(), header(&reference, "cache-control")), (200, "no-store"));
    let html = reference.text().await.expect("text");
    assert!(!html.contains("Try it"));
    let files = attributes(&html, "src").into_iter().chain(attributes(&html, "href"));
    let files: Vec<_> = files.filter(|path| path.starts_with("assets/")).collect();
    assert!(files.len() > 5, "{files:?}");
    for file in files {
        assert_eq!(daemon.get(&format!("/{file}")).answer().await.status(), 200, "{file}");
    }
}
