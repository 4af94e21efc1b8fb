//! Parses and matches IP address ranges in CIDR notation (RFC 4632), or single addresses.

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// An address such as `192.0.2.1`, or a range such as `10.0.0.0/8` or `2001:db8::/32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AddressRange(IpNet);

/// The text is not an address range.
#[derive(Debug, thiserror::Error)]
#[error("{0:?}: expected an address or a range such as 10.0.0.0/8, without bits set after its prefix")]
pub struct NotARange(String);

impl AddressRange {
    /// Whether the range contains `address`. IPv4 addresses mapped to IPv6 (`::ffff:a.b.c.d`) count as IPv4.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }
}

impl FromStr for AddressRange {
    type Err = NotARange;

    fn from_str(text: &str) -> Result<Self, NotARange> {
        let address = || text.parse().ok().map(|address: IpAddr| IpNet::from(address.to_canonical()));
        let range: Option<IpNet> = text.parse().ok().or_else(address);
        // Addresses are compared in their IPv4 form, so a range of mapped addresses would contain none.
        let is_mapped = |range: &IpNet| range.prefix_len() >= 96 && range.addr().to_canonical() != range.addr();
        range
            .filter(|range| range.trunc() == *range && !is_mapped(range))
            .map(Self)
            .ok_or_else(|| NotARange(text.to_owned()))
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TryFrom<String> for AddressRange {
    type Error = NotARange;

    fn try_from(text: String) -> Result<Self, NotARange> {
        text.parse()
    }
}

impl From<AddressRange> for String {
    fn from(range: AddressRange) -> Self {
        range.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> AddressRange {
        text.parse().expect("a range")
    }

    #[test]
    fn a_range_contains_its_ends_but_not_their_neighbours() {
        for (text, inside, outside) in [
            ("192.0.2.1", ["192.0.2.1", "::ffff:192.0.2.1"], ["192.0.2.0", "192.0.2.2"]),
            ("10.0.0.0/8", ["10.0.0.0", "10.255.255.255"], ["9.255.255.255", "11.0.0.0"]),
            ("192.0.2.64/26", ["192.0.2.64", "192.0.2.127"], ["192.0.2.63", "192.0.2.128"]),
            ("0.0.0.0/0", ["0.0.0.0", "255.255.255.255"], ["::", "2001:db8::1"]),
            ("2001:db8::/32", ["2001:db8::", "2001:db8:ffff::1"], ["2001:db7:ffff::", "2001:db9::"]),
            ("::1", ["::1", "0:0::1"], ["::", "127.0.0.1"]),
            ("::/0", ["::", "ffff::"], ["0.0.0.0", "::ffff:192.0.2.1"]),
        ] {
            for address in inside {
                assert!(range(text).contains(address.parse().expect("an address")), "{address} in {text}");
            }
            for address in outside {
                assert!(!range(text).contains(address.parse().expect("an address")), "{address} in {text}");
            }
        }
    }

    #[test]
    fn malformed_ranges_are_refused() {
        assert!("".parse::<AddressRange>().is_err());
        let malformed = "/8 10.0.0.0/ 10.0.0.0/33 10.0.0.1/8 ::/129 10.0.0.0/-1 example.org 10/8 ::ffff:10.0.0.0/104";
        for text in malformed.split(' ') {
            assert!(text.parse::<AddressRange>().is_err(), "{text}");
        }
    }
}
