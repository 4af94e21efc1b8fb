//! Throttles wrong API keys by client address.
//!
//! Beyond the limit a wrong key is answered 429 instead of 401, until a minute after the first counted one. A
//! valid key is never throttled: it is looked up first, and many callers may share one address. Guessing cannot succeed
//! anyway (a key has 190 random bits); the throttle makes it visible, and slows clients that retry a dead key.

use crate::http::connection::client_address::Network;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tracing::warn;

/// How long a failure is counted, at most.
const WINDOW: Duration = Duration::from_secs(60);

/// Networks that are counted separately: some megabytes. All further ones share one count, so that a client with many
/// addresses gains nothing by them.
const MOST_NETWORKS: usize = 1 << 16;

/// While the table is full, how often expired counts are removed from it.
const SWEEP_PAUSE: Duration = Duration::from_secs(1);

/// Counts wrong keys.
#[derive(Debug)]
pub(crate) struct AuthThrottle {
    limit: u32,
    failures: Mutex<Failures>,
}

#[derive(Debug)]
struct Failures {
    /// The networks beyond the table share the count of `None`.
    by_network: HashMap<Option<Network>, Count>,
    swept: Option<Instant>,
}

/// The failures in the minute since the first of them.
#[derive(Clone, Copy, Debug)]
struct Count {
    since: Instant,
    failures: u32,
}

impl AuthThrottle {
    /// At most `limit` failures a minute.
    pub(crate) fn new(limit: u32) -> Self {
        Self { limit, failures: Mutex::new(Failures { by_network: HashMap::new(), swept: None }) }
    }

    fn failures(&self) -> MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a wrong key from `address` at `now`. Beyond the limit: the wait until the count is reset.
    pub(crate) fn count_failure(&self, address: IpAddr, now: Instant) -> Result<(), Duration> {
        let mut failures = self.failures();
        let count = failures.count(Network::of(address), now);
        if count.failures < self.limit {
            count.failures += 1;
            return Ok(());
        }
        let wait = (count.since + WINDOW).saturating_duration_since(now);
        // Once in a window, so that the log does not grow with the attempts.
        if count.failures == self.limit {
            count.failures += 1;
            warn!(%address, "too many wrong API keys from one address; throttled");
        }
        Err(wait)
    }
}

impl Failures {
    fn count(&mut self, network: Network, now: Instant) -> &mut Count {
        let fresh = Count { since: now, failures: 0 };
        let is_counted = self.by_network.contains_key(&Some(network)) || self.has_room(now);
        let count = self.by_network.entry(is_counted.then_some(network)).or_insert(fresh);
        if count.is_expired(now) {
            *count = fresh;
        }
        count
    }

    fn has_room(&mut self, now: Instant) -> bool {
        let swept_recently = self.swept.is_some_and(|swept| now.saturating_duration_since(swept) < SWEEP_PAUSE);
        if self.by_network.len() >= MOST_NETWORKS && !swept_recently {
            self.by_network.retain(|_, count| !count.is_expired(now));
            self.swept = Some(now);
        }
        self.by_network.len() < MOST_NETWORKS
    }
}

impl Count {
    fn is_expired(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= WINDOW
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn at(address: &str) -> IpAddr {
        address.parse().expect("an address")
    }

    #[test]
    fn after_the_announced_wait_a_key_is_counted_again() {
        let auth_throttle = AuthThrottle::new(3);
        let start = Instant::now();
        let seconds = |seconds| start + Duration::from_secs(seconds);
        for second in [0, 10, 20] {
            assert_eq!(auth_throttle.count_failure(at("192.0.2.1"), seconds(second)), Ok(()));
        }
        for second in [20, 30, 59] {
            let wait = Duration::from_secs(60 - second);
            assert_eq!(auth_throttle.count_failure(at("192.0.2.1"), seconds(second)), Err(wait), "after {second} s");
        }
        assert_eq!(auth_throttle.count_failure(at("192.0.2.1"), seconds(60)), Ok(()));
    }

    #[test]
    fn addresses_are_counted_by_network() {
        for (one, other, together) in [
            ("192.0.2.1", "192.0.2.2", false),
            ("192.0.2.1", "::ffff:192.0.2.1", true),
            ("::ffff:192.0.2.1", "::ffff:192.0.2.2", false),
            ("2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff", true),
            ("2001:db8:0:1::", "2001:db8::ffff:ffff:ffff:ffff", false),
        ] {
            let (auth_throttle, now) = (AuthThrottle::new(1), Instant::now());
            assert!(auth_throttle.count_failure(at(one), now).is_ok());
            assert_eq!(auth_throttle.count_failure(at(other), now).is_err(), together, "{one} and {other}");
        }
    }

    #[test]
    fn beyond_the_table_new_networks_share_a_count_until_there_is_room() {
        let (auth_throttle, start) = (AuthThrottle::new(2), Instant::now());
        let nth = |n: usize| IpAddr::from(Ipv4Addr::from_bits(u32::try_from(n).expect("few")));
        for n in 0..MOST_NETWORKS {
            assert!(auth_throttle.count_failure(nth(n), start).is_ok());
        }
        let beyond: Vec<_> =
            (0..3).map(|n| auth_throttle.count_failure(nth(MOST_NETWORKS + n), start).is_ok()).collect();
        assert_eq!(beyond, [true, true, false]);
        assert!(auth_throttle.count_failure(nth(0), start).is_ok(), "counted networks keep their count");
        assert_eq!(auth_throttle.failures().by_network.len(), MOST_NETWORKS + 1);
        assert!(auth_throttle.count_failure(nth(MOST_NETWORKS + 2), start + WINDOW).is_ok());
        assert_eq!(auth_throttle.failures().by_network.len(), 1);
    }
}
