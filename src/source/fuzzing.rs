//! Fuzz target of addresses: URLs, hosts, address ranges, and the table of public addresses.

use super::AddressRange;
use super::global_address::is_global;
use crate::image::SourceUrl;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use url::Host;

/// Reads `bytes` as an address in every form.
///
/// # Panics
/// When a notation of an address that the standard library knows as special counts as public, or a value that was read
/// does not survive its text form.
pub fn address(bytes: &[u8]) {
    if let Some(octets) = bytes.first_chunk::<4>() {
        check(Ipv4Addr::from(*octets).into());
    }
    if let Some(octets) = bytes.first_chunk::<16>() {
        check(Ipv6Addr::from(*octets).into());
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(ip) = text.parse() {
        check(ip);
    }
    if let Ok(range) = text.parse::<AddressRange>() {
        assert_eq!(range.to_string().parse::<AddressRange>().expect("its own text"), range);
    }
    for text in [text, &format!("https://{text}/")] {
        let Ok(url) = SourceUrl::parse(text) else { continue };
        let again = SourceUrl::parse(url.as_url().as_str()).expect("its own text");
        assert_eq!(again, url);
        match url.as_url().host() {
            Some(Host::Ipv4(ip)) => check(ip.into()),
            Some(Host::Ipv6(ip)) => check(ip.into()),
            // A name that the C library's resolver would take for an address.
            Some(Host::Domain(name)) => assert!(name.parse::<IpAddr>().is_err(), "{name} is an address"),
            None => panic!("{url:?} has no host"),
        }
        if let Ok(next) = url.join(text) {
            assert_eq!(next.as_url().scheme(), "https");
        }
    }
}

fn check(ip: IpAddr) {
    let special = match ip {
        IpAddr::V4(ip) => is_special_v4(ip),
        IpAddr::V6(ip) => is_special_v6(ip),
    };
    assert!(!(special && is_global(ip)), "{ip} is special");
    if let IpAddr::V4(ip) = ip {
        let segments = ip.to_ipv6_mapped();
        assert_eq!(is_global(segments.into()), is_global(ip.into()), "{ip} as {segments}");
        // As a 6to4 address it may be refused for more reasons, never for fewer.
        let [a, b, c, d] = ip.octets().map(u16::from);
        let relayed = Ipv6Addr::new(0x2002, a << 8 | b, c << 8 | d, 0, 0, 0, 0, 1);
        assert!(is_global(ip.into()) || !is_global(relayed.into()), "{relayed}");
    }
}

fn is_special_v4(ip: Ipv4Addr) -> bool {
    ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_multicast()
        || ip.is_broadcast()
        || ip.is_documentation()
        || ip.is_unspecified()
}

fn is_special_v6(ip: Ipv6Addr) -> bool {
    ip.is_loopback()
        || ip.is_unspecified()
        || ip.is_multicast()
        || ip.is_unique_local()
        || ip.is_unicast_link_local()
        || ip.to_ipv4_mapped().is_some_and(is_special_v4)
}

#[cfg(test)]
mod tests {
    #[test]
    fn seeds_pass() {
        crate::fuzzing::replay("address", super::address);
    }
}
