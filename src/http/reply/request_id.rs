//! The id of a request in its reply and in the log: the caller's `x-request-id`, or a random one.

use super::REQUEST_ID;
use hyper::header::{HeaderMap, HeaderValue};
use rand::Rng;
use rand::distr::Alphanumeric;

/// The longest id that is accepted from a caller.
const MAX_LENGTH: usize = 128;

/// The caller's own `x-request-id` if it is valid (1 to 128 visible ASCII characters), else a random one.
pub(crate) fn from_headers(headers: &HeaderMap) -> String {
    let is_valid = |value: &HeaderValue| {
        let bytes = value.as_bytes();
        (1..=MAX_LENGTH).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic)
    };
    match headers.get(REQUEST_ID).filter(|value| is_valid(value)).and_then(|value| value.to_str().ok()) {
        Some(own) => own.to_owned(),
        None => random_id(),
    }
}

/// `req_` and 20 random characters (119 bits).
fn random_id() -> String {
    let random = rand::rng().sample_iter(Alphanumeric).take(20).map(char::from);
    "req_".chars().chain(random).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_value(value: &[u8]) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(REQUEST_ID, HeaderValue::from_bytes(value).expect("a header value"));
        from_headers(&headers)
    }

    #[test]
    fn an_id_that_is_empty_long_or_not_visible_ascii_is_replaced() {
        for own in ["a", "req-42", &"x".repeat(MAX_LENGTH), "~!\"{}"] {
            assert_eq!(of_value(own.as_bytes()), own);
        }
        for own in [b"".as_slice(), b"a b", "é".as_bytes(), "x".repeat(MAX_LENGTH + 1).as_bytes()] {
            assert!(of_value(own).starts_with("req_"), "{own:?}");
        }
        assert_ne!(from_headers(&HeaderMap::new()), from_headers(&HeaderMap::new()));
    }
}
