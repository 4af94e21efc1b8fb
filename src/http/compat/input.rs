//! Reads a body as other services' clients send it (multipart, urlencoded or JSON) into texts and files.
//!
//! Unknown names are skipped and not refused: clients pass all their options through.

use super::refusal::invalid_request;
use crate::codec::Limits;
use crate::http::admission::AccountMemory;
use crate::http::reply::Result;
use crate::http::request::body::{
    RequestBody, content_type, media_type, read_within, require_uncompressed, unsupported,
};
use crate::http::request::form::{MAX_OVERHEAD, file_too_large, read_file, read_value};
use crate::http::request::multipart::{self, BASE64, Multipart, Part};
use crate::http::request_context::RequestContext;
use crate::http::state::ApiState;
use base64::Engine as _;
use bytes::Bytes;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt::{self, Formatter};
use tokio::task::spawn_blocking;

/// The field names of a service.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names {
    pub(super) texts: &'static [&'static str],
    pub(super) files: &'static [&'static str],
    /// The file in base64.
    pub(super) base64: Option<&'static str>,
}

/// The daemon's limits, raised to a service's: `max_bytes` up to the memory of accounts, the side up to the command line's limit.
pub(super) fn limits(state: &ApiState, max_bytes: usize, max_megapixels: u32) -> Limits {
    let Limits { max_bytes: bytes, max_side: side, max_megapixels: megapixels } = state.limits;
    let uploads = state.config.max_body_bytes();
    Limits {
        max_bytes: bytes.max(max_bytes.min(uploads)),
        max_side: side.max(Limits::LOCAL.max_side),
        max_megapixels: megapixels.max(max_megapixels),
    }
}

/// Names and values in the order of arrival.
type Texts = Vec<(String, String)>;

pub(super) type Parse = fn(&[u8], Names) -> Result<Texts>;

/// The longest text other than a file in base64.
const MAX_TEXT: usize = 4 * 1024;

impl Names {
    /// Adds a set text under a known name that has none yet. Everything else is dropped, so that it takes no memory.
    fn keep(self, texts: &mut Texts, name: &str, text: &str) -> Result<()> {
        let is_file = self.base64 == Some(name);
        let is_known = is_file || self.texts.contains(&name);
        if !is_known || !is_set(text) || texts.iter().any(|(kept, _)| kept == name) {
            return Ok(());
        }
        if !is_file && text.len() > MAX_TEXT {
            let message = format!("`{name}` is longer than {MAX_TEXT} bytes");
            return Err(invalid_request("invalid_parameter", message));
        }
        texts.push((name.to_owned(), text.to_owned()));
        Ok(())
    }
}

/// Whether a value is set: JavaScript clients send `undefined` for an unset value.
fn is_set(text: &str) -> bool {
    !matches!(text.trim(), "" | "undefined" | "null")
}

/// Texts and files under known names.
#[derive(Debug, Default)]
pub(super) struct ParsedBody {
    texts: Texts,
    files: Vec<(String, Bytes)>,
}

impl ParsedBody {
    /// The first text under `name` that is set.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let of_name = self.texts.iter().filter(|(known, _)| known == name);
        of_name.map(|(_, text)| text.trim()).find(|text| is_set(text))
    }

    /// Adds a text.
    pub(super) fn push(&mut self, name: &str, text: &str) {
        self.texts.push((name.to_owned(), text.to_owned()));
    }

    /// Takes the files under `name` that are not empty.
    pub(super) fn take(&mut self, name: &str) -> Vec<Bytes> {
        let taken = self.files.extract_if(.., |(known, bytes)| known.as_str() == name && !bytes.is_empty());
        taken.map(|(_, bytes)| bytes).collect()
    }
}

/// The largest body with a file in base64, whose characters may be escaped.
fn max_encoded(max_file: usize) -> usize {
    max_file + max_file / 2 + MAX_OVERHEAD
}

