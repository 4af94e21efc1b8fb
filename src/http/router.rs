//! The routes of the public listener, and the lookup of a request's route by method and path.

use crate::http::reply::error::{ApiError, ErrorCode};
use crate::recipe::{ENDPOINTS, Endpoint, VIDEO_ABOUT, VIDEO_PATH};
use hyper::Method;
use hyper::header::{ALLOW, HeaderValue};
use std::sync::LazyLock;

/// One path of the API, with its method.
#[derive(Clone, Debug)]
pub struct Route {
    /// The method.
    pub method: Method,
    /// The path, exactly; `{name}` stands for any one segment.
    pub path: &'static str,
    /// What it does, in one sentence.
    pub about: &'static str,
    /// The handler.
    pub target: Target,
}

/// The handler of a route.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// Pictures in, pictures out; needs a key.
    Image(&'static Endpoint),
    /// A clip in, a job out; needs a key.
    Clip,
    /// JSON about the caller's account and jobs; needs a key.
    Service(Routine),
    /// The result of a job, by its signed URL.
    Result,
    /// A static page; needs no key.
    Page(Page),
}

/// The endpoints about an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routine {
    /// The models that cut out.
    Models,
    /// Plan, quota and rate.
    Account,
    /// Usage by key and day.
    Usage,
    /// The price of a call.
    Estimate,
    /// Its presets.
    Presets,
    /// The jobs of the key.
    Jobs,
    /// One of them.
    Job,
    /// Bulk runs.
    Bulk,
}

/// The static pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// The contract as YAML.
    OpenApi,
    /// The contract as JSON.
    OpenApiJson,
    /// The contract as HTML.
    Docs,
}

/// The path of one job.
pub(super) const JOB_PATH: &str = "/jobs/{job_id}";

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
        page("/openapi.json", "The same contract as JSON.", Page::OpenApiJson),
        page("/docs", "The contract to be read by people.", Page::Docs),
    ];
    let service = |method, path, about, routine| Route { method, path, about, target: Target::Service(routine) };
    let services = [
        service(Method::POST, "/estimate", "Says what a call would cost, before it is made.", Routine::Estimate),
        service(Method::GET, "/presets", "Lists the account's presets.", Routine::Presets),
        service(Method::POST, "/presets", "Saves a preset; with an id, overwrites that one.", Routine::Presets),
        service(
            Method::DELETE,
            "/presets",
            "Deletes a preset, whose id is sent in the body or in the query.",
            Routine::Presets,
        ),
        service(Method::POST, "/bulk", "Processes the pictures of a place in object storage, as a job.", Routine::Bulk),
        service(Method::GET, "/jobs", "Lists the jobs of the key, newest first.", Routine::Jobs),
        service(Method::GET, JOB_PATH, "Says how a job is doing, and where its result is.", Routine::Job),
        service(Method::PATCH, JOB_PATH, "Pauses or resumes a bulk run.", Routine::Job),
        service(Method::DELETE, JOB_PATH, "Cancels a job; one that is over is deleted with its result.", Routine::Job),
        service(Method::GET, "/models", "Lists the models that cut out.", Routine::Models),
        service(Method::GET, "/account", "Says where the account stands: plan, quota, rate.", Routine::Account),
        service(Method::GET, "/usage", "Says what each key of the account used, by day.", Routine::Usage),
    ];
    let clip = Route { method: Method::POST, path: VIDEO_PATH, about: VIDEO_ABOUT, target: Target::Clip };
    let result = Route {
        method: Method::GET,
        path: "/results/{object}",
        about: "The result of a job: `result_url` leads here where the daemon keeps results itself.",
        target: Target::Result,
    };
    images.chain([clip]).chain(services).chain([result]).chain(pages).collect()
});

/// The route of a request, and the value of its path parameter. HEAD is answered wherever GET is.
pub(super) fn find<'a>(method: &Method, path: &'a str) -> Result<(&'static Route, &'a str), ApiError> {
    let wanted = if method == Method::HEAD { &Method::GET } else { method };
    let here = || ROUTES.iter().filter_map(|route| Some((route, route.parameter(path)?)));
    if let Some(found) = here().find(|(route, _)| route.method == wanted) {
        return Ok(found);
    }
    let allowed: Vec<_> = here()
        .map(|(route, _)| if route.method == Method::GET { "GET, HEAD" } else { route.method.as_str() })
        .collect();
    if allowed.is_empty() {
        return Err(ApiError::new(ErrorCode::NotFound, "no such path; see /docs for what there is"));
    }
    let allowed = allowed.join(", ");
    let error = ApiError::new(ErrorCode::MethodNotAllowed, format!("this path takes {allowed}, not {method}"));
    Err(error.header(ALLOW, HeaderValue::from_str(&allowed).expect("methods are ASCII")))
}

impl Route {
    /// The value of the path parameter, empty for a route without one; `None` for other paths. The segment is not decoded: no
    /// id or name has characters that would be escaped.
    fn parameter<'a>(&self, path: &'a str) -> Option<&'a str> {
        let Some((before, _)) = self.path.split_once('{') else { return (self.path == path).then_some("") };
        path.strip_prefix(before).filter(|segment| !segment.is_empty() && !segment.contains('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(method: &str, path: &str) -> Result<(&'static str, String), ErrorCode> {
        let method = method.parse().expect("a method");
        find(&method, path).map(|(route, parameter)| (route.path, parameter.to_owned())).map_err(|error| error.code)
    }

    #[test]
    fn a_parameter_is_one_segment_that_is_not_empty() {
        assert_eq!(found("GET", "/jobs"), Ok(("/jobs", String::new())));
        assert_eq!(found("GET", "/jobs/job_1"), Ok((JOB_PATH, "job_1".into())));
        assert_eq!(found("HEAD", "/jobs/%2e"), Ok((JOB_PATH, "%2e".into())));
        assert_eq!(found("DELETE", "/jobs/x"), Ok((JOB_PATH, "x".into())));
        for path in ["/jobs/", "/jobs/a/b", "/jobs/a/", "/job/a", "/results", "/results/", "/jobs//"] {
            assert_eq!(found("GET", path), Err(ErrorCode::NotFound), "{path}");
        }
        assert_eq!(found("POST", "/jobs/x"), Err(ErrorCode::MethodNotAllowed));
        assert_eq!(found("DELETE", "/jobs"), Err(ErrorCode::MethodNotAllowed));
    }

    #[test]
    fn a_parameter_ends_its_path() {
        let braces = |route: &&Route| route.path.contains(['{', '}']);
        for route in ROUTES.iter().filter(braces) {
            let (_, parameter) = route.path.split_once('{').expect("it has one");
            assert_eq!(parameter.find('}'), Some(parameter.len() - 1), "{}", route.path);
        }
    }
}
