//! The service of the admin listener: health, metrics, administration of keys.
//!
//! It is for the machine itself and its orchestrator. A request with an `Origin` is refused: browsers send one when a page
//! posts here, and none of our tools does. A request for another host is refused too: a page whose own host name resolves to
//! this address (DNS rebinding) could read from here without an `Origin`.

use crate::codec::sandbox;
use crate::engine::EngineState;
use crate::http::app::App;
use crate::http::reply::{self, ApiError, ErrorCode, Reply, Result};
use crate::http::request::body::read_within;
use crate::http::request_context::{RequestContext, Service};
use crate::telemetry::metrics;
use hyper::header::{HOST, ORIGIN};
use hyper::http::uri::Authority;
use hyper::{Method, Request, StatusCode};
use serde_json::json;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The largest body of an administrative request.
const MAX_BODY: usize = 64 * 1024;

/// Time without a network after which `/livez` fails. By then some ten attempts to load it have failed.
const MAX_FAILED: Duration = Duration::from_secs(600);

/// Paths that take GET only.
const PAGES: [&str; 3] = ["/livez", "/readyz", "/metrics"];

/// The service of the admin listener.
#[derive(Debug)]
pub(super) struct Admin {
    app: App,
    draining: Arc<AtomicBool>,
    hosts: Vec<String>,
}

impl Admin {
    /// `hosts` are further host names of the listener.
    pub(super) fn new(app: App, draining: Arc<AtomicBool>, hosts: Vec<String>) -> Self {
        Self { app, draining, hosts }
    }

    /// The engine's state; `Draining` from the beginning of the shutdown, before the engine itself drains.
    fn state(&self) -> EngineState {
        if self.draining.load(Ordering::Relaxed) { EngineState::Draining } else { self.app.processor.state() }
    }

    /// Whether a restart is unnecessary.
    fn livez(&self) -> Result<Reply> {
        let processor = &self.app.processor;
        match reason_to_restart(self.state(), processor.is_alive(), processor.failed_for()) {
            None => Ok(status("alive")),
            Some(reason) => Err(ApiError::unavailable(reason)),
        }
    }

    /// Whether requests should be sent here.
    async fn readyz(&self) -> Result<Reply> {
        match self.state() {
            // Every worker is stuck: other daemons should get the requests until one is free again.
            EngineState::Ready | EngineState::Unloaded if self.app.processor.is_stalled() => {
                Err(ApiError::unavailable("work is waiting and no worker has finished any for long"))
            }
            EngineState::Ready | EngineState::Unloaded => {
                let fault = self.app.store.fault().map(|reason| format!("the store cannot write: {reason}"));
                if let Some(reason) = fault {
                    return Err(ApiError::unavailable(reason));
                }
                // Pictures are processed without ffmpeg, so its absence is reported but does not fail readiness.
                let video = match self.app.inspector.ready().await {
                    Ok(()) => "ready".to_owned(),
                    Err(missing) => missing.to_string(),
                };
                let mut ready = json!({ "status": "ready", "video": video });
                let device = self.app.processor.device();
                if !device.is_empty() {
                    ready["device"] = device.into();
                }
                if let Some(missing) = self.app.inspector.missing_confinement().filter(|missing| !missing.is_empty()) {
                    ready["video_sandbox"] = format!("without {}", missing.join(" and ")).into();
                }
                if let Some(sandbox) = sandbox::status() {
                    ready["decode_sandbox"] = sandbox.into();
                }
                Ok(reply::json(StatusCode::OK, &ready))
            }
            EngineState::Loading => Err(ApiError::unavailable("the network is being loaded")),
            EngineState::Draining => Err(ApiError::unavailable("the service is shutting down")),
            EngineState::Failed => Err(ApiError::unavailable("the network could not be loaded")),
        }
    }

    fn metrics(&self) -> Reply {
        metrics::cpu_stalled(self.app.processor.is_stalled());
        reply::page(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", self.app.metrics.render())
    }

    async fn administrate(&self, context: &mut RequestContext) -> Result<Reply> {
        let Some(bytes) = read_within(&mut context.body, MAX_BODY, |_| Ok(())).await? else {
            return Err(ApiError::new(ErrorCode::PayloadTooLarge, "the request body is too large"));
        };
        let mut request = Request::new(bytes);
        *request.method_mut() = context.method.clone();
        *request.uri_mut() = context.uri.clone();
        *request.headers_mut() = context.headers.clone();
        let Some(answer) = self.app.operator.handle(&request).await else {
            return Err(ApiError::new(ErrorCode::NotFound, "no such path"));
        };
        let (head, mut body) = answer.into_parts();
        if body.get("error").is_some() {
            body["request_id"] = context.id.as_str().into();
        }
        let mut reply = reply::json(head.status, &body);
        reply.headers_mut().extend(head.headers);
        Ok(reply)
    }
}

impl Service for Admin {
    const NAME: &'static str = "admin";
    const LOGGED: bool = false;

