//! Parses the PROXY protocol (versions 1 and 2): the client address that a TCP load balancer sends first.
//!
//! The protocol is specified in `proxy-protocol.txt` (haproxy.org).
//!
//! The header is read to its last byte and not further. As the specification demands, its presence is never guessed: it is
//! read where it is configured, from trusted addresses, and a connection without it is closed.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tokio::io::{AsyncRead, AsyncReadExt};

/// The beginning of a header of version 2.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";

/// The longest header of version 1, its line end included.
const MAX_V1: usize = 107;

/// The longest rest of a header of version 2 that is read: the addresses have at most 216 bytes, and the additions of load
/// balancers (names of certificates, endpoints) some hundreds.
const MAX_V2: usize = 4096;

/// Reads the header and returns the client's address; `None` for the proxy's own connections and unknown clients.
pub(crate) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<IpAddr>> {
    // No header of either version is shorter.
    let mut start = [0; SIGNATURE.len()];
    stream.read_exact(&mut start).await?;
    if start == SIGNATURE {
        let mut fixed = [0; 4];
        stream.read_exact(&mut fixed).await?;
        let length = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
        if length > MAX_V2 {
            return Err(malformed());
        }
        let mut rest = vec![0; length];
        stream.read_exact(&mut rest).await?;
        return version_2(fixed[0], fixed[1], &rest).ok_or_else(malformed);
    }
    let mut line = start.to_vec();
    while line.starts_with(b"PROXY ") && line.len() < MAX_V1 {
        line.push(stream.read_u8().await?);
        if let Some(line) = line.strip_suffix(b"\r\n") {
            return str::from_utf8(line).ok().and_then(version_1).ok_or_else(malformed);
        }
    }
    Err(malformed())
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "no PROXY header")
}

/// The source in a line such as `PROXY TCP4 192.0.2.1 198.51.100.1 4711 443`.
fn version_1(line: &str) -> Option<Option<IpAddr>> {
    let mut words = line.strip_prefix("PROXY ")?.split(' ');
    let (source, _destination): (IpAddr, IpAddr) = match words.next()? {
        // The rest of the line is to be ignored.
        "UNKNOWN" => return Some(None),
        "TCP4" => (IpAddr::V4(words.next()?.parse().ok()?), IpAddr::V4(words.next()?.parse().ok()?)),
        "TCP6" => (IpAddr::V6(words.next()?.parse().ok()?), IpAddr::V6(words.next()?.parse().ok()?)),
        _ => return None,
    };
    let ports = is_port(words.next()?) && is_port(words.next()?);
    (ports && words.next().is_none()).then(|| Some(source.to_canonical()))
}

/// A port in decimal, without leading zeros.
fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok_and(|port| port.to_string() == text)
}

