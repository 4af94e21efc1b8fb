//! The paths of other services, and the answer to a request on one: methods, API key, caller, handler; failures in the service's
//! envelope.

use super::config::CompatConfig;
use super::refusal::refusal;
use super::reply::write_reset_as_time;
use super::{photoroom, rembg, removebg};
use crate::http::admin::require_own_host;
use crate::http::admission::{Caller, admit_without_key, authenticate};
use crate::http::reply::cors::Cors;
use crate::http::reply::{self, ApiError, ErrorCode, Reply, Result};
use crate::http::request_context::{API_KEY, RequestContext};
use crate::http::state::ApiState;
use crate::store::{RateKind, UnixSeconds};
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, AUTHORIZATION, HeaderMap, HeaderName, HeaderValue,
};
use hyper::{Method, StatusCode};
use serde_json::json;
use url::Url;

/// The wire format of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WireFormat {
    RemoveBg,
    Rembg,
    Photoroom,
}

/// What a route does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    CutOut,
    Account,
    /// A route of the service that has no counterpart here.
    Unsupported,
}

/// One path of another service.
#[derive(Debug)]
pub(crate) struct Route {
    format: WireFormat,
    action: Action,
    path: &'static str,
    /// As listed in `Allow`; empty if every method gets the same reply.
    methods: &'static str,
}

const ROUTES: &[Route] = &[
    Route { format: WireFormat::RemoveBg, action: Action::CutOut, path: "/v1.0/removebg", methods: "POST" },
    Route { format: WireFormat::RemoveBg, action: Action::Account, path: "/v1.0/account", methods: "GET, HEAD" },
    Route { format: WireFormat::RemoveBg, action: Action::Unsupported, path: "/v1.0/improve", methods: "" },
    Route { format: WireFormat::Rembg, action: Action::CutOut, path: "/api/remove", methods: "GET, POST" },
    Route { format: WireFormat::Photoroom, action: Action::CutOut, path: "/v1/segment", methods: "POST" },
    Route { format: WireFormat::Photoroom, action: Action::Account, path: "/v1/account", methods: "GET, HEAD" },
];

/// The route of a path, where its service is enabled.
pub(crate) fn find(config: &CompatConfig, path: &str) -> Option<&'static Route> {
    let is_enabled = |format| match format {
        WireFormat::RemoveBg => config.removebg,
        WireFormat::Rembg => config.rembg,
        WireFormat::Photoroom => config.photoroom,
    };
    ROUTES.iter().find(|route| route.path == path && is_enabled(route.format))
}

/// The relation of a page to the host of its request (Fetch Metadata).
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Answers a request; failures too, in the envelope of the service.
pub(crate) async fn answer(state: &ApiState, route: &'static Route, context: &mut RequestContext) -> Result<Reply> {
    context.endpoint = route.path;
    if route.format == WireFormat::Rembg {
        allow_every_origin(&mut context.reply_headers);
    }
    if context.method == Method::OPTIONS && !route.methods.is_empty() {
        return options(route, context);
    }
    let has_key = take_key(route.format, &mut context.headers);
    let answered = dispatch(state, route, has_key, context).await;
    if route.format == WireFormat::RemoveBg {
        write_reset_as_time(&mut context.reply_headers);
    }
    Ok(answered.unwrap_or_else(|error| refusal(error, route.format, has_key)))
}

async fn dispatch(
    state: &ApiState,
    route: &'static Route,
    has_key: bool,
    context: &mut RequestContext,
) -> Result<Reply> {
    if route.action == Action::Unsupported {
        return Err(ApiError::new(ErrorCode::NotFound, "this service has no such endpoint"));
    }
    if !route.methods.split(", ").any(|method| method == context.method.as_str()) {
        return Err(not_allowed(route, &context.method));
    }
    let caller = if route.format == WireFormat::Rembg && !has_key {
        refuse_foreign(state, context)?;
        admit_without_key(state, state.app.compat.rembg_account_or_default(), context).await?
    } else {
        authenticate(state, RateKind::Calls, context).await?
    };
    if route.action == Action::Account {
        return account(state, route.format, &caller).await;
    }
    state.require_room(&caller.account)?;
    match route.format {
        WireFormat::RemoveBg => removebg::answer(state, &caller, context).await,
        WireFormat::Rembg => rembg::answer(state, &caller, context).await,
        WireFormat::Photoroom => photoroom::answer(state, &caller, context).await,
    }
}

/// Credits of an account without a quota: clients expect a number.
const UNLIMITED: u64 = 1_000_000;

