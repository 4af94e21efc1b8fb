//! Every path of the public listener: the endpoints of [`crate::recipe::ENDPOINTS`], and fixed pages.

use super::docs;
use super::error::{ApiError, ErrorCode};
use super::response::Reply;
use crate::recipe::{ENDPOINTS, Endpoint};
use hyper::Method;
use hyper::header::{ALLOW, HeaderValue};
use std::sync::LazyLock;

/// One path of the API, with its method.
#[derive(Clone, Debug)]
pub struct Route {
    /// The method.
    pub method: Method,
    /// The path, exactly.
    pub path: &'static str,
    /// What it does, in a sentence.
    pub about: &'static str,
    /// What answers it.
    pub target: Target,
}

/// What answers a route.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// Pictures in, pictures out; needs a key.
    Image(&'static Endpoint),
    /// JSON about the caller's account; needs a key.
    Service(Routine),
    /// A fixed page for everybody.
    Page(Page),
}

/// The endpoints about an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routine {
    /// Where it stands.
    Account,
    /// What a call would cost.
    Estimate,
    /// Its presets.
    Presets,
}

/// The fixed pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// The contract.
    OpenApi,
    /// The same, to be read by people.
    Docs,
}

/// Every route.
pub static ROUTES: LazyLock<Vec<Route>> = LazyLock::new(|| {
    let images = ENDPOINTS.iter().map(|endpoint| Route {
        method: Method::POST,
        path: endpoint.path,
        about: endpoint.about,
        target: Target::Image(endpoint),
    });
    let page = |path, about, page| Route { method: Method::GET, path, about, target: Target::Page(page) };
    let pages = [
        page("/openapi.yaml", "The contract of this service, OpenAPI 3.1.", Page::OpenApi),
        page("/docs", "This page.", Page::Docs),
    ];
    let service = |method, path, about, routine| Route { method, path, about, target: Target::Service(routine) };
    let services = [
        service(Method::POST, "/estimate", "Says what a call would cost, before it is made.", Routine::Estimate),
        service(Method::GET, "/presets", "Lists the account's presets.", Routine::Presets),
        service(Method::POST, "/presets", "Saves a preset; with an id, overwrites that one.", Routine::Presets),
        service(Method::DELETE, "/presets", "Deletes a preset.", Routine::Presets),
        service(Method::GET, "/account", "Says where the account stands: plan, quota, rate.", Routine::Account),
    ];
    images.chain(services).chain(pages).collect()
});

impl Page {
    pub(super) fn reply(self) -> Reply {
        match self {
            Self::OpenApi => docs::openapi(),
            Self::Docs => docs::html(),
        }
    }
}

/// The route of a request. HEAD is answered wherever GET is.
pub(super) fn find(method: &Method, path: &str) -> Result<&'static Route, ApiError> {
    let wanted = if method == Method::HEAD { &Method::GET } else { method };
    let here = || ROUTES.iter().filter(|route| route.path == path);
    if let Some(route) = here().find(|route| route.method == wanted) {
        return Ok(route);
    }
    let allowed: Vec<_> =
        here().map(|route| if route.method == Method::GET { "GET, HEAD" } else { route.method.as_str() }).collect();
    if allowed.is_empty() {
        return Err(ApiError::new(ErrorCode::NotFound, "no such path; see /docs for what there is"));
    }
    let allowed = allowed.join(", ");
    let error = ApiError::new(ErrorCode::MethodNotAllowed, format!("this path takes {allowed}, not {method}"));
    Err(error.header(ALLOW, HeaderValue::from_str(&allowed).expect("methods are ASCII")))
}
