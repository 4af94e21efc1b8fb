//! Lists the IP addresses of this machine's network interfaces.

use std::io;
use std::net::IpAddr;

/// All current addresses, uncached, because interfaces come and go. Blocks.
pub(super) fn addresses() -> io::Result<Vec<IpAddr>> {
    Ok(if_addrs::get_if_addrs()?.iter().map(if_addrs::Interface::ip).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_address_is_listed() {
        let addresses = addresses().expect("the system lists its interfaces");
        assert!(addresses.iter().any(IpAddr::is_loopback), "{addresses:?}");
    }
}