/// `GET /v1.0/account` and `/v1/account`: the quota of a key's account, as credits.
async fn account(state: &ApiState, format: WireFormat, caller: &Caller) -> Result<Reply> {
    let standing = state.app.store.usage(&caller.account, caller.plan, UnixSeconds::now()).await?;
    let left = standing.quota.map(|quota| quota.saturating_sub(standing.used));
    let body = match format {
        WireFormat::Photoroom => json!({
            "credits": { "available": left.unwrap_or(UNLIMITED), "subscription": standing.quota.unwrap_or(UNLIMITED) }
        }),
        WireFormat::RemoveBg | WireFormat::Rembg => {
            let credits = if left.is_none() { UNLIMITED } else { 0 };
            // Ruby's client takes the members as keyword arguments, so there must be no others.
            json!({ "data": { "attributes": {
                "credits": { "subscription": credits, "payg": 0, "enterprise": 0, "total": credits },
                "api": { "free_calls": left.unwrap_or(0), "sizes": "all" },
            } } })
        }
    };
    Ok(reply::json(StatusCode::OK, &body))
}

/// Refuses requests without a key from pages of other sites, and requests for another host.
fn refuse_foreign(state: &ApiState, context: &RequestContext) -> Result<()> {
    let is_cross_site = context.headers.get(SEC_FETCH_SITE).is_some_and(|site| site == "cross-site");
    let cors = Cors::for_request(&state.config.cors_origins, &context.method, &context.headers);
    if is_cross_site && !cors.is_some_and(|cors| cors.is_allowed()) {
        let message = "a page of another site needs a key here; `server.cors_origins` lists those that need none";
        return Err(ApiError::new(ErrorCode::Forbidden, message));
    }
    let own = state.config.public_url.as_deref().and_then(|url| Url::parse(url).ok());
    let own = own.as_ref().and_then(Url::host_str).map(str::to_owned);
    let hosts: Vec<String> = state.app.compat.rembg_hosts.iter().cloned().chain(own).collect();
    require_own_host(context, &hosts, "compat.rembg_hosts")
}

/// Moves the key of `X-Api-Key` to `Authorization`, which it replaces. Returns whether the request has a key.
fn take_key(format: WireFormat, headers: &mut HeaderMap) -> bool {
    let key =
        headers.get(API_KEY).filter(|_| format != WireFormat::Rembg).map(|key| [b"Bearer ", key.as_bytes()].concat());
    if let Some(mut value) = key.and_then(|key| HeaderValue::from_bytes(&key).ok()) {
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    headers.contains_key(AUTHORIZATION)
}

fn not_allowed(route: &Route, method: &Method) -> ApiError {
    ApiError::method_not_allowed(route.methods, format!("this path takes {}, not {method}", route.methods))
}

/// `OPTIONS`: a preflight of rembg's route is answered for every origin, all others as on every route (`cors`).
fn options(route: &'static Route, context: &RequestContext) -> Result<Reply> {
    let is_preflight = context.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    if route.format != WireFormat::Rembg || !is_preflight {
        return Err(not_allowed(route, &context.method));
    }
    let mut reply = reply::empty(StatusCode::OK);
    let headers = reply.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST"));
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("*, authorization"));
    Ok(reply)
}

/// As rembg's server does.
fn allow_every_origin(headers: &mut HeaderMap) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("*"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_the_service_comes_before_a_bearer_token() {
        let mut headers = HeaderMap::new();
        assert!(!take_key(WireFormat::RemoveBg, &mut headers));
        headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer b"));
        headers.insert(API_KEY, HeaderValue::from_static("a"));
        assert!(take_key(WireFormat::Rembg, &mut headers));
        assert_eq!(headers[AUTHORIZATION], "Bearer b");
        assert!(take_key(WireFormat::Photoroom, &mut headers));
        assert_eq!(headers[AUTHORIZATION], "Bearer a");
        assert!(headers[AUTHORIZATION].is_sensitive());
    }

    #[test]
    fn a_route_is_found_where_its_service_is_enabled() {
        let all = CompatConfig { rembg: true, ..CompatConfig::default() };
        let none = CompatConfig { removebg: false, photoroom: false, ..CompatConfig::default() };
        for route in ROUTES {
            assert!(find(&all, route.path).is_some() && find(&none, route.path).is_none(), "{}", route.path);
        }
        assert!(find(&CompatConfig::default(), "/api/remove").is_none());
        assert!(find(&all, "/v1.0/").is_none() && find(&all, "/v1.0/removebg/").is_none());
    }
}
