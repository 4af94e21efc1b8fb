//! The contract, OpenAPI 3.1: `contract.json`, filled in from the tables that the service runs on.
//!
//! ```text
//! contract.json   the document; `$Name` stands for a value of `values`, as a key for its members
//! fields, paths   endpoints of pictures: schemas of their bodies, operations
//! node, yaml      the document as data, JSON and YAML       docs   the document as HTML
//! ```
//!
//! `schemas/openapi.yaml` is the text of [`yaml`]; a test compares them.

pub(super) mod docs;
mod fields;
mod node;
mod paths;
mod yaml;

use crate::bulk::KeyTemplate;
use crate::codec::Limits;
use crate::http::admission::{OUT_OF_SCOPE, PLAN_REQUIRED, QUOTA_EXHAUSTED};
use crate::http::reply::ErrorCode;
use crate::image::SourceUrl;
use crate::recipe::{CutoutFormat, Kind, Value, VideoFormat};
use crate::source::FetchFailure;
use crate::store::{JobState, Plan};
use crate::video;
use node::{Node, Object};
use std::sync::LazyLock;

static CONTRACT: LazyLock<Object> = LazyLock::new(contract);
static YAML: LazyLock<String> = LazyLock::new(|| yaml::written(&CONTRACT));
static JSON: LazyLock<String> = LazyLock::new(|| serde_json::to_string(&*CONTRACT).expect("plain data is JSON"));

/// Headers of every reply with a picture.
const OF_PICTURES: [&str; 14] = [
    "content-length",
    "x-service-latency",
    "x-service-width",
    "x-service-height",
    "x-service-cost",
    "server-timing",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "x-quota-remaining",
    "x-request-id",
    "x-service-version",
    "cache-control",
    "x-content-type-options",
];

/// Headers of a picture whose subject was cut out.
const OF_SUBJECTS: [&str; 4] =
    ["x-service-foreground", "x-service-uncertainty", "x-service-warnings", "x-service-model"];

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

fn contract() -> Object {
    let document: Object = serde_json::from_str(include_str!("contract.json")).expect("a test reads the contract");
    document.filled(&values())
}

/// The values of `contract.json`.
fn values() -> Object {
    let Limits { max_bytes, max_side, .. } = Limits::default();
    let file = format!(
        "JPEG, PNG, WebP or HEIC; by default at most {} MiB ({} bytes) and {max_side}×{max_side} pixels. Another limit may be configured; the message of the 413 states it.",
        max_bytes >> 20,
        grouped(max_bytes as u64),
    );
    let clip = format!(
        "MP4, MOV, WebM, MKV or GIF; at most {} bytes, 60 seconds, 60 frames a second and 1920×1080 pixels. Send it after the other fields: invalid ones are then refused before it is read.",
        grouped(video::MAX_BYTES),
    );
    let Kind::Text(https) = SourceUrl::KIND else { unreachable!("an address is text") };
    let https = Object::default().with("maxLength", https.max_length).with_some("pattern", https.pattern);
    let Kind::Choice(cutout_formats) = CutoutFormat::KIND else { unreachable!("a format is a choice") };
    let reasons = FetchFailure::REASONS.into_iter().chain([QUOTA_EXHAUSTED, PLAN_REQUIRED, OUT_OF_SCOPE]);
    let statuses: Object = ErrorCode::ALL.iter().map(|code| (code.name(), u32::from(code.status().as_u16()))).collect();
    let codes: Node = ErrorCode::ALL.iter().map(|code| code.name()).collect();
    let values: [(&str, Node); 21] = [
        ("$Version", env!("CARGO_PKG_VERSION").into()),
        ("$License", env!("CARGO_PKG_LICENSE").into()),
        ("$Info", include_str!("info.md").into()),
        ("$Images", paths::paths().into()),
        ("$Bodies", fields::schemas().into()),
        ("$File", file.into()),
        ("$Clip", clip.into()),
        ("$Https", https.into()),
        ("$Error", reference("responses", "Error").into()),
        ("$Pictures", files(["image/png", "image/webp", "image/jpeg"]).into()),
        ("$Clips", files(VideoFormat::ALL.map(VideoFormat::media_type)).into()),
        ("$OfPictures", headers(OF_PICTURES).into()),
        ("$OfSubjects", headers(OF_SUBJECTS).into()),
        ("$CutoutFormats", cutout_formats.iter().copied().collect()),
        ("$VideoFormats", VideoFormat::ALL.map(VideoFormat::name).into_iter().collect()),
        ("$JobStates", JobState::ALL.map(JobState::name).into_iter().collect()),
        ("$Plans", Plan::ALL.map(Plan::name).into_iter().collect()),
        ("$KeyTemplate", KeyTemplate::DEFAULT.into()),
        ("$Reasons", reasons.collect()),
        ("$ErrorCodes", codes),
        ("$ErrorStatuses", statuses.into()),
    ];
    values.into_iter().collect()
}

/// A reference to a component.
fn reference(section: &str, name: &str) -> Object {
    Object::default().with("$ref", format!("#/components/{section}/{name}"))
}

/// A reference to a component schema.
fn named(name: &str) -> Object {
    reference("schemas", name)
}

/// References to headers of several replies.
fn headers<const N: usize>(names: [&str; N]) -> Object {
    names.into_iter().map(|name| (name, reference("headers", name))).collect()
}

/// The content of a reply that is a file of one of these media types.
fn files<const N: usize>(media_types: [&str; N]) -> Object {
    let schema = Object::default().with("type", "string").with("format", "binary");
    media_types.into_iter().map(|media_type| (media_type, Object::default().with("schema", schema.clone()))).collect()
}

/// A number with commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let comma = |at: usize| at > 0 && (digits.len() - at).is_multiple_of(3);
    digits.chars().enumerate().flat_map(|(at, digit)| comma(at).then_some(',').into_iter().chain([digit])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn the_contract_is_the_same_in_both_notations_and_each_key_is_once_in_its_mapping() {
        // The reader refuses a key that is twice in its mapping.
        let yaml: serde_yaml_ng::Value = serde_yaml_ng::from_str(yaml()).expect("YAML");
        let json: Value = serde_json::from_str(json()).expect("JSON");
        assert_eq!(serde_json::to_value(yaml).expect("texts as keys"), json);
        assert!(json["paths"].as_object().is_some_and(|paths| paths.len() > 10));
    }
}
