//! The state of a request ([`RequestContext`]), and the steps of every request: id, checks of the head, error envelope, log, metrics.
//!
//! Every reply carries the request id; every failure, a panic included, becomes the error envelope and one line in the log;
//! an unread body is drained in the background. Keys and cookies are marked as sensitive first, so that printing headers
//! shows none.

use crate::http::admission::Caller;
use crate::http::config::HttpConfig;
use crate::http::connection::client_address::{self, ConnectionAddresses};
use crate::http::connection::drain::Drain;
use crate::http::connection::timeouts::RequestGuard;
use crate::http::connection::write_progress::TrackedBody;
use crate::http::reply::cors::Cors;
use crate::http::reply::{ApiError, REQUEST_ID, Reply, Result, VERSION, picture_reply, request_id};
use crate::http::request::body::RequestBody;
use crate::http::request::head_check;
use crate::telemetry::{metrics, panic_message};
use futures_util::FutureExt;
use hyper::body::Incoming;
use hyper::header::{
    AUTHORIZATION, CACHE_CONTROL, CONNECTION, COOKIE, DATE, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue,
    PROXY_AUTHORIZATION, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, Request, Response, Uri, Version};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;
use std::future::Future;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::time::Instant;
use tracing::{Instrument, debug, field, info, info_span};

/// The time as an HTTP date (RFC 9110, section 5.6.7).
fn now() -> HeaderValue {
    let date = DateTimePrinter::new().timestamp_to_rfc9110_string(&Timestamp::now());
    HeaderValue::try_from(date.expect("a year of four digits")).expect("dates are visible ASCII")
}

/// The API key of remove.bg's and Photoroom's clients.
pub(super) const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// The service of one listener.
pub(super) trait Service: Send + Sync + 'static {
    /// Name of the listener, for the log.
    const NAME: &'static str;
    /// Whether requests are logged at `info`; health checks are logged at `debug`.
    const LOGGED: bool;
    /// Whether web pages of `server.cors_origins` may call it.
    const FOR_BROWSERS: bool = false;
    /// Whether further requests are answered 503 while those in flight complete at shutdown.
    const DRAINS: bool = false;

    /// Answers one request.
    fn answer(&self, context: &mut RequestContext) -> impl Future<Output = Result<Reply>> + Send;
}

/// A request, and the headers of its reply.
#[derive(Debug)]
pub(super) struct RequestContext {
    pub(super) id: String,
    /// Address of the client, also behind trusted proxies.
    pub(super) client: IpAddr,
    /// Local address of the connection.
    pub(super) local: IpAddr,
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    pub(super) body: RequestBody,
    /// Headers that the reply gets, success or failure.
    pub(super) reply_headers: HeaderMap,
    /// Keeps the connection from being closed as idle, for replies that are streamed.
    pub(super) busy: RequestGuard,
    /// Who sent the request, once authenticated.
    pub(super) caller: Option<Caller>,
    /// Path of the route, for metrics and log. An unknown path must not become a label.
    pub(super) endpoint: &'static str,
}

impl RequestContext {
    /// The parameters of the query string.
    pub(super) fn query(&self) -> url::form_urlencoded::Parse<'_> {
        url::form_urlencoded::parse(self.uri.query().unwrap_or_default().as_bytes())
    }

    /// Scheme and host of this service's own URLs: as configured, else as the request has them.
    pub(super) fn base_url(&self, config: &HttpConfig) -> String {
        if let Some(url) = &config.public_url {
            return url.trim_end_matches('/').to_owned();
        }
        let scheme = if config.tls_cert.is_some() { "https" } else { "http" };
        // HTTP/2 has the host in the target.
        let authority = self.uri.authority().map(|authority| authority.as_str());
        let host = || self.headers.get(HOST).and_then(|host| host.to_str().ok());
        match authority.or_else(host) {
            Some(host) => format!("{scheme}://{host}"),
            None => String::new(),
        }
    }
}

