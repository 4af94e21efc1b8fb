//! Routes in the wire formats of other services: remove.bg v1.0, rembg's server 2.0 and Photoroom's `/v1/segment`.
//!
//! A request is translated to the fields of one recipe (`recipe::DROP_IN`), runs through the same cover and pipeline as
//! `/remove`, and its answer is translated back. docs/migrate.md lists what differs.
//!
//! ```text
//! config    section `[compat]`                  input      multipart, urlencoded and JSON bodies → texts and files
//! removebg, rembg, photoroom  texts → Fields    refusal    ApiError → the service's envelope, status and codes
//! size      names of sizes → pixels             cutout     Fields → cover → pipeline → finished picture
//! answer    headers and bodies of answers       archive    PNG → color.jpg and alpha.png
//! account   GET /v1.0/account, /v1/account
//! ```

mod account;
mod answer;
mod archive;
mod config;
mod cutout;
mod input;
mod photoroom;
mod refusal;
mod rembg;
mod removebg;
mod size;

pub use config::CompatConfig;

use super::error::{ApiError, ErrorCode};
use super::exchange::Exchange;
use super::facade::Facade;
use super::response::Reply;
use hyper::Method;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, ALLOW, AUTHORIZATION, HeaderMap, HeaderName,
    HeaderValue,
};
use refusal::Refusal;

/// The key of remove.bg's and Photoroom's clients.
pub(super) const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// A service whose wire format is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wire {
    RemoveBg,
    Rembg,
    Photoroom,
}

/// What a route does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Cut,
    Account,
    /// A route of the service that has no counterpart here.
    Absent,
}

/// One path of another service.
#[derive(Debug)]
pub(super) struct Route {
    wire: Wire,
    action: Action,
    path: &'static str,
    /// As `Allow` lists them; none where every method is answered alike.
    methods: &'static str,
}

const ROUTES: &[Route] = &[
    Route { wire: Wire::RemoveBg, action: Action::Cut, path: "/v1.0/removebg", methods: "POST" },
    Route { wire: Wire::RemoveBg, action: Action::Account, path: "/v1.0/account", methods: "GET, HEAD" },
    Route { wire: Wire::RemoveBg, action: Action::Absent, path: "/v1.0/improve", methods: "" },
    Route { wire: Wire::Rembg, action: Action::Cut, path: "/api/remove", methods: "GET, POST" },
    Route { wire: Wire::Photoroom, action: Action::Cut, path: "/v1/segment", methods: "POST" },
    Route { wire: Wire::Photoroom, action: Action::Account, path: "/v1/account", methods: "GET, HEAD" },
];

/// The route of a path, where its service is switched on.
pub(super) fn find(config: &CompatConfig, path: &str) -> Option<&'static Route> {
    let is_on = |wire| match wire {
        Wire::RemoveBg => config.removebg,
        Wire::Rembg => config.rembg,
        Wire::Photoroom => config.photoroom,
    };
    ROUTES.iter().find(|route| route.path == path && is_on(route.wire))
}

/// Answers a request; failures too, in the envelope of the service.
pub(super) async fn answer(facade: &Facade, route: &'static Route, exchange: &mut Exchange) -> Result<Reply, ApiError> {
    exchange.endpoint = route.path;
    if route.wire == Wire::Rembg {
        allow_every_origin(&mut exchange.reply_headers);
    }
    if exchange.method == Method::OPTIONS && !route.methods.is_empty() {
        return options(route, exchange);
    }
    let has_key = take_key(route.wire, &mut exchange.headers);
    let answered = answered(facade, route, has_key, exchange).await;
    Ok(answered.unwrap_or_else(|refusal| refusal.into_reply(route.wire, has_key)))
}

async fn answered(
    facade: &Facade,
    route: &'static Route,
    has_key: bool,
    exchange: &mut Exchange,
) -> Result<Reply, Refusal> {
    if route.action == Action::Absent {
        return Err(ApiError::new(ErrorCode::NotFound, "this service has no such endpoint").into());
    }
    if !route.methods.split(", ").any(|method| method == exchange.method.as_str()) {
        return Err(not_allowed(route, &exchange.method).into());
    }
    let (caller, rate) = if route.wire == Wire::Rembg && !has_key {
        let account = facade.app.compat.account_of_rembg();
        let caller = facade.app.keys.of_account(account).ok_or_else(|| {
            ApiError::unavailable("the account of this route does not exist")
                .because(format!("compat.rembg_account: no account `{account}`"))
        })?;
        facade.admit_as(caller, exchange)?
    } else {
        facade.admit_unscoped(exchange)?
    };
    if route.wire == Wire::RemoveBg {
        answer::write_reset(&rate, &mut exchange.reply_headers);
    }
    if route.action == Action::Account {
        return Ok(account::answer(facade, route.wire, &caller));
    }
    facade.replies.refuse_when_full(&caller.account)?;
    match route.wire {
        Wire::RemoveBg => removebg::answer(facade, &caller, exchange).await,
        Wire::Rembg => rembg::answer(facade, &caller, exchange).await,
        Wire::Photoroom => photoroom::answer(facade, &caller, exchange).await,
    }
}

/// Puts the key of `X-Api-Key` where that of every other route is, before one that is there. Whether there is any key.
fn take_key(wire: Wire, headers: &mut HeaderMap) -> bool {
    let key = headers.get(API_KEY).filter(|_| wire != Wire::Rembg).map(|key| [b"Bearer ", key.as_bytes()].concat());
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
fn options(route: &'static Route, exchange: &Exchange) -> Result<Reply, ApiError> {
    let is_preflight = exchange.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    if route.wire != Wire::Rembg || !is_preflight {
        return Err(not_allowed(route, &exchange.method));
    }
    let mut reply = answer::empty();
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
    fn a_route_is_found_where_its_service_is_on() {
        let all = CompatConfig { rembg: true, ..CompatConfig::default() };
        let none = CompatConfig { removebg: false, photoroom: false, ..CompatConfig::default() };
        for route in ROUTES {
            assert!(find(&all, route.path).is_some() && find(&none, route.path).is_none(), "{}", route.path);
        }
        assert!(find(&CompatConfig::default(), "/api/remove").is_none());
        assert!(find(&all, "/v1.0/").is_none() && find(&all, "/v1.0/removebg/").is_none());
    }

    #[test]
    fn the_key_of_the_service_comes_before_a_bearer_token() {
        let mut headers = HeaderMap::new();
        assert!(!take_key(Wire::RemoveBg, &mut headers));
        headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer b"));
        headers.insert(API_KEY, HeaderValue::from_static("a"));
        assert!(take_key(Wire::Rembg, &mut headers));
        assert_eq!(headers[AUTHORIZATION], "Bearer b");
        assert!(take_key(Wire::Photoroom, &mut headers));
        assert_eq!(headers[AUTHORIZATION], "Bearer a");
        assert!(headers[AUTHORIZATION].is_sensitive());
    }
}
