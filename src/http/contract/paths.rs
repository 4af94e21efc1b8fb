//! Every path of the router as operations: the endpoints of pictures and clips, results, and fixed pages.

use super::node::{Node, Object};
use super::operation::{Operation, parameter};
use super::responses::{json_with, queued_job};
use super::schema::{integer, named, object, reference, string};
use super::{requests, services};
use crate::http::reply::error::ErrorCode;
use crate::http::router::{Page, ROUTES, Route, Target};
use crate::recipe::{Endpoint, Fields, Origin, Picture, Retouch, Work};

/// Every path, in the order of the routes.
pub(super) fn paths() -> Object {
    ROUTES.chunk_by(|one, next| one.path == next.path).map(|routes| (routes[0].path, item(routes))).collect()
}

/// The operations of one path.
fn item(routes: &[Route]) -> Object {
    routes.iter().map(|route| (route.method.as_str().to_lowercase(), operation(route).written(route.about))).collect()
}

fn operation(route: &Route) -> Operation {
    match &route.target {
        Target::Image(endpoint) => image(endpoint),
        Target::Clip => clip(),
        Target::Service(routine) => services::operation(*routine, &route.method),
        Target::Result => result(),
        Target::Page(page) => self::page(*page),
    }
}

/// `/remove-url` as `removeUrl`.
fn operation_id(path: &str) -> String {
    let name = requests::schema_name(path);
    name[..1].to_lowercase() + &name[1..]
}

/// Headers of every request for work: the model, and the idempotency key.
fn of_work() -> Vec<Object> {
    vec![reference("parameters", "Model"), reference("parameters", "IdempotencyKey")]
}

/// Errors of any work on pictures or clips.
const OF_WORK: [ErrorCode; 9] = [
    ErrorCode::InvalidParameter,
    ErrorCode::PaymentRequired,
    ErrorCode::Forbidden,
    ErrorCode::RequestTimeout,
    ErrorCode::IdempotencyConflict,
    ErrorCode::PayloadTooLarge,
    ErrorCode::UnsupportedMediaType,
    ErrorCode::FetchFailed,
    ErrorCode::Unavailable,
];

fn image(endpoint: &Endpoint) -> Operation {
    let (reply, has_subject) = reply(endpoint);
    let mut codes = OF_WORK.to_vec();
    // The preset.
    codes.push(ErrorCode::NotFound);
    if has_subject {
        codes.push(ErrorCode::NoSubjectDetected);
    }
    if endpoint.generates() {
        codes.push(ErrorCode::UpstreamFailed);
    }
    let mut operation = Operation::keyed(operation_id(endpoint.path), 200, reference("responses", reply), &codes);
    if !endpoint.input.is_single() {
        operation.replies.insert(ErrorCode::FetchFailed.status().as_u16(), reference("responses", "NothingFetched"));
    }
    Operation {
        is_extension: endpoint.origin == Origin::Extension,
        description: (!endpoint.description.is_empty()).then_some(endpoint.description),
        parameters: of_work(),
        body: Some(requests::picture_body(endpoint)),
        ..operation
    }
}

/// The response component of an endpoint, and whether a missing subject or face is a 422. In a batch it is an error of the row.
fn reply(endpoint: &Endpoint) -> (&'static str, bool) {
    if !endpoint.input.is_single() {
        return ("Batch", false);
    }
    if endpoint.generates() {
        return ("BackdropImage", true);
    }
    match endpoint.validate(&Fields::default()).expect("every field has a default").work {
        Work::Cut { picture: Picture::Portrait(_), .. } => ("Headshot", true),
        Work::Cut { picture: Picture::Cutout | Picture::CleanMask | Picture::Classified | Picture::Source, .. } => {
            ("Image", true)
        }
        Work::Retouch(Retouch::Faces { .. }) => ("Restored", true),
        // Every picture can be enlarged.
        Work::Retouch(Retouch::Enlarge(_)) => ("Enlarged", false),
    }
}

fn clip() -> Operation {
    let reply = queued_job("The queued job. A repeated request is answered with the current state of its job.");
    let codes = [&OF_WORK[..], &[ErrorCode::NoSubjectDetected]].concat();
    Operation {
        parameters: of_work(),
        body: Some(requests::clip_body()),
        ..Operation::keyed("videoRemove", 202, reply, &codes)
    }
}

fn result() -> Operation {
    let no_range = json_with(
        "The range is outside of the file; an error with the code `invalid_parameter`.",
        named("Error"),
        [("content-range", Object::default().with("schema", string().with("pattern", r"^bytes \*/[0-9]+$")))],
    );
    let ranges = ["bytes=0-1023", "bytes=-1024"].into_iter().collect::<Node>();
    let codes = [ErrorCode::NotFound, ErrorCode::InternalError];
    let mut operation = Operation::new("result", 200, reference("responses", "Result"), &codes);
    operation.replies.insert(206, reference("responses", "ResultPart"));
    operation.replies.insert(416, no_range);
    Operation {
        is_extension: true,
        is_open: true,
        description: Some(
            "The address can be read without a key for an hour. After that, and with an invalid signature, it is 404. One range of \
             bytes is answered with 206; several ranges are answered with the whole file.",
        ),
        parameters: vec![
            parameter("path", "object", true, string()).described("Name of the result."),
            parameter("query", "expires", true, integer()).described("End of validity in seconds of Unix time."),
            parameter("query", "signature", true, string()).described("Signature of the address."),
            parameter("header", "range", false, string().with("examples", ranges)),
            parameter("header", "if-range", false, string()).described("The `etag` of the previous part."),
        ],
        ..operation
    }
}

fn page(page: Page) -> Operation {
    match page {
        Page::OpenApi => Operation::page("openapi", "This document.", "application/yaml", object()),
        Page::OpenApiJson => Operation::page("openapiJson", "This document as JSON.", "application/json", object()),
        Page::Docs => Operation::page("docs", "One HTML page.", "text/html", string()),
    }
}
