//! Configuration section `[fetch]`: timeout, private origins, denied addresses, extra CA.

use super::AddressRange;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;
use url::Host;

/// Maximum timeout; a longer fetch would outlive its request.
const MAX_TIMEOUT: Duration = Duration::from_secs(60);

/// Settings of fetching callers' URLs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FetchConfig {
    /// Time limit of fetching a picture by its URL, from name resolution to the last byte, including a redirect.
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")]
    pub timeout: Duration,
    /// Origins, each `host:port`, that may have non-public addresses. Every caller can reach them.
    pub private_origins: Vec<String>,
    /// Addresses and address ranges (CIDR) that are never fetched from, even if `private_origins` lists them, such as the
    /// public address that a NAT gives this machine. The addresses of this machine's interfaces are always refused.
    pub deny: Vec<AddressRange>,
    /// A PEM file of certificate authorities to trust in addition to the built-in ones.
    pub extra_ca: Option<PathBuf>,
}

impl Default for FetchConfig {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(10), private_origins: Vec::new(), deny: Vec::new(), extra_ca: None }
    }
}

impl FetchConfig {
    /// The mistakes in this section, each a sentence.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        let mut mistakes = Vec::new();
        if self.timeout.is_zero() || self.timeout > MAX_TIMEOUT {
            mistakes.push("fetch.timeout: expected more than 0s and at most a minute, such as 10s".to_owned());
        }
        let wrong = self.private_origins.iter().filter(|text| origin(text).is_none());
        mistakes.extend(wrong.map(|text| {
            format!("fetch.private_origins: expected `host:port`, such as images.internal:8443, and not {text:?}")
        }));
        mistakes
    }

    /// `private_origins`, parsed as hosts and ports of URLs.
    pub(super) fn origins(&self) -> Vec<(Host, u16)> {
        self.private_origins.iter().filter_map(|text| origin(text)).collect()
    }
}

/// Parses `host:port`, the host as in a URL.
fn origin(text: &str) -> Option<(Host, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    // `u16::from_str` accepts a plus sign.
    let port = port.bytes().all(|byte| byte.is_ascii_digit()).then(|| port.parse().ok())??;
    Some((Host::parse(host).ok()?, port)).filter(|(_, port)| *port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origins(texts: &[&str]) -> FetchConfig {
        let private_origins = texts.iter().map(|text| (*text).to_owned()).collect();
        FetchConfig { private_origins, ..FetchConfig::default() }
    }

    #[test]
    fn origins_are_parsed_like_the_hosts_of_urls() {
        let config = origins(&["Images.Internal:8443", "127.1:1", "[0::1]:65535"]);
        assert!(config.validate().is_empty(), "{:?}", config.validate());
        assert_eq!(
            config.origins().iter().map(|(host, port)| format!("{host}:{port}")).collect::<Vec<_>>(),
            ["images.internal:8443", "127.0.0.1:1", "[::1]:65535"]
        );
    }

    #[test]
    fn an_origin_that_is_not_host_and_port_is_refused() {
        for text in ["", "host", "host:", ":80", "host:0", "host:65536", "host:+1", "::1", "https://a:1", "a/b:1"] {
            assert_eq!(origins(&[text]).validate().len(), 1, "{text}");
        }
    }

    #[test]
    fn a_timeout_is_positive_and_at_most_a_minute() {
        for (timeout, mistakes) in [(0, 1), (1, 0), (60_000, 0), (60_001, 1)] {
            let config = FetchConfig { timeout: Duration::from_millis(timeout), ..FetchConfig::default() };
            assert_eq!(config.validate().len(), mistakes, "{timeout} ms");
        }
    }
}
