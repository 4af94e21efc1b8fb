//! Rate limit of API keys: a sliding window of one minute over the times of each key's calls.
//!
//! The times of the last calls are kept, up to the limit of the key's plan, so the window is exact; a counter per calendar
//! minute would allow twice the limit around the full minute. Refused calls are not counted: an eager client is not locked out
//! for longer.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::store::RateStatus;

/// The window of the limits in the API documentation and the configuration.
const WINDOW: Duration = Duration::from_secs(60);

/// The calls of every key in the last minute.
#[derive(Debug, Default)]
pub(in crate::store) struct RateLimiter(Mutex<HashMap<String, VecDeque<Instant>>>);

impl RateLimiter {
    /// Counts a call of `key` at `now` if it is within `limit` calls in any minute.
    pub(in crate::store) fn check(&self, key: &str, limit: u32, now: Instant) -> RateStatus {
        self.observe(key, limit, now, true)
    }

    /// The state of the limit of `key` at `now`; no call is counted.
    pub(in crate::store) fn status(&self, key: &str, limit: u32, now: Instant) -> RateStatus {
        self.observe(key, limit, now, false)
    }

    fn observe(&self, key: &str, limit: u32, now: Instant, counts: bool) -> RateStatus {
        let mut calls = self.lock();
        let times = calls.entry(key.to_owned()).or_default();
        drop_expired(times, now);
        let used = u32::try_from(times.len()).unwrap_or(u32::MAX);
        let allowed = used < limit;
        if allowed && counts {
            times.push_back(now);
        }
        let remaining = limit.saturating_sub(used).saturating_sub(u32::from(allowed && counts));
        // Counted work may exceed the limit: then more than one call has to leave.
        let first = times.get(times.len().saturating_sub(limit as usize));
        let reset = first.map_or(Duration::ZERO, |&oldest| (oldest + WINDOW).saturating_duration_since(now));
        RateStatus { allowed, limit, remaining, reset }
    }

    /// Counts `more` calls of `key` at `now`, also beyond its limit, for the work of a call that was allowed.
    pub(in crate::store) fn count_work(&self, key: &str, more: u32, now: Instant) {
        let mut calls = self.lock();
        let times = calls.entry(key.to_owned()).or_default();
        drop_expired(times, now);
        times.extend(std::iter::repeat_n(now, more as usize));
    }

    /// Drops the keys without a call in the last minute.
    pub(in crate::store) fn drop_idle(&self, now: Instant) {
        self.lock().retain(|_, times| {
            drop_expired(times, now);
            !times.is_empty()
        });
    }

    /// Held for a look-up. No panic leaves it half changed, so poison is no reason to stop.
    fn lock(&self) -> MutexGuard<'_, HashMap<String, VecDeque<Instant>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Drops calls that have left the window.
fn drop_expired(times: &mut VecDeque<Instant>, now: Instant) {
    while times.front().is_some_and(|&oldest| now.saturating_duration_since(oldest) >= WINDOW) {
        times.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::whole_seconds;
    use proptest::prelude::*;

    #[test]
    fn the_window_slides_and_the_reported_wait_is_sufficient() {
        let limiter = RateLimiter::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let remaining: Vec<_> = [0, 10, 20].map(|s| limiter.check("a", 3, at(s)).remaining).into();
        assert_eq!(remaining, [2, 1, 0]);
        let refused = limiter.check("a", 3, at(30));
        assert!(!refused.allowed);
        assert_eq!(refused.reset, Duration::from_secs(30));
        assert!(!limiter.check("a", 3, at(59)).allowed, "the first call is still in the window");
        assert!(limiter.check("a", 3, at(30) + refused.reset).allowed);
        assert!(!limiter.check("a", 3, at(60)).allowed, "the second call is still in the window");
        assert!(limiter.check("a", 3, at(70)).allowed);
    }

    proptest! {
        /// Against a model that keeps every call: never more than the limit in any window, no needless refusal, and a caller
        /// who waits for the reported time is allowed.
        #[test]
        fn the_limit_is_that_of_the_model(limit in 1..6_u32, gaps in proptest::collection::vec(0..40_000_u64, 1..60)) {
            let limiter = RateLimiter::default();
            let mut now = Instant::now();
            let mut granted: Vec<Instant> = Vec::new();
            for gap in gaps {
                now += Duration::from_millis(gap);
                let recent = granted.iter().filter(|&&call| now.duration_since(call) < WINDOW).count();
                let status = limiter.check("a", limit, now);
                prop_assert_eq!(status.allowed, recent < limit as usize);
                if status.allowed {
                    granted.push(now);
                    let left = limit as usize - recent - 1;
                    prop_assert_eq!(status.remaining as usize, left);
                } else {
                    now += Duration::from_secs(whole_seconds(status.reset));
                    prop_assert!(limiter.check("a", limit, now).allowed);
                    granted.push(now);
                }
            }
        }
    }

    #[test]
    fn work_is_counted_beyond_the_limit_and_the_reported_wait_is_sufficient() {
        let limiter = RateLimiter::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(limiter.check("a", 3, at(0)).allowed);
        assert!(limiter.check("a", 3, at(1)).allowed);
        limiter.count_work("a", 3, at(2));
        let refused = limiter.check("a", 3, at(3));
        assert_eq!((refused.allowed, refused.remaining, refused.reset), (false, 0, Duration::from_secs(59)));
        assert!(limiter.check("a", 3, at(3) + refused.reset).allowed);
    }

    #[test]
    fn keys_do_not_share_a_limit() {
        let limiter = RateLimiter::default();
        let now = Instant::now();
        assert!(limiter.check("a", 1, now).allowed);
        assert!(!limiter.check("a", 1, now).allowed);
        assert!(limiter.check("b", 1, now).allowed);
    }

    #[test]
    fn a_changed_limit_applies_from_the_next_call_on() {
        let limiter = RateLimiter::default();
        let now = Instant::now();
        let check = |limit| {
            let rate = limiter.check("a", limit, now);
            (rate.allowed, rate.limit, rate.remaining)
        };
        // A changed plan: earlier calls count against the new limit.
        assert_eq!([check(2), check(2), check(2)], [(true, 2, 1), (true, 2, 0), (false, 2, 0)]);
        assert_eq!([check(4), check(1)], [(true, 4, 1), (false, 1, 0)]);
    }

    #[test]
    fn idle_keys_are_dropped() {
        let limiter = RateLimiter::default();
        let start = Instant::now();
        for key in 0..1000 {
            limiter.check(&key.to_string(), 1, start);
        }
        limiter.check("late", 1, start + WINDOW);
        limiter.drop_idle(start + WINDOW);
        assert_eq!(limiter.lock().len(), 1);
    }
}
