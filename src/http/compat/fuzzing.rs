//! Fuzz targets of the drop-in routes: bodies that are parsed whole, and rembg's query, to the fields of each service.

use super::cutout::endpoint_of;
use super::input::{self, Names, Parse, ParsedBody};
use super::{photoroom, rembg, removebg};
use crate::model::added::AddedModels;
use crate::recipe::{Endpoint, Fields};
use serde::Serializer as _;
use url::form_urlencoded;

/// The largest file in base64.
const MAX_FILE: usize = 1 << 20;

/// Fields for a recipe, and the endpoint that it is for.
type Translated = Option<(Fields, &'static Endpoint)>;

/// Maps a service's fields to ours.
type Translate = fn(&ParsedBody) -> Option<Fields>;

/// Reads an urlencoded body as each service does.
///
/// # Panics
/// See [`read`].
pub(crate) fn urlencoded(body: &[u8]) -> [Translated; 3] {
    read(body, input::parse_urlencoded)
}

/// Reads a JSON body as each service does.
///
/// # Panics
/// See [`read`].
pub(crate) fn json(body: &[u8]) -> [Translated; 3] {
    read(body, input::parse_json)
}

/// Reads a query as rembg's server does.
pub(crate) fn query(query: &str) -> Translated {
    let mut sent = ParsedBody::default();
    rembg::add_query(&mut sent, query);
    translated(rembg_fields(&sent))
}

/// Parses a body for each service, and translates what was sent.
///
/// # Panics
/// When what was read, written as a form or as JSON, is not read as the same.
fn read(body: &[u8], parse: Parse) -> [Translated; 3] {
    let services: [(Names, Translate); 3] = [
        (removebg::NAMES, |sent| removebg::translated(sent, false).ok().map(|(fields, _)| fields)),
        (rembg::NAMES, rembg_fields),
        (photoroom::NAMES, |sent| photoroom::translated(sent).ok()),
    ];
    services.map(|(names, fields)| {
        let texts = parse(body, names).ok()?;
        let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(&texts).finish();
        assert_eq!(input::parse_urlencoded(form.as_bytes(), names).expect("a form"), texts);
        assert_eq!(input::parse_json(&as_json(&texts), names).expect("JSON"), texts);
        let sent = input::decoded(texts, names, MAX_FILE).ok()?;
        translated(fields(&sent))
    })
}

fn as_json(texts: &[(String, String)]) -> Vec<u8> {
    let mut json = Vec::new();
    let pairs = texts.iter().map(|(name, text)| (name, text));
    serde_json::Serializer::new(&mut json).collect_map(pairs).expect("texts are JSON");
    json
}

fn rembg_fields(sent: &ParsedBody) -> Option<Fields> {
    rembg::model(sent, "fgnet-384/10", &AddedModels::default()).and_then(|_| rembg::translated(sent)).ok()
}

fn translated(fields: Option<Fields>) -> Translated {
    fields.map(|fields| {
        let endpoint = endpoint_of(&fields);
        (fields, endpoint)
    })
}
