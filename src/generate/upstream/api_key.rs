//! API key of an image API: sent in one header, redacted in everything printed or logged.

use http::HeaderValue;
use std::fmt;

/// An API key. `Debug` redacts it, and its header is marked as sensitive.
pub(super) struct ApiKey {
    text: String,
    header: HeaderValue,
}

impl ApiKey {
    /// The key `text`; `None` when empty or invalid in a header.
    pub(super) fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        let mut header = HeaderValue::from_str(&format!("Bearer {text}")).ok().filter(|_| !text.is_empty())?;
        header.set_sensitive(true);
        Some(Self { text: text.to_owned(), header })
    }

    /// The value of `Authorization`.
    pub(super) fn header(&self) -> HeaderValue {
        self.header.clone()
    }

    /// `text` without the key: a response may echo the request.
    pub(super) fn redact(&self, text: &str) -> String {
        text.replace(&self.text, "***")
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_redacted_when_printed_or_echoed() {
        let key = ApiKey::new(" sk-secret\n").expect("a key");
        assert_eq!(key.header().to_str().expect("text"), "Bearer sk-secret");
        assert!(!format!("{key:?} {:?}", key.header()).contains("secret"));
        assert_eq!(key.redact("no such key: sk-secret, sk-secret"), "no such key: ***, ***");
        for none in ["", " \n", "a\u{1}b", "a\nb"] {
            assert!(ApiKey::new(none).is_none(), "{none:?}");
        }
    }
}
