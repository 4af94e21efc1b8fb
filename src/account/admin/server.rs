//! Serves the admin interface in a daemon: checks the bearer token, then executes the request.

use http::{Method, StatusCode};

use super::operations::handle;
use super::reply::Reply;
use super::route::route;
use crate::account::Keys;
use crate::account::api_key::same_secret;
use crate::telemetry::Secret;

/// The admin interface of a daemon.
#[derive(Clone, Debug)]
pub struct Admin {
    keys: Keys,
    token: Secret<String>,
}

impl Admin {
    /// Serves `keys` to callers that send `token`.
    #[must_use]
    pub const fn new(keys: Keys, token: Secret<String>) -> Self {
        Self { keys, token }
    }

    /// Whether a path belongs to this interface; check it before reading a body.
    #[must_use]
    pub fn owns(path: &str) -> bool {
        route(path).is_some()
    }

    /// Answers a request: `target` is its path with the query, `authorization` the header.
    pub async fn answer(&self, method: &Method, target: &str, authorization: Option<&str>, body: &[u8]) -> Reply {
        if !authorization.and_then(bearer).is_some_and(|token| same_secret(token, self.token.expose())) {
            let message = "missing or wrong admin token; it is in admin.token in the data directory";
            return Reply::error(StatusCode::UNAUTHORIZED, "unauthorized", message, None);
        }
        handle(&self.keys, method, target, body).await
    }
}

fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
