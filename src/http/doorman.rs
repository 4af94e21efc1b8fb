//! Wrong keys, counted by the address they come from.
//!
//! Beyond the limit a wrong key is answered 429 in place of 401, until a minute after the first one that was counted. A
//! key that works is never refused: it is looked up before, and many callers may be behind one address. Guessing would
//! not succeed anyway (a key has 190 random bits); this makes it visible, and tells clients that try a dead key for ever
//! to wait.

use super::client_address::Network;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tracing::warn;

/// How long a failure counts, at most.
const WINDOW: Duration = Duration::from_secs(60);

/// Networks that are counted one by one: some megabytes. Beyond them all new ones share one count, so that whoever has
/// more addresses gains nothing by it.
const MOST_NETWORKS: usize = 1 << 16;

/// With every place taken, how often it is looked for one that is free.
const SWEEP_PAUSE: Duration = Duration::from_secs(1);

/// Counts wrong keys.
#[derive(Debug)]
pub(super) struct Doorman {
    limit: u32,
    failures: Mutex<Failures>,
}

#[derive(Debug)]
struct Failures {
    by_network: HashMap<Network, Count>,
    /// Of the networks that found no place.
    others: Option<Count>,
    swept: Option<Instant>,
}

/// The failures in the minute since the first of them.
#[derive(Clone, Copy, Debug)]
struct Count {
    since: Instant,
    failures: u32,
}

impl Doorman {
    /// At most `limit` failures a minute.
    pub(super) fn new(limit: u32) -> Self {
        Self { limit, failures: Mutex::new(Failures { by_network: HashMap::new(), others: None, swept: None }) }
    }

    fn failures(&self) -> MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A wrong key came from `address` at `now`. Beyond the limit: how long to wait until the next one is counted.
    pub(super) fn wrong_key(&self, address: IpAddr, now: Instant) -> Result<(), Duration> {
        let mut failures = self.failures();
        let count = failures.count(Network::of(address), now);
        if count.failures < self.limit {
            count.failures += 1;
            return Ok(());
        }
        let wait = (count.since + WINDOW).saturating_duration_since(now);
        // Once in a window: the log must not grow with what is refused.
        if count.failures == self.limit {
            count.failures += 1;
            warn!(%address, "too many wrong keys; this address has to wait");
        }
        Err(wait)
    }
}

impl Failures {
    fn count(&mut self, network: Network, now: Instant) -> &mut Count {
        let fresh = Count { since: now, failures: 0 };
        if !self.by_network.contains_key(&network) && !self.has_place(now) {
            let others = self.others.get_or_insert(fresh);
            if others.is_over(now) {
                *others = fresh;
            }
            return others;
        }
        let count = self.by_network.entry(network).or_insert(fresh);
        if count.is_over(now) {
            *count = fresh;
        }
        count
    }

    fn has_place(&mut self, now: Instant) -> bool {
        let swept_lately = self.swept.is_some_and(|swept| now.saturating_duration_since(swept) < SWEEP_PAUSE);
        if self.by_network.len() >= MOST_NETWORKS && !swept_lately {
            self.by_network.retain(|_, count| !count.is_over(now));
            self.swept = Some(now);
        }
        self.by_network.len() < MOST_NETWORKS
    }
}

impl Count {
    fn is_over(&self, now: Instant) -> bool {
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
    fn who_waits_as_long_as_told_is_not_told_to_wait_again() {
        let doorman = Doorman::new(3);
        let start = Instant::now();
        let seconds = |seconds| start + Duration::from_secs(seconds);
        for second in [0, 10, 20] {
            assert_eq!(doorman.wrong_key(at("192.0.2.1"), seconds(second)), Ok(()));
        }
        for second in [20, 30, 59] {
            let wait = Duration::from_secs(60 - second);
            assert_eq!(doorman.wrong_key(at("192.0.2.1"), seconds(second)), Err(wait), "after {second} s");
        }
        assert_eq!(doorman.wrong_key(at("192.0.2.1"), seconds(60)), Ok(()));
    }

    #[test]
    fn addresses_are_counted_by_what_one_subscriber_has() {
        for (one, other, together) in [
            ("192.0.2.1", "192.0.2.2", false),
            ("192.0.2.1", "::ffff:192.0.2.1", true),
            ("::ffff:192.0.2.1", "::ffff:192.0.2.2", false),
            ("2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff", true),
            ("2001:db8:0:1::", "2001:db8::ffff:ffff:ffff:ffff", false),
        ] {
            let (doorman, now) = (Doorman::new(1), Instant::now());
            assert!(doorman.wrong_key(at(one), now).is_ok());
            assert_eq!(doorman.wrong_key(at(other), now).is_err(), together, "{one} and {other}");
        }
    }

    #[test]
    fn with_every_place_taken_newcomers_share_a_count_until_places_are_free() {
        let (doorman, start) = (Doorman::new(2), Instant::now());
        let nth = |n: usize| IpAddr::from(Ipv4Addr::from_bits(u32::try_from(n).expect("few")));
        for n in 0..MOST_NETWORKS {
            assert!(doorman.wrong_key(nth(n), start).is_ok());
        }
        let beyond: Vec<_> = (0..3).map(|n| doorman.wrong_key(nth(MOST_NETWORKS + n), start).is_ok()).collect();
        assert_eq!(beyond, [true, true, false]);
        assert!(doorman.wrong_key(nth(0), start).is_ok(), "whoever has a place keeps it");
        assert_eq!(doorman.failures().by_network.len(), MOST_NETWORKS);
        assert!(doorman.wrong_key(nth(MOST_NETWORKS + 2), start + WINDOW).is_ok());
        assert_eq!(doorman.failures().by_network.len(), 1);
    }
}