    async fn answer(&self, context: &mut RequestContext) -> Result<Reply> {
        context.endpoint = "admin";
        refuse_foreign(context, &self.hosts)?;
        let path = context.uri.path().to_owned();
        if !PAGES.contains(&path.as_str()) {
            return self.administrate(context).await;
        }
        if context.method != Method::GET && context.method != Method::HEAD {
            return Err(ApiError::method_not_allowed("GET, HEAD", "this path takes GET, HEAD"));
        }
        match path.as_str() {
            "/livez" => self.livez(),
            "/readyz" => self.readyz().await,
            _ => Ok(self.metrics()),
        }
    }
}

/// Why only a restart of the process helps, if it does. A network that could not be loaded is tried again in this process; a GPU
/// whose driver dropped it can be opened by another process only.
fn reason_to_restart(state: EngineState, is_alive: bool, failed_for: Option<Duration>) -> Option<&'static str> {
    // At shutdown the engine's threads end before this listener closes.
    if state == EngineState::Draining {
        return None;
    }
    if !is_alive {
        return Some("the device thread ended");
    }
    failed_for.filter(|lasted| *lasted >= MAX_FAILED).map(|_| "the network could not be loaded for ten minutes")
}

/// Refuses requests from web pages, and requests for another host. HTTP/1.0, which browsers do not use, may name none.
pub(super) fn refuse_foreign(context: &RequestContext, hosts: &[String]) -> Result<()> {
    if context.headers.contains_key(ORIGIN) {
        return Err(ApiError::new(ErrorCode::Forbidden, "requests from web pages are not taken"));
    }
    require_own_host(context, hosts, "server.admin_hosts")
}

/// Refuses requests for another host than this machine, or one of `hosts`, which the configuration lists as `setting`: the name of a page
/// could resolve to this address (DNS rebinding).
pub(super) fn require_own_host(context: &RequestContext, hosts: &[String], setting: &str) -> Result<()> {
    let header = context.headers.get(HOST);
    let header = header.map(|host| Authority::try_from(host.as_bytes()));
    let target = context.uri.authority().cloned().map(Ok);
    let mut named = header.into_iter().chain(target);
    if !named.all(|named| named.is_ok_and(|named| is_own(named.host(), context.local, hosts))) {
        let message = format!("this is not the host that the request names; `{setting}` lists further names");
        return Err(ApiError::new(ErrorCode::Forbidden, message));
    }
    Ok(())
}

/// Whether `host` is a name of this machine, the local address of the connection, or one of `hosts`.
fn is_own(host: &str, local: IpAddr, hosts: &[String]) -> bool {
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let listed = || hosts.iter().any(|listed| listed.eq_ignore_ascii_case(host.strip_suffix('.').unwrap_or(host)));
    match host.parse::<IpAddr>().map(|address| address.to_canonical()) {
        Ok(address) => address.is_loopback() || address == local || listed(),
        Err(_) => host.eq_ignore_ascii_case("localhost") || listed(),
    }
}

pub(super) fn status(word: &str) -> Reply {
    reply::json(StatusCode::OK, &json!({ "status": word }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restart_is_due_without_a_device_thread_and_after_ten_minutes_without_a_network() {
        let reason = reason_to_restart;
        let lasted = |seconds: u64| Some(Duration::from_secs(seconds));
        for state in [EngineState::Loading, EngineState::Ready, EngineState::Unloaded, EngineState::Failed] {
            assert_eq!(reason(state, true, None), None, "{state:?}");
            assert_eq!(reason(state, true, lasted(599)), None, "{state:?}");
            assert_eq!(reason(state, false, None), Some("the device thread ended"), "{state:?}");
        }
        // Also during an attempt to load it.
        for state in [EngineState::Failed, EngineState::Loading] {
            assert!(reason(state, true, lasted(600)).is_some_and(|reason| reason.contains("ten minutes")), "{state:?}");
        }
        assert_eq!(reason(EngineState::Draining, false, lasted(600)), None);
    }

    #[test]
    fn requests_for_other_hosts_are_recognised() {
        let hosts = ["metrics.example.org".to_owned(), "192.0.2.9".to_owned()];
        for (host, local, own) in [
            ("localhost", "127.0.0.1", true),
            ("LOCALHOST", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.53", "10.1.2.3", true),
            ("[::1]", "::1", true),
            ("[::ffff:127.0.0.1]", "127.0.0.1", true),
            // A kubelet's probe has the address of the pod as its host.
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
