//! The settings of the listeners and of what one caller may do.

use super::cors;
use crate::codec::Limits;
use crate::source::AddressRange;
use crate::store::Plan;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;
use url::Url;

/// What settings in megabytes count in.
const MEGABYTE: usize = 1_000_000;
const A_DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Section `[server]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpConfig {
    /// Address of the API.
    pub listen: SocketAddr,
    /// Address of health, metrics and key administration. Not for the public.
    pub admin_listen: SocketAddr,
    /// Names that the admin listener may be called by, beside `localhost` and its own address. Others are refused: a
    /// web page could lead a name of its own here (DNS rebinding).
    pub admin_hosts: Vec<String>,
    /// PEM file of the API's certificate and those between it and its authority; without one, plain HTTP. Both files
    /// are read again on SIGHUP.
    pub tls_cert: Option<PathBuf>,
    /// PEM file of the certificate's private key, not encrypted.
    pub tls_key: Option<PathBuf>,
    /// What addresses in answers and webhooks begin with, such as `https://api.example.org`; without one, the host that
    /// the request was sent to (webhooks then have the path alone).
    pub public_url: Option<String>,
    /// Web pages that may call the API from a browser, each by its origin such as `https://example.org`; or `*`, all.
    pub cors_origins: Vec<String>,
    /// Wrong keys that one address (of IPv6, one /64) may send in a minute; beyond, they are answered 429.
    pub wrong_keys_per_minute: u32,
    /// Connections served at once, less where the limit of open files leaves less. One more takes the place of an idle
    /// one, or waits.
    pub max_connections: usize,
    /// Connections of one address (of IPv6, one /64); one more takes the place of an idle one of the address, or is
    /// closed. Trusted proxies have no such bound.
    pub max_connections_per_address: usize,
    /// Addresses and ranges (`10.0.0.0/8`) of the load balancers before the API. From them, and only from them,
    /// `X-Forwarded-For` (without it, `Forwarded`) gives the client's address. One that writes only `Forwarded` has to
    /// remove `X-Forwarded-For`.
    pub trusted_proxies: Vec<AddressRange>,
    /// Whether connections of `trusted_proxies` begin with a header of the PROXY protocol, version 1 or 2.
    pub proxy_protocol: bool,
    /// Megabytes of uploads and fetched pictures held in memory at once, of which one account gets at most twice what is
    /// free; beyond, a request is answered 429.
    pub max_upload_megabytes_in_flight: usize,
    /// Megabytes of finished pictures that wait for their callers to read them, half of it at most for one account;
    /// beyond, a picture waits before its reply begins, and further requests of its account are answered 429.
    pub max_reply_megabytes_in_flight: usize,
    /// How long the head of a request may take to arrive.
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")]
    pub header_timeout: Duration,
    /// The slowest upload that is waited for, in kilobytes (1000 bytes) a second: a body whose length is announced may
    /// take the time that it needs at this rate beside `body_timeout`.
    pub min_upload_kilobytes_per_second: u32,
    /// How long the body of a request may take to arrive, beside the time for its announced length.
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")]
    pub body_timeout: Duration,
    /// How long a body may pause; beyond, it is answered 408, as when it takes too long.
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")]
    pub body_pause: Duration,
    /// How long a connection may do nothing.
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")]
    pub idle_timeout: Duration,
    /// How old a connection may become: then it ends with the requests under way, and the client opens another one.
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")]
    pub max_connection_age: Duration,
    /// How long a caller may take nothing of a reply; beyond, the reply is dropped.
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")]
    pub reply_timeout: Duration,
    /// How long the work on one request may take, waiting included; beyond, it is answered 503.
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")]
    pub request_deadline: Duration,
    /// How long requests under way may take to end at shutdown; meanwhile others are answered 503.
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")]
    pub shutdown_grace: Duration,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, 8080).into(),
            admin_listen: (Ipv4Addr::LOCALHOST, 9090).into(),
            admin_hosts: Vec::new(),
            tls_cert: None,
            tls_key: None,
            public_url: None,
            cors_origins: Vec::new(),
            wrong_keys_per_minute: 20,
            max_connections: 1024,
            max_connections_per_address: 256,
            trusted_proxies: Vec::new(),
            proxy_protocol: false,
            max_upload_megabytes_in_flight: 256,
            max_reply_megabytes_in_flight: 256,
            header_timeout: Duration::from_secs(10),
            min_upload_kilobytes_per_second: 64,
            body_timeout: Duration::from_secs(120),
            body_pause: Duration::from_secs(15),
            idle_timeout: Duration::from_secs(75),
            max_connection_age: Duration::from_secs(60 * 60),
            reply_timeout: Duration::from_secs(30),
            request_deadline: Duration::from_secs(120),
            shutdown_grace: Duration::from_secs(30),
        }
    }
}

