//! Classifies IP addresses as globally routed unicast or special-purpose, to prevent server-side request forgery.
//!
//! Callers' URLs may reach globally routed unicast addresses only: services at other addresses trust their clients by
//! network position. The tables are IANA's special-purpose registries (RFC 6890,
//! <https://www.iana.org/assignments/iana-ipv4-special-registry>,
//! <https://www.iana.org/assignments/iana-ipv6-special-registry>) in full. Their few globally routed blocks (anycast of
//! AS112, AMT, PCP and TURN) belong to services that networks often run internally and that serve no pictures. In IPv6
//! only 2000::/3 is allocated (RFC 4291, section 2.4), so everything else is refused without a list.
//!
//! An IPv6 address with an embedded IPv4 address must pass both checks; IPv4 addresses embed nothing further. A
//! network's specific translation prefix (RFC 6052, section 2.2) cannot be detected here; its operator must not let the
//! daemon reach internal addresses through it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Refused blocks: first address and prefix length in bits.
const SPECIAL_V4: &[(Ipv4Addr, u32)] = &[
    (Ipv4Addr::new(0, 0, 0, 0), 8), // "this network", RFC 791; Linux treats 0.0.0.0 as the loopback
    (Ipv4Addr::new(10, 0, 0, 0), 8), // private, RFC 1918
    (Ipv4Addr::new(100, 64, 0, 0), 10), // shared by carriers, RFC 6598; metadata of Alibaba 100.100.100.200
    (Ipv4Addr::new(127, 0, 0, 0), 8), // loopback, RFC 1122
    (Ipv4Addr::new(168, 63, 129, 16), 32), // not registered as special: the host of every Azure machine, reachable only inside
    (Ipv4Addr::new(169, 254, 0, 0), 16),   // link-local, RFC 3927; metadata of most clouds 169.254.169.254
    (Ipv4Addr::new(172, 16, 0, 0), 12),    // private, RFC 1918
    (Ipv4Addr::new(192, 0, 0, 0), 24),     // IETF protocols, RFC 6890; metadata of Oracle 192.0.0.192
    (Ipv4Addr::new(192, 0, 2, 0), 24),     // documentation, RFC 5737
    (Ipv4Addr::new(192, 31, 196, 0), 24),  // AS112, RFC 7535
    (Ipv4Addr::new(192, 52, 193, 0), 24),  // AMT relays, RFC 7450
    (Ipv4Addr::new(192, 88, 99, 0), 24),   // 6to4 relays, RFC 7526
    (Ipv4Addr::new(192, 168, 0, 0), 16),   // private, RFC 1918
    (Ipv4Addr::new(192, 175, 48, 0), 24),  // AS112, RFC 7534
    (Ipv4Addr::new(198, 18, 0, 0), 15),    // benchmarks, RFC 2544
    (Ipv4Addr::new(198, 51, 100, 0), 24),  // documentation, RFC 5737
    (Ipv4Addr::new(203, 0, 113, 0), 24),   // documentation, RFC 5737
    (Ipv4Addr::new(224, 0, 0, 0), 4),      // multicast, RFC 5771
    (Ipv4Addr::new(240, 0, 0, 0), 4),      // reserved, RFC 1112, with the broadcast, RFC 919
];

/// The allocated unicast block (RFC 4291). It excludes loopback, ULA fc00::/7 (RFC 4193), link-local fe80::/10,
/// site-local fec0::/10 (RFC 3879), multicast, IPv4-compatible ::/96, local NAT64 64:ff9b:1::/48 (RFC 8215), the discard
/// prefix 100::/64 (RFC 6666) and SRv6 5f00::/16 (RFC 9602).
const UNICAST_V6: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// Refused blocks inside [`UNICAST_V6`].
const SPECIAL_V6: &[(Ipv6Addr, u32)] = &[
    // IETF protocols, RFC 2928: Teredo 2001::/32 (RFC 4380), benchmarks 2001:2::/48 (RFC 5180), ORCHID 2001:10::/28 and
    // 2001:20::/28 (RFC 4843, RFC 7343), drones 2001:30::/28 (RFC 9374), anycast services.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0x0db8, 0, 0, 0, 0, 0, 0), 32), // documentation, RFC 3849
    (Ipv6Addr::new(0x2620, 0x004f, 0x8000, 0, 0, 0, 0, 0), 48), // AS112, RFC 7534
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),      // documentation, RFC 9637
];

/// Whether `ip` is a globally routed unicast address.
pub(super) fn is_global(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_global_v4(ip),
        IpAddr::V6(ip) => is_global_v6(ip),
    }
}

fn is_global_v4(ip: Ipv4Addr) -> bool {
    !SPECIAL_V4.iter().any(|(first, bits)| (u32::from(ip) ^ u32::from(*first)) >> (32 - bits) == 0)
}

/// The IPv4 addresses embedded in `ip` at which its packets end or through which they are routed.
pub(super) fn embedded_v4(ip: IpAddr) -> impl Iterator<Item = Ipv4Addr> {
    let segments = match ip {
        IpAddr::V4(_) => None,
        IpAddr::V6(ip) => Some(ip.segments()),
    };
    let v4 = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    let router = segments.and_then(|segments| match segments {
        // IPv4-mapped (RFC 4291, section 2.5.5.2): the system connects to the IPv4 address.
        // NAT64's well-known prefix (RFC 6052): on IPv6-only networks a translator connects to it.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x0064, 0xff9b, 0, 0, 0, 0, high, low] => Some(v4(high, low)),
        // 6to4 (RFC 3056): packets go to the router at the IPv4 address.
        [0x2002, high, low, ..] => Some(v4(high, low)),
        _ => None,
    });
    // ISATAP (RFC 5214, section 6.1): packets go to the host at the IPv4 address for any prefix, even 6to4's.
    let host = segments.and_then(|segments| match segments {
        [_, _, _, _, 0x0000 | 0x0200, 0x5efe, high, low] => Some(v4(high, low)),
        _ => None,
    });
    router.into_iter().chain(host)
}

