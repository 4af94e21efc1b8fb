//! The `https` address of a picture to fetch, parsed and checked for scheme and credentials.

use std::fmt;
use url::Url;

/// Maximum bytes of an address, as given and as sent (with escapes): the common limit of browsers and proxies.
const MAX_BYTES: usize = 2048;

/// An `https` address with a host and without user or password. [`source`](crate::source) requires public addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceUrl(Url);

/// Why an address is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// It cannot be parsed.
    #[error("not a URL")]
    Malformed,
    /// The scheme is not `https`.
    #[error("not an https URL")]
    NotHttps,
    /// It contains a user or a password.
    #[error("a URL with a user or password")]
    Credentials,
    /// Longer than 2048 bytes.
    #[error("a URL of more than 2048 bytes")]
    TooLong,
}

impl SourceUrl {
    /// Parses an address by the WHATWG URL Standard, which normalises all notations of an IP address.
    ///
    /// # Errors
    /// See [`UrlError`].
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        if text.len() > MAX_BYTES {
            return Err(UrlError::TooLong);
        }
        Self::checked(Url::parse(text).map_err(|_| UrlError::Malformed)?)
    }

    /// The target of a redirect to `location`.
    ///
    /// # Errors
    /// See [`UrlError`].
    pub fn join(&self, location: &str) -> Result<Self, UrlError> {
        if location.len() > MAX_BYTES {
            return Err(UrlError::TooLong);
        }
        Self::checked(self.0.join(location).map_err(|_| UrlError::Malformed)?)
    }

    fn checked(url: Url) -> Result<Self, UrlError> {
        if url.scheme() != "https" {
            return Err(UrlError::NotHttps);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(UrlError::Credentials);
        }
        if url.host().is_none() {
            return Err(UrlError::Malformed);
        }
        if url.as_str().len() > MAX_BYTES {
            return Err(UrlError::TooLong);
        }
        Ok(Self(url))
    }

    /// The parsed address.
    #[must_use]
    pub const fn as_url(&self) -> &Url {
        &self.0
    }
}

impl fmt::Display for SourceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_without_credentials_is_taken() {
        assert!(SourceUrl::parse("https://example.org/a.jpg?b#c").is_ok());
        assert!(SourceUrl::parse("HTTPS://example.org:8443").is_ok());
        for (text, error) in [
            ("http://example.org/", UrlError::NotHttps),
            ("file:///etc/passwd", UrlError::NotHttps),
            ("data:image/png;base64,AA", UrlError::NotHttps),
            ("ftp://example.org/", UrlError::NotHttps),
            ("https://user@example.org/", UrlError::Credentials),
            ("https://:pass@example.org/", UrlError::Credentials),
            ("https://", UrlError::Malformed),
            ("example.org/a.jpg", UrlError::Malformed),
            ("", UrlError::Malformed),
        ] {
            assert_eq!(SourceUrl::parse(text), Err(error), "{text}");
        }
        let long = format!("https://example.org/{}", "a".repeat(MAX_BYTES));
        assert_eq!(SourceUrl::parse(&long), Err(UrlError::TooLong));
        // Each character takes nine bytes when sent.
        let escaped = format!("https://example.org/{}", "あ".repeat(300));
        assert!(escaped.len() < MAX_BYTES);
        assert_eq!(SourceUrl::parse(&escaped), Err(UrlError::TooLong));
    }

    #[test]
    fn every_notation_of_an_address_becomes_that_address() {
        for text in ["https://2130706433/", "https://0x7f.1/", "https://0177.0.0.1/", "https://127.1/"] {
            assert_eq!(SourceUrl::parse(text).expect(text).as_url().host_str(), Some("127.0.0.1"), "{text}");
        }
    }
}
