//! The routes of the public listener, and the lookup of a request's route by method and path.

use crate::http::reply::{ApiError, ErrorCode, Result};
use crate::recipe::{ENDPOINTS, Endpoint, VIDEO_PATH};
use hyper::Method;
use std::sync::LazyLock;

/// One path of the API, with its method.
#[derive(Clone, Debug)]
pub struct Route {
    /// The method.
    pub method: Method,
    /// The path, exactly; `{name}` stands for any one segment.
    pub path: &'static str,
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
    /// The account's presets.
    ListPresets,
    /// Saves a preset.
    SavePreset,
    /// Deletes a preset.
    DeletePreset,
    /// The jobs of the key.
    ListJobs,
    /// One job.
    ShowJob,
    /// Pauses or resumes a bulk run.
    ChangeJob,
    /// Cancels or deletes a job.
    RemoveJob,
    /// Queues a bulk run.
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
    let route = |method, path, target| Route { method, path, target };
    let images = ENDPOINTS.iter().map(|endpoint| route(Method::POST, endpoint.path, Target::Image(endpoint)));
    let services = [
        (Method::POST, "/estimate", Routine::Estimate),
        (Method::GET, "/presets", Routine::ListPresets),
        (Method::POST, "/presets", Routine::SavePreset),
        (Method::DELETE, "/presets", Routine::DeletePreset),
        (Method::POST, "/bulk", Routine::Bulk),
        (Method::GET, "/jobs", Routine::ListJobs),
        (Method::GET, JOB_PATH, Routine::ShowJob),
        (Method::PATCH, JOB_PATH, Routine::ChangeJob),
        (Method::DELETE, JOB_PATH, Routine::RemoveJob),
        (Method::GET, "/models", Routine::Models),
        (Method::GET, "/account", Routine::Account),
        (Method::GET, "/usage", Routine::Usage),
    ];
    let pages = [("/openapi.yaml", Page::OpenApi), ("/openapi.json", Page::OpenApiJson), ("/docs", Page::Docs)];
    images
        .chain([route(Method::POST, VIDEO_PATH, Target::Clip)])
        .chain(services.map(|(method, path, routine)| route(method, path, Target::Service(routine))))
        .chain([route(Method::GET, "/results/{object}", Target::Result)])
        .chain(pages.map(|(path, page)| route(Method::GET, path, Target::Page(page))))
        .collect()
});

/// The route of a request, and the value of its path parameter. HEAD is answered wherever GET is.
pub(super) fn find<'a>(method: &Method, path: &'a str) -> Result<(&'static Route, &'a str)> {
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
    Err(ApiError::method_not_allowed(&allowed, format!("this path takes {allowed}, not {method}")))
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