/// Answers one request.
pub(super) async fn answer<S: Service>(
    service: &S,
    request: Request<Incoming>,
    addresses: ConnectionAddresses,
    busy: RequestGuard,
    config: &HttpConfig,
    drain: &Drain,
) -> Response<TrackedBody> {
    let started = Instant::now();
    let (mut head, incoming) = request.into_parts();
    hide_secrets(&mut head.headers);
    let id = request_id::from_headers(&head.headers);
    let cors = S::FOR_BROWSERS.then(|| Cors::for_request(&config.cors_origins, &head.method, &head.headers)).flatten();
    let checked = head_check::check(head.version, &head.uri, &head.headers).and_then(|()| drain.admit());
    let awaits_continue = head.version == Version::HTTP_11 && head.headers.contains_key(EXPECT);
    let mut context = RequestContext {
        id: id.clone(),
        client: client_address::resolve(addresses.peer, &head.headers, &config.trusted_proxies),
        local: addresses.local,
        method: head.method,
        uri: head.uri,
        headers: head.headers,
        body: RequestBody::new(incoming, awaits_continue, config),
        reply_headers: HeaderMap::new(),
        busy: busy.clone(),
        caller: None,
        endpoint: "unknown",
    };
    let span = info_span!("request", request_id = %id, endpoint = field::Empty, account = field::Empty);
    let (outcome, in_flight) = match checked {
        Ok(in_flight) => (
            AssertUnwindSafe(service.answer(&mut context)).catch_unwind().instrument(span.clone()).await,
            Some(in_flight),
        ),
        Err(error) => (Ok(Err(error)), None),
    };
    let _entered = span.enter();
    span.record("endpoint", context.endpoint);
    let outcome = outcome.map(|outcome| match &cors {
        Some(cors) => outcome.or_else(|refusal| cors.preflight(refusal)),
        None => outcome,
    });
    let mut reply = match outcome {
        Ok(Ok(reply)) => reply,
        Ok(Err(error)) => error_reply(error, &id),
        Err(panic) => error_reply(ApiError::internal(format!("panic: {}", panic_message(&*panic))), &id),
    };
    let reading = context.body.received().saturating_duration_since(started);
    picture_reply::write_server_timing(&mut reply, started.elapsed(), reading);
    let headers = reply.headers_mut();
    headers.extend(context.reply_headers);
    headers.insert(REQUEST_ID, HeaderValue::from_str(&id).expect("ids are visible ASCII"));
    headers.insert(VERSION, HeaderValue::from_static(env!("CARGO_PKG_VERSION")));
    // hyper's date would stay at its last value after the clock was set back.
    headers.insert(DATE, now());
    // Files of the page set another value.
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Some(cors) = cors {
        cors.write_headers(headers);
    }
    if drain.is_refusing() {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    if head.version == Version::HTTP_2 {
        // RFC 9113, section 8.2.2: connection-specific headers make a message malformed.
        headers.remove(CONNECTION);
    }
    context.body.drain_unread(busy.clone());

    let (status, took) = (reply.status(), started.elapsed());
    metrics::request_finished(context.endpoint, status.as_u16(), took);
    if S::LOGGED {
        info!(status = status.as_u16(), took_ms = took.as_millis(), method = %context.method, "answered");
    } else {
        debug!(status = status.as_u16(), took_ms = took.as_millis(), method = %context.method, "answered");
    }
    reply.map(|body| TrackedBody::new(body, busy, in_flight))
}

/// Marks the headers that `Debug` must not print.
fn hide_secrets(headers: &mut HeaderMap) {
    for (name, value) in headers.iter_mut() {
        if [AUTHORIZATION, PROXY_AUTHORIZATION, COOKIE].contains(name) || *name == API_KEY {
            value.set_sensitive(true);
        }
    }
}

/// Logs a failure and turns it into its reply.
fn error_reply(error: ApiError, id: &str) -> Reply {
    error.log();
    error.into_reply(id)
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
        assert!(format!("{headers:?}").contains("secret"), "unmarked headers are printed");
        hide_secrets(&mut headers);
        assert!(!format!("{headers:?}").contains("secret"), "{headers:?}");
    }
}
