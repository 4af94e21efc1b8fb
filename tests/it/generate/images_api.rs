//! Fake image API: a loopback server of the OpenAI images protocol with scripted replies, errors and malformed responses.

use crate::support::pictures::png;
use backdrop::image::Size;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame as BodyFrame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::sleep;

/// A scripted reply.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// 200 with this picture in base64.
    Picture(Bytes),
    /// 200 with the address of a picture.
    Address(String),
    /// That status and body.
    Body(u16, Bytes),
    /// That status, these headers, and a JSON body.
    Error(u16, Vec<(&'static str, String)>, Value),
    /// That status, with the received `authorization` in the message.
    Echo(u16),
    /// 200 and an endless body.
    Endless,
    /// No reply.
    Silence,
    /// Closes the connection.
    Hangup,
    /// Another reply after a delay.
    After(Duration, Box<Self>),
}

/// A received request.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) authorization: Option<String>,
    pub(crate) content_type: Option<String>,
    pub(crate) body: Value,
}

#[derive(Debug, Default)]
struct Shared {
    /// Replies in turn; the last one repeats.
    replies: Mutex<VecDeque<Reply>>,
    received: Mutex<Vec<Received>>,
}

/// The server; it stops with its test's runtime.
#[derive(Clone, Debug)]
pub(crate) struct ImagesApi {
    pub(crate) base: String,
    shared: Arc<Shared>,
}

impl ImagesApi {
    /// Starts a server with these replies in turn; the last one repeats.
    pub(crate) async fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let base = format!("http://{}", listener.local_addr().expect("bound"));
        let shared =
            Arc::new(Shared { replies: Mutex::new(replies.into_iter().collect()), received: Mutex::default() });
        let api = Self { base, shared: shared.clone() };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = shared.clone();
                let service = service_fn(move |request| answer(shared.clone(), request));
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        api
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.shared.received.lock().expect("no panic inside").clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.received().len()
    }

    /// Replaces the replies.
    pub(crate) fn set(&self, replies: impl IntoIterator<Item = Reply>) {
        *self.shared.replies.lock().expect("no panic inside") = replies.into_iter().collect();
    }
}

type Body = BoxBody<Bytes, Infallible>;

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> io::Result<Response<Body>> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let authorization = header("authorization");
    shared.received.lock().expect("no panic inside").push(Received {
        method: head.method.to_string(),
        path: head.uri.to_string(),
        authorization: authorization.clone(),
        content_type: header("content-type"),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    });
    let mut reply = {
        let mut replies = shared.replies.lock().expect("no panic inside");
        if replies.len() > 1 { replies.pop_front() } else { replies.front().cloned() }.expect("a reply")
    };
    while let Reply::After(wait, then) = reply {
        sleep(wait).await;
        reply = *then;
    }
    let full = |status: u16, body: Bytes| {
        let mut response = Response::new(Full::new(body).boxed());
        *response.status_mut() = status.try_into().expect("a status");
        response
    };
    let json = |status, value: Value| full(status, value.to_string().into());
    Ok(match reply {
        Reply::Picture(bytes) => json(200, json!({ "created": 1, "data": [{ "b64_json": STANDARD.encode(bytes) }] })),
        Reply::Address(url) => json(200, json!({ "created": 1, "data": [{ "url": url }] })),
        Reply::Body(status, bytes) => full(status, bytes),
        Reply::Error(status, headers, value) => {
            let mut response = json(status, value);
            for (name, value) in headers {
                response.headers_mut().insert(name, value.parse().expect("a value"));
            }
            response
        }
        Reply::Echo(status) => {
            json(status, json!({ "error": { "message": format!("no such key: {authorization:?}") } }))
        }
        Reply::Endless => {
            let chunk = Bytes::from(vec![b'A'; 1 << 20]);
            let chunks = stream::repeat_with(move || Ok(BodyFrame::data(chunk.clone())));
            Response::new(BodyExt::boxed(StreamBody::new(chunks)))
        }
        Reply::Silence => std::future::pending().await,
        Reply::Hangup => return Err(io::ErrorKind::ConnectionReset.into()),
        Reply::After(..) => unreachable!("delays end in the loop above"),
    })
}

/// A PNG of one colour.
pub(crate) fn picture(width: u32, height: u32, [red, green, blue]: [u8; 3]) -> Bytes {
    png(Size::new(width, height), |_, _| [red, green, blue, 255])
}