/// Reads the body, with files of up to `max_file` bytes, to its end.
pub(super) async fn read(
    context: &mut RequestContext,
    names: Names,
    max_file: usize,
    memory: &AccountMemory,
) -> Result<ParsedBody> {
    require_uncompressed(&context.headers)?;
    if let Some(boundary) = multipart::boundary(content_type(&context.headers))? {
        return read_multipart(&mut context.body, &boundary, names, max_file, memory).await;
    }
    let parse: Parse = match &*media_type(&context.headers) {
        "application/json" => parse_json,
        "application/x-www-form-urlencoded" | "" => parse_urlencoded,
        _ => {
            let types = "multipart/form-data, application/x-www-form-urlencoded or application/json";
            return Err(unsupported(&format!("the request body must be {types}")));
        }
    };
    let share = memory.share();
    // Counted twice: the body, and the values parsed from it.
    let body = read_within(&mut context.body, max_encoded(max_file), |bytes| share.grow(2 * bytes)).await?;
    let body = body.ok_or_else(|| file_too_large(max_file))?;
    let mut sent = spawn_blocking(move || decoded(parse(&body, names)?, names, max_file)).await??;
    // The file in base64 is the only one.
    if let Some((_, file)) = sent.files.first_mut() {
        *file = share.hold(std::mem::take(file));
    }
    Ok(sent)
}

async fn read_multipart(
    body: &mut RequestBody,
    boundary: &str,
    names: Names,
    max_file: usize,
    memory: &AccountMemory,
) -> Result<ParsedBody> {
    let most_encoded = names.base64.map_or(0, |_| max_encoded(max_file));
    let most = max_file * names.files.len() + most_encoded + MAX_OVERHEAD;
    let too_large = || file_too_large(max_file);
    let mut multipart = Multipart::new(body, boundary, most);
    let mut sent = ParsedBody::default();
    while let Some(Part { name, .. }) = multipart.next_part().await.map_err(|error| error.answered(too_large))? {
        let name_of = name.as_str();
        // Two are refused as two sources; of any number of tiny parts only the first are kept.
        if sent.files.iter().filter(|(kept, _)| *kept == name).count() == 2 {
            continue;
        }
        let share = memory.share();
        if names.files.contains(&name_of) {
            let bytes = read_file(&mut multipart, &share, max_file, too_large).await?;
            sent.files.push((name, share.hold(bytes.ok_or_else(too_large)?)));
        } else if names.base64 == Some(name_of) {
            let text = read_file(&mut multipart, &share, max_encoded(max_file), too_large).await?;
            let text = text.ok_or_else(too_large)?;
            let name_again = name.clone();
            let bytes = spawn_blocking(move || decode_base64(text.into(), &name_again, max_file)).await??;
            sent.files.push((name, share.hold(bytes)));
        } else if names.texts.contains(&name_of) {
            let text = read_value(&mut multipart, &name).await?;
            names.keep(&mut sent.texts, &name, &text)?;
        }
    }
    Ok(sent)
}

pub(super) fn parse_json(body: &[u8], names: Names) -> Result<Texts> {
    /// Collects the known members, and skips the others while parsing.
    struct Members(Names);

    impl<'de> Visitor<'de> for Members {
        type Value = Result<Texts>;

        fn expecting(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
            formatter.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
            let mut texts = Texts::new();
            while let Some(name) = members.next_key::<String>()? {
                let Scalar(text) = members.next_value()?;
                if let Err(refusal) = text.map_or(Ok(()), |text| self.0.keep(&mut texts, &name, &text)) {
                    return Ok(Err(refusal));
                }
            }
            Ok(Ok(texts))
        }
    }

    let malformed = |error| invalid_request("invalid_parameter", format!("malformed JSON: {error}"));
    let mut json = serde_json::Deserializer::from_slice(body);
    let texts = json.deserialize_map(Members(names)).map_err(malformed)??;
    json.end().map_err(malformed)?;
    Ok(texts)
}

/// A string, a number or a boolean as text; `None` for everything else.
struct Scalar(Option<String>);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl<'de> Visitor<'de> for Text {
            type Value = Option<String>;

            fn expecting(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
                formatter.write_str("any value")
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Some(text.to_owned()))
            }

            fn visit_bool<E>(self, yes: bool) -> Result<Self::Value, E> {
                Ok(Some(yes.to_string()))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
                Ok(Some(number.to_string()))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
                Ok(Some(number.to_string()))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
                Ok(Some(number.to_string()))
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(None)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Self::Value, A::Error> {
                while values.next_element::<IgnoredAny>()?.is_some() {}
                Ok(None)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
                while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(None)
            }
        }

        deserializer.deserialize_any(Text).map(Self)
    }
}

