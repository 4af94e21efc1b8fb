//! The contract and the code say the same, in both directions.

use crate::http::daemon::{Daemon, needed};
use backdrop::http::error::ErrorCode;
use backdrop::http::router::{ROUTES, Routine, Target};
use backdrop::recipe::{ENDPOINTS, Endpoint, Field, Input, Kind, Origin, VIDEO_FIELDS, VIDEO_PATH, VideoFormat};
use backdrop::source::FetchFailure;
use backdrop::store::JobState;
use reqwest::Method;
use serde_json::json;
use serde_yaml_ng::Value;
use std::collections::{BTreeMap, BTreeSet};

fn contract() -> Value {
    let mut contract: Value =
        serde_yaml_ng::from_str(include_str!("../../../schemas/openapi.yaml")).expect("the contract is YAML");
    contract.apply_merge().expect("no broken merges");
    contract
}

/// Follows a `$ref`; keys beside it (`x-origin`) stay with the place that refers.
fn resolved<'a>(contract: &'a Value, value: &'a Value) -> &'a Value {
    let Some(reference) = value.get("$ref").and_then(Value::as_str) else { return value };
    let path = reference.strip_prefix("#/").expect("references stay inside");
    path.split('/').fold(contract, |at, key| at.get(key).unwrap_or_else(|| panic!("{reference} leads nowhere")))
}

fn keys(value: &Value) -> BTreeSet<String> {
    value.as_mapping().expect("a mapping").keys().map(|key| key.as_str().expect("text").to_owned()).collect()
}

/// A scalar as a form field would carry it.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(yes) => yes.to_string(),
        other @ (Value::Null | Value::Sequence(_) | Value::Mapping(_) | Value::Tagged(_)) => {
            panic!("{other:?} is not a scalar")
        }
    }
}

/// The schema that a kind has in the contract.
fn schema_of(kind: Kind) -> Value {
    let yaml = |value: serde_json::Value| serde_yaml_ng::to_value(value).expect("plain data");
    match kind {
        Kind::Choice(words) => yaml(json!({ "type": "string", "enum": words })),
        Kind::Integer { min, max } => yaml(json!({ "type": "integer", "minimum": min, "maximum": max })),
        Kind::Among(numbers) => yaml(json!({ "type": "integer", "enum": numbers })),
        Kind::Number { min, max } => yaml(json!({ "type": "number", "minimum": min, "maximum": max })),
        Kind::Boolean => yaml(json!({ "type": "boolean" })),
        Kind::Text(form) => {
            let mut schema = json!({ "type": "string", "maxLength": form.max_length, "examples": form.examples });
            if let Some(pattern) = form.pattern {
                schema["pattern"] = pattern.into();
            }
            yaml(schema)
        }
        Kind::AnyOf(kinds) => {
            let kinds: Vec<_> = kinds.iter().map(|kind| schema_of(*kind)).collect();
            yaml(json!({ "anyOf": kinds }))
        }
    }
}

/// Numbers as numbers, however they are written; without what `differences` looks at by itself.
fn normal(value: &Value) -> Value {
    match value {
        Value::Number(number) => Value::Number(number.as_f64().expect("a number").into()),
        Value::Sequence(values) => Value::Sequence(values.iter().map(normal).collect()),
        Value::Mapping(members) => {
            let beside = ["default", "description", "x-origin"];
            let kept = members.iter().filter(|(key, _)| !key.as_str().is_some_and(|key| beside.contains(&key)));
            Value::Mapping(kept.map(|(key, value)| (key.clone(), normal(value))).collect())
        }
        other @ (Value::Null | Value::Bool(_) | Value::String(_) | Value::Tagged(_)) => other.clone(),
    }
}

