//! One request and its reply: what holds for all of them, whatever they ask for.
//!
//! Every reply carries the request's id; every failure, a panic included, becomes the error envelope and one line in
//! the log; an unread body is taken in beside the reply. Keys and cookies are marked as sensitive before anything else
//! sees the headers, so that printing them shows none.

use super::Caller;
use super::body::RequestBody;
use super::client_address::{self, Ends};
use super::compat::API_KEY;
use super::config::HttpConfig;
use super::connection::Busy;
use super::cors::Cors;
use super::delivery::Delivery;
use super::drain::Drain;
use super::error::ApiError;
use super::head_check;
use super::request_id;
use super::response::{REQUEST_ID, Reply, VERSION};
use crate::telemetry::{metrics, panic_message};
use hyper::body::Incoming;
use hyper::header::{
    AUTHORIZATION, CACHE_CONTROL, CONNECTION, COOKIE, EXPECT, HeaderMap, HeaderValue, PROXY_AUTHORIZATION,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, Request, Response, Uri, Version};
use std::any::Any;
use std::future::Future;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;
use std::time::Instant;
use tracing::{Instrument, debug, field, info, info_span};

/// What one listener answers.
pub(super) trait Service: Send + Sync + 'static {
    /// Of the listener, for the log.
    const NAME: &'static str;
    /// Whether each request is worth a line in the log; health checks are not.
    const LOGGED: bool;
    /// Whether web pages of `server.cors_origins` may call it.
    const FOR_BROWSERS: bool = false;
    /// Whether further requests are answered 503 while those under way end at shutdown.
    const DRAINS: bool = false;

    /// Answers one request.
    fn answer(&self, exchange: &mut Exchange) -> impl Future<Output = Result<Reply, ApiError>> + Send;
}

/// The request in hand, and what is already known about its reply.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) id: String,
    /// Address of the client, behind trusted proxies too.
    pub(super) client: IpAddr,
    /// Address that the connection came to.
    pub(super) local: IpAddr,
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    pub(super) body: RequestBody,
    /// Headers of the reply, whichever it will be.
    pub(super) reply_headers: HeaderMap,
    /// Keeps the connection from being given up as idle, for replies that go on after their head.
    pub(super) busy: Busy,
    /// Who sent the request, once that is known.
    pub(super) caller: Option<Caller>,
    /// Path of the route, for metrics and log; an unknown path must not become a label.
    pub(super) endpoint: &'static str,
}

/// Answers one request.
pub(super) async fn answer<S: Service>(
    service: &S,
    request: Request<Incoming>,
    ends: Ends,
    busy: Busy,
    config: &HttpConfig,
    drain: &Drain,
) -> Response<Delivery> {
    let started = Instant::now();
    let (mut head, incoming) = request.into_parts();
    hide_secrets(&mut head.headers);
    let id = request_id::of(&head.headers);
    let cors = S::FOR_BROWSERS.then(|| Cors::of(&config.cors_origins, &head.method, &head.headers)).flatten();
    let checked = head_check::check(head.version, &head.uri, &head.headers).and_then(|()| drain.admit());
    let held_back = head.version == Version::HTTP_11 && head.headers.contains_key(EXPECT);
    let mut exchange = Exchange {
        id: id.clone(),
        client: client_address::client_of(ends.peer, &head.headers, &config.trusted_proxies),
        local: ends.local,
        method: head.method,
        uri: head.uri,
        headers: head.headers,
        body: RequestBody::new(incoming, held_back, config),
        reply_headers: HeaderMap::new(),
        busy: busy.clone(),
        caller: None,
        endpoint: "unknown",
    };
    let span = info_span!("request", request_id = %id, endpoint = field::Empty, account = field::Empty);
    let (outcome, under_way) = match checked {
        Ok(under_way) => (caught(service.answer(&mut exchange)).instrument(span.clone()).await, Some(under_way)),
        Err(error) => (Ok(Err(error)), None),
    };
    let _entered = span.enter();
    span.record("endpoint", exchange.endpoint);
    let outcome = outcome.map(|outcome| match &cors {
        Some(cors) => outcome.or_else(|refusal| cors.preflight(refusal)),
        None => outcome,
    });
    let mut reply = match outcome {
        Ok(Ok(reply)) => reply,
        Ok(Err(error)) => refuse(error, &id),
        Err(panic) => refuse(ApiError::internal(format!("panic: {}", panic_message(&*panic))), &id),
    };
    let headers = reply.headers_mut();
    headers.extend(exchange.reply_headers);
    headers.insert(REQUEST_ID, HeaderValue::from_str(&id).expect("ids are visible ASCII"));
    headers.insert(VERSION, HeaderValue::from_static(env!("CARGO_PKG_VERSION")));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Some(cors) = cors {
        cors.mark(headers);
    }
    if drain.is_refusing() {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    if head.version == Version::HTTP_2 {
        // RFC 9113, section 8.2.2: connection-specific headers make a message malformed.
        headers.remove(CONNECTION);
    }
    exchange.body.dismiss(busy.clone());

    let (status, took) = (reply.status(), started.elapsed());
    metrics::request_finished(exchange.endpoint, status.as_u16(), took);
    if S::LOGGED {
        info!(status = status.as_u16(), took_ms = took.as_millis(), method = %exchange.method, "answered");
    } else {
        debug!(status = status.as_u16(), took_ms = took.as_millis(), method = %exchange.method, "answered");
    }
    reply.map(|body| Delivery::new(body, busy, under_way))
}

/// Marks what `Debug` must not print.
fn hide_secrets(headers: &mut HeaderMap) {
    for (name, value) in headers.iter_mut() {
        if [AUTHORIZATION, PROXY_AUTHORIZATION, COOKIE].contains(name) || *name == API_KEY {
            value.set_sensitive(true);
        }
    }
}

/// Turns a failure into its reply, and tells the log what the caller is not told.
fn refuse(error: ApiError, id: &str) -> Reply {
    error.log();
    error.into_reply(id)
}

/// What `work` comes to, or what it panicked with.
async fn caught<T>(work: impl Future<Output = T>) -> Result<T, Box<dyn Any + Send>> {
    let mut work = pin!(work);
    std::future::poll_fn(move |context| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
        Ok(Poll::Ready(done)) => Poll::Ready(Ok(done)),
        Ok(Poll::Pending) => Poll::Pending,
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_printed() {
        let mut headers = HeaderMap::new();
        for name in [AUTHORIZATION, AUTHORIZATION, PROXY_AUTHORIZATION, COOKIE, API_KEY] {
            headers.append(name, HeaderValue::from_static("Bearer bd_live_secret"));
        }
        assert!(
            format!("{headers:?}").contains("secret"),
            "printing them has to be possible for this to mean anything"
        );
        hide_secrets(&mut headers);
        assert!(!format!("{headers:?}").contains("secret"), "{headers:?}");
    }
}
