//! `--endpoint NAME` with its `--set NAME=VALUE`.

use super::set::Set;
use crate::recipe::{BG_FILE, ENDPOINTS, Endpoint, FieldError, Fields, Input};
use clap::builder::{PossibleValue, PossibleValuesParser};

/// The names of all endpoints that answer pictures.
pub(super) fn endpoint_names() -> PossibleValuesParser {
    let value = |endpoint: &'static Endpoint| PossibleValue::new(endpoint.name).help(endpoint.about);
    ENDPOINTS.iter().map(value).collect::<Vec<_>>().into()
}

/// The endpoint of a name that the argument parser let through.
pub(super) fn endpoint_named(name: &str) -> &'static Endpoint {
    ENDPOINTS.iter().find(|endpoint| endpoint.name == name).expect("the argument parser knows them")
}

/// The fields that `--set` gives; a background is a file beside them, as it is in a form.
pub(super) fn fields_of(endpoint: &Endpoint, set: &[Set]) -> Result<Fields, FieldError> {
    let mut fields = Fields::default();
    for (name, value) in set {
        if name == BG_FILE && endpoint.input == Input::FileAndBackground {
            if fields.has_file(BG_FILE) {
                return Err(FieldError::Repeated { param: name.clone() });
            }
            fields.attach(BG_FILE);
        } else if endpoint.field(name).is_some() {
            fields.push(name, value)?;
        } else {
            return Err(FieldError::unknown(name, endpoint.names()));
        }
    }
    Ok(fields)
}
