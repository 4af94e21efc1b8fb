//! Replies that the client reads slowly or not at all: their memory and their time-out.

use crate::http::daemon::{Daemon, Exchange, KEY, LONG, PAID, PHOTO, Work, file, raw_upload, raw_upload_to, until};
use backdrop::http::config::HttpConfig;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use reqwest::multipart::Form;
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

/// Half of it is for replies, of which an account alone has two thirds.
const BUDGET_MEGABYTES: usize = 48;
const SHARE: usize = BUDGET_MEGABYTES * 1_000_000 / 3;

/// Less than any reply here, so that each needs its client to read.
const WINDOW: u32 = 16 * 1024;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn config() -> HttpConfig {
    HttpConfig { max_body_megabytes_in_flight: BUDGET_MEGABYTES, ..HttpConfig::default() }
}

/// With a short time-out for stalled replies.
fn short_reply_timeout() -> HttpConfig {
    HttpConfig { reply_timeout: ms(1000), ..config() }
}

async fn in_time<T>(what: &str, event: impl Future<Output = T>) -> T {
    timeout(LONG, event).await.unwrap_or_else(|_| panic!("{what} did not happen"))
}

/// An HTTP/2 client with one connection; bodies are read only where a test reads them.
struct Client {
    sender: SendRequest<Full<Bytes>>,
    connection: JoinHandle<hyper::Result<()>>,
}

fn builder(window: u32) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.timer(TokioTimer::new()).initial_stream_window_size(window).initial_connection_window_size(1 << 30);
    builder
}

impl Client {
    async fn connect(daemon: &Daemon) -> Self {
        Self::with(daemon, &mut builder(WINDOW)).await
    }

    /// One that sends a PING often.
    async fn pinging(daemon: &Daemon) -> Self {
        Self::with(daemon, builder(WINDOW).keep_alive_interval(ms(50)).keep_alive_while_idle(true)).await
    }

