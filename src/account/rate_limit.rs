//! How often a key may call: a sliding window.
//!
//! Each call is counted against the limit of its account's plan. The times of the last calls are kept, at most that many
//! for a key, so the window is exact: a caller never gets more calls into any window, which a counter per calendar minute
//! would allow twice around the full minute. Refused calls are not counted; a client that retries too eagerly is not locked
//! out for longer by it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The window of api documentation and configuration.
const WINDOW: Duration = Duration::from_secs(60);

/// Below this many keys a sweep is not worth it.
const FEW_KEYS: usize = 1024;

/// The calls of every key in the last minute.
#[derive(Debug, Default)]
pub struct RateLimiter {
    calls: Mutex<Calls>,
}

#[derive(Debug, Default)]
struct Calls {
    by_key: HashMap<String, VecDeque<Instant>>,
    sweep_at: usize,
}

/// Where a key stands after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Whether the call is within the limit.
    pub allowed: bool,
    /// Calls in any minute.
    pub limit: u32,
    /// Calls that are left now.
    pub remaining: u32,
    /// When the oldest counted call leaves the window and one more becomes possible.
    pub reset: Duration,
}

impl RateLimiter {
    /// Counts a call of `key` at `now`, if it is within `limit` calls in any minute.
    pub fn count(&self, key: &str, limit: u32, now: Instant) -> Rate {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.sweep(now);
        let times = calls.by_key.entry(key.to_owned()).or_default();
        forget(times, now);
        let used = u32::try_from(times.len()).unwrap_or(u32::MAX);
        let allowed = used < limit;
        if allowed {
            times.push_back(now);
        }
        let remaining = limit.saturating_sub(used).saturating_sub(u32::from(allowed));
        let reset = times.front().map_or(Duration::ZERO, |&oldest| (oldest + WINDOW).saturating_duration_since(now));
        Rate { allowed, limit, remaining, reset }
    }
}

impl Calls {
    /// Drops the keys that went quiet, each time their number has doubled.
    fn sweep(&mut self, now: Instant) {
        if self.by_key.len() < self.sweep_at.max(FEW_KEYS) {
            return;
        }
        self.by_key.retain(|_, times| {
            forget(times, now);
            !times.is_empty()
        });
        self.sweep_at = self.by_key.len() * 2;
    }
}

/// Drops what has left the window.
fn forget(times: &mut VecDeque<Instant>, now: Instant) {
    while times.front().is_some_and(|&oldest| now.saturating_duration_since(oldest) >= WINDOW) {
        times.pop_front();
    }
}

impl Rate {
    /// [`Self::reset`] as a caller is told it.
    #[must_use]
    pub fn reset_seconds(&self) -> u64 {
        whole_seconds(self.reset)
    }
}

/// Whole seconds, rounded up and at least one: a caller who waits that long is not refused for having come early.
#[must_use]
pub fn whole_seconds(wait: Duration) -> u64 {
    (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_window_slides_and_the_wait_that_was_told_is_enough() {
        let limiter = RateLimiter::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let remaining: Vec<_> = [0, 10, 20].map(|s| limiter.count("a", 3, at(s)).remaining).into();
        assert_eq!(remaining, [2, 1, 0]);
        let refused = limiter.count("a", 3, at(30));
        assert!(!refused.allowed);
        assert_eq!(refused.reset, Duration::from_secs(30));
        assert!(!limiter.count("a", 3, at(59)).allowed, "the first call is still in the window");
        assert!(limiter.count("a", 3, at(30) + refused.reset).allowed);
        assert!(!limiter.count("a", 3, at(60)).allowed, "the second call is still in the window");
        assert!(limiter.count("a", 3, at(70)).allowed);
    }

    proptest! {
        /// Against a model that keeps every call: never more than the limit in any window, never a refusal without need,
        /// and whoever waits as long as they are told is let in.
        #[test]
        fn the_limit_is_that_of_the_model(limit in 1..6_u32, gaps in proptest::collection::vec(0..40_000_u64, 1..60)) {
            let limiter = RateLimiter::default();
            let mut now = Instant::now();
            let mut granted: Vec<Instant> = Vec::new();
            for gap in gaps {
                now += Duration::from_millis(gap);
                let recent = granted.iter().filter(|&&call| now.duration_since(call) < WINDOW).count();
                let standing = limiter.count("a", limit, now);
                prop_assert_eq!(standing.allowed, recent < limit as usize);
                if standing.allowed {
                    granted.push(now);
                    let left = limit as usize - recent - 1;
                    prop_assert_eq!(standing.remaining as usize, left);
                } else {
                    now += Duration::from_secs(whole_seconds(standing.reset));
                    prop_assert!(limiter.count("a", limit, now).allowed);
                    granted.push(now);
                }
            }
        }
    }

    #[test]
    fn keys_do_not_share_a_limit() {
        let limiter = RateLimiter::default();
        let now = Instant::now();
        assert!(limiter.count("a", 1, now).allowed);
        assert!(!limiter.count("a", 1, now).allowed);
        assert!(limiter.count("b", 1, now).allowed);
    }

    #[test]
    fn another_limit_counts_from_the_next_call_on() {
        let limiter = RateLimiter::default();
        let now = Instant::now();
        let told = |limit| {
            let rate = limiter.count("a", limit, now);
            (rate.allowed, rate.limit, rate.remaining)
        };
        // A plan that changes: the calls of before count against the new limit.
        assert_eq!([told(2), told(2), told(2)], [(true, 2, 1), (true, 2, 0), (false, 2, 0)]);
        assert_eq!([told(4), told(1)], [(true, 4, 1), (false, 1, 0)]);
    }

    #[test]
    fn keys_that_went_quiet_are_forgotten() {
        let limiter = RateLimiter::default();
        let start = Instant::now();
        for key in 0..FEW_KEYS {
            limiter.count(&key.to_string(), 1, start);
        }
        limiter.count("late", 1, start + WINDOW);
        assert_eq!(limiter.calls.lock().expect("not poisoned").by_key.len(), 1);
    }
}
