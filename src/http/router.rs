//! Every path of the public listener. A new image endpoint is one line here and one file in `recipe/`.

use super::error::{ApiError, ErrorCode};
use super::response::Reply;
use super::{docs, form};
use crate::recipe::{Field, FieldError, Fields, MaskParams, Params, RESERVED, Recipe, RemoveParams};
use hyper::Method;
use hyper::header::{ALLOW, HeaderValue};

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
    /// A picture in, a picture out; needs a key.
    Image(ImageEndpoint),
    /// A fixed page for everybody.
    Page(Page),
}

/// An endpoint that takes a form with a picture and answers a picture.
#[derive(Clone, Copy, Debug)]
pub struct ImageEndpoint {
    /// Every form field but the file.
    pub fields: &'static [Field],
    pub(super) plan: fn(&Fields) -> Result<Recipe, FieldError>,
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
pub static ROUTES: &[Route] = &[
    Route {
        method: Method::POST,
        path: "/remove",
        about: "Cuts the subject out of a picture.",
        target: Target::Image(ImageEndpoint::of::<RemoveParams>()),
    },
    Route {
        method: Method::POST,
        path: "/mask",
        about: "Answers the matte of a picture's subject as 8-bit grey: /remove with channels=alpha.",
        target: Target::Image(ImageEndpoint::of::<MaskParams>()),
    },
    Route {
        method: Method::GET,
        path: "/openapi.yaml",
        about: "The contract of this service, OpenAPI 3.1.",
        target: Target::Page(Page::OpenApi),
    },
    Route { method: Method::GET, path: "/docs", about: "This page.", target: Target::Page(Page::Docs) },
];

impl ImageEndpoint {
    const fn of<P: Params>() -> Self {
        Self { fields: P::FIELDS, plan: |fields| P::from_fields(fields).map(P::resolve) }
    }

    /// Whether a form field belongs to it, be it one of a later version.
    pub(super) fn knows(&self, name: &str) -> bool {
        name == form::FILE
            || self.fields.iter().any(|field| field.name == name)
            || RESERVED.iter().any(|reserved| reserved.name == name)
    }
}

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
