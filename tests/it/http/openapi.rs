//! The contract: the file in the repository is generated from the code, hangs together, and says what the daemon does.

use crate::http::daemon::{Daemon, Work, required_fields};
use backdrop::http::router::{ROUTES, Target};
use backdrop::http::{ErrorCode, contract};
use backdrop::recipe::{ENDPOINTS, FieldError, Fields, Kind, VIDEO_FIELDS, VideoRecipe};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

fn contract() -> Value {
    serde_json::from_str(contract::json()).expect("JSON")
}

/// Follows a `$ref`; keys beside it (`x-origin`) stay with the place that refers.
fn resolved<'a>(contract: &'a Value, value: &'a Value) -> &'a Value {
    let Some(reference) = value.get("$ref").and_then(Value::as_str) else { return value };
    let pointer = reference.strip_prefix('#').expect("references stay inside");
    contract.pointer(pointer).unwrap_or_else(|| panic!("{reference} leads nowhere"))
}

fn keys(value: &Value) -> BTreeSet<String> {
    value.as_object().expect("a mapping").keys().cloned().collect()
}

/// Calls `visit` with every mapping of the document.
fn visit<'a>(value: &'a Value, found: &mut dyn FnMut(&'a serde_json::Map<String, Value>)) {
    match value {
        Value::Object(members) => {
            found(members);
            members.values().for_each(|value| visit(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| visit(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Every operation, with its route's path and method.
fn operations(contract: &Value) -> Vec<(String, &Value)> {
    let paths = contract["paths"].as_object().expect("paths");
    paths
        .iter()
        .flat_map(|(path, item)| {
            item.as_object()
                .expect("operations")
                .iter()
                .map(move |(method, operation)| (format!("{} {path}", method.to_uppercase()), operation))
        })
        .collect()
}

/// `UPDATE_CONTRACT=1 cargo test --release --workspace --test it http::openapi` rewrites the file.
#[test]
fn the_file_in_the_repository_is_generated_from_the_code() {
    let file = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join("schemas/openapi.yaml");
    #[expect(clippy::disallowed_methods, reason = "a switch of the tests, not a setting of the program")]
    if std::env::var("UPDATE_CONTRACT").is_ok_and(|value| value == "1") {
        std::fs::write(&file, contract::yaml()).expect("schemas/ can be written to");
    }
    let written = std::fs::read_to_string(&file).expect("the contract");
    let generated = contract::yaml();
    let differs = written.lines().zip(generated.lines()).position(|(one, other)| one != other);
    let line = differs.unwrap_or_else(|| written.lines().count().min(generated.lines().count())) + 1;
    assert!(
        written == generated,
        "schemas/openapi.yaml is not what the code generates, from line {line} on; UPDATE_CONTRACT=1 rewrites it.\n\
         file:      {:?}\ngenerated: {:?}",
        written.lines().nth(line - 1),
        generated.lines().nth(line - 1),
    );
}

#[test]
fn every_route_is_in_the_contract_and_every_path_is_a_route() {
    let contract = contract();
    let documented: BTreeSet<_> = operations(&contract).into_iter().map(|(name, _)| name).collect();
    let routed: BTreeSet<_> = ROUTES.iter().map(|route| format!("{} {}", route.method, route.path)).collect();
    assert_eq!(documented, routed);
    let ids: BTreeSet<_> = operations(&contract).iter().map(|(_, it)| it["operationId"].as_str()).collect();
    assert_eq!(ids.len(), ROUTES.len(), "operationIds are unique: {ids:?}");
    for route in ROUTES.iter() {
        let operation = &contract["paths"][route.path][route.method.as_str().to_lowercase()];
        let is_open = operation.get("security").and_then(Value::as_array).is_some_and(Vec::is_empty);
        let opens = matches!(route.target, Target::Page(_) | Target::Result);
        assert_eq!(is_open, opens, "{} needs a key or not", route.path);
        let parameters = operation.get("parameters").and_then(Value::as_array).cloned().unwrap_or_default();
        let in_contract: BTreeSet<_> = parameters
            .iter()
            .map(|parameter| resolved(&contract, parameter))
            .filter(|parameter| parameter["in"] == "path")
            .map(|parameter| parameter["name"].as_str().expect("text").to_owned())
            .collect();
        let in_route = route.path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'));
        assert_eq!(in_contract, in_route.map(str::to_owned).collect(), "{}", route.path);
    }
}

#[test]
fn every_failure_is_a_status_of_the_codes_and_is_answered_with_json() {
    let contract = contract();
    let statuses: BTreeSet<_> = ErrorCode::ALL.iter().map(|code| code.status().as_u16().to_string()).collect();
    for (name, operation) in operations(&contract) {
        let documented = keys(&operation["responses"]);
        assert!(documented.contains("500"), "{name}");
        let needs_key = operation.get("security").is_none();
        assert_eq!(documented.contains("401") && documented.contains("429"), needs_key, "{name}");
        for status in documented.iter().filter(|status| !status.starts_with('2')) {
            // 416 is HTTP's own answer to a range, with the code of a wrong parameter.
            assert!(statuses.contains(status) || status == "416", "{name} {status}");
            let response = resolved(&contract, &operation["responses"][status]);
            assert!(response["content"].get("application/json").is_some(), "{name} {status}");
        }
    }
    let has = |path: &str, status| contract["paths"][path]["post"]["responses"].get(status).is_some();
    assert!(has("/remove", "422") && !has("/upscale", "422"), "every picture can be enlarged");
    assert!(!has("/remove-batch", "422") && !has("/remove-batch-url", "422"), "of a batch, each row says it");
    assert!(has("/replace-bg-ai", "502") && !has("/replace-bg", "502"), "another service makes the backdrop");
    let schema = &contract["components"]["schemas"]["ErrorCode"];
    for (at, code) in ErrorCode::ALL.iter().enumerate() {
        assert_eq!(schema["enum"][at], code.name());
        assert_eq!(schema["x-status"][code.name()], code.status().as_u16());
    }
}

#[test]
fn every_reference_leads_somewhere_and_every_component_is_referred_to() {
    let contract = contract();
    let mut used = BTreeSet::new();
    visit(&contract, &mut |members| {
        if let Some(reference) = members.get("$ref") {
            resolved(&contract, &Value::Object(members.clone()));
            used.insert(reference.as_str().expect("text").to_owned());
        }
    });
    for section in ["parameters", "schemas", "headers", "responses"] {
        for name in keys(&contract["components"][section]) {
            assert!(used.contains(&format!("#/components/{section}/{name}")), "{section}/{name} is not used");
        }
    }
}

#[test]
fn every_field_is_described_and_every_schema_of_a_request_is_closed() {
    let contract = contract();
    for endpoint in ENDPOINTS.iter() {
        let content = &contract["paths"][endpoint.path]["post"]["requestBody"]["content"];
        let media_type = if endpoint.input.is_url() { "application/json" } else { "multipart/form-data" };
        let schema = resolved(&contract, &content[media_type]["schema"]);
        assert_eq!(schema["additionalProperties"], false, "{}", endpoint.path);
        let properties = keys(&schema["properties"]);
        assert!(endpoint.names().all(|name| properties.contains(name)), "{}: {properties:?}", endpoint.path);
        for (name, property) in schema["properties"].as_object().expect("properties") {
            let property = resolved(&contract, property);
            let description = property.get("description").and_then(Value::as_str);
            assert!(description.is_some_and(|text| text.ends_with('.')), "{} {name}", endpoint.path);
        }
        for name in schema["required"].as_array().expect("a picture at least") {
            assert!(properties.contains(name.as_str().expect("text")), "{} {name}", endpoint.path);
        }
    }
}

/// The texts that a kind gives as examples.
fn examples(kind: &Kind) -> Vec<&'static str> {
    match kind {
        Kind::Text(form) | Kind::List(form) => form.examples.to_vec(),
        Kind::AnyOf(kinds) => kinds.iter().flat_map(examples).collect(),
        Kind::Choice(words) => words.to_vec(),
        Kind::Integer { .. } | Kind::IntegerChoice(_) | Kind::Number { .. } | Kind::Boolean => Vec::new(),
    }
}

#[test]
fn every_example_is_taken_by_its_field_and_within_its_length() {
    for endpoint in ENDPOINTS.iter() {
        for field in &endpoint.fields {
            for example in examples(&field.kind) {
                let mut fields = Fields::default();
                fields.push(field.name, example).expect("one field");
                // Beside the form of a value its endpoint may need more of it, such as an opaque colour for a jpg.
                if let Err(FieldError::Invalid { param, expected, .. }) = endpoint.validate(&fields) {
                    let form = field.kind.expected();
                    let is_refused = param == field.name && expected.starts_with(&form);
                    assert!(!is_refused, "{} {}={example}: {expected}", endpoint.path, field.name);
                }
            }
        }
    }
    for field in VIDEO_FIELDS.iter() {
        for example in examples(&field.kind) {
            assert_eq!(VideoRecipe::validate_field(field.name, example), Ok(()), "{}={example}", field.name);
        }
    }
    visit(&contract(), &mut |members| {
        if let (Some(Value::Array(examples)), Some(most)) = (members.get("examples"), members.get("maxLength")) {
            for example in examples.iter().filter_map(Value::as_str) {
                assert!(example.chars().count() as u64 <= most.as_u64().expect("a length"), "{example}");
            }
        }
    });
}

#[tokio::test]
async fn a_picture_carries_exactly_the_documented_headers() {
    let contract = contract();
    let daemon = Daemon::start().await;
    daemon.engine.set(Work::Warn);
    for path in ["/remove", "/replace-bg-ai", "/headshot", "/face-restore", "/upscale"] {
        let answer = resolved(&contract, &contract["paths"][path]["post"]["responses"]["200"]);
        for header in answer["headers"].as_object().expect("headers").values() {
            assert!(resolved(&contract, header).get("description").is_some(), "{path}: {header:?}");
        }
        let auto: &[(&str, &str)] = if path == "/remove" { &[("edge", "auto")] } else { &[] };
        let response = daemon.send(path, &[required_fields(path), auto].concat()).await;
        let sent: BTreeSet<_> = response.headers().keys().map(|name| name.as_str().to_owned()).collect();
        let of_http = BTreeSet::from(["content-type".to_owned(), "date".to_owned()]);
        let mut documented = keys(&answer["headers"]);
        assert!(documented.remove("x-quota-remaining"), "{path}: accounts with a quota only, which this one is not");
        assert_eq!(sent.difference(&of_http).cloned().collect::<BTreeSet<_>>(), documented, "{path}");
    }
}
