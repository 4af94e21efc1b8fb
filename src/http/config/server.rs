//! Configuration section `[server]`: addresses, TLS, timeouts and bounds of the listeners.

use crate::account::price::PriceConfig;
use crate::http::reply::cors;
use crate::source::AddressRange;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;
use url::Url;

const A_DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// An address and port; `localhost` is 127.0.0.1.
fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    let numeric = text.strip_prefix("localhost:").map(|port| format!("{}:{port}", Ipv4Addr::LOCALHOST));
    numeric.as_deref().unwrap_or(&text).parse().map_err(|_| {
        D::Error::custom(format!(
            "{text:?} is not an address with a port, such as 127.0.0.1:8080, [::1]:8080 or localhost:8080"
        ))
    })
}

/// Section `[server]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpConfig {
    /// Address of the API.
    #[serde(deserialize_with = "address")]
    pub listen: SocketAddr,
    /// Address of health, metrics and key administration. Not for the public.
    #[serde(deserialize_with = "address")]
    pub admin_listen: SocketAddr,
    /// Host names of the admin listener, in addition to `localhost` and the listener's address. Requests for other hosts are refused:
    /// the host name of a web page could resolve to this address (DNS rebinding).
    pub admin_hosts: Vec<String>,
    /// Whether `/` is a page on which users try the API with their key.
    pub page: bool,
    /// Whether the page and the dry run of `backdrop bulk` show plans, prices and costs. By default if `[prices]` is changed.
    pub show_prices: Option<bool>,
    /// PEM file of the API's certificate and its intermediates. Without it the API is plain HTTP. Certificate and key are read again
    /// on SIGHUP.
    pub tls_cert: Option<PathBuf>,
    /// PEM file of the certificate's private key, not encrypted.
    pub tls_key: Option<PathBuf>,
    /// Base of URLs in replies and webhooks, such as `https://api.example.org`. By default the host of the request; in webhooks, the host
    /// of the request that made the job.
    pub public_url: Option<String>,
    /// Origins of the web pages that may call the API from a browser, such as `https://example.org`; `*` allows every page.
    pub cors_origins: Vec<String>,
    /// Wrong keys that one address (of IPv6, one /64) may send in a minute; beyond, they are answered 429.
    pub wrong_keys_per_minute: u32,
    /// Connections served at once, reduced to the number that the limit of open files allows. A further connection replaces an idle
    /// connection, or waits.
    pub max_connections: usize,
    /// Connections of one address (of IPv6, one /64). A further connection replaces an idle connection of the address, or is closed.
    /// Trusted proxies have no limit by address.
    pub max_connections_per_address: usize,
    /// Addresses and ranges (`10.0.0.0/8`) of the load balancers before the API. Only in their requests `X-Forwarded-For`, or without it
    /// `Forwarded`, gives the client's address. A load balancer that writes only `Forwarded` has to remove `X-Forwarded-For`.
    pub trusted_proxies: Vec<AddressRange>,
    /// Whether connections of `trusted_proxies` begin with a header of the PROXY protocol, version 1 or 2.
    pub proxy_protocol: bool,
    /// Megabytes held in memory at once: half for uploads and fetched pictures, half for unread replies. Accounts share each half; an
    /// account alone leaves a third of it. Beyond, an upload is answered 429, and a finished picture waits before its reply begins.
    pub max_body_megabytes_in_flight: usize,
    /// How long the head of a request may take to arrive.
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")]
    pub header_timeout: Duration,
    /// The slowest accepted upload, in kilobytes (1000 bytes) per second. A body with `Content-Length` has the time that it needs at this
    /// rate in addition to `body_timeout`.
    pub min_upload_kilobytes_per_second: u32,
    /// How long the body of a request may take to arrive, in addition to the time for its announced length.
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")]
    pub body_timeout: Duration,
    /// How long a body may pause. A longer pause is answered 408, like a body that takes too long.
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")]
    pub body_pause: Duration,
    /// How long a connection may be idle.
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")]
    pub idle_timeout: Duration,
    /// The age at which a connection ends, after its requests in flight. The client then opens another connection.
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")]
    pub max_connection_age: Duration,
    /// How long a client may read nothing of a reply; beyond, the reply is dropped.
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")]
    pub reply_timeout: Duration,
    /// How long the processing of one request may take, waiting included; beyond, it is answered 503.
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")]
    pub request_deadline: Duration,
    /// How long requests in flight may take to end at shutdown; meanwhile others are answered 503.
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")]
    pub shutdown_grace: Duration,
    /// The daemon ends after this time without a connection, an unfinished job and a result to delete; the next connection starts it
    /// again. Only with a socket from systemd. By default it does not end.
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::optional")]
    pub idle_exit: Option<Duration>,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, 8080).into(),
            admin_listen: (Ipv4Addr::LOCALHOST, 8081).into(),
            admin_hosts: Vec::new(),
            page: true,
            show_prices: None,
            tls_cert: None,
            tls_key: None,
            public_url: None,
            cors_origins: Vec::new(),
            wrong_keys_per_minute: 20,
            max_connections: 1024,
            max_connections_per_address: 256,
            trusted_proxies: Vec::new(),
            proxy_protocol: false,
            max_body_megabytes_in_flight: 512,
            header_timeout: Duration::from_secs(10),
            min_upload_kilobytes_per_second: 64,
            body_timeout: Duration::from_secs(120),
            body_pause: Duration::from_secs(15),
            idle_timeout: Duration::from_secs(75),
            max_connection_age: Duration::from_secs(60 * 60),
            reply_timeout: Duration::from_secs(30),
            request_deadline: Duration::from_secs(120),
            shutdown_grace: Duration::from_secs(30),
            idle_exit: None,
        }
    }
}

