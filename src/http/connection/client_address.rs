//! The client address of a request, from `X-Forwarded-For` or `Forwarded` behind trusted proxies.
//!
//! The connection's peer is the client unless it is a trusted proxy. Then the header is read from its end: the rightmost
//! address that is not a trusted proxy's is the client, since everything to its left was sent by the client itself.
//! `X-Forwarded-For` takes precedence over `Forwarded` (RFC 7239): only the header that the proxy writes can be trusted, and
//! nearly all write the former.

use crate::source::AddressRange;
use hyper::header::{FORWARDED, HeaderMap, HeaderName, HeaderValue};
use std::net::{IpAddr, SocketAddr};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Both addresses of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionAddresses {
    /// The remote address: of the socket, or from a trusted proxy's PROXY header.
    pub(crate) peer: IpAddr,
    /// The local address.
    pub(crate) local: IpAddr,
}

/// The network of a subscriber: an IPv4 address, or the /64 of an IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Network {
    V4(u32),
    V6(u64),
}

impl Network {
    pub(crate) fn of(address: IpAddr) -> Self {
        // A listener on `::` sees IPv4 clients as ::ffff:a.b.c.d, all in one /64.
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address.to_bits()),
            IpAddr::V6(address) => Self::V6((address.to_bits() >> 64) as u64),
        }
    }
}

/// Whether `address` is a trusted proxy's.
pub(crate) fn is_trusted(trusted: &[AddressRange], address: IpAddr) -> bool {
    trusted.iter().any(|range| range.contains(address))
}

/// The client of a request with `headers` on a connection from `peer`.
pub(crate) fn resolve(peer: IpAddr, headers: &HeaderMap, trusted: &[AddressRange]) -> IpAddr {
    if !is_trusted(trusted, peer) {
        return peer;
    }
    let hops = if headers.contains_key(X_FORWARDED_FOR) {
        rightmost_untrusted(elements(headers, &X_FORWARDED_FOR).map(|element| element.and_then(parse_node)), trusted)
    } else {
        rightmost_untrusted(elements(headers, &FORWARDED).map(|element| element.and_then(forwarded_for)), trusted)
    };
    hops.unwrap_or(peer)
}

/// The first untrusted hop, nearest first; else the last one before a hop without an address.
fn rightmost_untrusted(hops: impl Iterator<Item = Option<IpAddr>>, trusted: &[AddressRange]) -> Option<IpAddr> {
    let mut client = None;
    for hop in hops {
        let Some(address) = hop else { break };
        client = Some(address);
        if !is_trusted(trusted, address) {
            break;
        }
    }
    client
}

/// The elements of a list header, last first; `None` for one that is not text.
///
/// Quotes are not paired: the client's elements come first and may hold an unclosed quote, which must not hide the proxy's
/// elements after it.
fn elements<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = Option<&'a str>> {
    let lines = headers.get_all(name).into_iter().rev();
    lines
        .flat_map(|line: &HeaderValue| line.as_bytes().rsplit(|byte| *byte == b','))
        .map(|element| str::from_utf8(element).ok().map(str::trim))
        .filter(|element| *element != Some(""))
}

/// The address in an element of `Forwarded`: `for=192.0.2.1;proto=https`, `for="[2001:db8::1]:4711"`.
fn forwarded_for(element: &str) -> Option<IpAddr> {
    let mut pairs = element.split(';').filter_map(|pair| pair.trim().split_once('='));
    let (_, value) = pairs.find(|(name, _)| name.eq_ignore_ascii_case("for"))?;
    parse_node(value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value))
}

/// An address, with or without a port: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:80`.
fn parse_node(text: &str) -> Option<IpAddr> {
    let bracketed = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok().map(IpAddr::V6);
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    text.parse().ok().or_else(bracketed).or_else(with_port).map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROXY: &str = "10.0.0.1";

    fn client(peer: &str, headers: &[(HeaderName, &str)]) -> String {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name, HeaderValue::from_bytes(value.as_bytes()).expect("a header value"));
        }
        let trusted = ["10.0.0.0/8", "2001:db8:aa::/48"].map(|range| range.parse().expect("a range"));
        resolve(peer.parse().expect("an address"), &map, &trusted).to_string()
    }

    #[test]
    fn headers_of_an_untrusted_peer_are_ignored() {
        for header in [(FORWARDED, "for=198.51.100.1"), (X_FORWARDED_FOR, "198.51.100.1")] {
            assert_eq!(client("192.0.2.9", &[header]), "192.0.2.9");
        }
    }

    #[test]
    fn the_rightmost_untrusted_address_is_the_client() {
        for (lines, expected) in [
            (&["198.51.100.1"][..], "198.51.100.1"),
            (&["203.0.113.66, 198.51.100.1"], "198.51.100.1"),
            (&["203.0.113.66", "198.51.100.1, 10.2.3.4"], "198.51.100.1"),
            (&["203.0.113.66, 198.51.100.1 ,, 10.2.3.4,"], "198.51.100.1"),
            (&["10.9.9.9, 10.2.3.4"], "10.9.9.9"),
            (&["198.51.100.1:4711"], "198.51.100.1"),
            (&["[2001:db8::7]:4711"], "2001:db8::7"),
            (&["[2001:db8::7]"], "2001:db8::7"),
            (&["2001:db8::7, 2001:db8:aa::1"], "2001:db8::7"),
            (&["::ffff:198.51.100.1"], "198.51.100.1"),
            // Elements beyond a hop without an address cannot be trusted.
            (&["198.51.100.1, unknown"], PROXY),
            // Letters beyond ASCII hide nothing that the proxy appended.
            (&["203.0.113.66, é, 198.51.100.1"], "198.51.100.1"),
            (&["198.51.100.1, unknown, 10.2.3.4"], "10.2.3.4"),
            (&[""], PROXY),
        ] {
            let headers: Vec<_> = lines.iter().map(|line| (X_FORWARDED_FOR, *line)).collect();
            assert_eq!(client(PROXY, &headers), expected, "{lines:?}");
        }
    }

    #[test]
    fn the_forwarded_header_is_read_from_its_end() {
        for (line, expected) in [
            ("for=198.51.100.1", "198.51.100.1"),
            ("For=198.51.100.1;proto=https;by=10.0.0.1", "198.51.100.1"),
            ("proto=https; for=\"[2001:db8::7]:4711\"", "2001:db8::7"),
            ("for=203.0.113.66, for=198.51.100.1, for=10.2.3.4", "198.51.100.1"),
            ("for=\"203.0.113.66, for=198.51.100.1", "198.51.100.1"),
            ("for=198.51.100.1, for=_hidden", PROXY),
            ("for=198.51.100.1, for=unknown", PROXY),
            ("for=198.51.100.1, proto=https", PROXY),
        ] {
            assert_eq!(client(PROXY, &[(FORWARDED, line)]), expected, "{line}");
        }
    }

    #[test]
    fn a_client_cannot_choose_its_address_by_the_header_that_the_proxy_does_not_write() {
        let both = [(FORWARDED, "for=203.0.113.66"), (X_FORWARDED_FOR, "198.51.100.1")];
        assert_eq!(client(PROXY, &both), "198.51.100.1");
    }
}