/// Every difference between one field's row and its property.
fn differences(contract: &Value, field: &Field, property: &Value) -> Vec<String> {
    let target = resolved(contract, property);
    let mut found = Vec::new();
    let expected = normal(&schema_of(field.kind));
    if normal(target) != expected {
        found.push(format!("{}: {target:?} is not {expected:?}", field.name));
    }
    let default = target.get("default").map(text);
    let number = |text: &str| text.parse::<f64>().ok();
    let same = match (default.as_deref(), field.default) {
        (Some(one), Some(other)) => one == other || number(one).zip(number(other)).is_some_and(|(a, b)| a == b),
        (one, other) => one == other,
    };
    if !same {
        found.push(format!("{}: default {default:?} is not {:?}", field.name, field.default));
    }
    let is_extension = property.get("x-origin").is_some_and(|origin| origin == "extension");
    if is_extension != (field.origin == Origin::Extension) {
        found.push(format!("{}: x-origin is wrong", field.name));
    }
    if target.get("description").and_then(Value::as_str).is_none_or(str::is_empty) {
        found.push(format!("{}: no description", field.name));
    }
    found
}

#[test]
fn every_route_is_in_the_contract_and_every_path_is_a_route() {
    let contract = contract();
    let mut documented = BTreeSet::new();
    for path in keys(&contract["paths"]) {
        for method in keys(&contract["paths"][&path]) {
            documented.insert((method.to_uppercase(), path.clone()));
        }
    }
    let routed: BTreeSet<_> = ROUTES.iter().map(|route| (route.method.to_string(), route.path.to_owned())).collect();
    assert_eq!(documented, routed);
    for route in ROUTES.iter() {
        let operation = &contract["paths"][route.path][route.method.as_str().to_lowercase()];
        let is_open = operation.get("security").and_then(Value::as_sequence).is_some_and(Vec::is_empty);
        let opens = matches!(route.target, Target::Page(_) | Target::Result);
        assert_eq!(is_open, opens, "{} needs a key or not", route.path);
        let statuses = keys(&operation["responses"]);
        let expected = match &route.target {
            Target::Page(_) => BTreeSet::from(["200", "500"]),
            Target::Image(endpoint) => statuses_of(endpoint),
            Target::Clip => BTreeSet::from([
                "202", "400", "401", "402", "403", "409", "413", "415", "422", "424", "429", "500", "503",
            ]),
            Target::Result => BTreeSet::from(["200", "206", "404", "416", "500"]),
            Target::Service(routine) => {
                let mut statuses = BTreeSet::from(["200", "401", "429", "500"]);
                match routine {
                    Routine::Account => {}
                    Routine::Estimate => statuses.extend(["400", "413", "415"]),
                    Routine::Presets if route.method == Method::GET => statuses.extend(["400", "403", "503"]),
                    Routine::Presets if route.method == Method::POST => {
                        statuses.extend(["400", "403", "404", "409", "413", "415", "503"]);
                    }
                    Routine::Presets => statuses.extend(["400", "403", "404", "413", "415", "503"]),
                    Routine::Usage => statuses.extend(["400", "503"]),
                    Routine::Jobs => statuses.extend(["400", "503"]),
                    Routine::Job => statuses.extend(["400", "404", "503"]),
                }
                statuses
            }
        };
        assert_eq!(statuses, expected.into_iter().map(str::to_owned).collect(), "{}", route.path);
        for status in statuses.iter().filter(|status| !["200", "202", "206"].contains(&status.as_str())) {
            let response = resolved(&contract, &operation["responses"][status]);
            assert!(response["content"].get("application/json").is_some(), "{} {status}", route.path);
        }
        let parameters = operation.get("parameters").and_then(Value::as_sequence).cloned().unwrap_or_default();
        let named = |place: &str| -> Vec<_> {
            let parameters = parameters.iter().map(|parameter| resolved(&contract, parameter));
            parameters.filter(|parameter| parameter["in"] == place).map(|parameter| text(&parameter["name"])).collect()
        };
        let in_header: &[&str] = match route.target {
            Target::Image(_) | Target::Clip => &["x-service-model", "Idempotency-Key"],
            Target::Result => &["range", "if-range"],
            Target::Page(_) | Target::Service(_) => &[],
        };
        assert_eq!(named("header"), in_header, "{}", route.path);
        let in_route: Vec<_> = route.path.split('/').filter_map(|segment| segment.strip_prefix('{')).collect();
        assert_eq!(
            named("path"),
            in_route.iter().map(|name| name.trim_end_matches('}')).collect::<Vec<_>>(),
            "{}",
            route.path
        );
        if let Target::Image(endpoint) = &route.target {
            let extension = operation.get("x-origin").is_some_and(|origin| origin == "extension");
            assert_eq!(extension, endpoint.origin == Origin::Extension, "{}", route.path);
        }
    }
}

