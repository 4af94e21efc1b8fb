//! The admin listener: health, metrics, and administration of keys.
//!
//! It is meant for the machine itself and its orchestrator. A browser that is made to post here by some page sends an
//! `Origin`, and no tool of ours does, so a request with one is refused. So is one for a host that is not this one: a
//! page that has led a name of its own to this address (DNS rebinding) reads what is here without an `Origin`.

use super::error::{ApiError, ErrorCode};
use super::exchange::{Exchange, Service};
use super::response::{self, Reply};
use super::{App, body};
use crate::engine::EngineState;
use crate::telemetry::metrics;
use hyper::header::{ALLOW, HOST, HeaderValue, ORIGIN};
use hyper::http::uri::Authority;
use hyper::{Method, Request, StatusCode};
use serde_json::json;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The largest body of an administrative request.
const MAX_BODY: usize = 64 * 1024;

/// What is only looked at.
const PAGES: [&str; 3] = ["/livez", "/readyz", "/metrics"];

/// What the admin listener answers.
#[derive(Debug)]
pub(super) struct Admin {
    app: App,
    draining: Arc<AtomicBool>,
    hosts: Vec<String>,
}

impl Admin {
    /// `hosts` are names that it may be called by beside its own.
    pub(super) fn new(app: App, draining: Arc<AtomicBool>, hosts: Vec<String>) -> Self {
        Self { app, draining, hosts }
    }

    /// Whether the request names this host, wherever it names one. HTTP/1.0 may name none, and no browser speaks that.
    fn is_for_this_host(&self, exchange: &Exchange) -> bool {
        let header = exchange.headers.get(HOST);
        let header = header.map(|host| Authority::try_from(host.as_bytes()));
        let target = exchange.uri.authority().cloned().map(Ok);
        let mut named = header.into_iter().chain(target);
        named.all(|named| named.is_ok_and(|named| is_own(named.host(), exchange.local, &self.hosts)))
    }

    /// The engine's state, except that a daemon that shuts down drains before its engine does.
    fn state(&self) -> EngineState {
        if self.draining.load(Ordering::Relaxed) { EngineState::Draining } else { self.app.remover.state() }
    }

    /// Whether a restart would help. It would not while the network is missing: the next request tries again.
    fn livez(&self) -> Result<Reply, ApiError> {
        // At its end the engine's threads go before this listener does.
        if self.app.remover.is_alive() || self.state() == EngineState::Draining {
            Ok(status("alive"))
        } else {
            Err(ApiError::unavailable("the device thread ended"))
        }
    }

    /// Whether requests should be sent here.
    async fn readyz(&self) -> Result<Reply, ApiError> {
        match self.state() {
            // Stuck work holds every worker: other daemons serve what comes until one is free again.
            EngineState::Ready | EngineState::Unloaded if self.app.remover.is_stalled() => {
                Err(ApiError::unavailable("work is waiting and no worker has finished any for long"))
            }
            EngineState::Ready | EngineState::Unloaded => {
                if let Some(reason) = self.app.store.fault() {
                    return Err(ApiError::unavailable(format!("the store cannot write: {reason}")));
                }
                // Pictures are worked on without ffmpeg, so it is told and nothing more.
                let video = match self.app.inspector.ready().await {
                    Ok(()) => "ready".to_owned(),
                    Err(missing) => missing.to_string(),
                };
                Ok(response::json(StatusCode::OK, &json!({ "status": "ready", "video": video })))
            }
            EngineState::Loading => Err(ApiError::unavailable("the network is being loaded")),
            EngineState::Draining => Err(ApiError::unavailable("the service is shutting down")),
            EngineState::Failed => Err(ApiError::unavailable("the network could not be loaded")),
        }
    }

