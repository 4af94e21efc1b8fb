//! Configuration section `[compat]`: which other services' wire formats are served.

use crate::http::config::HttpConfig;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The account of rembg's route where none is configured.
const DEFAULT_ACCOUNT: &str = "default";

/// Section `[compat]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CompatConfig {
    /// `/v1.0/removebg` and `/v1.0/account` as remove.bg has them.
    pub removebg: bool,
    /// `/v1/segment` and `/v1/account` as Photoroom has them.
    pub photoroom: bool,
    /// `/api/remove` as rembg's server has it. It takes requests without a key from every client that reaches it, web pages
    /// of this machine and of `server.cors_origins` too: off, and without `rembg_account` only where `server.listen` is a loopback address and
    /// nothing is forwarded to it: no `server.trusted_proxies`, no `server.public_url`.
    pub rembg: bool,
    /// The account that requests of `/api/remove` without a key run as; without one, `default`.
    pub rembg_account: Option<String>,
    /// Host names by which requests of `/api/remove` without a key reach this machine, beside `localhost`, its own address and the host of
    /// `server.public_url`. Requests for others are refused: the host name of a web page could resolve to this address (DNS rebinding).
    pub rembg_hosts: Vec<String>,
}

impl Default for CompatConfig {
    fn default() -> Self {
        Self { removebg: true, photoroom: true, rembg: false, rembg_account: None, rembg_hosts: Vec::new() }
    }
}

impl CompatConfig {
    /// Every error in this section of a daemon that listens at `listen`, each as a sentence.
    #[must_use]
    pub fn validate(&self, listen: SocketAddr, server: &HttpConfig) -> Vec<String> {
        let is_forwarded = !server.trusted_proxies.is_empty() || server.public_url.is_some();
        let is_local = listen.ip().to_canonical().is_loopback() && !is_forwarded;
        let holds = !self.rembg || self.rembg_account.is_some() || is_local;
        let expected = "compat.rembg: expected `rembg_account`, or a loopback address as `server.listen` or inherited socket \
                        without `server.trusted_proxies` and `server.public_url`, because the route takes requests without a key";
        if holds { Vec::new() } else { vec![expected.to_owned()] }
    }

    /// The account of requests on rembg's route without a key.
    pub(super) fn rembg_account_or_default(&self) -> &str {
        self.rembg_account.as_deref().unwrap_or(DEFAULT_ACCOUNT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_without_keys_needs_a_loopback_address_or_an_account() {
        for (listen, rembg, account, holds) in [
            ("127.0.0.1:80", true, None, true),
            ("[::1]:80", true, None, true),
            ("0.0.0.0:80", false, None, true),
            ("0.0.0.0:80", true, None, false),
            ("192.0.2.1:80", true, None, false),
            ("0.0.0.0:80", true, Some("guests"), true),
        ] {
            let address = listen.parse().expect("an address");
            let config = CompatConfig { rembg, rembg_account: account.map(str::to_owned), ..CompatConfig::default() };
            let has_protection = !rembg || account.is_some();
            let proxied =
                HttpConfig { trusted_proxies: vec!["127.0.0.1".parse().expect("a range")], ..HttpConfig::default() };
            let published = HttpConfig { public_url: Some("https://example.org".to_owned()), ..HttpConfig::default() };
            for (server, holds) in
                [(HttpConfig::default(), holds), (proxied, has_protection), (published, has_protection)]
            {
                assert_eq!(config.validate(address, &server).is_empty(), holds, "{listen} {account:?}");
            }
        }
    }
}
