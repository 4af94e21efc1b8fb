//! The admin listener: health, metrics, and administration of keys.
//!
//! It is meant for the machine itself and its orchestrator. A browser that is made to post here by some page sends an
//! `Origin`, and no tool of ours does, so a request with one is refused.

use super::error::{ApiError, ErrorCode};
use super::exchange::{Exchange, Service};
use super::response::{self, Reply};
use super::{App, body};
use crate::engine::EngineState;
use hyper::header::{ALLOW, HeaderValue, ORIGIN};
use hyper::{Method, Request, StatusCode};
use serde_json::json;
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
}

impl Admin {
    pub(super) fn new(app: App, draining: Arc<AtomicBool>) -> Self {
        Self { app, draining }
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
            EngineState::Ready | EngineState::Unloaded => {
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

fn status(word: &str) -> Reply {
    response::json(StatusCode::OK, &json!({ "status": word }))
}
