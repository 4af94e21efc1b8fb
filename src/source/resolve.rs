//! From a host's name to its addresses.

use futures_util::future::BoxFuture;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// A system lookup cannot be interrupted: one that the deadline has cut off keeps its thread until the system gives it
/// up. At the bound further lookups wait, within their own deadlines, rather than take every thread that blocks.
const LOOKUPS: usize = 128;

/// Says where a host is.
pub trait Resolve: Send + Sync {
    /// Every address of `host`, a name as URLs write it: lower case, ASCII.
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// The system's resolver, the hosts file included.
pub(super) struct System {
    lookups: Arc<Semaphore>,
}

impl Default for System {
    fn default() -> Self {
        Self { lookups: Arc::new(Semaphore::new(LOOKUPS)) }
    }
}

impl Resolve for System {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let (lookups, host) = (self.lookups.clone(), host.to_owned());
        Box::pin(async move {
            let permit = lookups.acquire_owned().await.map_err(io::Error::other)?;
            let lookup = spawn_blocking(move || {
                let _until_it_ends = permit;
                Ok((host.as_str(), 0).to_socket_addrs()?.map(|address| address.ip()).collect())
            });
            lookup.await.map_err(io::Error::other)?
        })
    }
}
