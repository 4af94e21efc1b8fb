//! Addresses that are not public, in every notation that a URL allows, are refused. `src/source` tests the blocks of addresses.

use backdrop::image::{SourceUrl, UrlError};
use backdrop::source::{FetchConfig, FetchError, Fetcher, Resolve};
use futures_util::future::BoxFuture;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

/// The reason for which a URL is refused.
enum Refused {
    /// This address is not public.
    At(&'static str),
    /// It is no valid source URL.
    As(UrlError),
}
use Refused::{As, At};

/// Resolves every name to a private address.
struct PrivateResolver;

impl Resolve for PrivateResolver {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let ip = match host {
            host if host.starts_with("metadata") => "169.254.169.254",
            host if host.starts_with("ip6") => "::1",
            _ => "127.0.0.1",
        };
        Box::pin(async move { Ok(vec![ip.parse().expect("an address")]) })
    }
}

const URLS: &[(&str, Refused)] = &[
    // The loopback in every notation.
    ("https://127.0.0.1/", At("127.0.0.1")),
    ("https://127.1/", At("127.0.0.1")),
    ("https://2130706433/", At("127.0.0.1")),
    ("https://017700000001/", At("127.0.0.1")),
    ("https://0x7f000001/", At("127.0.0.1")),
    ("https://0x7f.0.0.1/", At("127.0.0.1")),
    ("https://0177.0.0.1/", At("127.0.0.1")),
    ("https://0000000177.0x0.0.01/", At("127.0.0.1")),
    ("https://127.0.0.1./", At("127.0.0.1")),
    ("https:127.0.0.1/", At("127.0.0.1")),
    ("https:\\\\127.0.0.1\\", At("127.0.0.1")),
    ("  https://127.0.0.1/  ", At("127.0.0.1")),
    ("https://127.0.\n0.1/", At("127.0.0.1")),
    ("ht\ttps://127.0.0.1/", At("127.0.0.1")),
    ("https://%31%32%37.0.0.1/", At("127.0.0.1")),
    ("https://127.0.0.1#@example.org/", At("127.0.0.1")),
    ("https://127.0.0.1\\@example.org/", At("127.0.0.1")),
    // Digits and dots of other scripts.
    ("https://１２７.０.０.１/", At("127.0.0.1")),
    ("https://127。0。0。1/", At("127.0.0.1")),
    ("https://127．0．0．1/", At("127.0.0.1")),
    ("https://127｡0｡0｡1/", At("127.0.0.1")),
    ("https://①②⑦.⓪.⓪.①/", At("127.0.0.1")),
    ("https://𝟏𝟐𝟕.𝟎.𝟎.𝟏/", At("127.0.0.1")),
    ("https://127.0.0\u{ad}.1/", At("127.0.0.1")),
    ("https://127.0.0.\u{200b}1/", At("127.0.0.1")),
    ("https://%EF%BC%91%EF%BC%92%EF%BC%97.1/", At("127.0.0.1")),
    // Unspecified and broadcast.
    ("https://0/", At("0.0.0.0")),
    ("https://4294967295/", At("255.255.255.255")),
    // Metadata of clouds.
    ("https://169.254.169.254/latest/meta-data/", At("169.254.169.254")),
    ("https://100.100.100.200/", At("100.100.100.200")),
    ("https://168.63.129.16/", At("168.63.129.16")),
    ("https://[fd00:ec2::254]/", At("fd00:ec2::254")),
    ("https://[::ffff:169.254.169.254]/", At("::ffff:169.254.169.254")),
    ("https://[64:ff9b::169.254.169.254]/", At("64:ff9b::a9fe:a9fe")),
    // IPv6, and IPv4 inside of it.
    ("https://[::]/", At("::")),
    ("https://[::1]:443/", At("::1")),
    ("https://[0:0:0:0:0:0:0:1]/", At("::1")),
    ("https://[::127.0.0.1]/", At("::7f00:1")),
    ("https://[::ffff:127.0.0.1]/", At("::ffff:127.0.0.1")),
    ("https://[::ffff:7f00:1]/", At("::ffff:127.0.0.1")),
    ("https://[0:0:0:0:0:ffff:127.0.0.1]/", At("::ffff:127.0.0.1")),
    ("https://%5B::1%5D/", As(UrlError::Malformed)),
    ("https://[::ffff:0:127.0.0.1]/", At("::ffff:0:7f00:1")),
    ("https://[64:ff9b::7f00:1]/", At("64:ff9b::7f00:1")),
    ("https://[2002:7f00:1::]/", At("2002:7f00:1::")),
    ("https://[2a00:1450::5efe:10.0.0.1]/", At("2a00:1450::5efe:a00:1")),
    // Zones, and what is no address in the URL standard (WHATWG).
    ("https://[fe80::1%25eth0]/", As(UrlError::Malformed)),
    ("https://[::ffff:127.0.0.1%25lo]/", As(UrlError::Malformed)),
    ("https://[::ffff:0x7f.0.0.1]/", As(UrlError::Malformed)),
    ("https://[::ffff:127.1]/", As(UrlError::Malformed)),
    ("https://[127.0.0.1]/", As(UrlError::Malformed)),
    ("https://::1/", As(UrlError::Malformed)),
    ("https://[::1/", As(UrlError::Malformed)),
    ("https://4294967296/", As(UrlError::Malformed)),
    ("https://127.0.0.1:65536/", As(UrlError::Malformed)),
    ("https://127..1/", As(UrlError::Malformed)),
    ("https://example.org%00.127.0.0.1/", As(UrlError::Malformed)),
    ("https://example.org@127.0.0.1/", As(UrlError::Credentials)),
    ("http://example.org/", As(UrlError::NotHttps)),
    ("//127.0.0.1/", As(UrlError::Malformed)),
    ("gopher://127.0.0.1/", As(UrlError::NotHttps)),
    ("unix:///run/docker.sock", As(UrlError::NotHttps)),
    // Names of private addresses.
    ("https://localhost/", At("127.0.0.1")),
    ("https://ｌｏｃａｌｈｏｓｔ/", At("127.0.0.1")),
    ("https://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/", At("127.0.0.1")),
    ("https://127.0.0.1.nip.example/", At("127.0.0.1")),
    ("https://ip6-localhost/", At("::1")),
    ("https://metadata.google.internal/computeMetadata/v1/", At("169.254.169.254")),
];

#[tokio::test]
async fn a_private_address_is_refused_in_every_notation() {
    let fetcher = Fetcher::with_resolver(&FetchConfig::default(), Arc::new(PrivateResolver)).expect("plain settings");
    for (text, refused) in URLS {
        match (SourceUrl::parse(text), refused) {
            (Err(error), As(expected)) => assert_eq!(error, *expected, "{text:?}"),
            (Ok(url), At(ip)) => match fetcher.fetch(&url).await {
                Err(FetchError::PrivateAddress(found)) => {
                    assert_eq!(found, ip.parse::<IpAddr>().expect("an address"), "{text:?}");
                }
                other => panic!("{text:?}: {other:?}"),
            },
            (parsed, _) => panic!("{text:?}: {parsed:?}"),
        }
    }
}
