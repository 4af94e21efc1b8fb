//! `--endpoint NAME` and `--set NAME=VALUE`: an API endpoint and its fields on the command line.

use crate::recipe::{BG_FILE, ENDPOINTS, Endpoint, FieldError, Fields, Input};
use clap::builder::{PossibleValue, PossibleValuesParser};
use std::path::Path;

/// A field of an endpoint and its value.
pub(super) type FieldArg = (String, String);

/// Parses `NAME=VALUE`.
pub(super) fn parse_field(text: &str) -> Result<FieldArg, String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// The names of all endpoints that return pictures.
pub(super) fn endpoint_names() -> PossibleValuesParser {
    let value = |endpoint: &'static Endpoint| PossibleValue::new(endpoint.name).help(endpoint.about);
    ENDPOINTS.iter().map(value).collect::<Vec<_>>().into()
}

/// The endpoint `name`, which the argument parser has validated.
pub(super) fn endpoint_named(name: &str) -> &'static Endpoint {
    ENDPOINTS.iter().find(|endpoint| endpoint.name == name).expect("the argument parser validated it")
}

/// The fields of `--set`; a background is an attached file, as in a form.
pub(super) fn endpoint_fields(endpoint: &Endpoint, args: &[FieldArg]) -> Result<Fields, FieldError> {
    let mut fields = Fields::default();
    for (name, value) in args {
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

/// The background file of `--set bg_file=PATH`.
pub(super) fn background_file(args: &[FieldArg]) -> Option<&Path> {
    args.iter().find(|(name, _)| name == BG_FILE).map(|(_, path)| Path::new(path))
}
