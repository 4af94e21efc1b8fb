//! HTTP/1.1 and HTTP/2 connections: time-outs, malformed heads, shutdown.

use crate::http::daemon::{Daemon, Exchange, Http2, KEY, LONG, Work, file, form, raw_upload, until};
use crate::support::command::http_client;
use backdrop::http::config::HttpConfig;
use reqwest::Response;
use serde_json::Value;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::sleep;

const GET: &str = "GET /openapi.yaml HTTP/1.1\r\nhost: x\r\n\r\n";

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The code of an error read from [`Raw`](crate::http::daemon::Raw); checks head and envelope.
fn code_of(reply: &str, status: u16) -> String {
    assert!(reply.starts_with(&format!("HTTP/1.1 {status} ")), "{reply}");
    let (head, body) = reply.split_once("\r\n\r\n").expect("a body");
    let body: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {reply}"));
    let head: Vec<_> = head.lines().collect();
    let id = body["request_id"].as_str().expect("an id");
    for line in [
        "content-type: application/json",
        "connection: close",
        "cache-control: no-store",
        "x-content-type-options: nosniff",
        &format!("x-service-version: {}", env!("CARGO_PKG_VERSION")),
        &format!("x-request-id: {id}"),
    ] {
        assert_eq!(head.iter().filter(|&&there| there == line).count(), 1, "{line}: {reply}");
    }
    assert!(body["error"]["message"].as_str().is_some_and(|message| !message.is_empty()), "{reply}");
    body["error"]["code"].as_str().expect("a code").to_owned()
}

impl Daemon {
    /// A request whose work waits until the engine is released.
    async fn request_in_progress(&self) -> JoinHandle<reqwest::Result<Response>> {
        self.engine.set(Work::Wait);
        let sent = tokio::spawn(self.upload("/remove", &[]).send());
        until("the work", || self.engine.started() == 1).await;
        sent
    }
}

/// Time-outs that no test reaches; a test shortens the one that it is about.
fn patient() -> HttpConfig {
    let never = 10 * LONG;
    HttpConfig {
        header_timeout: never,
        idle_timeout: never,
        body_pause: never,
        body_timeout: never,
        reply_timeout: never,
        ..HttpConfig::default()
    }
}

/// With a short time-out for the head.
fn short_head() -> HttpConfig {
    HttpConfig { header_timeout: ms(400), ..patient() }
}

