//! Connects to the first reachable of a host's addresses, within a deadline.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

/// Minimum time for an address; above it, addresses share the remaining time equally, as in Go's dialer.
const MIN_ATTEMPT: Duration = Duration::from_secs(2);

/// Connects to the first of `addresses` that accepts, in their order.
pub(super) async fn connect(addresses: &[SocketAddr], deadline: Instant) -> io::Result<TcpStream> {
    let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for (address, left) in addresses.iter().zip((1..=addresses.len()).rev()) {
        let time = deadline.saturating_duration_since(Instant::now());
        let share = time / u32::try_from(left).unwrap_or(u32::MAX);
        match timeout(share.max(MIN_ATTEMPT), TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => failure = error,
            Err(_) => failure = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(failure)
}
