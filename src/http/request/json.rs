//! Reads a small body, JSON or a form in the encoding of URLs, as an object of fields, each at most once.

use super::body::{RequestBody, media_type, read_within, require_uncompressed, unsupported};
use super::input_names::{URLS, canonical};
use crate::http::reply::{ApiError, ErrorCode, Result};
use crate::recipe::{Field, FieldError, Fields};
use hyper::header::HeaderMap;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use std::fmt;
use std::marker::PhantomData;

/// The largest body without a picture; ten URLs of the greatest length are a third of it.
pub(crate) const MAX_BODY: usize = 64 * 1024;

/// The members of a JSON object, in order, repeated ones kept.
#[derive(Debug, Deserialize)]
pub(crate) struct Object(#[serde(deserialize_with = "members")] Vec<(String, Value)>);

/// Reads an object as its members, in order, repeated ones kept.
pub(crate) fn members<'de, V: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Vec<(String, V)>, D::Error> {
    struct Members<V>(PhantomData<V>);

    impl<'de, V: Deserialize<'de>> Visitor<'de> for Members<V> {
        type Value = Vec<(String, V)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            std::iter::from_fn(|| map.next_entry().transpose()).collect()
        }
    }

    from.deserialize_map(Members(PhantomData))
}

/// How an object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    /// `application/json`.
    Json,
    /// `application/x-www-form-urlencoded`, as HTML forms and `curl -d` send it.
    Form,
}

/// The syntax of an uncompressed body; a body of another media type is refused (415).
pub(crate) fn syntax(headers: &HeaderMap) -> Result<Syntax> {
    require_uncompressed(headers)?;
    match &*media_type(headers) {
        "application/json" => Ok(Syntax::Json),
        "application/x-www-form-urlencoded" => Ok(Syntax::Form),
        _ => Err(unsupported("the request body must be application/json")),
    }
}

/// Reads the whole body.
pub(crate) async fn read(headers: &HeaderMap, body: &mut RequestBody) -> Result<Object> {
    let syntax = syntax(headers)?;
    let bytes = read_within(body, MAX_BODY, |_| Ok(())).await?.ok_or_else(too_large)?;
    match syntax {
        Syntax::Json => parse(&bytes),
        Syntax::Form => Ok(Object::of_form(&bytes)),
    }
}

/// Reads an object.
pub(crate) fn parse(bytes: &[u8]) -> Result<Object> {
    let malformed = |error: serde_json::Error| format!("malformed JSON: {error}");
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    serde_json::from_slice(bytes).map_err(|error| ApiError::new(ErrorCode::InvalidParameter, malformed(error)))
}

/// Whether a member counts as not sent: `null` or a blank string.
pub(crate) fn is_absent(value: &Value) -> bool {
    value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty())
}

/// The text of a member, without blanks around it.
pub(crate) fn text(name: &str, value: &Value, expected: &str) -> Result<String, FieldError> {
    let text = value.as_str().map(|text| text.trim().to_owned());
    text.ok_or_else(|| FieldError::invalid(name, &value.to_string(), expected))
}

/// The members of a member that is an object.
pub(crate) fn object(name: &str, value: Value) -> Result<Map<String, Value>, FieldError> {
    let Value::Object(members) = value else {
        return Err(FieldError::invalid(name, &value.to_string(), "an object"));
    };
    Ok(members)
}

/// 413.
pub(crate) fn too_large() -> ApiError {
    let message = format!("the request body has more than {MAX_BODY} bytes");
    ApiError::new(ErrorCode::PayloadTooLarge, message)
}

impl Object {
    /// The fields of a form, as texts; the addresses of a batch, as an array.
    pub(crate) fn of_form(bytes: &[u8]) -> Self {
        let mut members = Vec::<(String, Value)>::new();
        for (name, value) in url::form_urlencoded::parse(bytes) {
            let value = Value::from(value);
            match members.iter_mut().find(|(earlier, _)| earlier == URLS) {
                Some((_, Value::Array(urls))) if canonical(&name) == URLS => urls.push(value),
                _ if canonical(&name) == URLS => members.push((URLS.to_owned(), Value::Array(vec![value]))),
                _ => members.push((name.into_owned(), value)),
            }
        }
        Self(members)
    }

