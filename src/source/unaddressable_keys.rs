//! Escapes object keys that a URL cannot name, so that they do not abort a listing.
//!
//! S3 accepts `a//b.jpg`, `../a.jpg` and a key with a line break. A request for such a key is normalised to another key
//! on its way, and `object_store` ends a whole listing at the first one. Listing responses are therefore rewritten
//! before they are parsed: such a key becomes [`MARK`] and its bytes in hexadecimal, and can be listed and reported.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body_util::BodyExt;
use memchr::memmem;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpResponseBody, HttpService, ReqwestConnector,
};
use object_store::path::Path;

/// A private-use character; no ordinary key begins with it.
const MARK: char = '\u{f8ff}';

/// Escapes a key or file name that cannot be addressed.
pub(super) fn encode_unaddressable(key: &[u8]) -> String {
    let mut text = String::from(MARK);
    text.extend(key.iter().map(|byte| format!("{byte:02x}")));
    text
}

/// The original key of a listed location; `None` if it was not escaped.
#[must_use]
pub fn decode_unaddressable(location: &Path) -> Option<String> {
    let segment = location.as_ref().rsplit('/').next()?;
    let digits = segment.strip_prefix(MARK)?;
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes = digits.as_bytes().chunks(2).map(byte).collect::<Option<Vec<u8>>>()?;
    let key = String::from_utf8_lossy(&bytes).into_owned();
    let folder = location.as_ref().strip_suffix(segment)?;
    Some(format!("{folder}{key}"))
}

/// Whether a request for this key reaches this key.
fn is_addressable(key: &str) -> bool {
    key.split('/').all(|segment| !matches!(segment, "" | "." | "..")) && !key.chars().any(|c| c.is_ascii_control())
}

/// object_store's HTTP connector, with listing responses rewritten.
#[derive(Debug)]
pub(super) struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Service(ReqwestConnector::default().connect(options)?)))
    }
}

#[derive(Debug)]
struct Service(HttpClient);

impl HttpService for Service {
    fn call<'life0, 'async_trait>(
        &'life0 self,
        request: HttpRequest,
    ) -> BoxFuture<'async_trait, Result<HttpResponse, HttpError>>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async move {
            let query = request.uri().query().unwrap_or_default();
            let is_listing = query.split('&').any(|pair| matches!(pair, "list-type=2" | "comp=list"));
            let response = self.0.execute(request).await?;
            if !is_listing || !response.status().is_success() {
                return Ok(response);
            }
            let (mut parts, body) = response.into_parts();
            let listing = body.collect().await?.to_bytes();
            parts.headers.remove(http::header::CONTENT_LENGTH);
            Ok(HttpResponse::from_parts(parts, HttpResponseBody::from(escape_keys(listing))))
        })
    }
}

/// Escapes every unaddressable key of a listing.
fn escape_keys(listing: Bytes) -> Bytes {
    // The element is `Key` in S3 and GCS, `Name` in Azure.
    let listing = escape_elements(listing, "<Key>", "</Key>");
    escape_elements(listing, "<Name>", "</Name>")
}

fn escape_elements(listing: Bytes, open: &str, close: &str) -> Bytes {
    let mut changed: Option<Vec<u8>> = None;
    let mut copied = 0;
    for at in memmem::find_iter(&listing, open) {
        let start = at + open.len();
        let Some(length) = memmem::find(&listing[start..], close.as_bytes()) else { break };
        let Some(key) = std::str::from_utf8(&listing[start..start + length]).ok().map(unescape_xml) else { continue };
        if is_addressable(&key) {
            continue;
        }
        let text = changed.get_or_insert_default();
        text.extend_from_slice(&listing[copied..start]);
        text.extend_from_slice(encode_unaddressable(key.as_bytes()).as_bytes());
        copied = start + length;
    }
    match changed {
        None => listing,
        Some(mut text) => {
            text.extend_from_slice(&listing[copied..]);
            text.into()
        }
    }
}

fn unescape_xml(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let (name, after) = rest[1..].split_once(';').unwrap_or(("", &rest[1..]));
        let number = |digits: &str, radix| u32::from_str_radix(digits, radix).ok().and_then(char::from_u32);
        let character = match name {
            "amp" => Some('&'),
            "lt" => Some('<'),
            "gt" => Some('>'),
            "quot" => Some('"'),
            "apos" => Some('\''),
            other => match (other.strip_prefix("#x"), other.strip_prefix('#')) {
                (Some(digits), _) => number(digits, 16),
                (None, Some(digits)) => number(digits, 10),
                (None, None) => None,
            },
        };
        match character {
            Some(c) => {
                plain.push(c);
                rest = after;
            }
            None => {
                plain.push('&');
                rest = &rest[1..];
            }
        }
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addressable_keys_are_kept_and_others_are_escaped() {
        let listing = |keys: &[&str]| {
            let rows: String =
                keys.iter().map(|key| format!("<Contents><Key>{key}</Key><Size>1</Size></Contents>")).collect();
            Bytes::from(format!("<ListBucketResult><Name>shop</Name>{rows}</ListBucketResult>"))
        };
        let good = listing(&["a b.jpg", "ü/&amp;.jpg", "a..b/..c", "...", "%2E%2E/x", "a&lt;b"]);
        assert_eq!(escape_keys(good.clone()), good);
        for (written, key) in [
            ("../x.jpg", "../x.jpg"),
            ("a//b.jpg", "a//b.jpg"),
            ("/a.jpg", "/a.jpg"),
            ("folder/", "folder/"),
            ("a/./b", "a/./b"),
            ("a&#10;b&amp;c.jpg", "a\nb&c.jpg"),
            ("&#x1;", "\u{1}"),
        ] {
            let escaped = escape_keys(listing(&["first", written, "last"]));
            assert_eq!(escaped, listing(&["first", &encode_unaddressable(key.as_bytes()), "last"]));
            let location = Path::parse(encode_unaddressable(key.as_bytes())).unwrap();
            assert_eq!(decode_unaddressable(&location).as_deref(), Some(key));
        }
    }

    #[test]
    fn a_name_that_is_not_unicode_is_decoded_with_its_folder() {
        let location = Path::parse(format!("a/b/{}", encode_unaddressable(b"x\xff.jpg"))).unwrap();
        assert_eq!(decode_unaddressable(&location).as_deref(), Some("a/b/x\u{fffd}.jpg"));
        assert_eq!(decode_unaddressable(&Path::from("a/b.jpg")), None);
    }

    #[test]
    fn invalid_xml_is_left_unchanged() {
        for text in ["a & b", "&", "&&amp;", "&unknown;", "&#xZZ;", "&#1114112;"] {
            assert!(unescape_xml(text).contains('&'), "{text}");
        }
        assert_eq!(escape_keys(Bytes::from_static(b"<Key>a//b")), Bytes::from_static(b"<Key>a//b"));
    }
}
