//! `--set NAME=VALUE`: fields of an endpoint on the command line.

/// A field of an endpoint and its value.
pub(super) type Set = (String, String);

/// Reads one.
pub(super) fn name_and_value(text: &str) -> Result<Set, String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}
