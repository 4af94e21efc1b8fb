//! The contract, OpenAPI 3.1, generated from the tables that the service runs on.
//!
//! ```text
//! paths       the router's routes → operations        services   those about an account
//! requests    tables of fields → request schemas      responses  replies and headers
//! documents   jobs, presets, batches, error codes     operation  statuses and parameters of one operation
//! schema      kinds of fields as JSON Schema          node, yaml the document as data, JSON and YAML
//! ```
//!
//! `schemas/openapi.yaml` is what [`yaml`] answers; a test holds the file to that. What a table does not say (the order of
//! the checks, the meaning of a header) is text beside the code here, and `info.md`.

pub(super) mod docs;
mod documents;
mod node;
mod operation;
mod paths;
mod requests;
mod responses;
mod schema;
mod services;
mod yaml;

use schema::string;
use std::sync::LazyLock;

pub(super) use node::{Node, Object};

static CONTRACT: LazyLock<Object> = LazyLock::new(contract);
static YAML: LazyLock<String> = LazyLock::new(|| yaml::written(&CONTRACT));
static JSON: LazyLock<String> = LazyLock::new(|| serde_json::to_string(&*CONTRACT).expect("plain data is JSON"));

/// The contract as YAML, which is `schemas/openapi.yaml`.
#[must_use]
pub fn yaml() -> &'static str {
    &YAML
}

/// The contract as JSON.
#[must_use]
pub fn json() -> &'static str {
    &JSON
}

/// The contract as a tree.
pub(super) fn document() -> &'static Object {
    &CONTRACT
}

fn contract() -> Object {
    let license = env!("CARGO_PKG_LICENSE");
    let info = Object::default()
        .with("title", "Backdrop")
        .with("version", env!("CARGO_PKG_VERSION"))
        .with("summary", "Cuts subjects out of photos.")
        .described(include_str!("info.md"))
        .with("license", Object::default().with("name", license).with("identifier", license));
    let server = Object::default().with("url", "http://127.0.0.1:8080");
    let security = Object::default().with("key", Node::List(Vec::new()));
    Object::default()
        .with("openapi", "3.1.0")
        .with("info", info)
        .with("servers", [server].into_iter().collect::<Node>())
        .with("security", [security].into_iter().collect::<Node>())
        .with("paths", paths::paths())
        .with("components", components())
}

fn components() -> Object {
    let key = Object::default()
        .with("type", "http")
        .with("scheme", "bearer")
        .described("An API key, as `Authorization: Bearer <API_KEY>`.");
    let schemas: Object =
        [requests::schemas(), documents::schemas()].iter().flat_map(Object::members).cloned().collect();
    Object::default()
        .with("securitySchemes", Object::default().with("key", key))
        .with("parameters", parameters())
        .with("schemas", schemas)
        .with("headers", responses::headers())
        .with("responses", responses::responses())
}

/// Parameters of several operations.
fn parameters() -> Object {
    let models = ["fgnet-384", "fgnet-384-quality", "fgnet-384-fast", "fgnet-384/10"].into_iter().collect::<Node>();
    let model = Object::default()
        .with("name", "x-service-model")
        .with("in", "header")
        .extension()
        .described(
            "The model to use: its name, or its name and version as in `x-service-model` on replies of the endpoint. Endpoints that cut out \
             pictures take the models of `GET /models`, where the built-in network has three names: NAME, NAME-quality and NAME-fast; without the \
             header and the field `segmentation_model` they use the account's model, else the daemon's. For clips the built-in network is NAME alone.",
        )
        .with("schema", string().with("examples", models));
    let key = string().with("minLength", 1u32).with("maxLength", 255u32).with("pattern", "^[!-~]+$");
    let key = Object::default()
        .with("name", "Idempotency-Key")
        .with("in", "header")
        .extension()
        .described(
            "A request that is repeated with the same key within 24 hours is billed once; a repeated clip or bulk run is answered with \
             the same job. Another request with the same key is 409.",
        )
        .with("schema", key);
    let job =
        operation::parameter("path", "job_id", true, string()).described("Id of the job, from /video/remove or /bulk.");
    [("Model", model), ("IdempotencyKey", key), ("JobId", job)].into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn the_contract_is_the_same_in_both_notations() {
        let yaml: Value = serde_yaml_ng::from_str(yaml()).expect("YAML");
        let json: Value = serde_json::from_str(json()).expect("JSON");
        assert_eq!(json, yaml);
        assert!(json["paths"].as_object().is_some_and(|paths| paths.len() > 10));
    }

    #[test]
    fn a_key_is_written_once_in_its_mapping() {
        fn check(node: &Node) {
            match node {
                Node::Object(object) => {
                    for (at, (key, value)) in object.members().iter().enumerate() {
                        assert!(object.members()[..at].iter().all(|(other, _)| other != key), "{key} twice");
                        check(value);
                    }
                }
                Node::List(values) => values.iter().for_each(check),
                Node::Boolean(_) | Node::Number(_) | Node::Text(_) => {}
            }
        }
        check(&contract().into());
    }
}
