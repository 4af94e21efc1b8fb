//! The public listener behind TLS.

use crate::http::daemon::{Daemon, KEY, LONG, Raw, Work, raw_upload, until};
use crate::http::edge_support::{Authority, Client};
use backdrop::http::config::HttpConfig;
use backdrop::http::tls::{Tls, TlsError};
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

/// A daemon with a certificate, and its authority.
struct Edge {
    daemon: Daemon,
    authority: Authority,
    tls: Tls,
}

impl Edge {
    async fn start() -> Self {
        Self::start_with(HttpConfig::default()).await
    }

    async fn start_with(config: HttpConfig) -> Self {
        let authority = Authority::new();
        let tls = Tls::load(&authority.certificate(), &authority.key()).expect("a pair");
        let daemon = Daemon::start_behind(Some(tls.clone()), config, 1000).await;
        Self { daemon, authority, tls }
    }

    async fn connect(&self, protocols: &[&str]) -> std::io::Result<Client> {
        self.authority.connect(&self.daemon.address.to_string(), protocols).await
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
async fn both_protocols_are_offered_and_h2_is_preferred() {
    let edge = Edge::start().await;
    for (offered, settled, version) in [
        (&["h2"][..], Some("h2"), Version::HTTP_2),
        (&["http/1.1"], Some("http/1.1"), Version::HTTP_11),
        (&["http/1.1", "h2"], Some("h2"), Version::HTTP_2),
        (&[], None, Version::HTTP_11),
    ] {
        let client = edge.connect(offered).await.expect("a connection");
        assert_eq!(client.protocol().as_deref(), settled, "{offered:?}");
        let mut speaker = client.speak().await;
        for _ in 0..2 {
            let response = speaker.send(upload()).await.expect("an answer");
            assert_eq!((response.status().as_u16(), response.version()), (200, version), "{offered:?}");
            assert_eq!(&response.body()[..], b"a picture made of 11 bytes");
        }
    }
    let refused = edge.connect(&["spdy/3"]).await.err().expect("no protocol in common").to_string();
    assert!(refused.contains("NoApplicationProtocol"), "{refused}");
}

#[tokio::test]
async fn large_bodies_pass_both_ways() {
    let edge = Edge::start().await;
    edge.daemon.engine.set(Work::AnswerBytes(5 << 20));
    for protocol in ["h2", "http/1.1"] {
        let mut speaker = edge.connect(&[protocol]).await.expect("a connection").speak().await;
        let (_, body) = raw_upload(&vec![7; 5 << 20]);
        let response = speaker.send(upload().map(|_| Full::from(body))).await.expect("an answer");
        assert_eq!((response.status().as_u16(), response.body().len()), (200, 5 << 20), "{protocol}");
    }
}

#[tokio::test]
async fn a_new_certificate_is_for_new_connections_and_the_old_ones_go_on() {
    let edge = Edge::start().await;
    for protocol in ["h2", "http/1.1"] {
        let old = edge.connect(&[protocol]).await.expect("a connection");
        let before = old.certificate();
        let mut old = old.speak().await;
        assert_eq!(old.get("/docs").await.expect("an answer").status(), 200);
        let issued = edge.authority.issue();
        assert_eq!(edge.connect(&[protocol]).await.expect("a connection").certificate(), before, "not asked for yet");
        edge.tls.reload().expect("a good pair");
        let new = edge.connect(&[protocol]).await.expect("a connection");
        assert!(new.certificate() == issued && issued != before);
        assert_eq!(old.get("/docs").await.expect("the old connection goes on").status(), 200);
    }
}

#[tokio::test]
async fn a_bad_pair_changes_nothing() {
    let edge = Edge::start().await;
    let current = edge.connect(&["h2"]).await.expect("a connection").certificate();
    let key = std::fs::read(edge.authority.key()).expect("it is there");
    edge.authority.issue();
    std::fs::write(edge.authority.key(), key).expect("a writable folder");
    assert!(matches!(edge.tls.reload(), Err(TlsError::Mismatch { .. })));
    edge.authority.issue_for(2000, 2001);
    assert!(matches!(edge.tls.reload(), Err(TlsError::NotNow(..))));
    std::fs::remove_file(edge.authority.key()).expect("it is there");
    assert!(matches!(edge.tls.reload(), Err(TlsError::Unreadable(..))));
    assert_eq!(edge.connect(&["h2"]).await.expect("a connection").certificate(), current);
}

#[tokio::test]
async fn clients_refuse_an_expired_certificate_and_the_daemon_lives_on() {
    let authority = Authority::new();
    authority.issue_for(2000, 2001);
    let tls = Tls::load(&authority.certificate(), &authority.key()).expect("clients judge its time");
    let daemon = Daemon::start_behind(Some(tls.clone()), HttpConfig::default(), 60).await;
    let address = daemon.address.to_string();
    let refused = authority.connect(&address, &["h2"]).await.err().expect("expired").to_string();
    assert!(refused.contains("expired"), "{refused}");
    authority.issue();
    tls.reload().expect("a good pair");
    authority.connect(&address, &["h2"]).await.expect("a connection");
}

#[tokio::test]
async fn plain_http_is_told_to_use_https() {
    let edge = Edge::start().await;
    let (head, body) = raw_upload(&vec![7; 300_000]);
    for request in
        [b"GET /docs HTTP/1.1\r\nhost: x\r\n\r\n".to_vec(), [format!("{head}\r\n").into_bytes(), body].concat()]
    {
        let mut connection = edge.daemon.connect().await;
        connection.write(request).await;
        let reply = connection.reply().await.expect("a reply");
        assert!(reply.starts_with("HTTP/1.1 400 ") && reply.contains("connection: close\r\n"), "{reply}");
        let body: Value = serde_json::from_str(reply.split("\r\n\r\n").nth(1).expect("a body")).expect("JSON");
        assert_eq!(body["error"]["code"], "invalid_parameter", "{reply}");
        assert!(body["error"]["message"].as_str().is_some_and(|message| message.contains("https://")), "{reply}");
        assert!(
            reply.contains(&format!("x-request-id: {}\r\n", body["request_id"].as_str().expect("an id"))),
            "{reply}"
        );
        assert!(connection.ends_within(LONG).await);
    }
    assert_eq!(edge.daemon.engine.started(), 0);
}

#[tokio::test]
async fn a_head_that_is_no_http_is_answered_with_an_envelope_behind_tls_too() {
    let edge = Edge::start().await;
    for (head, status) in [("BLAH BLAH\r\n\r\n".to_owned(), 400), (format!("GET /{} ", "x".repeat(200_000)), 431)] {
        let mut client = edge.connect(&["http/1.1"]).await.expect("a connection");
        client.0.write_all(head.as_bytes()).await.expect("it reads");
        let mut reply = String::new();
        timeout(LONG, client.0.read_to_string(&mut reply)).await.expect("the end").expect("a clean end");
        assert!(reply.starts_with(&format!("HTTP/1.1 {status} ")), "{reply}");
        let body: Value = serde_json::from_str(reply.split("\r\n\r\n").nth(1).expect("a body")).expect("JSON");
        let id = body["request_id"].as_str().expect("an id");
        assert!(reply.contains(&format!("x-request-id: {id}\r\n")), "{reply}");
    }
}

#[tokio::test]
async fn garbage_ends_its_connection_only() {
    let edge = Edge::start().await;
    let garbage = [&b"\0\0\0\0"[..], b"\x16\x03\x01\xff\xff", b"\x16garbage garbage garbage", b"\x80\x2e\x01\x03\x01"];
    for bytes in garbage {
        let mut connection = edge.daemon.connect().await;
        connection.write(bytes).await;
        connection.0.shutdown().await.expect("still open");
        // An alert may come before the end.
        let mut said = Vec::new();
        let _ = timeout(LONG, connection.0.read_to_end(&mut said)).await.expect("the end");
        assert!(said.len() < 64, "{said:?}");
    }
    edge.connect(&["h2"]).await.expect("a connection");
}

#[tokio::test]
async fn a_slow_handshake_is_cut_off_and_gives_its_place_back() {
    let config = HttpConfig { header_timeout: ms(400), max_connections: 1, ..HttpConfig::default() };
    let edge = Edge::start_with(config).await;
    // Nothing; a part of a record; a byte every 50 ms.
    for (beginning, drip) in
        [(&b""[..], false), (b"\x16\x03\x01\x02\x00\x01", false), (b"\x16\x03\x01\x02\x00\x01", true)]
    {
        let start = Instant::now();
        let mut connection = Raw(TcpStream::connect(edge.daemon.address).await.expect("a connection"));
        connection.write(beginning).await;
        while !connection.ends_within(ms(50)).await {
            assert!(start.elapsed() < LONG, "still open");
            if drip && connection.0.write_all(&[0]).await.is_err() {
                break;
            }
        }
        assert!(start.elapsed() >= ms(350) && start.elapsed() < ms(1500), "{:?}", start.elapsed());
        // The one place is free again.
        edge.connect(&["h2"]).await.expect("a connection");
    }
}

#[tokio::test]
async fn a_load_balancer_names_its_client_before_the_handshake() {
    let trusted_proxies = vec!["127.0.0.1".parse().expect("an address")];
    let edge = Edge::start_with(HttpConfig {
        trusted_proxies,
        proxy_protocol: true,
        wrong_keys_per_minute: 1,
        ..HttpConfig::default()
    });
    let edge = edge.await;
    let wrong_key = || Request::get("/account").header("authorization", "Bearer bd_live_bad");
    for (client, statuses) in [("192.0.2.1", [401, 429]), ("192.0.2.2", [401, 429])] {
        for status in statuses {
            let mut connection = edge.daemon.connect().await;
            connection.write(format!("PROXY TCP4 {client} 198.51.100.1 4711 443\r\n")).await;
            let mut speaker = edge.authority.secure(connection.0, &["h2"]).await.expect("TLS").speak().await;
            let response = speaker.send(wrong_key().body(Full::default()).expect("a request")).await;
            assert_eq!(response.expect("an answer").status(), status, "{client}");
        }
    }
    assert!(edge.connect(&["h2"]).await.is_err(), "without the header");
}

#[tokio::test]
async fn a_handshake_does_not_prolong_the_time_for_the_first_head() {
    let edge = Edge::start_with(HttpConfig { header_timeout: ms(600), ..HttpConfig::default() }).await;
    let start = Instant::now();
    let mut client = edge.connect(&["http/1.1"]).await.expect("a connection");
    let mut said = Vec::new();
    let _ = timeout(LONG, client.0.read_to_end(&mut said)).await.expect("the end");
    assert!(said.is_empty() && start.elapsed() >= ms(500) && start.elapsed() < ms(2000), "{:?}", start.elapsed());
}

#[tokio::test]
async fn the_admin_listener_stays_plain() {
    let edge = Edge::start().await;
    let response =
        edge.daemon.client.get(format!("http://{}/livez", edge.daemon.admin)).send().await.expect("an answer");
    assert_eq!(response.status(), 200);
    let admin = edge.daemon.admin.to_string();
    assert!(edge.authority.connect(&admin, &["h2"]).await.is_err());
}

#[tokio::test]
async fn shutdown_answers_what_is_under_way_and_leaves_handshakes() {
    for protocol in ["h2", "http/1.1"] {
        let mut edge = Edge::start().await;
        edge.daemon.engine.set(Work::Wait);
        let mut speaker = edge.connect(&[protocol]).await.expect("a connection").speak().await;
        let under_way = tokio::spawn(async move { speaker.send(upload()).await });
        until("the work", || edge.daemon.engine.started() == 1).await;
        let mut handshake = edge.daemon.connect().await;
        handshake.write(b"\x16\x03\x01").await;
        let mut idle = edge.connect(&["http/1.1"]).await.expect("a connection");
        idle.0.write_all(b"HEAD /docs HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("it reads");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(timeout(LONG, idle.0.read_u8()).await.expect("a reply in time").expect("a reply"));
        }
        sleep(ms(50)).await;
        edge.daemon.stop();
        assert!(!handshake.ends_within(ms(200)).await, "requests may still come");
        let mut refused = edge.connect(&[protocol]).await.expect("a connection").speak().await;
        assert_eq!(refused.get("/docs").await.expect("an answer").status(), 503, "{protocol}");
        edge.daemon.engine.release.notify_waiters();
        assert!(handshake.ends_within(ms(5000)).await, "a handshake outlives the daemon");
        // A clean end is told (close_notify), or this would be an error.
        assert_eq!(timeout(LONG, idle.0.read(&mut [0])).await.expect("the end").expect("a clean end"), 0);
        let response = under_way.await.expect("no panic").expect("an answer");
        assert_eq!(&response.body()[..], b"released", "{protocol}");
        timeout(LONG, edge.daemon.served).await.expect("the end").expect("no panic");
    }
}
