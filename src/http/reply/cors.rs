//! CORS (Fetch standard): which web pages may call the API from a browser.
//!
//! Off unless `server.cors_origins` names origins. A page gets no more access than other clients: it sends the API key
//! itself, and cookies or client certificates ("credentials") are never allowed.

use crate::http::reply::{self, ApiError, ErrorCode, Reply, Result};
use hyper::header::{
    ACCEPT_RANGES, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ALLOW, CONTENT_DISPOSITION,
    CONTENT_RANGE, ETAG, HeaderMap, HeaderName, HeaderValue, LOCATION, ORIGIN, RETRY_AFTER, VARY, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, StatusCode};
use url::Url;

/// Matches every origin.
const ANY: &str = "*";

/// Request headers that a page may send, in addition to the standard's. `*` would not cover `Authorization`.
/// `if-range` and `range` continue an interrupted download.
const REQUEST_HEADERS: HeaderValue = HeaderValue::from_static(
    "authorization, content-type, idempotency-key, if-range, range, x-api-key, x-request-id, x-service-model",
);

/// Seconds for which a browser may cache a preflight; the maximum of Chromium.
const MAX_AGE: HeaderValue = HeaderValue::from_static("7200");

/// Headers of replies that a page may read, in addition to `x-` headers and the standard's (`Content-Type`).
const EXPOSED: [HeaderName; 9] = [
    ALLOW,
    RETRY_AFTER,
    WWW_AUTHENTICATE,
    LOCATION,
    ACCEPT_RANGES,
    CONTENT_DISPOSITION,
    CONTENT_RANGE,
    ETAG,
    HeaderName::from_static("server-timing"),
];

/// The CORS headers of the reply to one request.
#[derive(Debug)]
pub(crate) struct Cors {
    /// The origin whose pages may read the reply.
    allowed: Option<HeaderValue>,
    /// Whether the reply depends on the origin.
    varies: bool,
    preflight: bool,
}

impl Cors {
    /// `None` where no origin is configured.
    pub(crate) fn for_request(origins: &[String], method: &Method, headers: &HeaderMap) -> Option<Self> {
        if origins.is_empty() {
            return None;
        }
        let preflight = *method == Method::OPTIONS && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        if origins.iter().any(|origin| origin == ANY) {
            return Some(Self { allowed: Some(HeaderValue::from_static(ANY)), varies: false, preflight });
        }
        let mut sent = headers.get_all(ORIGIN).iter();
        let allowed = match (sent.next(), sent.next()) {
            (Some(one), None) => origins.iter().any(|origin| origin.as_bytes() == one.as_bytes()).then(|| one.clone()),
            (Some(_) | None, _) => None,
        };
        Some(Self { allowed, varies: true, preflight })
    }

    /// Whether the page that sends the request has one of the configured origins.
    pub(crate) const fn is_allowed(&self) -> bool {
        self.allowed.is_some()
    }

    /// The reply to a preflight, made from the 405 that `OPTIONS` gets on every path, which lists the methods. An unknown path
    /// and an origin that is not allowed keep the refusal.
    pub(crate) fn preflight(&self, refusal: ApiError) -> Result<Reply> {
        if !self.preflight || !self.is_allowed() || refusal.code != ErrorCode::MethodNotAllowed {
            return Err(refusal);
        }
        let methods = refusal.into_reply("").headers_mut().remove(ALLOW);
        let mut reply = reply::empty(StatusCode::NO_CONTENT);
        let headers = reply.headers_mut();
        headers.extend(methods.map(|methods| (ACCESS_CONTROL_ALLOW_METHODS, methods)));
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS);
        headers.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
        Ok(reply)
    }

    /// Adds the headers to a reply that is complete otherwise.
    pub(crate) fn write_headers(&self, headers: &mut HeaderMap) {
        if self.varies {
            headers.append(VARY, HeaderValue::from_static("Origin"));
        }
        let Some(allowed) = &self.allowed else { return };
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, allowed.clone());
        if self.preflight {
            return;
        }
        let is_ours = |name: &HeaderName| name.as_str().starts_with("x-") && name != X_CONTENT_TYPE_OPTIONS;
        let exposed: Vec<_> = headers.keys().filter(|name| is_ours(name) || EXPOSED.contains(name)).collect();
        let exposed = exposed.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
        if let Ok(exposed) = HeaderValue::from_str(&exposed) {
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
        }
    }
}

/// Whether `origin` has the form in which browsers send it, or is `*`.
pub(crate) fn is_origin(origin: &str) -> bool {
    if origin == ANY {
        return true;
    }
    match Url::parse(origin).ok().map(|url| url.origin()) {
        // The URL standard accepts `*` in a host, but no page has such an origin.
        Some(known) if known.is_tuple() => known.ascii_serialization() == origin && !origin.contains('*'),
        // Apps and extensions: a scheme outside of the standard, and a host.
        Some(_) => origin.split_once("://").is_some_and(|(scheme, host)| {
            let plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || b"+-.:[]".contains(&c);
            scheme != "file" && !host.is_empty() && host.bytes().all(plain)
        }),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_has_the_form_that_browsers_send() {
        let good = ["*", "https://example.org", "http://localhost:3000", "https://[::1]:8443", "capacitor://localhost"];
        for origin in good {
            assert!(is_origin(origin), "{origin}");
        }
        let refused = "null example.org https://example.org/ https://example.org:443 https://Example.org https://*.example.org \
            https://example.org/page https://me@example.org https://bücher.example file:///home data:,x app://host/path";
        for origin in refused.split_whitespace().chain([""]) {
            assert!(!is_origin(origin), "{origin}");
        }
    }

    fn allowed(origins: &[&str], sent: &[&str]) -> Option<HeaderValue> {
        let mut headers = HeaderMap::new();
        for origin in sent {
            headers.append(ORIGIN, HeaderValue::from_str(origin).expect("a header value"));
        }
        let origins: Vec<_> = origins.iter().map(|&origin| origin.to_owned()).collect();
        Cors::for_request(&origins, &Method::POST, &headers).expect("it is on").allowed
    }

    #[test]
    fn origins_are_compared_exactly() {
        let ours = ["https://example.org", "http://localhost:3000"];
        for origin in ours {
            assert_eq!(allowed(&ours, &[origin]).expect("allowed"), origin);
        }
        let others = "null http://example.org https://example.org:8443 https://example.org.evil https://EXAMPLE.org";
        for origin in others.split(' ').chain([""]) {
            assert_eq!(allowed(&ours, &[origin]), None, "{origin}");
        }
        assert_eq!(allowed(&ours, &[ours[0], ours[1]]), None, "two origins are ambiguous");
        assert_eq!(allowed(&ours, &[]), None);
        assert_eq!(allowed(&["*"], &["https://any.example"]).expect("allowed"), "*", "never the page's own origin");
        assert!(Cors::for_request(&[], &Method::POST, &HeaderMap::new()).is_none());
    }
}
