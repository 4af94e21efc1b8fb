//! Answers a request on a route of another service: methods, API key, caller, handler; failures in the service's envelope.

use super::refusal::Refusal;
use super::route::{Action, Route, WireFormat};
use super::{account, photoroom, rembg, removebg, reply};
use crate::http::admin::require_own_host;
use crate::http::admission::authenticate::{admit_any_scope, admit_without_key};
use crate::http::reply::Reply;
use crate::http::reply::cors::Cors;
use crate::http::reply::error::{ApiError, ErrorCode};
use crate::http::request_context::{API_KEY, RequestContext};
use crate::http::state::ApiState;
use hyper::Method;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, ALLOW, AUTHORIZATION, HeaderMap, HeaderName,
    HeaderValue,
};
use url::Url;

/// Where a page stands to the host that it sends a request to (Fetch Metadata).
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Answers a request; failures too, in the envelope of the service.
pub(crate) async fn answer(
    state: &ApiState,
    route: &'static Route,
    context: &mut RequestContext,
) -> Result<Reply, ApiError> {
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
        reply::write_reset_as_time(&mut context.reply_headers);
    }
    Ok(answered.unwrap_or_else(|refusal| refusal.into_reply(route.format, has_key)))
}

async fn dispatch(
    state: &ApiState,
    route: &'static Route,
    has_key: bool,
    context: &mut RequestContext,
) -> Result<Reply, Refusal> {
    if route.action == Action::Unsupported {
        return Err(ApiError::new(ErrorCode::NotFound, "this service has no such endpoint").into());
    }
    if !route.methods.split(", ").any(|method| method == context.method.as_str()) {
        return Err(not_allowed(route, &context.method).into());
    }
    let caller = if route.format == WireFormat::Rembg && !has_key {
        refuse_foreign(state, context)?;
        admit_without_key(state, state.app.compat.rembg_account_or_default(), context).await?
    } else {
        admit_any_scope(state, context).await?
    };
    if route.action == Action::Account {
        return Ok(account::answer(state, route.format, &caller).await?);
    }
    state.require_room(&caller.account)?;
    match route.format {
        WireFormat::RemoveBg => removebg::answer(state, &caller, context).await,
        WireFormat::Rembg => rembg::answer(state, &caller, context).await,
        WireFormat::Photoroom => photoroom::answer(state, &caller, context).await,
    }
}

/// Refuses requests without a key from pages of other sites, and those for another host.
fn refuse_foreign(state: &ApiState, context: &RequestContext) -> Result<(), ApiError> {
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

/// Moves the key of `X-Api-Key` to `Authorization`, over one that is there. Returns whether there is any key.
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
    let error = ApiError::new(ErrorCode::MethodNotAllowed, format!("this path takes {}, not {method}", route.methods));
    error.header(ALLOW, HeaderValue::from_static(route.methods))
}

/// `OPTIONS`: a preflight of rembg's route is answered for every origin, all others as on every route (`cors`).
fn options(route: &'static Route, context: &RequestContext) -> Result<Reply, ApiError> {
    let is_preflight = context.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    if route.format != WireFormat::Rembg || !is_preflight {
        return Err(not_allowed(route, &context.method));
    }
    let mut reply = reply::empty();
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
}