impl HttpConfig {
    /// Every mistake in this section, each as a sentence.
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
            let told = format!("cors_origins: {origin:?}: expected `*` or an origin such as https://example.org");
            check(false, &told);
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
            (16..=1_000_000).contains(&self.max_upload_megabytes_in_flight),
            "max_upload_megabytes_in_flight: expected 16 (one upload) to 1000000",
        );
        check(
            (16..=1_000_000).contains(&self.max_reply_megabytes_in_flight),
            "max_reply_megabytes_in_flight: expected 16 to 1000000",
        );
        check(
            (1..=1_000_000).contains(&self.min_upload_kilobytes_per_second),
            "min_upload_kilobytes_per_second: expected 1 to 1000000",
        );
        // Beyond a day a timer guards nothing, and far beyond it overflows.
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
        check(self.shutdown_grace <= A_DAY, "shutdown_grace: expected at most a day, such as 30s");
        check(
            self.listen.port() == 0 || self.listen != self.admin_listen,
            "admin_listen: expected another address than `listen`",
        );
        mistakes
    }
}

/// Whether it can be the host of an address, port aside.
fn is_host_name(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
        || (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)))
}

/// Whether paths can be put behind it.
fn is_public_url(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| {
        let plain = url.username().is_empty() && url.password().is_none();
        matches!(url.scheme(), "http" | "https") && plain && url.query().is_none() && url.fragment().is_none()
    })
}

/// Bytes that a file may be allowed to have: 1 GiB.
const MOST_BYTES: usize = 1 << 30;
/// Pixels that a side may be allowed to have, and megapixels of the square of them.
const MOST_SIDE: u32 = 16_384;
const MOST_MEGAPIXELS: u32 = 268;
/// Bytes of a pixel in the largest file that is made of it: a PNG of noise.
const REPLY_BYTES_PER_PIXEL: usize = 4;

/// Section `[limits]`: what one caller may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// Requests a key may make in any 60 seconds; beyond, it is answered 429.
    pub rate_per_minute: u32,
    /// The same for accounts on the plan `free`, in place of `rate_per_minute`.
    pub rate_per_minute_free: Option<u32>,
    /// The same for accounts on the plan `paid`.
    pub rate_per_minute_paid: Option<u32>,
    /// The same for accounts on the plan `plus`.
    pub rate_per_minute_plus: Option<u32>,
    /// Images that an account on the plan `free` may have made in a calendar month (UTC); beyond, it is answered 402.
    pub free_images_per_month: u64,
    /// Backdrops that `/replace-bg-ai` makes in a day (UTC), for all accounts together; beyond, it is answered 429.
    pub backdrop_ai_per_day: u32,
    /// Bytes of a picture, uploaded or fetched; beyond, it is answered 413. The commands that work without a daemon take at
    /// least 200 MB, 16384 pixels and 150 megapixels.
    pub max_bytes: usize,
    /// Pixels of a picture's longer side; beyond, it is answered 413. A result may be as large, and 8192 in any case.
    pub max_side: u32,
    /// Megapixels of a picture; beyond, it is answered 413.
    pub max_megapixels: u32,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        let Limits { max_bytes, max_side, max_megapixels } = Limits::default();
        Self {
            rate_per_minute: 60,
            rate_per_minute_free: None,
            rate_per_minute_paid: None,
            rate_per_minute_plus: None,
            free_images_per_month: 50,
            backdrop_ai_per_day: 500,
            max_bytes,
            max_side,
            max_megapixels,
        }
    }
}

