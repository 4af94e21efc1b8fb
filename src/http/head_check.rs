//! Checks of a request's head that the HTTP library leaves to us (RFC 9112, sections 3.2 and 6.1).
//!
//! A proxy before us and we must not take one message for two different ones: neither by whom it is for (no `Host`, or
//! two) nor by where its body ends (codings beside `chunked`).

use super::error::{ApiError, ErrorCode};
use hyper::Version;
use hyper::header::{HOST, HeaderMap, HeaderValue, TRANSFER_ENCODING};
use hyper::http::uri::Authority;

/// Refuses a head that two readers could read differently. The connection is of no use any more.
pub(super) fn check(version: Version, headers: &HeaderMap) -> Result<(), ApiError> {
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

/// Whether a value is a host with an optional port. It may be empty, for a target without a host.
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
        check(version, &headers).is_ok()
    }

    #[test]
    fn a_request_names_its_host_once() {
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
        let codings = |codings: &[&str]| {
            let lines = codings.iter().map(|coding| (TRANSFER_ENCODING, *coding));
            is_taken(Version::HTTP_11, &[(HOST, "x")].into_iter().chain(lines).collect::<Vec<_>>())
        };
        assert!(codings(&[]) && codings(&["chunked"]) && codings(&["Chunked"]));
        for bad in [
            &["gzip, chunked"][..],
            &["gzip", "chunked"],
            &["chunked, chunked"],
            &["chunked", "chunked"],
            &["chunked, identity"],
            &[", chunked"],
            &["xchunked"],
            &[""],
        ] {
            assert!(!codings(bad), "{bad:?}");
        }
    }
}
