//! Keys that a URL cannot name, made bearable in a listing.
//!
//! S3 takes `a//b.jpg`, `../a.jpg` and a key with a line break; a request for one is normalised to another key on its
//! way, and `object_store` ends a whole listing at the first of them. So a listing's answer is looked through before it
//! is parsed, and such a key is written as [`MARK`] and its bytes in hexadecimal: it is seen, can be told, and stops
//! nothing.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body_util::BodyExt;
use memchr::memmem;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpResponseBody, HttpService, ReqwestConnector,
};
use object_store::path::Path;

/// In the area for private use: no key that people make begins with it.
const MARK: char = '\u{f8ff}';

/// A key, or name, that cannot be addressed, as a location that can be listed.
pub(super) fn marked(key: &[u8]) -> String {
    let mut text = String::from(MARK);
    text.extend(key.iter().map(|byte| format!("{byte:02x}")));
    text
}

/// The key behind a listed location, when it is one that cannot be asked for.
#[must_use]
pub fn unaddressable(location: &Path) -> Option<String> {
    let marked = location.as_ref().rsplit('/').next()?;
    let digits = marked.strip_prefix(MARK)?;
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes = digits.as_bytes().chunks(2).map(byte).collect::<Option<Vec<u8>>>()?;
    let key = String::from_utf8_lossy(&bytes).into_owned();
    let folder = location.as_ref().strip_suffix(marked)?;
    Some(format!("{folder}{key}"))
}

/// Whether a request for this key would ask for this key.
fn is_addressable(key: &str) -> bool {
    key.split('/').all(|segment| !matches!(segment, "" | "." | "..")) && !key.chars().any(|c| c.is_ascii_control())
}

/// Connects as usual and looks through listings.
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
            let lists = query.split('&').any(|pair| matches!(pair, "list-type=2" | "comp=list"));
            let response = self.0.execute(request).await?;
            if !lists || !response.status().is_success() {
                return Ok(response);
            }
            let (mut parts, body) = response.into_parts();
            let answer = body.collect().await?.to_bytes();
            parts.headers.remove(http::header::CONTENT_LENGTH);
            Ok(HttpResponse::from_parts(parts, HttpResponseBody::from(looked_through(answer))))
        })
    }
}

/// A listing in which every key can be parsed.
fn looked_through(answer: Bytes) -> Bytes {
    // S3 and GCS say `Key`, Azure says `Name`.
    let answer = with_tag(answer, "<Key>", "</Key>");
    with_tag(answer, "<Name>", "</Name>")
}

fn with_tag(answer: Bytes, open: &str, close: &str) -> Bytes {
    let mut changed: Option<Vec<u8>> = None;
    let mut copied = 0;
    for at in memmem::find_iter(&answer, open) {
        let start = at + open.len();
        let Some(length) = memmem::find(&answer[start..], close.as_bytes()) else { break };
        let Some(key) = std::str::from_utf8(&answer[start..start + length]).ok().map(unescaped) else { continue };
        if is_addressable(&key) {
            continue;
        }
        let text = changed.get_or_insert_default();
        text.extend_from_slice(&answer[copied..start]);
        text.extend_from_slice(marked(key.as_bytes()).as_bytes());
        copied = start + length;
    }
    match changed {
        None => answer,
        Some(mut text) => {
            text.extend_from_slice(&answer[copied..]);
            text.into()
        }
    }
}

/// The text that XML stands for.
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let (name, after) = rest[1..].split_once(';').unwrap_or(("", &rest[1..]));
        let number = |digits: &str, radix| u32::from_str_radix(digits, radix).ok().and_then(char::from_u32);
        let meant = match name {
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
        match meant {
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
    fn a_listing_keeps_every_key_that_can_be_asked_for_and_marks_the_others() {
        let listing = |keys: &[&str]| {
            let rows: String =
                keys.iter().map(|key| format!("<Contents><Key>{key}</Key><Size>1</Size></Contents>")).collect();
            Bytes::from(format!("<ListBucketResult><Name>shop</Name>{rows}</ListBucketResult>"))
        };
        let good = listing(&["a b.jpg", "ü/&amp;.jpg", "a..b/..c", "...", "%2E%2E/x", "a&lt;b"]);
        assert_eq!(looked_through(good.clone()), good);
        for (written, key) in [
            ("../x.jpg", "../x.jpg"),
            ("a//b.jpg", "a//b.jpg"),
            ("/a.jpg", "/a.jpg"),
            ("folder/", "folder/"),
            ("a/./b", "a/./b"),
            ("a&#10;b&amp;c.jpg", "a\nb&c.jpg"),
            ("&#x1;", "\u{1}"),
        ] {
            let seen = looked_through(listing(&["first", written, "last"]));
            assert_eq!(seen, listing(&["first", &marked(key.as_bytes()), "last"]));
            let location = Path::parse(marked(key.as_bytes())).unwrap();
            assert_eq!(unaddressable(&location).as_deref(), Some(key));
        }
    }

    #[test]
    fn a_name_that_is_not_unicode_is_told_with_its_folder() {
        let location = Path::parse(format!("a/b/{}", marked(b"x\xff.jpg"))).unwrap();
        assert_eq!(unaddressable(&location).as_deref(), Some("a/b/x\u{fffd}.jpg"));
        assert_eq!(unaddressable(&Path::from("a/b.jpg")), None);
    }

    #[test]
    fn text_that_is_no_xml_survives() {
        for text in ["a & b", "&", "&&amp;", "&unknown;", "&#xZZ;", "&#1114112;"] {
            assert!(unescaped(text).contains('&'), "{text}");
        }
        assert_eq!(looked_through(Bytes::from_static(b"<Key>a//b")), Bytes::from_static(b"<Key>a//b"));
    }
}