/// The source in the addresses of a header of version 2.
fn version_2(version_and_command: u8, family: u8, rest: &[u8]) -> Option<Option<IpAddr>> {
    match (version_and_command, family) {
        // LOCAL: the proxy's own connection, such as a health check.
        (0x20, _) => Some(None),
        // PROXY of TCP over IPv4 and IPv6: both addresses, then both ports.
        (0x21, 0x11) => Some(Some(Ipv4Addr::from(*rest.get(..12)?.first_chunk::<4>()?).into())),
        (0x21, 0x21) => Some(Some(Ipv6Addr::from(*rest.get(..36)?.first_chunk::<16>()?).to_canonical())),
        // PROXY of an unspecified family, and of a Unix socket.
        (0x21, 0x00 | 0x31) => Some(None),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The client, and the unread bytes.
    async fn read_all(mut bytes: &[u8]) -> io::Result<(Option<String>, &[u8])> {
        let client = read(&mut bytes).await?;
        Ok((client.map(|address| address.to_string()), bytes))
    }

    fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).expect("short");
        [&SIGNATURE[..], &[command, family], &length.to_be_bytes(), rest].concat()
    }

    /// Source, destination and ports; the source is 192.0.2.1 or 2001:db8::1.
    fn addresses(family: u8) -> Vec<u8> {
        let (source, destination) = match family {
            0x11 => (vec![192, 0, 2, 1], vec![198, 51, 100, 1]),
            _ => {
                let source: Ipv6Addr = "2001:db8::1".parse().expect("an address");
                (source.octets().to_vec(), vec![0; 16])
            }
        };
        [source, destination, vec![0x12, 0x34, 0x01, 0xbb]].concat()
    }

    #[tokio::test]
    async fn version_1_gives_the_client_and_leaves_the_next_bytes() {
        for (line, client) in [
            ("PROXY TCP4 192.0.2.1 198.51.100.1 4711 443", Some("192.0.2.1")),
            ("PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535", Some("255.255.255.255")),
            ("PROXY TCP6 2001:db8::1 2001:db8::2 0 443", Some("2001:db8::1")),
            ("PROXY TCP6 ::ffff:192.0.2.1 ::ffff:198.51.100.1 4711 443", Some("192.0.2.1")),
            ("PROXY UNKNOWN", None),
            ("PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535", None),
        ] {
            let bytes = format!("{line}\r\nGET / HTTP/1.1\r\n");
            let (found, rest) = read_all(bytes.as_bytes()).await.expect(line);
            assert_eq!((found.as_deref(), rest), (client, &b"GET / HTTP/1.1\r\n"[..]), "{line}");
        }
    }

    #[tokio::test]
    async fn version_2_gives_the_client_and_leaves_the_next_bytes() {
        let with_more = |family| [addresses(family), vec![0x20, 0, 3, 1, 2, 3]].concat();
        for (command, family, rest, client) in [
            (0x21, 0x11, addresses(0x11), Some("192.0.2.1")),
            (0x21, 0x11, with_more(0x11), Some("192.0.2.1")),
            (0x21, 0x21, addresses(0x21), Some("2001:db8::1")),
            (0x21, 0x21, with_more(0x21), Some("2001:db8::1")),
            (0x21, 0x00, vec![], None),
            (0x21, 0x31, vec![0; 216], None),
            (0x20, 0x00, vec![], None),
            (0x20, 0x11, addresses(0x11), None),
        ] {
            let bytes = [v2(command, family, &rest), b"\x16\x03\x01".to_vec()].concat();
            let (found, left) = read_all(&bytes).await.expect("a header");
            assert_eq!((found.as_deref(), left), (client, &b"\x16\x03\x01"[..]), "{command:#x} {family:#x}");
        }
    }

    #[tokio::test]
    async fn every_truncation_is_an_error() {
        let line = b"PROXY TCP4 192.0.2.1 198.51.100.1 4711 443\r\n".to_vec();
        for whole in [line, v2(0x21, 0x11, &addresses(0x11)), v2(0x21, 0x21, &addresses(0x21))] {
            assert!(read_all(&whole).await.is_ok());
            for length in 0..whole.len() {
                let error = read_all(&whole[..length]).await.expect_err("cut off");
                assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{length} bytes");
            }
        }
    }

    #[tokio::test]
    async fn anything_else_is_refused() {
        for line in [
            "PROXY TCP4 192.0.2.1 198.51.100.1 4711",
            "PROXY TCP4 192.0.2.1 198.51.100.1 4711 443 1",
            "PROXY TCP4 192.0.2.1 198.51.100.1 4711 443 ",
            "PROXY TCP4  192.0.2.1 198.51.100.1 4711 443",
            "PROXY TCP4 192.0.2.1 198.51.100.1 04711 443",
            "PROXY TCP4 192.0.2.1 198.51.100.1 4711 65536",
            "PROXY TCP4 192.0.2.1 198.51.100.1 +4711 443",
            "PROXY TCP4 192.0.2.256 198.51.100.1 4711 443",
            "PROXY TCP4 2001:db8::1 2001:db8::2 4711 443",
            "PROXY TCP6 192.0.2.1 198.51.100.1 4711 443",
            "PROXY UNKNOWNS",
            "PROXY tcp4 192.0.2.1 198.51.100.1 4711 443",
            "GET / HTTP/1.1",
        ] {
            assert!(read_all(format!("{line}\r\n\r\n").as_bytes()).await.is_err(), "{line}");
        }
        let endless = format!("PROXY UNKNOWN {}\r\n", "f".repeat(MAX_V1));
        assert!(read_all(endless.as_bytes()).await.is_err());
        for (command, family, rest) in [
            (0x11, 0x11, addresses(0x11)),
            (0x22, 0x11, addresses(0x11)),
            (0x21, 0x12, addresses(0x11)),
            (0x21, 0x11, vec![0; 11]),
            (0x21, 0x21, vec![0; 35]),
            (0x21, 0x11, vec![0; MAX_V2 + 1]),
        ] {
            assert!(read_all(&v2(command, family, &rest)).await.is_err(), "{command:#x} {family:#x} {}", rest.len());
        }
    }
}