    fn metrics(&self) -> Reply {
        metrics::cpu_stalled(self.app.remover.is_stalled());
        response::page(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", self.app.metrics.render())
    }

    async fn operate(&self, exchange: &mut Exchange) -> Result<Reply, ApiError> {
        let Some(bytes) = body::read_small(&mut exchange.body, MAX_BODY).await? else {
            return Err(ApiError::new(ErrorCode::PayloadTooLarge, "the request body is too large"));
        };
        let mut request = Request::new(bytes);
        *request.method_mut() = exchange.method.clone();
        *request.uri_mut() = exchange.uri.clone();
        *request.headers_mut() = exchange.headers.clone();
        let Some(answer) = self.app.operator.handle(&request).await else {
            return Err(ApiError::new(ErrorCode::NotFound, "no such path"));
        };
        let (head, mut body) = answer.into_parts();
        if body.get("error").is_some() {
            body["request_id"] = exchange.id.as_str().into();
        }
        let mut reply = response::json(head.status, &body);
        reply.headers_mut().extend(head.headers);
        Ok(reply)
    }
}

impl Service for Admin {
    const NAME: &'static str = "admin";
    const LOGGED: bool = false;

    async fn answer(&self, exchange: &mut Exchange) -> Result<Reply, ApiError> {
        exchange.endpoint = "admin";
        if exchange.headers.contains_key(ORIGIN) {
            return Err(ApiError::new(ErrorCode::Forbidden, "requests from web pages are not taken"));
        }
        if !self.is_for_this_host(exchange) {
            let message = "this is not the host that the request names; `server.admin_hosts` lists further names";
            return Err(ApiError::new(ErrorCode::Forbidden, message));
        }
        let path = exchange.uri.path().to_owned();
        if !PAGES.contains(&path.as_str()) {
            return self.operate(exchange).await;
        }
        if exchange.method != Method::GET && exchange.method != Method::HEAD {
            let error = ApiError::new(ErrorCode::MethodNotAllowed, "this path takes GET, HEAD");
            return Err(error.header(ALLOW, HeaderValue::from_static("GET, HEAD")));
        }
        match path.as_str() {
            "/livez" => self.livez(),
            "/readyz" => self.readyz().await,
            _ => Ok(self.metrics()),
        }
    }
}

/// Whether `host` is a name or an address of this machine (by which the connection came), or one of `hosts`.
fn is_own(host: &str, local: IpAddr, hosts: &[String]) -> bool {
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let listed = || hosts.iter().any(|listed| listed.eq_ignore_ascii_case(host.strip_suffix('.').unwrap_or(host)));
    match host.parse::<IpAddr>().map(|address| address.to_canonical()) {
        Ok(address) => address.is_loopback() || address == local || listed(),
        Err(_) => host.eq_ignore_ascii_case("localhost") || listed(),
    }
}

fn status(word: &str) -> Reply {
    response::json(StatusCode::OK, &json!({ "status": word }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_admin_listener_knows_its_names() {
        let hosts = ["metrics.example.org".to_owned(), "192.0.2.9".to_owned()];
        for (host, local, own) in [
            ("localhost", "127.0.0.1", true),
            ("LOCALHOST", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.53", "10.1.2.3", true),
            ("[::1]", "::1", true),
            ("[::ffff:127.0.0.1]", "127.0.0.1", true),
            // A kubelet's probe names the address of the pod.
            ("10.1.2.3", "10.1.2.3", true),
            ("[2001:db8::7]", "2001:db8::7", true),
            ("10.1.2.4", "10.1.2.3", false),
            ("metrics.example.org", "10.1.2.3", true),
            ("Metrics.Example.org.", "10.1.2.3", true),
            ("192.0.2.9", "10.1.2.3", true),
            ("example.org", "127.0.0.1", false),
            ("localhost.example.org", "127.0.0.1", false),
            ("127.0.0.1.example.org", "127.0.0.1", false),
            ("", "127.0.0.1", false),
        ] {
            assert_eq!(is_own(host, local.parse().expect("an address"), &hosts), own, "{host} at {local}");
        }
    }
}