/// Every status that an endpoint can answer with.
fn statuses_of(endpoint: &Endpoint) -> BTreeSet<&'static str> {
    let mut statuses =
        BTreeSet::from(["200", "400", "401", "402", "403", "404", "409", "413", "415", "424", "429", "500", "503"]);
    // Every picture can be enlarged; of a batch, each row says it.
    if endpoint.input.is_single() && endpoint.path != "/upscale" {
        statuses.insert("422");
    }
    if endpoint.generates() {
        statuses.insert("502");
    }
    statuses
}

#[test]
fn every_field_default_and_range_is_in_the_contract_and_the_other_way_round() {
    let contract = contract();
    for endpoint in ENDPOINTS.iter() {
        let content = &contract["paths"][endpoint.path]["post"]["requestBody"]["content"];
        let (media_type, pictures, required) = match endpoint.input {
            Input::File => ("multipart/form-data", &["file"][..], "file"),
            Input::FileAndBackground => ("multipart/form-data", &["file", "bg_file"][..], "file"),
            Input::Files => ("multipart/form-data", &["files"][..], "files"),
            Input::Url => ("application/json", &["url"][..], "url"),
            Input::Urls => ("application/json", &["urls"][..], "urls"),
        };
        let schema = resolved(&contract, &content[media_type]["schema"]);
        let mut expected: BTreeSet<String> = endpoint.fields.iter().map(|field| field.name.to_owned()).collect();
        expected.extend(pictures.iter().map(|name| (*name).to_owned()));
        assert_eq!(keys(&schema["properties"]), expected, "{}", endpoint.path);
        assert_eq!(schema["additionalProperties"], Value::Bool(false), "{}", endpoint.path);
        let needed = endpoint.fields.iter().filter(|field| field.required).map(|field| field.name);
        let needed = std::iter::once(required).chain(needed).map(Value::from).collect();
        assert_eq!(schema["required"], Value::Sequence(needed), "{}", endpoint.path);
        for field in &endpoint.fields {
            let found = differences(&contract, field, &schema["properties"][field.name]);
            assert!(found.is_empty(), "{}: {found:?}", endpoint.path);
        }
    }
}

#[test]
fn every_field_of_a_clip_is_in_the_contract_in_both_ways_to_send_it() {
    let contract = contract();
    let content = &contract["paths"][VIDEO_PATH]["post"]["requestBody"]["content"];
    for (media_type, clip) in [("multipart/form-data", "file"), ("application/json", "url")] {
        let schema = resolved(&contract, &content[media_type]["schema"]);
        let expected: BTreeSet<_> =
            VIDEO_FIELDS.iter().map(|field| field.name).chain([clip]).map(str::to_owned).collect();
        assert_eq!(keys(&schema["properties"]), expected, "{media_type}");
        assert_eq!(schema["additionalProperties"], Value::Bool(false), "{media_type}");
        assert_eq!(schema["required"], Value::Sequence(vec![clip.into()]), "{media_type}");
        for field in VIDEO_FIELDS.iter() {
            let found = differences(&contract, field, &schema["properties"][field.name]);
            assert!(found.is_empty(), "{media_type}: {found:?}");
        }
    }
    let formats: Vec<_> = VideoFormat::ALL.iter().map(|format| Value::from(format.name())).collect();
    let job = &contract["components"]["schemas"]["Job"]["properties"];
    assert_eq!(job["format"]["enum"], Value::Sequence(formats));
    let states: Vec<_> = JobState::ALL.iter().map(|state| Value::from(state.name())).collect();
    assert_eq!(job["status"]["enum"], Value::Sequence(states));
    let of_results = keys(&contract["components"]["responses"]["Result"]["content"]);
    assert_eq!(of_results, VideoFormat::ALL.iter().map(|format| format.media_type().to_owned()).collect());
}