fn is_global_v6(ip: Ipv6Addr) -> bool {
    let within = |(first, bits): &(Ipv6Addr, u32)| (u128::from(ip) ^ u128::from(*first)) >> (128 - bits) == 0;
    let is_unicast = within(&UNICAST_V6) && !SPECIAL_V6.iter().any(within);
    // These are not unicast: only the IPv4 address to which the system or the translator connects counts.
    let is_translated = matches!(ip.segments(), [0, 0, 0, 0, 0, 0xffff, ..] | [0x0064, 0xff9b, 0, 0, 0, 0, ..]);
    embedded_v4(ip.into()).all(is_global_v4) && (is_translated || is_unicast)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ends of the blocks that are not public.
    const NOT_PUBLIC: &str = "
        0.0.0.0 0.255.255.255 10.0.0.0 10.255.255.255 100.64.0.0 100.100.100.200 100.127.255.255 127.0.0.0
        127.255.255.255 168.63.129.16 169.254.0.0 169.254.169.254 169.254.255.255 172.16.0.0
        172.31.255.255 192.0.0.0 192.0.0.9 192.0.0.10 192.0.0.255 192.0.2.0 192.0.2.255 192.31.196.0
        192.31.196.255 192.52.193.0 192.52.193.255 192.88.99.0 192.88.99.255 192.168.0.0 192.168.255.255
        192.175.48.0 192.175.48.255 198.18.0.0 198.19.255.255 198.51.100.0 198.51.100.255 203.0.113.0
        203.0.113.255 224.0.0.0 239.255.255.255 240.0.0.0 255.255.255.255 :: ::1 ::ffff ::8.8.8.8
        ::ffff:0.0.0.0 ::ffff:10.0.0.0 ::ffff:172.31.255.255 ::ffff:255.255.255.255 ::ffff:0:8.8.8.8
        64:ff9b::10.255.255.255 64:ff9b::192.168.0.1 64:ff9b:0:0:1::8.8.8.8 64:ff9b:1::
        64:ff9b:1:ffff:ffff:ffff:ffff:ffff 100:: 100::ffff:ffff:ffff:ffff 100:0:0:1::
        1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 2001:: 2001:0:ffff:ffff:ffff:ffff:ffff:ffff 2001:1::1
        2001:2:: 2001:10:: 2001:1f:ffff:ffff:ffff:ffff:ffff:ffff 2001:20::
        2001:2f:ffff:ffff:ffff:ffff:ffff:ffff 2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff 2001:db8::
        2001:db8:ffff:ffff:ffff:ffff:ffff:ffff 2002:: 2002:a00:: 2002:aff:ffff:: 2002:a9fe:a9fe::1
        2002:ffff:ffff::1 2620:4f:8000:: 2620:4f:8000:ffff:ffff:ffff:ffff:ffff
        2a00:1450:4001:81b:0:5efe:192.168.0.1 2a00:1450:4001:81b:200:5efe:169.254.169.254
        2002:808:808::5efe:10.0.0.1 3fff:: 3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff 4000:: 5f00::
        5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff fbff:ffff:ffff:ffff:ffff:ffff:ffff:ffff fc00::
        fd00:ec2::254 fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff fe80::
        febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff fec0:: feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ff00::
        ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff
    ";

    /// Their neighbours, which are public.
    const PUBLIC: &str = "
        1.0.0.0 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0
        168.63.129.15 168.63.129.17 169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 191.255.255.255
        192.0.1.0 192.0.1.255 192.0.3.0 192.31.195.255 192.31.197.0 192.52.192.255 192.52.194.0
        192.88.98.255 192.88.100.0 192.167.255.255 192.169.0.0 192.175.47.255 192.175.49.0 198.17.255.255
        198.20.0.0 198.51.99.255 198.51.101.0 203.0.112.255 203.0.114.0 223.255.255.255 ::ffff:8.8.8.8
        ::ffff:172.32.0.0 64:ff9b::8.8.8.8 64:ff9b::11.0.0.0 2000::
        2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff 2001:200:: 2001:db7:ffff:ffff:ffff:ffff:ffff:ffff
        2001:db9:: 2001:4860:4860::8888 2002:9ff:ffff::1 2002:b00::1 2002:808:808::1 2003::
        2606:4700:4700::1111 2620:4f:7fff:ffff:ffff:ffff:ffff:ffff 2620:4f:8001::
        2a00:1450:4001:81b:0:5efe:8.8.8.8 2a00:1450:4001:81b:0:5eff:192.168.0.1
        2a00:1450:4001:81b:100:5efe:192.168.0.1 3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff 3fff:1000::
        3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff
    ";

    #[test]
    fn blocks_that_are_not_public_end_where_the_iana_registries_say() {
        for (addresses, expected) in [(NOT_PUBLIC, false), (PUBLIC, true)] {
            for ip in addresses.split_whitespace() {
                assert_eq!(is_global(ip.parse().expect("an address")), expected, "{ip}");
            }
        }
    }

    #[test]
    fn blocks_are_written_by_their_first_address() {
        for (first, bits) in SPECIAL_V4 {
            assert_eq!(u32::from(*first) & u32::MAX.checked_shr(*bits).unwrap_or(0), 0, "{first}/{bits}");
        }
        for (first, bits) in SPECIAL_V6.iter().chain([&UNICAST_V6]) {
            assert_eq!(u128::from(*first) & (u128::MAX >> bits), 0, "{first}/{bits}");
        }
    }
}