impl LimitsConfig {
    /// Every mistake in this section, each as a sentence.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        let rates = [
            ("rate_per_minute", Some(self.rate_per_minute)),
            ("rate_per_minute_free", self.rate_per_minute_free),
            ("rate_per_minute_paid", self.rate_per_minute_paid),
            ("rate_per_minute_plus", self.rate_per_minute_plus),
        ];
        let wrong = rates.into_iter().filter(|(_, rate)| *rate == Some(0));
        let mut mistakes: Vec<_> = wrong.map(|(name, _)| format!("limits.{name}: expected at least 1")).collect();
        let mut check = |holds: bool, mistake: String| {
            if !holds {
                mistakes.push(format!("limits.{mistake}"));
            }
        };
        check((1024..=MOST_BYTES).contains(&self.max_bytes), format!("max_bytes: expected 1024 to {MOST_BYTES}"));
        check((16..=MOST_SIDE).contains(&self.max_side), format!("max_side: expected 16 to {MOST_SIDE}"));
        let megapixels = 1..=MOST_MEGAPIXELS;
        check(megapixels.contains(&self.max_megapixels), format!("max_megapixels: expected 1 to {MOST_MEGAPIXELS}"));
        mistakes
    }

    /// What does not fit the memory that `server` and, in megapixels, the engine set aside, each as a sentence. Pictures of
    /// the default limits fit whatever is set aside, one at a time.
    #[must_use]
    pub fn validate_memory(&self, server: &HttpConfig, megapixels_in_flight: u32) -> Vec<String> {
        let mut mistakes = Vec::new();
        let uploads = server.max_upload_megabytes_in_flight;
        if self.max_bytes > uploads.saturating_mul(MEGABYTE) {
            mistakes.push(format!(
                "limits.max_bytes: expected at most `server.max_upload_megabytes_in_flight`, {uploads} MB"
            ));
        }
        if self.max_megapixels > Limits::default().max_megapixels {
            if self.max_megapixels > megapixels_in_flight {
                mistakes.push(format!(
                    "limits.max_megapixels: expected at most `engine.max_megapixels_in_flight`, {megapixels_in_flight}"
                ));
            }
            let replies = server.max_reply_megabytes_in_flight;
            if self.max_megapixels as usize * REPLY_BYTES_PER_PIXEL > replies {
                mistakes.push(format!(
                    "limits.max_megapixels: expected at most a quarter of `server.max_reply_megabytes_in_flight`, {}",
                    replies / REPLY_BYTES_PER_PIXEL
                ));
            }
        }
        mistakes
    }

    /// Those of a picture over HTTP.
    #[must_use]
    pub const fn of_pictures(&self) -> Limits {
        Limits { max_bytes: self.max_bytes, max_side: self.max_side, max_megapixels: self.max_megapixels }
    }

    /// Those of a picture of the machine's own user.
    #[must_use]
    pub fn of_local_pictures(&self) -> Limits {
        self.of_pictures().or_larger(Limits::LOCAL)
    }

    /// Requests a key of an account on `plan` may make in any 60 seconds.
    #[must_use]
    pub fn rate_of(&self, plan: Plan) -> u32 {
        let of_plan = match plan {
            Plan::Free => self.rate_per_minute_free,
            Plan::Paid => self.rate_per_minute_paid,
            Plan::Plus => self.rate_per_minute_plus,
        };
        of_plan.unwrap_or(self.rate_per_minute)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid_and_survive_a_round_trip() {
        assert!(HttpConfig::default().validate().is_empty());
        assert!(LimitsConfig::default().validate().is_empty());
        let text = toml::to_string(&HttpConfig::default()).expect("plain data");
        assert!(text.contains("header_timeout = \"10s\"\n"), "{text}");
        assert_eq!(toml::from_str::<HttpConfig>(&text).expect("its own text"), HttpConfig::default());
    }

    #[test]
    fn limits_of_pictures_are_bounded() {
        let of = |max_bytes, max_side, max_megapixels| LimitsConfig {
            max_bytes,
            max_side,
            max_megapixels,
            ..LimitsConfig::default()
        };
        for good in [of(1024, 16, 1), of(1 << 30, 16_384, 268)] {
            assert_eq!(good.validate(), [""; 0]);
        }
        let low = of(1023, 15, 0).validate();
        let expected = [
            "limits.max_bytes: expected 1024 to 1073741824",
            "limits.max_side: expected 16 to 16384",
            "limits.max_megapixels: expected 1 to 268",
        ];
        assert_eq!(low, expected);
        assert_eq!(of((1 << 30) + 1, 16_385, 269).validate(), expected);
    }

    #[test]
    fn limits_of_pictures_fit_the_memory_that_is_set_aside() {
        let server = |uploads, replies| HttpConfig {
            max_upload_megabytes_in_flight: uploads,
            max_reply_megabytes_in_flight: replies,
            ..HttpConfig::default()
        };
        let of = |max_bytes, max_megapixels| LimitsConfig { max_bytes, max_megapixels, ..LimitsConfig::default() };
        let default = LimitsConfig::default();
        assert_eq!(default.validate_memory(&HttpConfig::default(), 64), [""; 0]);
        assert_eq!(default.validate_memory(&server(16, 16), 1), [""; 0], "as before there were such limits");
        assert_eq!(of(256_000_000, 64).validate_memory(&HttpConfig::default(), 64), [""; 0]);
        for (limits, server, in_flight, expected) in [
            (
                of(256_000_001, 17),
                server(256, 256),
                64,
                "limits.max_bytes: expected at most \
                `server.max_upload_megabytes_in_flight`, 256 MB",
            ),
            (
                of(1024, 65),
                server(256, 512),
                64,
                "limits.max_megapixels: expected at most \
                `engine.max_megapixels_in_flight`, 64",
            ),
            (
                of(1024, 65),
                server(256, 256),
                100,
                "limits.max_megapixels: expected at most a quarter of \
                `server.max_reply_megabytes_in_flight`, 64",
            ),
        ] {
            assert_eq!(limits.validate_memory(&server, in_flight), [expected]);
        }
    }

    #[test]
    fn the_machines_own_user_has_the_larger_limits() {
        assert_eq!(LimitsConfig::default().of_pictures(), Limits::default());
        assert_eq!(LimitsConfig::default().of_local_pictures(), Limits::LOCAL);
        let larger = LimitsConfig { max_megapixels: 200, ..LimitsConfig::default() };
        assert_eq!(larger.of_local_pictures(), Limits { max_megapixels: 200, ..Limits::LOCAL });
    }

    #[test]
    fn every_mistake_is_told_at_once() {
        let config = HttpConfig {
            max_connections: 0,
            header_timeout: Duration::ZERO,
            admin_listen: HttpConfig::default().listen,
            tls_key: Some("key.pem".into()),
            cors_origins: vec!["https://example.org".into(), "example.org".into(), "https://example.org/".into()],
            wrong_keys_per_minute: 0,
            public_url: Some("ftp://example.org".into()),
            admin_hosts: vec!["metrics.example.org".into(), "::1".into(), "example.org:9090".into()],
            max_connections_per_address: 0,
            proxy_protocol: true,
            max_connection_age: Duration::ZERO,
            min_upload_kilobytes_per_second: 0,
            ..HttpConfig::default()
        };
        assert_eq!(config.validate().len(), 13, "{:?}", config.validate());
    }

    #[test]
    fn a_plan_has_its_own_rate_where_one_is_set() {
        let limits: LimitsConfig =
            toml::from_str("rate_per_minute = 10\nrate_per_minute_paid = 120").expect("two numbers");
        let rates = Plan::ALL.map(|plan| limits.rate_of(plan));
        assert_eq!(rates, [10, 120, 10]);
        let wrong = LimitsConfig { rate_per_minute: 0, rate_per_minute_plus: Some(0), ..limits };
        let told = ["limits.rate_per_minute: expected at least 1", "limits.rate_per_minute_plus: expected at least 1"];
        assert_eq!(wrong.validate(), told);
    }

    #[test]
    fn a_public_url_is_what_a_path_can_follow() {
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