impl HttpConfig {
    /// Whether prices are shown.
    #[must_use]
    pub fn shows_prices(&self, prices: &PriceConfig) -> bool {
        self.show_prices.unwrap_or(*prices != PriceConfig::default())
    }

    /// `max_body_megabytes_in_flight` in bytes.
    pub(crate) const fn max_body_bytes(&self) -> usize {
        self.max_body_megabytes_in_flight.saturating_mul(1_000_000)
    }

    /// Every error in this section, each as a sentence.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        let mut mistakes = Vec::new();
        let mut check = |holds: bool, mistake: &str| {
            if !holds {
                mistakes.push(format!("server.{mistake}"));
            }
        };
        check(self.tls_cert.is_none() || self.tls_key.is_some(), "tls_key: expected the key of `tls_cert`");
        check(self.tls_key.is_none() || self.tls_cert.is_some(), "tls_cert: expected the certificate of `tls_key`");
        check(
            self.public_url.as_deref().is_none_or(is_public_url),
            "public_url: expected an http or https URL without user, query and fragment, such as https://example.org",
        );
        for origin in self.cors_origins.iter().filter(|origin| !cors::is_origin(origin)) {
            check(false, &format!("cors_origins: {origin:?}: expected `*` or an origin such as https://example.org"));
        }
        check(self.wrong_keys_per_minute > 0, "wrong_keys_per_minute: expected at least 1");
        for host in self.admin_hosts.iter().filter(|host| !is_host_name(host)) {
            check(false, &format!("admin_hosts: {host:?}: expected a name or an address without a port"));
        }
        check(self.max_connections > 0, "max_connections: expected at least 1");
        check(self.max_connections_per_address > 0, "max_connections_per_address: expected at least 1");
        check(
            !self.proxy_protocol || !self.trusted_proxies.is_empty(),
            "proxy_protocol: expected the addresses that speak it in `trusted_proxies`",
        );
        check(
            (16..=1_000_000).contains(&self.max_body_megabytes_in_flight),
            "max_body_megabytes_in_flight: expected 16 (one upload) to 1000000",
        );
        check(
            (1..=1_000_000).contains(&self.min_upload_kilobytes_per_second),
            "min_upload_kilobytes_per_second: expected 1 to 1000000",
        );
        // A timeout beyond a day protects nothing, and far beyond a day it overflows.
        for (name, timeout) in [
            ("header_timeout", self.header_timeout),
            ("body_timeout", self.body_timeout),
            ("body_pause", self.body_pause),
            ("idle_timeout", self.idle_timeout),
            ("max_connection_age", self.max_connection_age),
            ("reply_timeout", self.reply_timeout),
            ("request_deadline", self.request_deadline),
        ] {
            let holds = !timeout.is_zero() && timeout <= A_DAY;
            check(holds, &format!("{name}: expected more than no time and at most a day, such as 10s"));
        }
        check(self.idle_exit != Some(Duration::ZERO), "idle_exit: expected more than no time, such as 10m");
        check(self.shutdown_grace <= A_DAY, "shutdown_grace: expected at most a day, such as 30s");
        check(
            self.listen.port() == 0 || self.listen != self.admin_listen,
            "admin_listen: expected another address than `listen`",
        );
        mistakes
    }
}

/// Whether it is a host name or an IP address.
fn is_host_name(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
        || (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)))
}

/// Whether it is a URL that paths can be appended to.
fn is_public_url(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| {
        let plain = url.username().is_empty() && url.password().is_none();
        matches!(url.scheme(), "http" | "https") && plain && url.query().is_none() && url.fragment().is_none()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_errors_are_reported_at_once() {
        let config = HttpConfig {
            max_connections: 0,
            header_timeout: Duration::ZERO,
            admin_listen: HttpConfig::default().listen,
            tls_key: Some("key.pem".into()),
            cors_origins: vec!["https://example.org".into(), "example.org".into(), "https://example.org/".into()],
            wrong_keys_per_minute: 0,
            public_url: Some("ftp://example.org".into()),
            admin_hosts: vec!["metrics.example.org".into(), "::1".into(), "example.org:8081".into()],
            max_connections_per_address: 0,
            proxy_protocol: true,
            max_connection_age: Duration::ZERO,
            min_upload_kilobytes_per_second: 0,
            ..HttpConfig::default()
        };
        assert_eq!(config.validate().len(), 13, "{:?}", config.validate());
    }

    #[test]
    fn prices_are_shown_where_they_were_changed_or_it_is_set() {
        let changed = PriceConfig { remove: 0.01, ..PriceConfig::default() };
        let shown = |show_prices| {
            let config = HttpConfig { show_prices, ..HttpConfig::default() };
            [PriceConfig::default(), changed.clone()].map(|prices| config.shows_prices(&prices))
        };
        assert_eq!([None, Some(false), Some(true)].map(shown), [[false, true], [false, false], [true, true]]);
    }

    #[test]
    fn a_public_url_can_be_followed_by_a_path() {
        for good in ["https://example.org", "http://10.0.0.1:8080/", "https://example.org/backdrop"] {
            assert!(is_public_url(good), "{good}");
        }
        for bad in ["", "example.org", "ftp://example.org", "https://a@example.org", "https://a/?b", "https://a/#b"] {
            assert!(!is_public_url(bad), "{bad}");
        }
    }

    #[test]
    fn a_timeout_needs_its_unit() {
        let config: HttpConfig = toml::from_str("idle_timeout = \"1m 15s\"").expect("a duration");
        assert_eq!(config.idle_timeout, Duration::from_secs(75));
        for text in ["10", "\"10\"", "\"-1s\"", "\"soon\""] {
            assert!(toml::from_str::<HttpConfig>(&format!("idle_timeout = {text}")).is_err(), "{text}");
        }
    }
}
