//! Converts the stored params of a preset to fields of an endpoint, and validates them when the preset is saved.

use super::json::is_absent;
use crate::account::presets::params;
use crate::recipe::{ENDPOINTS, Endpoint, FieldError, Fields};
use crate::store::Preset;
use serde_json::{Map, Value};

/// Refuses params that the preset's endpoint, or without one any endpoint, does not take.
pub(crate) fn validate(endpoint: Option<&Endpoint>, params: &Map<String, Value>) -> Result<(), FieldError> {
    match endpoint {
        Some(endpoint) => fits(endpoint, params),
        // Without an endpoint, each param must be valid for at least one.
        None => params.iter().try_for_each(|(name, value)| {
            let mut refusal = None;
            for endpoint in ENDPOINTS.iter().filter(|endpoint| endpoint.field(name).is_some()) {
                match fits(endpoint, [(name, value)]) {
                    Ok(()) => return Ok(()),
                    Err(error) => refusal = refusal.or(Some(error)),
                }
            }
            Err(refusal.unwrap_or_else(|| {
                let known = ENDPOINTS.iter().flat_map(Endpoint::names).filter(|known| *known != "preset");
                FieldError::unknown(name, known)
            }))
        }),
    }
}

/// Validates stored params like sent fields of `endpoint`.
fn fits<'a>(endpoint: &Endpoint, params: impl IntoIterator<Item = (&'a String, &'a Value)>) -> Result<(), FieldError> {
    let fields = fields_of(endpoint, params)?;
    endpoint.validate(&Fields::default().over(&fields)).map(|_| ())
}

/// Params as fields of `endpoint`, which must have all of them; `preset` is refused.
pub(crate) fn fields_of<'a>(
    endpoint: &Endpoint,
    params: impl IntoIterator<Item = (&'a String, &'a Value)>,
) -> Result<Fields, FieldError> {
    let mut fields = Fields::default();
    for (name, value) in params {
        let Some(field) = endpoint.field(name).filter(|field| field.name != "preset") else {
            return Err(FieldError::unknown(name, endpoint.names().filter(|known| *known != "preset")));
        };
        if is_absent(value) {
            continue;
        }
        let text = field.kind.text_of(value);
        let text = text.ok_or_else(|| FieldError::invalid(name, &value.to_string(), field.kind.expected()))?;
        fields.push(name, &text)?;
    }
    Ok(fields)
}

/// The params of a preset as fields of `endpoint`, without params that the endpoint does not have.
pub(crate) fn for_endpoint(endpoint: &Endpoint, preset: &Preset) -> Fields {
    let mut fields = Fields::default();
    for (name, value) in &params(preset) {
        let Some(field) = endpoint.field(name) else { continue };
        // Validated when the preset was saved, and again with the merged fields.
        if let Some(text) = field.kind.text_of(value) {
            let _ = fields.push(name, &text);
        }
    }
    fields
}
