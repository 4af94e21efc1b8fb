//! The key of an image API: in memory, in one header, and nowhere else.

use http::HeaderValue;
use std::fmt;

/// A key. It is not printed, and its header is marked as sensitive.
pub(super) struct Key {
    text: String,
    header: HeaderValue,
}

impl Key {
    /// The key `text`; nothing where it is empty or no header can carry it.
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

    /// `text` with the key taken out: an answer may repeat what was sent.
    pub(super) fn hidden_in(&self, text: &str) -> String {
        text.replace(&self.text, "***")
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_not_printed_and_not_repeated() {
        let key = Key::new(" sk-secret\n").expect("a key");
        assert_eq!(key.header().to_str().expect("text"), "Bearer sk-secret");
        assert!(!format!("{key:?} {:?}", key.header()).contains("secret"));
        assert_eq!(key.hidden_in("no such key: sk-secret, sk-secret"), "no such key: ***, ***");
        for none in ["", " \n", "a\u{1}b", "a\nb"] {
            assert!(Key::new(none).is_none(), "{none:?}");
        }
    }
}
