//! The public listener with TLS: protocols, certificates, handshakes, shutdown.

use crate::http::daemon::{Daemon, Exchange, KEY, LONG, Raw, Setup, Work, raw_upload, until};
use crate::http::tls_client::{Authority, Client};
use backdrop::http::config::HttpConfig;
use backdrop::http::tls::Tls;
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Version};
use serde_json::Value;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A daemon with TLS, and its authority.
struct TlsDaemon {
    inner: Daemon,
    authority: Authority,
    tls: Tls,
}

impl TlsDaemon {
    async fn start() -> Self {
        Self::start_with(HttpConfig::default()).await
    }

    async fn start_with(config: HttpConfig) -> Self {
        let authority = Authority::new();
        let tls = Tls::load(&authority.certificate(), &authority.key()).expect("a pair");
        let inner = Daemon::of(Setup { tls: Some(tls.clone()), config, ..Setup::default() }).await;
        Self { inner, authority, tls }
    }

    async fn connect(&self, protocols: &[&str]) -> std::io::Result<Client> {
        self.authority.connect(&self.inner.address.to_string(), protocols).await
    }
}

fn upload() -> Request<Full<Bytes>> {
    let (_, body) = raw_upload(b"the picture");
    Request::post("/remove")
        .header("authorization", format!("Bearer {KEY}"))
        .header("content-type", "multipart/form-data; boundary=B")
        .body(Full::from(body))
        .expect("a request")
}

#[tokio::test]
async fn both_protocols_are_offered_and_carry_large_bodies_and_h2_is_preferred() {
    let daemon = TlsDaemon::start().await;
    daemon.inner.engine.set(Work::AnswerBytes(5 << 20));
    let (_, large) = raw_upload(&vec![7; 5 << 20]);
    for (offered, negotiated, version) in [
        (&["h2"][..], Some("h2"), Version::HTTP_2),
        (&["http/1.1"], Some("http/1.1"), Version::HTTP_11),
        (&["http/1.1", "h2"], Some("h2"), Version::HTTP_2),
        (&[], None, Version::HTTP_11),
    ] {
        let client = daemon.connect(offered).await.expect("a connection");
        assert_eq!(client.protocol().as_deref(), negotiated, "{offered:?}");
        let mut client = client.http().await;
        for _ in 0..2 {
            let request = upload().map(|_| Full::from(large.clone()));
            let response = client.send(request).await.expect("an answer");
            assert_eq!((response.status().as_u16(), response.version()), (200, version), "{offered:?}");
            assert_eq!(response.body().len(), 5 << 20, "{offered:?}");
        }
    }
    let refused = daemon.connect(&["spdy/3"]).await.err().expect("no protocol in common").to_string();
    assert!(refused.contains("NoApplicationProtocol"), "{refused}");
}

#[tokio::test]
async fn a_reloaded_certificate_is_used_for_new_connections_and_old_ones_continue() {
    let daemon = TlsDaemon::start().await;
    for protocol in ["h2", "http/1.1"] {
        let old = daemon.connect(&[protocol]).await.expect("a connection");
        let before = old.certificate();
        let mut old = old.http().await;
        assert_eq!(old.get("/docs").await.expect("an answer").status(), 200);
        let issued = daemon.authority.issue();
        assert_eq!(daemon.connect(&[protocol]).await.expect("a connection").certificate(), before, "not reloaded yet");
        daemon.tls.reload().expect("a good pair");
        let new = daemon.connect(&[protocol]).await.expect("a connection");
        assert!(new.certificate() == issued && issued != before);
        assert_eq!(old.get("/docs").await.expect("the old connection continues").status(), 200);
    }
}

/// The error of a refusal, whose head names its request and status.
#[track_caller]
fn error_of(reply: &str, status: u16) -> Value {
    assert!(reply.starts_with(&format!("HTTP/1.1 {status} ")) && reply.contains("connection: close\r\n"), "{reply}");
    let mut body: Value = serde_json::from_str(reply.split("\r\n\r\n").nth(1).expect("a body")).expect("JSON");
    let id = body["request_id"].as_str().expect("an id");
    assert!(reply.contains(&format!("x-request-id: {id}\r\n")), "{reply}");
    body["error"].take()
}

#[tokio::test]
async fn plain_http_is_400_with_a_hint_at_https() {
    let daemon = TlsDaemon::start().await;
    let (head, body) = raw_upload(&vec![7; 300_000]);
    for request in
        [b"GET /docs HTTP/1.1\r\nhost: x\r\n\r\n".to_vec(), [format!("{head}\r\n").into_bytes(), body].concat()]
    {
        let mut connection = daemon.inner.connect().await;
        connection.write(request).await;
        let error = error_of(&connection.reply().await.expect("a reply"), 400);
        assert_eq!(error["code"], "invalid_parameter");
        assert!(error["message"].as_str().is_some_and(|message| message.contains("https://")), "{error}");
        assert!(connection.ends_within(LONG).await);
    }
    assert_eq!(daemon.inner.engine.started(), 0);
}

#[tokio::test]
async fn a_malformed_head_within_tls_is_answered_with_the_envelope() {
    let daemon = TlsDaemon::start().await;
    for (head, status) in [("BLAH BLAH\r\n\r\n".to_owned(), 400), (format!("GET /{} ", "x".repeat(200_000)), 431)] {
        let mut client = daemon.connect(&["http/1.1"]).await.expect("a connection");
        client.0.write_all(head.as_bytes()).await.expect("it reads");
        let mut reply = String::new();
        timeout(LONG, client.0.read_to_string(&mut reply)).await.expect("the end").expect("a clean end");
        error_of(&reply, status);
    }
}

