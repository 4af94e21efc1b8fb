//! Provenance in a result's object metadata: source, its version, parameters and model, written with the result and
//! read to recognise a finished one.

use super::hash::hash;
use super::processor::Processed;
use super::report_row::{ReportRow, Status, now};
use crate::source::StorageLocation;
use object_store::path::Path;
use object_store::{Attribute, AttributeValue, Attributes, GetOptions, ObjectStore};

// Underscores, because Azure accepts identifiers only.
const SOURCE: &str = "backdrop_source";
const ETAG: &str = "backdrop_source_etag";
const PARAMETERS: &str = "backdrop_parameters";
const MODEL: &str = "backdrop_model";
const SIZE: &str = "backdrop_size";
const UNCERTAINTY: &str = "backdrop_uncertainty";

/// The attributes to store with a result.
pub(super) fn attributes(result: &Processed, row: &ReportRow) -> Attributes {
    let metadata = [
        (SOURCE, ascii_value(&row.source)),
        (ETAG, ascii_value(&row.source_etag)),
        (PARAMETERS, row.parameters.clone()),
        (MODEL, ascii_value(&row.model)),
        (SIZE, format!("{}x{}", result.width, result.height)),
    ];
    let uncertainty = result.uncertainty.map(|uncertainty| (UNCERTAINTY, uncertainty.to_string()));
    let metadata = metadata
        .into_iter()
        .chain(uncertainty)
        .map(|(name, value)| (Attribute::Metadata(name.into()), AttributeValue::from(value)));
    std::iter::once((Attribute::ContentType, AttributeValue::from(result.media_type))).chain(metadata).collect()
}

/// Headers hold ASCII, and S3 accepts 2 kB of metadata in all: other characters are percent-encoded, and a value that
/// is still too long is replaced by its hash.
fn ascii_value(text: &str) -> String {
    const MAX_BYTES: usize = 1200;
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'!'..=b'$' | b'&'..=b'~' => escaped.push(char::from(byte)),
            other => escaped.push_str(&format!("%{other:02X}")),
        }
    }
    if escaped.len() <= MAX_BYTES { escaped } else { format!("hash:{:032x}", hash(&[text])) }
}

/// The completed row of an object whose stored result has matching source, version and parameters.
pub(super) async fn find_completed(destination: &StorageLocation, output: &Path, row: &ReportRow) -> Option<ReportRow> {
    let options = GetOptions { head: true, ..GetOptions::default() };
    // An object whose metadata cannot be read is processed.
    let stored = destination.store.get_opts(output, options).await.ok()?;
    let value = |name: &'static str| stored.attributes.get(&Attribute::Metadata(name.into())).map(AsRef::<str>::as_ref);
    let matches = value(SOURCE)? == ascii_value(&row.source)
        && value(ETAG)? == ascii_value(&row.source_etag)
        && value(PARAMETERS)? == row.parameters;
    let size = value(SIZE).and_then(|size| size.split_once('x'));
    matches.then(|| ReportRow {
        status: Status::Done,
        output_bytes: Some(stored.meta.size),
        width: size.and_then(|(width, _)| width.parse().ok()),
        height: size.and_then(|(_, height)| height.parse().ok()),
        uncertainty: value(UNCERTAINTY).and_then(|text| text.parse().ok()),
        finished_at: now(),
        ..row.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_ascii_and_short() {
        assert_eq!(ascii_value("s3://a/b c%ü.jpg"), "s3://a/b%20c%25%C3%BC.jpg");
        let long = ascii_value(&"ü".repeat(512));
        assert!(long.starts_with("hash:") && long.len() == 37, "{long}");
        assert_eq!(ascii_value(&"a".repeat(1024)).len(), 1024);
    }
}
