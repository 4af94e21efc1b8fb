//! The operations of the endpoints of pictures.

use super::fields::schema_name;
use super::node::Object;
use super::{named, reference};
use crate::recipe::{ENDPOINTS, Endpoint, Fields, Input, Origin, Picture, Retouch, Work};
use std::collections::BTreeMap;

/// The path of every endpoint, in the order of the routes.
pub(super) fn paths() -> Object {
    ENDPOINTS.iter().map(|endpoint| (endpoint.path, Object::default().with("post", operation(endpoint)))).collect()
}

/// Errors of every endpoint; others follow from its work.
const ERRORS: [u16; 13] = [400, 401, 402, 403, 404, 408, 409, 413, 415, 424, 429, 500, 503];

fn operation(endpoint: &Endpoint) -> Object {
    let name = schema_name(endpoint.path);
    let (reply, error_of_subject) = reply(endpoint);
    let error_of_api = endpoint.generates().then_some(502);
    let errors = ERRORS.into_iter().chain(error_of_subject).chain(error_of_api).map(|status| (status, "Error"));
    let nothing_fetched = (!endpoint.input.is_single()).then_some((424, "NothingFetched"));
    let replies: BTreeMap<u16, &str> = errors.chain([(200, reply)]).chain(nothing_fetched).collect();
    let replies = replies.into_iter().map(|(status, reply)| (status.to_string(), reference("responses", reply)));
    let parameters = ["Model", "IdempotencyKey"].map(|name| reference("parameters", name));
    Object::default()
        .with("operationId", name[..1].to_lowercase() + &name[1..])
        .extension_if(endpoint.origin == Origin::Extension)
        .with("summary", endpoint.about)
        .with_some("description", (!endpoint.description.is_empty()).then_some(endpoint.description))
        .with("parameters", parameters.into_iter().collect::<super::Node>())
        .with("requestBody", body(endpoint.input, &name))
        .with("responses", replies.collect::<Object>())
}

/// The request body of an endpoint whose schema has this name.
fn body(input: Input, own: &str) -> Object {
    const FORM: &str = "multipart/form-data";
    const JSON: &str = "application/json";
    const BYTES: (&str, &str) = ("application/octet-stream", "PictureBody");
    let kinds = match input {
        Input::File | Input::FileAndBackground => vec![(FORM, own), (JSON, "PictureJson"), BYTES],
        Input::Url => vec![(JSON, own), (FORM, "PictureForm"), BYTES],
        Input::Files => vec![(FORM, own)],
        Input::Urls => vec![(JSON, own)],
    };
    let content =
        kinds.into_iter().map(|(media_type, name)| (media_type, Object::default().with("schema", named(name))));
    Object::default().with("required", true).with("content", content.collect::<Object>())
}

/// The response component of an endpoint, and the status of a missing subject or face. In a batch it is an error of the row.
fn reply(endpoint: &Endpoint) -> (&'static str, Option<u16>) {
    if !endpoint.input.is_single() {
        return ("Batch", None);
    }
    if endpoint.generates() {
        return ("BackdropImage", Some(422));
    }
    match endpoint.validate(&Fields::default()).expect("every field has a default").work {
        Work::Cut { picture: Picture::Portrait(_), .. } => ("Headshot", Some(422)),
        Work::Cut { picture: Picture::Cutout | Picture::CleanMask | Picture::Classified | Picture::Source, .. } => {
            ("Image", Some(422))
        }
        Work::Retouch(Retouch::Faces { .. }) => ("Restored", Some(422)),
        // Every picture can be enlarged.
        Work::Retouch(Retouch::Enlarge(_)) => ("Enlarged", None),
    }
}