#[tokio::test]
async fn a_malformed_handshake_closes_its_connection_only() {
    let daemon = TlsDaemon::start().await;
    let garbage = [&b"\0\0\0\0"[..], b"\x16\x03\x01\xff\xff", b"\x16garbage garbage garbage", b"\x80\x2e\x01\x03\x01"];
    for bytes in garbage {
        let mut connection = daemon.inner.connect().await;
        connection.write(bytes).await;
        connection.0.shutdown().await.expect("still open");
        // An alert may come before the end.
        let mut received = Vec::new();
        let _ = timeout(LONG, connection.0.read_to_end(&mut received)).await.expect("the end");
        assert!(received.len() < 64, "{received:?}");
    }
    daemon.connect(&["h2"]).await.expect("a connection");
}

#[tokio::test]
async fn a_slow_handshake_is_cut_off_at_the_header_timeout_and_frees_its_slot() {
    let config = HttpConfig { header_timeout: ms(400), max_connections: 1, ..HttpConfig::default() };
    let daemon = TlsDaemon::start_with(config).await;
    // Nothing; a part of a record; a byte every 50 ms.
    for (beginning, drip) in
        [(&b""[..], false), (b"\x16\x03\x01\x02\x00\x01", false), (b"\x16\x03\x01\x02\x00\x01", true)]
    {
        let start = Instant::now();
        let mut connection = Raw(TcpStream::connect(daemon.inner.address).await.expect("a connection"));
        connection.write(beginning).await;
        while !connection.ends_within(ms(50)).await {
            assert!(start.elapsed() < LONG, "the connection is still open");
            if drip && connection.0.write_all(&[0]).await.is_err() {
                break;
            }
        }
        assert!(start.elapsed() >= ms(350), "{:?}", start.elapsed());
        // The only slot is free again.
        daemon.connect(&["h2"]).await.expect("a connection");
    }
}

#[tokio::test]
async fn a_proxy_header_comes_before_the_handshake() {
    let trusted_proxies = vec!["127.0.0.1".parse().expect("an address")];
    let daemon = TlsDaemon::start_with(HttpConfig {
        trusted_proxies,
        proxy_protocol: true,
        wrong_keys_per_minute: 1,
        ..HttpConfig::default()
    });
    let daemon = daemon.await;
    let wrong_key = || Request::get("/account").header("authorization", "Bearer bd_live_bad");
    for (address, statuses) in [("192.0.2.1", [401, 429]), ("192.0.2.2", [401, 429])] {
        for status in statuses {
            let mut connection = daemon.inner.connect().await;
            connection.write(format!("PROXY TCP4 {address} 198.51.100.1 4711 443\r\n")).await;
            let mut client = daemon.authority.secure(connection.0, &["h2"]).await.expect("TLS").http().await;
            let response = client.send(wrong_key().body(Full::default()).expect("a request")).await;
            assert_eq!(response.expect("an answer").status(), status, "{address}");
        }
    }
    assert!(daemon.connect(&["h2"]).await.is_err(), "without the header");
}

#[tokio::test]
async fn the_admin_listener_has_no_tls() {
    let daemon = TlsDaemon::start().await;
    assert_eq!(daemon.inner.page("/livez").answer().await.status(), 200);
    assert!(daemon.authority.connect(&daemon.inner.admin.to_string(), &["h2"]).await.is_err());
}

#[tokio::test]
async fn shutdown_finishes_requests_in_progress_and_then_closes_handshakes() {
    for protocol in ["h2", "http/1.1"] {
        let config = HttpConfig { shutdown_grace: 10 * LONG, ..HttpConfig::default() };
        let mut daemon = TlsDaemon::start_with(config).await;
        daemon.inner.engine.set(Work::Wait);
        let mut client = daemon.connect(&[protocol]).await.expect("a connection").http().await;
        let in_progress = tokio::spawn(async move { client.send(upload()).await });
        until("the work", || daemon.inner.engine.started() == 1).await;
        let mut handshake = daemon.inner.connect().await;
        handshake.write(b"\x16\x03\x01").await;
        let mut idle = daemon.connect(&["http/1.1"]).await.expect("a connection");
        idle.0.write_all(b"HEAD /docs HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("it reads");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(timeout(LONG, idle.0.read_u8()).await.expect("a reply in time").expect("a reply"));
        }
        sleep(ms(50)).await;
        daemon.inner.stop();
        assert!(!handshake.ends_within(ms(200)).await, "requests may still come");
        let mut refused = daemon.connect(&[protocol]).await.expect("a connection").http().await;
        assert_eq!(refused.get("/docs").await.expect("an answer").status(), 503, "{protocol}");
        daemon.inner.engine.release.notify_waiters();
        assert!(handshake.ends_within(LONG).await, "the handshake is still open after the last request");
        // Without close_notify this would be an error.
        assert_eq!(timeout(LONG, idle.0.read(&mut [0])).await.expect("the end").expect("a clean end"), 0);
        let response = in_progress.await.expect("no panic").expect("an answer");
        assert_eq!(&response.body()[..], b"released", "{protocol}");
        timeout(LONG, daemon.inner.served).await.expect("the end").expect("no panic");
    }
}