#[test]
fn a_field_that_differs_is_noticed() {
    let contract = contract();
    let yaml = |text: &str| serde_yaml_ng::from_str::<Value>(text).expect("YAML");
    let field = Field {
        name: "quality",
        kind: Kind::Integer { min: 1, max: 100 },
        default: Some("92"),
        required: false,
        origin: Origin::Specification,
        about: "",
    };
    let right = "{type: integer, minimum: 1, maximum: 100, default: 92, description: d}";
    assert!(differences(&contract, &field, &yaml(right)).is_empty());
    for (from, to) in [
        ("minimum: 1,", "minimum: 0,"),
        ("maximum: 100,", "maximum: 101,"),
        ("default: 92,", "default: 91,"),
        ("default: 92,", ""),
        ("type: integer", "type: number"),
        ("description: d", "description: ''"),
        ("type: integer", "x-origin: extension, type: integer"),
    ] {
        assert_eq!(differences(&contract, &field, &yaml(&right.replace(from, to))).len(), 1, "{from} → {to}");
    }
}

#[test]
fn every_error_code_is_in_the_contract_with_its_status_and_the_other_way_round() {
    let contract = contract();
    let schema = &contract["components"]["schemas"]["ErrorCode"];
    let listed: Vec<_> = schema["enum"].as_sequence().expect("a list").iter().map(text).collect();
    let in_code: Vec<_> = ErrorCode::ALL.iter().map(|code| code.name().to_owned()).collect();
    assert_eq!(listed, in_code);
    let documented: BTreeMap<_, _> =
        keys(&schema["x-status"]).into_iter().map(|name| (name.clone(), schema["x-status"][&name].as_u64())).collect();
    let statuses =
        ErrorCode::ALL.iter().map(|code| (code.name().to_owned(), Some(code.status().as_u16().into()))).collect();
    assert_eq!(documented, statuses);
    let reasons = &contract["components"]["schemas"]["Reason"]["enum"];
    let reasons: Vec<_> = reasons.as_sequence().expect("a list").iter().map(text).collect();
    let others = ["quota_exhausted", "plan_required", "out_of_scope"];
    assert_eq!(reasons, [&FetchFailure::REASONS[..], &others[..]].concat());
}

#[test]
fn the_contract_has_the_version_of_the_package() {
    assert_eq!(contract()["info"]["version"], env!("CARGO_PKG_VERSION"));
}

#[tokio::test]
async fn a_picture_carries_exactly_the_documented_headers() {
    let contract = contract();
    let daemon = Daemon::start().await;
    for path in ["/remove", "/replace-bg-ai", "/headshot", "/face-restore", "/upscale"] {
        let answer = resolved(&contract, &contract["paths"][path]["post"]["responses"]["200"]);
        for (_, header) in answer["headers"].as_mapping().expect("headers") {
            assert!(resolved(&contract, header).get("description").is_some(), "{path}: {header:?}");
        }
        let response = daemon.send(path, needed(path)).await;
        let sent: BTreeSet<_> = response.headers().keys().map(|name| name.as_str().to_owned()).collect();
        let of_http = BTreeSet::from(["content-type".to_owned(), "date".to_owned()]);
        let mut documented = keys(&answer["headers"]);
        assert!(documented.remove("x-quota-remaining"), "{path}: accounts with a quota only, which this one is not");
        assert_eq!(sent.difference(&of_http).cloned().collect::<BTreeSet<_>>(), documented, "{path}");
    }
}
