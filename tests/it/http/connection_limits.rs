//! Limits of connections: how many, by which client address, for how long; PROXY protocol; heads that are ambiguous.

use crate::http::daemon::{Daemon, Http2, KEY, LONG, Raw, Work, raw_upload, until};
use backdrop::http::config::HttpConfig;
use std::time::Duration;
use tokio::time::{sleep, timeout};

const GET: &str = "GET /docs HTTP/1.1\r\nhost: x\r\n\r\n";

/// A connection through a load balancer whose client is 192.0.2.`last`.
async fn from(daemon: &Daemon, last: u8) -> Raw {
    let mut connection = daemon.connect().await;
    connection.write(format!("PROXY TCP4 192.0.2.{last} 198.51.100.1 4711 443\r\n")).await;
    connection
}

/// Settings of a daemon behind a load balancer on the loopback.
fn behind_a_load_balancer() -> HttpConfig {
    let trusted_proxies = vec!["127.0.0.1".parse().expect("an address")];
    HttpConfig { trusted_proxies, proxy_protocol: true, ..HttpConfig::default() }
}

/// Whether a request without a key is answered.
async fn is_served(connection: &mut Raw) -> bool {
    connection.write(GET).await;
    connection.reply().await.is_some_and(|reply| reply.starts_with("HTTP/1.1 200 "))
}

/// Sends a request with a wrong key; gives the status.
async fn wrong_key(connection: &mut Raw, headers: &str) -> u16 {
    let head = format!("GET /account HTTP/1.1\r\nhost: x\r\nauthorization: Bearer bd_live_bad\r\n{headers}\r\n");
    connection.write(head).await;
    let reply = connection.reply().await.expect("a reply");
    reply[9..12].parse().expect("a status")
}

/// Keeps a request in progress on the connection until the engine is released.
async fn hold(daemon: &Daemon, mut connection: Raw) -> Raw {
    let (head, body) = raw_upload(b"the picture");
    let before = daemon.engine.started();
    connection.write(format!("{head}\r\n")).await;
    connection.write(body).await;
    until("the work", || daemon.engine.started() == before + 1).await;
    connection
}

