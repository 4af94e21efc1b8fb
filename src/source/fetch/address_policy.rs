//! Resolves a host and refuses denied, non-public and local addresses.

use super::error::FetchError;
use crate::source::address_range::AddressRange;
use crate::source::config::FetchConfig;
use crate::source::global_address::{embedded_v4, is_global};
use crate::source::resolve::Resolve;
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::{fmt, io};
use tokio::task::spawn_blocking;
use url::Host;

/// The addresses that may be fetched from.
pub(super) struct AddressPolicy {
    private_origins: HashSet<(Host, u16)>,
    denied: Vec<AddressRange>,
    local_addresses: fn() -> io::Result<Vec<IpAddr>>,
    resolver: Arc<dyn Resolve>,
}

impl fmt::Debug for AddressPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("AddressPolicy");
        debug.field("private_origins", &self.private_origins).field("denied", &self.denied).finish_non_exhaustive()
    }
}

impl AddressPolicy {
    pub(super) fn new(config: &FetchConfig, resolver: Arc<dyn Resolve>) -> Self {
        Self {
            private_origins: config.origins().into_iter().collect(),
            denied: config.deny.clone(),
            local_addresses,
            resolver,
        }
    }

    /// Resolves `host`; checks every address. One refused address refuses the host: a mixed answer indicates an attack.
    pub(super) async fn resolve(&self, host: Host<&str>, port: u16) -> Result<Vec<SocketAddr>, FetchError> {
        let found = match host {
            Host::Domain(name) => self.resolver.resolve(name).await.map_err(FetchError::Resolve)?,
            Host::Ipv4(ip) => vec![ip.into()],
            Host::Ipv6(ip) => vec![ip.into()],
        };
        if found.is_empty() {
            return Err(FetchError::NoAddress);
        }
        if let Some(ip) = found.iter().find(|ip| self.is_denied(**ip)) {
            return Err(FetchError::DeniedAddress(*ip));
        }
        if !self.is_listed(&host.to_owned(), port) {
            if let Some(ip) = found.iter().find(|ip| !is_global(**ip)) {
                return Err(FetchError::PrivateAddress(*ip));
            }
            self.refuse_local(&found).await?;
        }
        Ok(found.into_iter().map(|ip| SocketAddr::new(ip, port)).collect())
    }

    /// Whether `host` is an IP literal that is denied or not public.
    pub(super) fn refuses_literal(&self, host: &Host, port: u16) -> bool {
        let ip = match host {
            Host::Ipv4(ip) => (*ip).into(),
            Host::Ipv6(ip) => (*ip).into(),
            Host::Domain(_) => return false,
        };
        self.is_denied(ip) || (!is_global(ip) && !self.is_listed(host, port))
    }

    /// Whether the operator has listed the origin as private.
    fn is_listed(&self, host: &Host, port: u16) -> bool {
        self.private_origins.iter().any(|(listed, at)| listed == host && *at == port)
    }

    /// Whether the operator has denied this address or an address embedded in it.
    fn is_denied(&self, ip: IpAddr) -> bool {
        self.denied
            .iter()
            .any(|range| range.contains(ip) || embedded_v4(ip).any(|embedded| range.contains(embedded.into())))
    }

    /// Refuses this machine's addresses.
    async fn refuse_local(&self, found: &[IpAddr]) -> Result<(), FetchError> {
        let listed = spawn_blocking(self.local_addresses).await.map_err(io::Error::other);
        let local = listed.flatten().map_err(FetchError::Interfaces)?;
        let is_local = |ip: &&IpAddr| local.contains(ip) || embedded_v4(**ip).any(|ip| local.contains(&ip.into()));
        found.iter().find(is_local).map_or(Ok(()), |ip| Err(FetchError::OwnAddress(*ip)))
    }
}

/// The addresses of this machine's network interfaces, not cached because interfaces change. Blocks.
fn local_addresses() -> io::Result<Vec<IpAddr>> {
    Ok(if_addrs::get_if_addrs()?.iter().map(if_addrs::Interface::ip).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::SourceUrl;
    use crate::source::resolve::SystemResolver;
    use std::net::Ipv4Addr;

    /// A public address that the tests assign to this machine.
    const OWN: Ipv4Addr = Ipv4Addr::new(203, 1, 2, 3);

    fn own() -> io::Result<Vec<IpAddr>> {
        Ok(vec![Ipv4Addr::LOCALHOST.into(), OWN.into(), "2a00:1::7".parse().expect("an address")])
    }

    /// The number of addresses of the URL `text` that pass the checks.
    async fn addresses(listed: &[&str], own: fn() -> io::Result<Vec<IpAddr>>, text: &str) -> Result<usize, FetchError> {
        let private_origins = listed.iter().map(|text| (*text).to_owned()).collect();
        let config = FetchConfig {
            private_origins,
            deny: vec!["198.18.7.0/24".parse().expect("a range")],
            ..FetchConfig::default()
        };
        let mut policy = AddressPolicy::new(&config, Arc::new(SystemResolver::default()));
        policy.local_addresses = own;
        let url = SourceUrl::parse(text).expect("a URL");
        let host = url.as_url().host().expect("a host");
        policy.resolve(host, 443).await.map(|addresses| addresses.len())
    }

    #[test]
    fn the_loopback_address_is_a_local_one() {
        let addresses = local_addresses().expect("the system lists its interfaces");
        assert!(addresses.iter().any(IpAddr::is_loopback), "{addresses:?}");
    }

    #[tokio::test]
    async fn local_addresses_are_refused_in_every_notation() {
        for host in "203.1.2.3 [2a00:1::7] [::ffff:203.1.2.3] [64:ff9b::203.1.2.3] [2002:cb01:203::1]".split(' ') {
            let text = &format!("https://{host}/");
            let refused = addresses(&[], own, text).await;
            assert!(matches!(refused, Err(FetchError::OwnAddress(_))), "{text}: {refused:?}");
        }
        for text in ["https://203.1.2.4/", "https://203.1.2.2/", "https://[2a00:1::8]/"] {
            assert_eq!(addresses(&[], own, text).await.expect("another machine's"), 1, "{text}");
        }
        assert_eq!(addresses(&["203.1.2.3:443"], own, "https://203.1.2.3/").await.expect("listed"), 1);
    }

    #[tokio::test]
    async fn every_address_is_refused_while_the_local_addresses_are_unknown() {
        let unknown = || Err(io::Error::other("no netlink"));
        let refused = addresses(&[], unknown, "https://203.1.2.4/").await;
        assert!(matches!(refused, Err(FetchError::Interfaces(_))), "{refused:?}");
    }

    #[tokio::test]
    async fn a_denied_address_is_refused_in_every_notation_and_even_when_listed() {
        for text in ["https://198.18.7.9/", "https://[::ffff:198.18.7.9]/", "https://[2002:c612:709::]/"] {
            let refused = addresses(&["198.18.7.9:443"], own, text).await;
            assert!(matches!(refused, Err(FetchError::DeniedAddress(_))), "{text}: {refused:?}");
        }
    }
}