    async fn with(daemon: &Daemon, builder: &mut Builder<TokioExecutor>) -> Self {
        let stream = TcpStream::connect(daemon.address).await.expect("a connection");
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.expect("HTTP/2");
        Self { sender, connection: tokio::spawn(connection) }
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Response<Incoming> {
        in_time("the head of a reply", self.sender.clone().send_request(request)).await.expect("a reply")
    }
}

fn get(path: &str) -> Request<Full<Bytes>> {
    Request::get(format!("http://localhost{path}")).body(Full::default()).expect("a request")
}

fn post(path: &str, key: &str, body: Vec<u8>) -> Request<Full<Bytes>> {
    let request = Request::post(format!("http://localhost{path}"))
        .header("authorization", format!("Bearer {key}"))
        .header("content-type", "multipart/form-data; boundary=B");
    request.body(body.into()).expect("a request")
}

fn picture(key: &str) -> Request<Full<Bytes>> {
    post("/remove", key, raw_upload(b"the picture").1)
}

#[tokio::test]
async fn unread_replies_fill_the_share_of_their_account_and_further_requests_are_429() {
    let daemon = Daemon::start_with(config(), 10_000).await;
    daemon.engine.set(Work::AnswerBytes(SHARE / 8));
    let client = Client::connect(&daemon).await;
    let mut unread = Vec::new();
    for _ in 0..8 {
        unread.push(client.send(picture(KEY)).await);
        assert_eq!(unread[unread.len() - 1].status(), 200);
    }
    // At most four wait.
    let mut replies = JoinSet::new();
    for _ in 0..6 {
        let mut sender = client.sender.clone();
        replies.spawn(async move { sender.send_request(picture(KEY)).await.expect("a reply") });
    }
    let mut next = async || in_time("a reply", replies.join_next()).await.map(|reply| reply.expect("no panic"));
    for _ in 0..2 {
        let reply = next().await.expect("one more");
        assert_eq!(reply.status(), 429);
        assert!(reply.headers().contains_key("retry-after"));
    }

    let other = Client::connect(&daemon).await;
    for _ in 0..3 {
        let reply = other.send(picture(PAID)).await;
        assert_eq!(reply.status(), 200);
        let body = in_time("the body", reply.into_body().collect()).await.expect("all of it");
        assert_eq!(body.to_bytes().len(), SHARE / 8, "the rest is another account's");
    }
    drop(unread);
    let mut sent = 0;
    while let Some(reply) = next().await {
        sent += usize::from(reply.status() == 200);
    }
    assert_eq!(sent, 4, "there is memory again");
}

#[tokio::test]
async fn a_stream_whose_reply_is_not_read_is_reset_and_its_memory_released() {
    let daemon = Daemon::start_with(short_reply_timeout(), 10_000).await;
    daemon.engine.set(Work::AnswerBytes(SHARE));
    let client = Client::connect(&daemon).await;
    let first = client.send(picture(KEY)).await;
    assert_eq!(first.status(), 200);
    let second = client.send(picture(KEY)).await;
    assert_eq!(second.status(), 200, "it had to wait for the memory of the first");
    let cut = in_time("the end of the first", first.into_body().collect()).await.expect_err("it was reset");
    assert!(format!("{cut:?}").contains("CANCEL"), "{cut:?}");
    let body = in_time("the second", second.into_body().collect()).await.expect("the connection is still usable");
    assert_eq!(body.to_bytes().len(), SHARE);
}

#[tokio::test]
async fn a_slow_reader_gets_its_whole_reply() {
    let reply_timeout = ms(2000);
    let daemon = Daemon::start_with(HttpConfig { reply_timeout, ..config() }, 10_000).await;
    let length = 40 * WINDOW as usize;
    daemon.engine.set(Work::AnswerBytes(length));
    let client = Client::connect(&daemon).await;
    let mut body = client.send(picture(KEY)).await.into_body();
    let (start, mut read) = (Instant::now(), 0);
    while let Some(frame) = in_time("the next piece", body.frame()).await {
        read += frame.expect("it is not cut").into_data().map_or(0, |data| data.len());
        sleep(reply_timeout / 30).await;
    }
    assert_eq!(read, length);
    assert!(start.elapsed() > reply_timeout, "the reply took less than the time-out");
}

#[tokio::test]
async fn an_http1_connection_whose_reply_is_not_read_is_closed() {
    const LENGTH: usize = 64 << 20;
    let daemon = Daemon::start_with(short_reply_timeout(), 10_000).await;
    daemon.engine.set(Work::AnswerBytes(LENGTH));
    let (head, body) = raw_upload(b"the picture");
    let mut connection = daemon.connect().await;
    connection.write(format!("{head}\r\n")).await;
    connection.write(body).await;
    in_time("the beginning of the reply", connection.0.readable()).await.expect("a connection");
    daemon.engine.set(Work::Answer);
    assert_eq!(daemon.send("/remove", &[]).await.status(), 200);
    let mut reply = Vec::new();
    // A reset is possible too.
    let _ = in_time("the end", connection.0.read_to_end(&mut reply)).await;
    assert!(reply.len() < LENGTH, "all {} bytes were still delivered", reply.len());
}

/// A request as HTTP/2 frames (RFC 9113), with windows of 1 GB. A client of hyper reads its socket in a task of its own
/// and so cannot leave it unread.
fn http2_frames(path: &str, body: &[u8]) -> Vec<u8> {
    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).expect("a short frame").to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    }
    let window = (1_u32 << 30).to_be_bytes();
    let fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "localhost"),
        (":path", path),
        ("authorization", &format!("Bearer {KEY}")),
        ("content-type", "multipart/form-data; boundary=B"),
    ];
    // Literal fields that are not indexed (RFC 7541, 6.2.2), shorter than 127 bytes each.
    let head = fields.map(|(name, value)| {
        let sized = |text: &str| [&[u8::try_from(text.len()).expect("a short field")], text.as_bytes()].concat();
        [vec![0], sized(name), sized(value)].concat()
    });
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        frame(4, 0, 0, &[&[0, 4], window.as_slice()].concat()), // SETTINGS_INITIAL_WINDOW_SIZE
        frame(8, 0, 0, &window),                                // WINDOW_UPDATE of the connection
        frame(1, 4, 1, &head.concat()),                         // HEADERS, END_HEADERS
        frame(0, 1, 1, body),                                   // DATA, END_STREAM
    ]
    .concat()
}