#[tokio::test]
async fn the_oldest_idle_connection_without_a_key_is_closed_for_a_new_one() {
    let daemon = Daemon::start_with(HttpConfig { max_connections: 3, ..HttpConfig::default() }, 60).await;
    let mut with_key = daemon.connect().await;
    let account = format!("GET /account HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n\r\n");
    with_key.write(&account).await;
    assert!(with_key.reply().await.expect("a reply").starts_with("HTTP/1.1 200 "));
    let (mut second, mut third) = (daemon.connect().await, daemon.connect().await);
    assert!(is_served(&mut second).await && is_served(&mut third).await);

    let mut new = daemon.connect().await;
    assert!(is_served(&mut new).await, "idle connections lock others out");
    assert!(second.ends_within(LONG).await);
    assert!(is_served(&mut third).await);
    with_key.write(&account).await;
    assert!(with_key.reply().await.expect("it is kept").starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn a_connection_with_a_request_in_progress_is_kept_and_a_new_one_waits() {
    let daemon = Daemon::start_with(HttpConfig { max_connections: 2, ..HttpConfig::default() }, 60).await;
    daemon.engine.set(Work::Wait);
    let mut busy = [hold(&daemon, daemon.connect().await).await, hold(&daemon, daemon.connect().await).await];
    let mut new = daemon.connect().await;
    new.write(GET).await;
    assert!(!new.ends_within(Duration::from_millis(300)).await, "it was cut instead of waiting");
    daemon.engine.release.notify_waiters();
    for busy in &mut busy {
        assert!(busy.reply().await.expect("a reply").ends_with("released"));
    }
    drop(busy);
    assert!(new.reply().await.expect("a reply").starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn connections_per_address_are_limited() {
    let config = HttpConfig { max_connections_per_address: 2, ..HttpConfig::default() };
    let daemon = Daemon::start_with(config, 60).await;
    let mut idle = [daemon.connect().await, daemon.connect().await];
    assert!(is_served(&mut idle[0]).await && is_served(&mut idle[1]).await);
    let mut third = daemon.connect().await;
    assert!(is_served(&mut third).await);
    assert!(idle[0].ends_within(LONG).await && is_served(&mut idle[1]).await);

    daemon.engine.set(Work::Wait);
    let [_, second] = idle;
    let busy = [hold(&daemon, second).await, hold(&daemon, third).await];
    assert!(daemon.connect().await.ends_within(LONG).await, "both are in use, and others must not wait for them");
    daemon.engine.release.notify_waiters();
    drop(busy);
    timeout(LONG, async { while !is_served_or_closed(&daemon).await {} }).await.expect("they are not counted any more");
}

async fn is_served_or_closed(daemon: &Daemon) -> bool {
    let mut connection = daemon.connect().await;
    let written = tokio::io::AsyncWriteExt::write_all(&mut connection.0, GET.as_bytes()).await;
    written.is_ok() && connection.reply().await.is_some()
}

#[tokio::test]
async fn clients_behind_a_load_balancer_are_counted_separately() {
    let config = HttpConfig { max_connections_per_address: 1, ..behind_a_load_balancer() };
    let daemon = Daemon::start_with(config, 60).await;
    let (mut one, mut other) = (from(&daemon, 1).await, from(&daemon, 2).await);
    assert!(is_served(&mut one).await && is_served(&mut other).await);
    let mut again = from(&daemon, 1).await;
    assert!(is_served(&mut again).await);
    assert!(one.ends_within(LONG).await);
    assert!(is_served(&mut other).await, "another client of the same load balancer");

    // Version 2: the same client, and the load balancer's own health checks, which are not counted.
    let mut v2 = daemon.connect().await;
    v2.write(b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x02\xc6\x33\x64\x01\x12\x34\x01\xbb").await;
    assert!(is_served(&mut v2).await);
    assert!(other.ends_within(LONG).await);
    for _ in 0..2 {
        let mut own = daemon.connect().await;
        own.write(b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0").await;
        assert!(is_served(&mut own).await);
        assert!(is_served(&mut v2).await);
    }
}

#[tokio::test]
async fn wrong_keys_are_counted_by_the_client_address_from_a_trusted_proxy() {
    let config = HttpConfig { wrong_keys_per_minute: 1, ..behind_a_load_balancer() };
    let daemon = Daemon::start_with(config.clone(), 60).await;
    let (mut one, mut other) = (from(&daemon, 1).await, from(&daemon, 2).await);
    let statuses = [wrong_key(&mut one, "").await, wrong_key(&mut one, "").await, wrong_key(&mut other, "").await];
    assert_eq!(statuses, [401, 429, 401]);
    assert_eq!(wrong_key(&mut one, "x-forwarded-for: 192.0.2.9\r\n").await, 429, "a client is no trusted proxy");

    let daemon = Daemon::start_with(HttpConfig { proxy_protocol: false, ..config }, 60).await;
    let mut proxy = daemon.connect().await;
    for (headers, status) in [
        ("x-forwarded-for: 192.0.2.1\r\n", 401),
        ("x-forwarded-for: 192.0.2.1\r\n", 429),
        ("x-forwarded-for: 192.0.2.2\r\n", 401),
        ("x-forwarded-for: 192.0.2.77, 192.0.2.1\r\n", 429),
        ("forwarded: for=192.0.2.2\r\n", 429),
        ("forwarded: for=192.0.2.3\r\n", 401),
    ] {
        assert_eq!(wrong_key(&mut proxy, headers).await, status, "{headers}");
    }

    let untrusting = HttpConfig { wrong_keys_per_minute: 1, ..HttpConfig::default() };
    let daemon = Daemon::start_with(untrusting, 60).await;
    let mut direct = daemon.connect().await;
    assert_eq!(wrong_key(&mut direct, "x-forwarded-for: 192.0.2.1\r\n").await, 401);
    assert_eq!(wrong_key(&mut direct, "x-forwarded-for: 192.0.2.2\r\n").await, 429, "it chose its own address");
}

#[tokio::test]
async fn a_proxy_header_is_accepted_from_trusted_proxies_only() {
    let v2 = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x01\xc6\x33\x64\x01\x12\x34\x01\xbb".to_vec();
    let headers = [b"PROXY TCP4 192.0.2.1 198.51.100.1 4711 443\r\n".to_vec(), v2];
    let elsewhere =
        HttpConfig { trusted_proxies: vec!["192.0.2.0/24".parse().expect("a range")], ..behind_a_load_balancer() };
    let not_spoken = HttpConfig { proxy_protocol: false, ..behind_a_load_balancer() };
    for config in [elsewhere, not_spoken, HttpConfig::default()] {
        let daemon = Daemon::start_with(config, 60).await;
        for header in &headers {
            let mut spoofed = daemon.connect().await;
            spoofed.write([header.as_slice(), GET.as_bytes()].concat()).await;
            let reply = spoofed.reply().await.expect("a refusal");
            assert!(reply.starts_with("HTTP/1.1 400 "), "{reply}");
            assert!(spoofed.ends_within(LONG).await);
        }
    }
    let config = HttpConfig { header_timeout: Duration::from_millis(300), ..behind_a_load_balancer() };
    let daemon = Daemon::start_with(config, 60).await;
    for wrong in [GET, "PROXY TCP4 192.0.2.1 nowhere 4711 443\r\n", "PROXY UNKN", ""] {
        let mut connection = daemon.connect().await;
        connection.write(wrong).await;
        assert!(connection.ends_within(LONG).await, "{wrong:?}");
    }
}

/// Settings with a short maximum age of connections.
fn aging() -> HttpConfig {
    HttpConfig { max_connection_age: Duration::from_millis(1500), ..HttpConfig::default() }
}

#[tokio::test]
async fn an_old_connection_ends_between_two_requests() {
    let daemon = Daemon::start_with(aging(), 60).await;
    let mut idle = daemon.connect().await;
    assert!(is_served(&mut idle).await);
    assert!(idle.ends_within(LONG).await, "it would have been idle for longer");

    daemon.engine.set(Work::Wait);
    let mut busy = hold(&daemon, daemon.connect().await).await;
    sleep(Duration::from_millis(2500)).await;
    daemon.engine.release.notify_waiters();
    let reply = busy.reply().await.expect("a request in progress is answered");
    assert!(reply.contains("connection: close\r\n") && reply.ends_with("released"), "{reply}");
    assert!(busy.ends_within(LONG).await);
}

#[tokio::test]
async fn an_old_http2_connection_ends_gracefully() {
    let daemon = Daemon::start_with(aging(), 60).await;
    let mut connection = Http2::connect(daemon.address).await;
    assert_eq!(connection.get("/docs").await.status(), 200);
    // It would have been idle for longer.
    connection.ends().await;
}

#[tokio::test]
async fn an_ambiguous_head_is_refused() {
    let daemon = Daemon::start().await;
    let upload = format!("POST /remove HTTP/1.1\r\nauthorization: Bearer {KEY}\r\n");
    for (head, param) in [
        ("GET /docs HTTP/1.1\r\nhost: a\r\nhost: a\r\n\r\n".to_owned(), "Host"),
        (format!("{upload}host: x\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n"), "Transfer-Encoding"),
    ] {
        let mut connection = daemon.connect().await;
        connection.write(&head).await;
        let reply = connection.reply().await.expect("a reply");
        assert!(reply.starts_with("HTTP/1.1 400 ") && reply.contains("connection: close\r\n"), "{reply}");
        assert!(reply.contains(&format!("\"param\":\"{param}\"")), "{reply}");
        assert!(connection.ends_within(LONG).await, "{head}");
    }
    // HTTP/1.0 has no Host.
    let mut old = daemon.connect().await;
    old.write("GET /docs HTTP/1.0\r\n\r\n").await;
    assert!(old.reply().await.expect("a reply").starts_with("HTTP/1.0 200 "));
    assert_eq!(daemon.engine.started(), 0);
}
