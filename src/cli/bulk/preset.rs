//! Reads a preset from a JSON file: a record of `GET /presets`, or its parameters alone.

use crate::cli::exit_code::Failure;
use crate::recipe::{ENDPOINTS, Endpoint, FieldError, Fields};
use serde_json::{Map, Value};
use std::fs;
use std::path::Path;

/// The parameters of a preset, and its endpoint if it names one.
#[derive(Debug)]
pub(super) struct Preset {
    pub(super) endpoint: Option<&'static Endpoint>,
    params: Map<String, Value>,
    /// Whether parameters that the endpoint does not have are ignored, as in a record of `GET /presets`, or errors.
    is_record: bool,
}

/// Reads a preset as `GET /presets` shows it, or its parameters alone.
pub(super) fn read(path: &Path) -> Result<Preset, Failure> {
    let text = fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    parse(&text).map_err(|error| format!("{}: {error}", path.display()).into())
}

fn parse(text: &str) -> Result<Preset, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    let Value::Object(mut members) = value else { return Err("expected an object".to_owned()) };
    match members.remove("params") {
        Some(Value::Object(params)) => {
            let endpoint = match members.get("endpoint") {
                None | Some(Value::Null) => None,
                Some(Value::String(path)) => {
                    let known = ENDPOINTS.iter().find(|endpoint| endpoint.path == path);
                    Some(known.ok_or_else(|| format!("no endpoint {path:?} takes pictures"))?)
                }
                Some(other) => return Err(format!("endpoint {other}: expected a path such as \"/remove\"")),
            };
            Ok(Preset { endpoint, params, is_record: true })
        }
        Some(_) => Err("params: expected an object".to_owned()),
        None => Ok(Preset { endpoint: None, params: members, is_record: false }),
    }
}

impl Preset {
    /// The fields of `endpoint`.
    pub(super) fn fields(&self, endpoint: &Endpoint) -> Result<Fields, FieldError> {
        let mut fields = Fields::default();
        for (name, value) in &self.params {
            if self.is_record && endpoint.field(name).is_none() {
                continue;
            }
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Number(number) => number.to_string(),
                Value::Bool(flag) => flag.to_string(),
                // Equal to a missing parameter.
                Value::Null => continue,
                Value::Array(_) | Value::Object(_) => {
                    let text = endpoint.field(name).and_then(|field| field.kind.text_of(value));
                    let refuse = || FieldError::invalid(name, &value.to_string(), "a text, a number, true or false");
                    text.ok_or_else(refuse)?
                }
            };
            fields.push(name, &text)?;
        }
        Ok(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::endpoint_args::endpoint_named;

    #[test]
    fn a_record_has_fields_of_other_endpoints_and_bare_parameters_have_not() {
        let record = r#"{"id":"preset_1","name":"shop","endpoint":"/studio-shot",
            "params":{"width":800,"transparent":true,"stroke_width":3},"created_at":"x"}"#;
        let record = parse(record).unwrap();
        let fields = record.fields(record.endpoint.unwrap()).unwrap();
        let shown = ["width", "transparent", "stroke_width"].map(|name| fields.get(name));
        assert_eq!(shown, [Some("800"), Some("true"), None]);

        let fields = parse(r#"{"edge":"hard","stroke_width":3}"#).unwrap().fields(endpoint_named("remove")).unwrap();
        let error = endpoint_named("remove").recipe(&fields).unwrap_err();
        assert_eq!(error.to_string(), "`/remove` has no `stroke_width`; it is a field of /sticker");
    }

    #[test]
    fn an_invalid_preset_is_refused_with_the_reason() {
        for (text, why) in [
            ("nonsense", "not JSON"),
            ("[]", "expected an object"),
            (r#"{"params":1}"#, "params: expected an object"),
            (r#"{"params":{},"endpoint":"/removed"}"#, "no endpoint \"/removed\""),
            (r#"{"params":{},"endpoint":7}"#, "expected a path"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        assert!(parse(r#"{"edge":["hard"]}"#).unwrap().fields(endpoint_named("remove")).is_err());
    }
}