#[tokio::test]
async fn an_http2_reply_that_is_not_read_is_cut_at_any_window_size() {
    const LENGTH: usize = 64 << 20;
    let daemon = Daemon::start_with(HttpConfig { idle_timeout: ms(500), ..short_reply_timeout() }, 10_000).await;
    daemon.engine.set(Work::AnswerBytes(LENGTH));
    let mut connection = daemon.connect().await;
    connection.write(http2_frames("/remove", &raw_upload(b"the picture").1)).await;
    until("the call of the engine", || daemon.engine.started() == 1).await;
    daemon.engine.set(Work::Answer);
    assert_eq!(daemon.send("/remove", &[]).await.status(), 200);
    let mut reply = Vec::new();
    // The stream is reset and the idle connection closed, or the connection is closed first.
    let _ = in_time("the end", connection.0.read_to_end(&mut reply)).await;
    assert!(reply.len() > 1 << 14, "{} bytes are no reply", reply.len());
    assert!(reply.len() < LENGTH, "all {} bytes were still delivered", reply.len());
}

#[tokio::test]
async fn an_unread_reply_of_every_kind_is_reset() {
    let config = HttpConfig { reply_timeout: ms(300), idle_timeout: ms(500), ..config() };
    let daemon = Daemon::start_with(config, 10_000).await;
    daemon.engine.set(Work::AnswerBytes(200_000));
    let done = daemon.done_with(&format!("clip 1.5 {}", "x".repeat(600_000))).await;
    let result = done["result_url"].as_str().and_then(|url| url.split_once("/results/")).expect("an address").1;
    let file = String::from_utf8(raw_upload_to("/remove-batch", b"the picture").1).expect("text");
    let batch = file.replace("name=\"file\"", "name=\"files\"").into_bytes();
    for request in [
        picture(KEY),
        post("/remove-batch", KEY, batch),
        get(&format!("/results/{result}")),
        get("/docs"),
        get("/openapi.yaml"),
    ] {
        let path = request.uri().path().to_owned();
        let client = Client::pinging(&daemon).await;
        let reply = client.send(request).await;
        assert_eq!(reply.status(), 200, "{path}");
        // Idle after the reply was reset.
        let _ = in_time("the end of the connection", client.connection).await.expect("no panic");
        reply.into_body().collect().await.expect_err(&path);
        drop(client.sender);
    }
}

#[tokio::test]
async fn a_picture_whose_reply_in_another_format_finds_no_memory_is_not_billed() {
    let config = HttpConfig { request_deadline: ms(2000), ..config() };
    let daemon = Daemon::start_with(config, 10_000).await;
    // Two pictures fit the share, and not one beside the JSON of another.
    daemon.engine.set(Work::AnswerBytes(SHARE * 19 / 40));
    let json = || {
        let form = Form::new().part("image_file", file(PHOTO.to_vec()));
        daemon.post("/v1.0/removebg").multipart(form).header("accept", "application/json").answer()
    };
    let client = Client::connect(&daemon).await;
    let unread = client.send(picture(KEY)).await;
    assert_eq!((unread.status().as_u16(), daemon.account(KEY).await["used"].as_u64()), (200, Some(1)));
    assert_eq!(json().await.status(), 503);
    assert_eq!(daemon.account(KEY).await["used"], 1);
    drop((unread, client));
    let answer = in_time("room", async {
        loop {
            let answer = json().await;
            if answer.status() == 200 {
                return answer;
            }
        }
    });
    let text = answer.await.text().await.expect("JSON");
    assert!(text.starts_with("{\"data\":{\"result_b64\":") && text.len() > SHARE / 2, "{} bytes", text.len());
    assert_eq!(daemon.account(KEY).await["used"], 2);
}