pub(super) fn parse_urlencoded(body: &[u8], names: Names) -> Result<Texts> {
    let mut texts = Texts::new();
    for (name, text) in url::form_urlencoded::parse(body) {
        names.keep(&mut texts, &name, &text)?;
    }
    Ok(texts)
}

/// `texts` with the files in base64 decoded.
pub(super) fn decoded(texts: Texts, names: Names, max_file: usize) -> Result<ParsedBody> {
    let mut sent = ParsedBody::default();
    for (name, text) in texts {
        if names.base64 == Some(name.as_str()) {
            let bytes = decode_base64(text.into(), &name, max_file)?;
            sent.files.push((name, bytes));
        } else {
            sent.texts.push((name, text));
        }
    }
    Ok(sent)
}

/// A file in base64, with or without padding, line breaks and the head of a `data:` URL.
fn decode_base64(mut text: Vec<u8>, name: &str, max_file: usize) -> Result<Bytes> {
    if let Some(comma) = text.iter().take(100).position(|byte| *byte == b',').filter(|_| text.starts_with(b"data:")) {
        text.drain(..=comma);
    }
    text.retain_mut(|byte| {
        // A form that was not escaped has blanks instead of plus signs.
        if *byte == b' ' {
            *byte = b'+';
        }
        !matches!(byte, b'\r' | b'\n' | b'\t')
    });
    let bytes = BASE64.decode(text);
    let bytes = bytes.map_err(|_| invalid_request("failed_to_read_image", format!("`{name}` is not base64")))?;
    if bytes.len() > max_file {
        return Err(file_too_large(max_file));
    }
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: Names = Names { texts: &["size", "crop"], files: &["image_file"], base64: Some("image_file_b64") };

    #[test]
    fn json_and_forms_become_texts_and_files_and_other_names_are_skipped() {
        let json = br#"{"size":"hd","crop":true,"scale":null,"other":[1],"image_file_b64":"YWI="}"#;
        let form = b"size=hd&crop=true&size=&other=1&image_file_b64=YWI%3D";
        for (texts, what) in [(parse_json(json, NAMES), "JSON"), (parse_urlencoded(form, NAMES), "a form")] {
            let mut sent = decoded(texts.expect("well formed"), NAMES, 10).expect("good");
            assert_eq!(
                (sent.text("size"), sent.text("crop"), sent.text("other")),
                (Some("hd"), Some("true"), None),
                "{what}"
            );
            assert_eq!(sent.take("image_file_b64"), [Bytes::from("ab")], "{what}");
            assert!(sent.take("image_file_b64").is_empty());
        }
        assert!([&b"[]"[..], b"{", b"{}x"].iter().all(|body| parse_json(body, NAMES).is_err()));
    }

    #[test]
    fn unknown_and_unset_values_are_not_kept() {
        let many = b"a&size=&size=hd&size=4k&".repeat(1000);
        let texts = parse_urlencoded(&many, NAMES).expect("well formed");
        assert_eq!(texts, [("size".to_owned(), "hd".to_owned())]);
        let nested = format!(r#"{{"x":[{}0],"crop":{{"a":[1]}},"size":1.5}}"#, "0,".repeat(1000));
        assert_eq!(parse_json(nested.as_bytes(), NAMES).expect("JSON"), [("size".to_owned(), "1.5".to_owned())]);
        let long = format!("size={}", "x".repeat(MAX_TEXT + 1));
        assert!(parse_urlencoded(long.as_bytes(), NAMES).is_err());
        for text in ["", "  ", "undefined", "null"] {
            let sent = ParsedBody { texts: vec![("crop".into(), text.into())], files: Vec::new() };
            assert_eq!(sent.text("crop"), None, "{text:?}");
        }
    }

    #[test]
    fn base64_is_read_as_clients_write_it() {
        for text in ["+/8=", "+/8", "data:image/png;base64,+/8=", "+/\r\n8=\r\n", " /8="] {
            assert_eq!(decode_base64(text.into(), "x", 10).expect(text), [0xfb, 0xff][..], "{text}");
        }
        assert!(decode_base64(b"?".into(), "x", 10).is_err());
        assert!(decode_base64(b"YWJj".into(), "x", 2).is_err(), "three bytes");
    }
}
