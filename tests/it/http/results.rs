//! `/results/…`: download of a job's result by its signed URL, whole or as a byte range.

use crate::http::daemon::{Daemon, Exchange, KEY, header};
use reqwest::{Method, RequestBuilder};

const MADE: &str = "made of clip 1.5";

/// A daemon, and the URL of a result.
async fn with_result() -> (Daemon, String) {
    let daemon = Daemon::start().await;
    let done = daemon.done().await;
    let url = done["result_url"].as_str().expect("an address").to_owned();
    (daemon, url)
}

impl Daemon {
    /// Without a key.
    fn result(&self, method: Method, url: &str, headers: &[(&'static str, &str)]) -> RequestBuilder {
        let request = self.client.request(method, url);
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))
    }
}

#[tokio::test]
async fn a_result_has_the_headers_for_saving_it_in_a_browser() {
    let (daemon, url) = with_result().await;
    let whole = daemon.result(Method::GET, &url, &[]).answer().await;
    assert_eq!(whole.status(), 200);
    assert_eq!((header(&whole, "content-type"), header(&whole, "accept-ranges")), ("video/webm", "bytes"));
    assert_eq!(header(&whole, "content-length"), MADE.len().to_string());
    let object = url.split(['/', '?']).find(|part| part.starts_with("job_")).expect("a name");
    assert_eq!(header(&whole, "content-disposition"), format!("attachment; filename=\"{object}\""));
    assert_eq!(header(&whole, "etag"), format!("\"{object}\""));
    assert!(!whole.headers().contains_key("x-ratelimit-limit"), "no key, no rate");
    assert_eq!(whole.text().await.expect("text"), MADE);

    let head = daemon.result(Method::HEAD, &url, &[]).answer().await;
    assert_eq!((head.status().as_u16(), header(&head, "content-length")), (200, MADE.len().to_string().as_str()));
    assert_eq!((header(&head, "content-type"), header(&head, "accept-ranges")), ("video/webm", "bytes"));
    assert_eq!(head.text().await.expect("nothing"), "");
}

#[tokio::test]
async fn a_byte_range_is_answered_with_206_and_exactly_these_bytes() {
    let (daemon, url) = with_result().await;
    let all = MADE.len();
    for (range, first, last) in [("bytes=0-3", 0, 3), ("bytes=8-", 8, all - 1), ("bytes=-3", all - 3, all - 1)] {
        let part = daemon.result(Method::GET, &url, &[("range", range)]).answer().await;
        assert_eq!(part.status(), 206, "{range}");
        assert_eq!(header(&part, "content-range"), format!("bytes {first}-{last}/{all}"), "{range}");
        assert_eq!(header(&part, "content-length"), (last - first + 1).to_string(), "{range}");
        assert_eq!(part.text().await.expect("text"), MADE[first..=last], "{range}");
    }
    let head = daemon.result(Method::HEAD, &url, &[("range", "bytes=0-3")]).answer().await;
    assert_eq!((head.status().as_u16(), header(&head, "content-length")), (206, "4"));
    let beyond = daemon.result(Method::GET, &url, &[("range", "bytes=-0")]);
    let beyond = beyond.refused(416, "invalid_parameter", Some("Range")).await;
    assert_eq!(beyond.headers["content-range"], format!("bytes */{all}"));
    // Several ranges, and ranges of another file.
    let tag = header(&daemon.result(Method::GET, &url, &[]).answer().await, "etag").to_owned();
    let range = ("range", "bytes=0-3");
    for (headers, status) in [
        (&[("range", "bytes=0-1,3-4")][..], 200),
        (&[range, ("if-range", &tag)], 206),
        (&[range, ("if-range", "\"other\"")], 200),
        (&[("range", "bytes=1000-"), ("if-range", "\"other\"")], 200),
    ] {
        let response = daemon.result(Method::GET, &url, headers).answer().await;
        assert_eq!(response.status(), status, "{headers:?}");
        assert_eq!(response.text().await.expect("text"), if status == 200 { MADE } else { &MADE[..4] });
    }
}

#[tokio::test]
async fn a_url_with_an_invalid_signature_is_404() {
    let (daemon, url) = with_result().await;
    let (path, query) = url.split_once('?').expect("a query");
    let (expires, signature) = query.split_once('&').expect("two parts");
    let flipped = if signature.starts_with("signature=A") { "B" } else { "A" };
    let shortened = &signature[..signature.len() - 1];
    for wrong in [
        path.to_owned(),
        format!("{path}?{expires}"),
        format!("{path}?{signature}"),
        format!("{path}?{expires}0&{signature}"),
        format!("{path}?{expires}&{shortened}"),
        format!("{path}?{expires}&signature={flipped}{}", &signature["signature=X".len()..]),
        format!("{path}?{query}&{signature}"),
        format!("{path}?x{query}"),
        url.replace(".webm?", ".mp4?"),
        url.replace("/results/job_", "/results/../job_"),
        url.replace("/results/job_", "/results/%2e%2e%2fjob_"),
        format!("{}?{query}", daemon.url("/results/secret")),
    ] {
        daemon.result(Method::GET, &wrong, &[]).refused(404, "not_found", None).await;
    }
    // Other parameters are ignored: clients add one to bypass caches.
    for query in [format!("{query}&_=1795950000"), format!("x=1&y&&{query}&"), format!("{signature}&x&{expires}")] {
        let response = daemon.result(Method::GET, &format!("{path}?{query}"), &[]).answer().await;
        assert_eq!(response.text().await.expect("text"), MADE, "{query}");
    }
    // An API key does not replace the signature.
    daemon.client.get(path).bearer_auth(KEY).refused(404, "not_found", None).await;
    daemon.result(Method::POST, &url, &[]).refused(405, "method_not_allowed", None).await;
    assert_eq!(daemon.result(Method::GET, &url, &[]).answer().await.status(), 200);
}

#[tokio::test]
async fn a_long_result_arrives_complete_after_another_client_disconnected() {
    let daemon = Daemon::start().await;
    let long = format!("clip 1 {}", "0123456789".repeat(300_000));
    let done = daemon.done_with(&long).await;
    let url = done["result_url"].as_str().expect("an address");
    let mut disconnected = daemon.result(Method::GET, url, &[]).answer().await;
    assert!(disconnected.chunk().await.expect("bytes").is_some());
    drop(disconnected);
    let whole = daemon.result(Method::GET, url, &[]).answer().await.text().await.expect("text");
    assert!(whole == format!("made of {long}"), "{} bytes", whole.len());
    let part = daemon.result(Method::GET, url, &[("range", "bytes=1000000-2999999")]).answer().await;
    assert!(part.text().await.expect("text") == whole[1_000_000..3_000_000]);
}
