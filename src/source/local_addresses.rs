//! The addresses of this machine's network interfaces.

use std::io;
use std::net::IpAddr;

/// All of them, as they are now: interfaces come and go, so nothing is kept. Blocks for as long as the system takes.
pub(super) fn addresses() -> io::Result<Vec<IpAddr>> {
    Ok(if_addrs::get_if_addrs()?.iter().map(if_addrs::Interface::ip).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_among_them() {
        let addresses = addresses().expect("the system lists its interfaces");
        assert!(addresses.iter().any(IpAddr::is_loopback), "{addresses:?}");
    }
}
