//! `--endpoint NAME` and `--set NAME=VALUE`: an API endpoint and its fields on the command line.

use crate::recipe::{BG_FILE, ENDPOINTS, Endpoint, FieldError, Fields, Input, MASK_FILE};
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

/// The fields of `--set`; a background and a mask are attached files, as in a form.
pub(super) fn endpoint_fields(endpoint: &Endpoint, args: &[FieldArg]) -> Result<Fields, FieldError> {
    let mut fields = Fields::default();
    for (name, value) in args {
        let is_file = match name.as_str() {
            BG_FILE => endpoint.input == Input::FileAndBackground,
            MASK_FILE => endpoint.input.is_single(),
            _ => false,
        };
        if is_file {
            if fields.has_file(name) {
                return Err(FieldError::Repeated { param: name.clone() });
            }
            fields.attach(name);
        } else if endpoint.field(name).is_some() {
            fields.push(name, value)?;
        } else {
            return Err(endpoint.located(FieldError::unknown(name, endpoint.names())));
        }
    }
    Ok(fields)
}

/// [`endpoint_fields`] of a picture that is processed without a daemon, which stores the presets.
pub(super) fn local_fields(endpoint: &Endpoint, args: &[FieldArg]) -> Result<Fields, FieldError> {
    let fields = endpoint_fields(endpoint, args)?;
    if fields.get("preset").is_some() {
        return Err(FieldError::not_taken("preset", "presets are stored by a daemon; pass the preset's fields"));
    }
    Ok(fields)
}

/// The file of `--set NAME=PATH`.
pub(super) fn attached_file<'a>(args: &'a [FieldArg], name: &str) -> Option<&'a Path> {
    args.iter().find(|(known, _)| known == name).map(|(_, path)| Path::new(path))
}