#[tokio::test]
async fn a_head_that_trickles_in_is_cut_off_at_the_header_timeout() {
    let daemon = Daemon::start_with(short_head(), 60).await;
    let mut connection = daemon.connect().await;
    let start = Instant::now();
    let mut bytes = b"GET /docs HTTP/1.1\r\nhost: x\r\nx-padding: ".iter().copied().chain(std::iter::repeat(b'x'));
    // A byte every 50 ms: never idle, never complete.
    loop {
        let byte = bytes.next().expect("endless");
        if tokio::io::AsyncWriteExt::write_all(&mut connection.0, &[byte]).await.is_err() {
            break;
        }
        if connection.ends_within(ms(50)).await {
            break;
        }
        assert!(start.elapsed() < LONG, "the connection is still open");
    }
    assert!(start.elapsed() >= ms(400), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_connection_without_a_complete_head_is_cut_off_at_the_header_timeout() {
    let daemon = Daemon::start_with(short_head(), 60).await;
    for (is_later, beginning) in
        [(false, ""), (false, "P"), (false, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), (true, "GET /docs HT")]
    {
        let mut connection = daemon.connect().await;
        if is_later {
            connection.write(GET).await;
            connection.reply().await.expect("the first reply");
        }
        connection.write(beginning).await;
        let start = Instant::now();
        // HTTP/2 sends its settings first.
        let mut received = Vec::new();
        let _ = tokio::time::timeout(LONG, connection.0.read_to_end(&mut received)).await.expect("the end");
        assert!(start.elapsed() >= ms(350), "{beginning:?}: {:?}", start.elapsed());
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed_at_the_idle_timeout_not_the_header_timeout() {
    let daemon = Daemon::start_with(HttpConfig { idle_timeout: ms(2000), ..short_head() }, 60).await;
    let mut connection = daemon.connect().await;
    connection.write(GET).await;
    connection.reply().await.expect("the first reply");
    sleep(ms(1000)).await;
    connection.write(GET).await;
    connection.reply().await.expect("still there after more than the header timeout");
    let start = Instant::now();
    assert!(connection.ends_within(LONG).await);
    assert!(start.elapsed() >= ms(1900), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_body_that_pauses_or_trickles_is_408_and_its_connection_closed() {
    let (head, body) = raw_upload(&[7; 1000]);
    let pausing = HttpConfig { body_pause: ms(400), ..patient() };
    let trickling = HttpConfig { body_timeout: ms(1500), ..patient() };
    for (config, step, least) in [(pausing, 10 * LONG, ms(400)), (trickling, ms(100), ms(1400))] {
        let daemon = Daemon::start_with(config, 60).await;
        let mut connection = daemon.connect().await;
        connection.write(format!("{head}\r\n")).await;
        let start = Instant::now();
        let (mut reading, mut writing) = connection.0.split();
        let (mut reply, mut sent) = (Vec::new(), 0);
        let trickle = async {
            for byte in &body {
                if tokio::io::AsyncWriteExt::write_all(&mut writing, &[*byte]).await.is_err() {
                    break;
                }
                sent += 1;
                sleep(step).await;
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = trickle => unreachable!("it never ends"),
            read = tokio::time::timeout(LONG, reading.read_to_end(&mut reply)) => {
                // A reset may follow the reply, since the client continues to send.
                let _ = read.expect("the daemon gives up in time");
            }
        }
        let reply = String::from_utf8_lossy(&reply);
        assert_eq!(code_of(&reply, 408), "request_timeout");
        assert!(reply.contains("too slowly"), "{reply}");
        assert!(sent < body.len(), "the reply came after the whole body");
        assert!(start.elapsed() >= least, "{:?}", start.elapsed());
        assert_eq!(daemon.engine.started(), 0);
    }
}

#[tokio::test]
async fn a_connection_serves_further_requests_after_refusals() {
    let daemon = Daemon::start().await;
    let (head, body) = raw_upload(&vec![0; 300_000]);
    let mut connection = daemon.connect().await;
    for (key, status) in [(KEY, 200), ("bad", 401), (KEY, 200), ("bad", 401), (KEY, 200)] {
        connection.write(head.replace(KEY, key) + "\r\n").await;
        connection.write(&body).await;
        let reply = connection.reply().await.expect("a reply on the same connection");
        assert!(reply.starts_with(&format!("HTTP/1.1 {status} ")), "{reply}");
    }
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let daemon = Daemon::start().await;
    let mut connection = daemon.connect().await;
    let ids = ["one", "two", "three"];
    let requests = ids.map(|id| format!("GET /nowhere HTTP/1.1\r\nhost: x\r\nx-request-id: {id}\r\n\r\n"));
    connection.write(requests.concat()).await;
    for id in ids {
        let reply = connection.reply().await.expect("a reply");
        assert!(reply.contains(&format!("x-request-id: {id}\r\n")), "{reply}");
    }
}

#[tokio::test]
async fn malformed_requests_are_400_and_close_the_connection_after_earlier_replies() {
    let daemon = Daemon::start().await;
    for (before, garbage) in [
        ("", "\0\x01\x02garbage\r\n\r\n"),
        ("", "GET /docs HTTP/1.1\r\nhost: x\r\nno field\r\n\r\n"),
        ("", "GET /docs HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n"),
        (GET, "BLAH BLAH BLAH BLAH\r\n\r\n"),
        (GET, "GET / HTTP/9.9\r\n\r\n"),
        (GET, "GET /\x7f HTTP/1.1\r\n\r\n"),
    ] {
        let mut connection = daemon.connect().await;
        connection.write(format!("{before}{garbage}")).await;
        if !before.is_empty() {
            assert!(connection.reply().await.expect("the first reply").starts_with("HTTP/1.1 200 "));
        }
        let reply = connection.reply().await.expect("the 400");
        assert_eq!(code_of(&reply, 400), "invalid_parameter", "{garbage:?}");
        assert!(connection.ends_within(LONG).await);
    }
    assert_eq!(daemon.send("/remove", &[]).await.status(), 200);
}

#[tokio::test]
async fn an_oversized_head_is_431_in_both_protocols() {
    let daemon = Daemon::start().await;
    let padding = "x".repeat(70_000);
    for head in [
        format!("GET /docs HTTP/1.1\r\nhost: x\r\nx-padding: {padding}\r\n\r\n"),
        format!("GET /docs?{padding} HTTP/1.1\r\nhost: x\r\n\r\n"),
        format!("GET /docs HTTP/1.1\r\nhost: x\r\n{}\r\n", "a: b\r\n".repeat(100)),
        // Most of it comes after the refusal, which must be delivered nevertheless.
        format!("GET /docs HTTP/1.1\r\nx-padding: {}", padding.repeat(100)),
    ] {
        let mut connection = daemon.connect().await;
        connection.write(head).await;
        let reply = connection.reply().await.expect("a refusal");
        assert_eq!(code_of(&reply, 431), "headers_too_large");
        assert!(connection.ends_within(LONG).await);
    }

    let client = http_client().http2_prior_knowledge().build().expect("a client");
    let get = |padding: &str| client.get(daemon.url("/docs")).header("x-padding", padding).timeout(LONG);
    assert_eq!(get("small").answer().await.status(), 200);
    get(&padding).refused(431, "headers_too_large", None).await;
    // Beyond the limit of h2 itself the reply has no body, and the connection continues.
    assert_eq!(get(&padding.repeat(2)).answer().await.status(), 431);
    assert_eq!(get("small").answer().await.status(), 200);
}

#[tokio::test]
async fn http2_with_prior_knowledge_answers_many_requests_on_one_connection() {
    // A second connection would wait forever.
    let daemon = Daemon::start_with(HttpConfig { max_connections: 1, ..HttpConfig::default() }, 60).await;
    let client = http_client().http2_prior_knowledge().build().expect("a client");
    let post = || client.post(daemon.url("/remove")).bearer_auth(KEY).multipart(form(&[])).timeout(LONG).send();
    let first = post().await.expect("an answer");
    assert_eq!((first.status().as_u16(), first.version()), (200, reqwest::Version::HTTP_2));
    daemon.engine.set(Work::Wait);
    let many: Vec<_> = (0..8).map(|_| tokio::spawn(post())).collect();
    until("all at once", || daemon.engine.started() == 9).await;
    daemon.engine.release.notify_waiters();
    for one in many {
        let response = one.await.expect("no panic").expect("an answer");
        assert_eq!(response.text().await.expect("a body"), "released");
    }
}

#[tokio::test]
async fn http2_refusals_of_large_bodies_can_be_read() {
    let daemon = Daemon::start().await;
    let client = http_client().http2_prior_knowledge().build().expect("a client");
    for (key, length, status) in [("bad", 5 << 20, 401), (KEY, 20 << 20, 413)] {
        let form = reqwest::multipart::Form::new().part("file", file(vec![0; length]));
        let response = client.post(daemon.url("/remove")).bearer_auth(key).multipart(form).timeout(LONG).send();
        assert_eq!(response.await.expect("an answer").status(), status);
    }
}

#[tokio::test]
async fn shutdown_finishes_requests_in_progress_and_refuses_new_ones() {
    let mut daemon = Daemon::start().await;
    let in_progress = daemon.request_in_progress().await;
    let mut idle = daemon.connect().await;
    idle.write(GET).await;
    idle.reply().await.expect("a reply");

    let (client, readyz) = (daemon.client.clone(), format!("http://{}/readyz", daemon.admin));
    let ready = async || client.get(&readyz).answer().await.status();
    assert_eq!(ready().await, 200);
    let mut silent = daemon.connect().await;
    daemon.stop();
    tokio::time::timeout(LONG, async { while ready().await != 503 {} }).await.expect("the drain begins");
    // On a connection that was idle, one that has sent nothing, and new ones.
    for connection in [&mut idle, &mut silent, &mut daemon.connect().await, &mut daemon.connect().await] {
        connection.write(GET).await;
        let reply = connection.reply().await.expect("a refusal");
        assert_eq!(code_of(&reply, 503), "unavailable");
        assert!(reply.contains("retry-after: 5\r\n"), "{reply}");
        assert!(connection.ends_within(LONG).await);
    }
    let mut last = daemon.connect().await;

    daemon.engine.release.notify_waiters();
    let response = in_progress.await.expect("no panic").expect("an answer");
    assert_eq!(response.headers()["connection"], "close");
    assert_eq!(response.text().await.expect("a body"), "released");
    assert!(last.ends_within(LONG).await, "no request is in progress any more");
    tokio::time::timeout(LONG, daemon.served).await.expect("the end").expect("no panic");
    assert!(TcpStream::connect(daemon.address).await.is_err(), "still accepting");
}

#[tokio::test]
async fn shutdown_ends_http2_connections_gracefully_and_refuses_new_ones() {
    let mut daemon = Daemon::start().await;
    let in_progress = daemon.request_in_progress().await;
    let mut idle = Http2::connect(daemon.address).await;
    assert_eq!(idle.get("/docs").await.status(), 200);
    daemon.stop();
    idle.ends().await;
    let mut new = Http2::connect(daemon.address).await;
    let refused = new.get("/docs").await;
    assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (503, &5.into()));
    assert!(String::from_utf8_lossy(refused.body()).contains("\"unavailable\""), "{refused:?}");
    new.ends().await;

    daemon.engine.release.notify_waiters();
    let response = in_progress.await.expect("no panic").expect("an answer");
    assert_eq!(response.text().await.expect("a body"), "released");
    tokio::time::timeout(LONG, daemon.served).await.expect("the end").expect("no panic");
}

#[tokio::test]
async fn shutdown_cancels_requests_that_outlive_the_grace_period() {
    let mut daemon = Daemon::start_with(HttpConfig { shutdown_grace: ms(200), ..HttpConfig::default() }, 60).await;
    let in_progress = daemon.request_in_progress().await;
    daemon.stop();
    tokio::time::timeout(LONG, daemon.served).await.expect("the end").expect("no panic");
    assert!(in_progress.await.expect("no panic").is_err());
    until("the end of the work", || daemon.engine.cancelled.load(Ordering::SeqCst) == 1).await;
}
