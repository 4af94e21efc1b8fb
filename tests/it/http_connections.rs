//! Connections that behave badly, and the two protocols.

use crate::command::http_client;
use crate::http_daemon::{Daemon, KEY, LONG, Work, form, raw_upload, until};
use backdrop::http::config::HttpConfig;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::sleep;

const GET: &str = "GET /openapi.yaml HTTP/1.1\r\nhost: x\r\n\r\n";

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Clocks short enough to be waited for; idling is allowed for far longer than a slow head.
fn impatient() -> HttpConfig {
    HttpConfig {
        header_timeout: ms(400),
        idle_timeout: ms(2000),
        body_pause: ms(400),
        body_timeout: ms(1500),
        ..HttpConfig::default()
    }
}

#[tokio::test]
async fn a_head_that_trickles_in_is_cut_off() {
    let daemon = Daemon::start_with(impatient(), 60).await;
    let mut connection = daemon.connect().await;
    let start = Instant::now();
    let mut bytes = b"GET /docs HTTP/1.1\r\nhost: x\r\nx-padding: ".iter().copied().chain(std::iter::repeat(b'x'));
    // A byte every 50 ms: never idle, never done.
    loop {
        let byte = bytes.next().expect("endless");
        if tokio::io::AsyncWriteExt::write_all(&mut connection.0, &[byte]).await.is_err() {
            break;
        }
        if connection.ends_within(ms(50)).await {
            break;
        }
        assert!(start.elapsed() < LONG, "still open");
    }
    assert!(start.elapsed() >= ms(400) && start.elapsed() < ms(1500), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_connection_that_says_nothing_is_cut_off() {
    let daemon = Daemon::start_with(impatient(), 60).await;
    for beginning in ["", "P", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let mut connection = daemon.connect().await;
        connection.write(beginning).await;
        let start = Instant::now();
        // HTTP/2 says its settings first.
        let mut said = Vec::new();
        let _ = tokio::time::timeout(LONG, connection.0.read_to_end(&mut said)).await.expect("the end");
        assert!(start.elapsed() >= ms(350) && start.elapsed() < ms(1500), "{beginning:?}: {:?}", start.elapsed());
    }
}

#[tokio::test]
async fn the_second_head_of_a_connection_is_clocked_as_the_first() {
    let daemon = Daemon::start_with(impatient(), 60).await;
    let mut connection = daemon.connect().await;
    connection.write(GET).await;
    connection.reply().await.expect("the first reply");
    connection.write("GET /docs HT").await;
    let start = Instant::now();
    assert!(connection.ends_within(ms(1500)).await);
    assert!(start.elapsed() >= ms(350), "{:?}", start.elapsed());
}

#[tokio::test]
async fn an_idle_connection_lives_longer_than_a_slow_head_and_then_ends() {
    let daemon = Daemon::start_with(impatient(), 60).await;
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
async fn a_body_that_pauses_or_trickles_is_refused_and_its_connection_closed() {
    let daemon = Daemon::start_with(impatient(), 60).await;
    let (head, body) = raw_upload(&[7; 1000]);
    for (step, least) in [(ms(LONG.as_millis() as u64), ms(400)), (ms(100), ms(1400))] {
        let mut connection = daemon.connect().await;
        connection.write(format!("{head}\r\n")).await;
        let start = Instant::now();
        let (mut reading, mut writing) = connection.0.split();
        let mut reply = Vec::new();
        let trickle = async {
            for byte in &body {
                if tokio::io::AsyncWriteExt::write_all(&mut writing, &[*byte]).await.is_err() {
                    break;
                }
                sleep(step).await;
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = trickle => unreachable!("it never ends"),
            read = tokio::time::timeout(LONG, reading.read_to_end(&mut reply)) => {
                // A reset may follow the reply, since the client goes on sending.
                let _ = read.expect("the daemon gives up in time");
            }
        }
        let reply = String::from_utf8_lossy(&reply);
        assert!(reply.starts_with("HTTP/1.1 400 "), "{reply}");
        assert!(reply.contains("connection: close") && reply.contains("too slowly"), "{reply}");
        assert!(start.elapsed() >= least && start.elapsed() < least + ms(2000), "{:?}", start.elapsed());
    }
    assert_eq!(daemon.engine.started(), 0);
}

#[tokio::test]
async fn a_reply_that_nobody_reads_does_not_hold_its_connection() {
    let daemon = Daemon::start_with(HttpConfig { reply_timeout: ms(500), ..impatient() }, 60).await;
    daemon.engine.set(Work::AnswerBytes(64 << 20));
    let (head, body) = raw_upload(b"the picture");
    let mut connection = daemon.connect().await;
    connection.write(format!("{head}\r\n")).await;
    connection.write(body).await;
    until("the work", || daemon.engine.started() == 1).await;
    sleep(ms(2500)).await;
    let mut reply = Vec::new();
    let _ = tokio::time::timeout(LONG, connection.0.read_to_end(&mut reply)).await.expect("the end");
    assert!(reply.len() < 64 << 20, "all {} bytes were still delivered", reply.len());
}

#[tokio::test]
async fn one_connection_serves_many_requests_also_after_refusals() {
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
async fn garbage_is_400_and_ends_the_connection_and_what_came_before_is_answered() {
    let daemon = Daemon::start().await;
    for (before, garbage) in
        [("", "\0\x01\x02garbage\r\n\r\n"), (GET, "BLAH BLAH BLAH BLAH\r\n\r\n"), (GET, "GET / HTTP/9.9\r\n\r\n")]
    {
        let mut connection = daemon.connect().await;
        connection.write(format!("{before}{garbage}")).await;
        if !before.is_empty() {
            assert!(connection.reply().await.expect("the first reply").starts_with("HTTP/1.1 200 "));
        }
        let reply = connection.reply().await.expect("the 400");
        assert!(reply.starts_with("HTTP/1.1 400 "), "{reply}");
        assert!(connection.ends_within(LONG).await);
    }
    assert_eq!(daemon.send("/remove", &[]).await.status(), 200);
}

#[tokio::test]
async fn an_oversized_head_is_431_on_http1_and_refused_on_http2() {
    let daemon = Daemon::start().await;
    let padding = "x".repeat(70_000);
    let mut connection = daemon.connect().await;
    connection.write(format!("GET /docs HTTP/1.1\r\nhost: x\r\nx-padding: {padding}\r\n\r\n")).await;
    let reply = connection.reply().await.expect("a refusal");
    assert!(reply.starts_with("HTTP/1.1 431 "), "{reply}");
    assert!(connection.ends_within(LONG).await);

    let client = http_client().http2_prior_knowledge().build().expect("a client");
    let get = |padding: &str| client.get(daemon.url("/docs")).header("x-padding", padding).timeout(LONG).send();
    assert_eq!(get("small").await.expect("an answer").status(), 200);
    assert!(get(&padding).await.is_ok_and(|response| response.status() == 431));
}

#[tokio::test]
async fn http2_with_prior_knowledge_answers_many_requests_on_one_connection() {
    // One place for connections: a second one would wait forever.
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
        let part = reqwest::multipart::Part::bytes(vec![0; length]).file_name("a.jpg");
        let form = reqwest::multipart::Form::new().part("file", part);
        let response = client.post(daemon.url("/remove")).bearer_auth(key).multipart(form).timeout(LONG).send();
        assert_eq!(response.await.expect("an answer").status(), status);
    }
}

#[tokio::test]
async fn shutdown_answers_what_is_under_way_and_takes_nothing_new() {
    let mut daemon = Daemon::start().await;
    daemon.engine.set(Work::Wait);
    let under_way = tokio::spawn(daemon.post("/remove").multipart(form(&[])).send());
    until("the work", || daemon.engine.started() == 1).await;
    let mut idle = daemon.connect().await;
    idle.write(GET).await;
    idle.reply().await.expect("a reply");

    let ready = format!("http://{}/readyz", daemon.admin);
    assert_eq!(daemon.client.get(&ready).send().await.expect("an answer").status(), 200);
    daemon.stop();
    assert!(idle.ends_within(LONG).await, "an idle connection ends at once");
    let response = daemon.client.get(&ready).send().await.expect("the admin listener is still there");
    assert_eq!(response.status(), 503);
    assert!(TcpStream::connect(daemon.address).await.is_err(), "still accepting");

    daemon.engine.release.notify_waiters();
    let response = under_way.await.expect("no panic").expect("an answer");
    assert_eq!(response.text().await.expect("a body"), "released");
    tokio::time::timeout(LONG, daemon.served).await.expect("the end").expect("no panic");
}

#[tokio::test]
async fn shutdown_cuts_what_outlives_the_grace_period() {
    let mut daemon = Daemon::start_with(HttpConfig { shutdown_grace: ms(200), ..HttpConfig::default() }, 60).await;
    daemon.engine.set(Work::Wait);
    let under_way = tokio::spawn(daemon.post("/remove").multipart(form(&[])).send());
    until("the work", || daemon.engine.started() == 1).await;
    daemon.stop();
    tokio::time::timeout(LONG, daemon.served).await.expect("the end").expect("no panic");
    assert!(under_way.await.expect("no panic").is_err());
    until("the end of the work", || daemon.engine.cancelled.load(Ordering::SeqCst) == 1).await;
}
