//! Resolves host names to IP addresses with the system's resolver, bounded to 128 concurrent lookups.

use futures_util::future::BoxFuture;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Maximum number of concurrent lookups. A system lookup cannot be cancelled: after its deadline it occupies a thread
/// until the system returns. Further lookups wait within their deadlines, so that blocking threads remain.
const MAX_LOOKUPS: usize = 128;

/// A host name resolver.
pub trait Resolve: Send + Sync {
    /// All addresses of `host`, which is written as in URLs: lower case, ASCII.
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// The system's resolver, including the hosts file.
pub(super) struct SystemResolver {
    lookups: Arc<Semaphore>,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self { lookups: Arc::new(Semaphore::new(MAX_LOOKUPS)) }
    }
}

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let (lookups, host) = (self.lookups.clone(), host.to_owned());
        Box::pin(async move {
            let permit = lookups.acquire_owned().await.map_err(io::Error::other)?;
            let lookup = spawn_blocking(move || {
                let _permit = permit;
                Ok((host.as_str(), 0).to_socket_addrs()?.map(|address| address.ip()).collect())
            });
            lookup.await.map_err(io::Error::other)?
        })
    }
}
