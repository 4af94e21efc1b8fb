//! Checks a request's head, in addition to hyper: `Host`, `Transfer-Encoding`, size (RFC 9112, sections 3.2 and 6.1).
//!
//! A proxy and this server must not read one message differently (request smuggling): neither its host (no `Host`, or two)
//! nor the end of its body (codings other than `chunked`). The size of HTTP/2 heads is checked here too, because h2 refuses heads
//! above its limit by an empty 431.

use crate::http::connection::head_refusal::{MAX_HEAD, too_large};
use crate::http::reply::{ApiError, ErrorCode, Result};
use hyper::header::{HOST, HeaderMap, HeaderValue, TRANSFER_ENCODING};
use hyper::http::uri::Authority;
use hyper::{Uri, Version};

/// The size of an HTTP/2 field in addition to its name and value (RFC 9113, section 10.5.1).
const FIELD_OVERHEAD: usize = 32;

/// Refuses a head that is too large or ambiguous. The connection is closed after an ambiguous one.
pub(crate) fn check(version: Version, target: &Uri, headers: &HeaderMap) -> Result<()> {
    // Larger HTTP/1 heads do not fit into the connection's buffer and are refused by hyper.
    if version == Version::HTTP_2 && size(target, headers) > MAX_HEAD as usize {
        return Err(too_large());
    }
    let refuse =
        |message: &str, header: &str| Err(ApiError::new(ErrorCode::InvalidParameter, message).param(header).closing());
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) if version == Version::HTTP_11 => return refuse("a request has one Host header", "Host"),
        (Some(_), Some(_)) => return refuse("a request has one Host header", "Host"),
        (Some(host), None) if !is_host(host) => return refuse("the Host header is not a host", "Host"),
        (None | Some(_), _) => {}
    }
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => Ok(()),
        (Some(coding), None) if coding.as_bytes().eq_ignore_ascii_case(b"chunked") => Ok(()),
        (Some(_), _) => refuse("the only transfer coding is chunked, once", "Transfer-Encoding"),
    }
}

/// The size of a head as defined by HTTP/2.
fn size(target: &Uri, headers: &HeaderMap) -> usize {
    let authority = target.authority().map_or(0, |authority| authority.as_str().len());
    let path = target.path_and_query().map_or(0, |path| path.as_str().len());
    let fields = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + FIELD_OVERHEAD);
    authority + path + fields.sum::<usize>()
}

/// Whether a value is a host with an optional port, or empty, for a target without a host.
fn is_host(value: &HeaderValue) -> bool {
    let value = value.as_bytes();
    value.is_empty() || (!value.contains(&b'@') && Authority::try_from(value).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderName;

    fn is_taken(version: Version, lines: &[(HeaderName, &str)]) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(name, HeaderValue::from_str(value).expect("a header value"));
        }
        check(version, &Uri::from_static("/remove"), &headers).is_ok()
    }

    #[test]
    fn a_head_of_http2_is_limited_in_size() {
        let least = "/remove".len() + FIELD_OVERHEAD + "x-padding".len();
        for (length, taken) in [(1, true), (MAX_HEAD as usize - least, true), (MAX_HEAD as usize - least + 1, false)] {
            let lines = [(HeaderName::from_static("x-padding"), &*"x".repeat(length))];
            assert_eq!(is_taken(Version::HTTP_2, &lines), taken, "{length}");
        }
        let target = format!("/{}", "x".repeat(50_000)).parse().expect("a target");
        let mut headers = HeaderMap::new();
        assert!(check(Version::HTTP_2, &target, &headers).is_ok());
        headers.insert("x-padding", "x".repeat(16_000).parse().expect("a header value"));
        let refused = check(Version::HTTP_2, &target, &headers).expect_err("together they are too large");
        assert_eq!(refused.code, ErrorCode::HeadersTooLarge);
    }

    #[test]
    fn a_request_has_one_host() {
        for good in ["example.org", "example.org:80", "192.0.2.1:8080", "[2001:db8::1]:80", "x", ""] {
            assert!(is_taken(Version::HTTP_11, &[(HOST, good)]), "{good:?}");
        }
        for bad in ["a b", "http://example.org", "user@example.org", "example.org/", "example.org:80:80"] {
            assert!(!is_taken(Version::HTTP_11, &[(HOST, bad)]), "{bad:?}");
        }
        assert!(!is_taken(Version::HTTP_11, &[]));
        for version in [Version::HTTP_10, Version::HTTP_11, Version::HTTP_2] {
            assert!(!is_taken(version, &[(HOST, "a"), (HOST, "a")]), "{version:?}");
        }
        assert!(is_taken(Version::HTTP_10, &[]) && is_taken(Version::HTTP_2, &[]));
    }

    #[test]
    fn the_only_transfer_coding_is_chunked() {
        // `/` separates the values of two fields.
        let codings = |values: &str| {
            let lines = values.split('/').map(|value| (TRANSFER_ENCODING, value));
            is_taken(Version::HTTP_11, &[(HOST, "x")].into_iter().chain(lines).collect::<Vec<_>>())
        };
        assert!(codings("chunked") && codings("Chunked"));
        let twice = ["gzip/chunked", "chunked/chunked", "gzip, chunked", "chunked, chunked"];
        for bad in twice.into_iter().chain(["chunked, identity", ", chunked", "xchunked", ""]) {
            assert!(!codings(bad), "{bad:?}");
        }
    }
}