    /// The text of a member, taken out of it.
    pub(crate) fn take_text(&mut self, name: &str) -> Option<String> {
        let (_, value) = self.0.iter_mut().find(|(member, _)| member == name)?;
        match value {
            Value::String(text) => Some(std::mem::take(text)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// Its members, where no name is repeated.
    pub(crate) fn unique(self) -> Result<Vec<(String, Value)>, FieldError> {
        for (index, (name, _)) in self.0.iter().enumerate() {
            if self.0[..index].iter().any(|(earlier, _)| earlier == name) {
                return Err(FieldError::Repeated { param: name.clone() });
            }
        }
        Ok(self.0)
    }

    /// The fields of a table, and the members under `other_names`. `null` and blank strings count as not sent.
    pub(crate) fn split<const OTHERS: usize>(
        self,
        table: &[Field],
        other_names: [&str; OTHERS],
    ) -> Result<(Fields, [Option<Value>; OTHERS]), FieldError> {
        let (mut fields, mut others) = (Fields::default(), [const { None }; OTHERS]);
        for (sent, value) in self.0 {
            let name = canonical(&sent);
            let is_absent = is_absent(&value);
            if let Some(at) = other_names.iter().position(|other| *other == name) {
                if !is_absent && others[at].replace(value).is_some() {
                    return Err(FieldError::Repeated { param: name.to_owned() });
                }
                continue;
            }
            let Some(field) = table.iter().find(|field| field.name == name) else {
                return Err(FieldError::unknown(&sent, table.iter().map(|field| field.name).chain(other_names)));
            };
            match field.kind.text_of(&value) {
                _ if is_absent => {}
                Some(text) => fields.push(name, &text)?,
                None => return Err(FieldError::invalid(name, &value.to_string(), field.kind.expected())),
            }
        }
        Ok((fields, others))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::ENDPOINTS;

    fn split(json: &str) -> Result<(Fields, Option<Value>), FieldError> {
        let endpoint = ENDPOINTS.iter().find(|endpoint| endpoint.path == "/remove-url").expect("it is there");
        let split = serde_json::from_str::<Object>(json).expect("an object").split(&endpoint.fields, ["url"]);
        split.map(|(fields, [url])| (fields, url))
    }

    #[test]
    fn a_form_is_an_object_of_texts_and_a_batch_of_addresses_an_array() {
        let members = |form: &str| Object::of_form(form.as_bytes()).0;
        assert_eq!(
            members("url=https%3A%2F%2Fa%2Fb+c&width=50"),
            [("url".into(), "https://a/b c".into()), ("width".into(), "50".into())]
        );
        for form in ["urls[]=a&edge=hard&urls%5B%5D=b", "urls=a&edge=hard&urls[1]=b"] {
            assert_eq!(members(form), [("urls".into(), serde_json::json!(["a", "b"])), ("edge".into(), "hard".into())]);
        }
        assert!(members("").is_empty());
    }

    #[test]
    fn a_byte_order_mark_is_skipped() {
        assert_eq!(parse(b"\xef\xbb\xbf{\"a\":1}").expect("an object").0, [("a".into(), 1.into())]);
    }

    #[test]
    fn members_become_fields_in_the_type_of_each() {
        let (fields, url) =
            split(r#"{"width":100,"url":"https://a/","keep_alpha":false,"despill":12.5,"max_dim":" 5 "}"#)
                .expect("valid");
        assert_eq!(url, Some(Value::from("https://a/")));
        let fields: Vec<_> = fields.iter().collect();
        assert_eq!(fields, [("width", "100"), ("keep_alpha", "false"), ("despill", "12.5"), ("max_dim", "5")]);
    }

    #[test]
    fn null_and_a_blank_string_count_as_not_sent() {
        let json =
            r#"{"url":null,"width":null,"edge":"","format":" ","image_url":"https://a/","edge":"hard","edge":null}"#;
        let (fields, url) = split(json).expect("valid");
        assert_eq!(url, Some(Value::from("https://a/")), "by its alias");
        assert_eq!(fields.iter().collect::<Vec<_>>(), [("edge", "hard")]);
    }

    #[test]
    fn a_member_of_another_type_or_name_or_twice_is_refused_by_name() {
        for (json, param) in [
            (r#"{"width":["100"]}"#, "width"),
            (r#"{"width":true}"#, "width"),
            (r#"{"edge":5}"#, "edge"),
            (r#"{"edge":["soft"]}"#, "edge"),
            (r#"{"keep_alpha":{}}"#, "keep_alpha"),
            (r#"{"egde":"soft"}"#, "egde"),
            (r#"{"egde":null}"#, "egde"),
            (r#"{"image":"a"}"#, "image"),
            (r#"{"url":"a","image_url":"a"}"#, "url"),
            (r#"{"edge":"soft","edge":"soft"}"#, "edge"),
            (r#"{"url":"a","url":"a"}"#, "url"),
        ] {
            assert_eq!(split(json).expect_err(json).param(), param, "{json}");
        }
        assert!(serde_json::from_str::<Object>("[]").is_err());
    }
}
