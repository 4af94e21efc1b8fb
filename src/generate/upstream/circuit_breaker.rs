//! Circuit breaker: suspends calls to an image API after repeated failures.
//!
//! Closed, it counts consecutive failures; at [`FAILURE_THRESHOLD`] it opens and refuses calls. After the pause it is
//! half open: it permits one probe call, whose outcome closes or reopens it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Consecutive failures that open it.
pub(super) const FAILURE_THRESHOLD: u32 = 5;

/// Time that it stays open.
pub(super) const PAUSE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct CircuitBreaker {
    pause: Duration,
    state: Mutex<BreakerState>,
}

#[derive(Clone, Copy, Debug)]
enum BreakerState {
    Closed { failures: u32 },
    Open { until: Instant },
    HalfOpen,
}

/// Permission for one call. Dropped without an outcome, it leaves the state unchanged.
#[derive(Debug)]
#[must_use = "the outcome of the call has to be reported"]
pub(super) struct Permit<'a> {
    breaker: &'a CircuitBreaker,
    is_probe: bool,
    is_reported: bool,
}

impl CircuitBreaker {
    pub(super) const fn new(pause: Duration) -> Self {
        Self { pause, state: Mutex::new(BreakerState::Closed { failures: 0 }) }
    }

    /// Permits a call.
    ///
    /// # Errors
    /// The time to wait, when open.
    pub(super) fn acquire(&self, now: Instant) -> Result<Permit<'_>, Duration> {
        let mut state = self.lock();
        let is_probe = match *state {
            BreakerState::Closed { .. } => false,
            BreakerState::Open { until } if now >= until => {
                *state = BreakerState::HalfOpen;
                true
            }
            BreakerState::Open { until } => return Err(until - now),
            // The probe's outcome is unknown.
            BreakerState::HalfOpen => return Err(Duration::from_secs(1)),
        };
        Ok(Permit { breaker: self, is_probe, is_reported: false })
    }

    /// Never held across an await; a poisoned state is still consistent.
    fn lock(&self) -> MutexGuard<'_, BreakerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit<'_> {
    pub(super) fn succeeded(mut self) {
        self.is_reported = true;
        *self.breaker.lock() = BreakerState::Closed { failures: 0 };
    }

    pub(super) fn failed(mut self, now: Instant) {
        self.is_reported = true;
        let mut state = self.breaker.lock();
        let failures = match *state {
            BreakerState::Closed { failures } => failures + 1,
            BreakerState::HalfOpen if self.is_probe => FAILURE_THRESHOLD,
            // A late failure of a call from before the opening.
            BreakerState::Open { .. } | BreakerState::HalfOpen => return,
        };
        *state = if failures >= FAILURE_THRESHOLD {
            BreakerState::Open { until: now + self.breaker.pause }
        } else {
            BreakerState::Closed { failures }
        };
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if self.is_probe && !self.is_reported {
            // The probe was cancelled: the next call is the probe.
            *self.breaker.lock() = BreakerState::Open { until: Instant::now() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fail(breaker: &CircuitBreaker, now: Instant) {
        breaker.acquire(now).expect("permitted").failed(now);
    }

    #[test]
    fn failures_in_a_row_open_it_and_a_success_resets_the_count() {
        let (breaker, now) = (CircuitBreaker::new(PAUSE), Instant::now());
        for _ in 1..FAILURE_THRESHOLD {
            fail(&breaker, now);
        }
        breaker.acquire(now).expect("still closed").succeeded();
        for _ in 1..FAILURE_THRESHOLD {
            fail(&breaker, now);
        }
        fail(&breaker, now);
        assert_eq!(breaker.acquire(now).expect_err("open"), PAUSE);
        assert_eq!(breaker.acquire(now + PAUSE / 2).expect_err("open"), PAUSE / 2);
    }

    #[test]
    fn after_the_pause_one_probe_closes_it_or_opens_it_again() {
        let (breaker, now) = (CircuitBreaker::new(PAUSE), Instant::now());
        for _ in 0..FAILURE_THRESHOLD {
            fail(&breaker, now);
        }
        let later = now + PAUSE;
        let first = breaker.acquire(later).expect("the probe");
        assert!(breaker.acquire(later).is_err(), "one at a time");
        first.failed(later);
        assert_eq!(breaker.acquire(later).expect_err("open again"), PAUSE);
        breaker.acquire(later + PAUSE).expect("the next probe").succeeded();
        assert!(breaker.acquire(later + PAUSE).is_ok() && breaker.acquire(later + PAUSE).is_ok());
    }

    #[test]
    fn a_cancelled_probe_is_followed_by_another() {
        let (breaker, now) = (CircuitBreaker::new(Duration::ZERO), Instant::now());
        for _ in 0..FAILURE_THRESHOLD {
            fail(&breaker, now);
        }
        drop(breaker.acquire(now).expect("the probe"));
        assert!(breaker.acquire(Instant::now()).is_ok());
    }

    #[test]
    fn a_late_failure_does_not_disturb_a_probe() {
        let (breaker, now) = (CircuitBreaker::new(PAUSE), Instant::now());
        let late = breaker.acquire(now).expect("closed");
        for _ in 0..FAILURE_THRESHOLD {
            fail(&breaker, now);
        }
        let probe = breaker.acquire(now + PAUSE).expect("the probe");
        late.failed(now + PAUSE);
        probe.succeeded();
        assert!(breaker.acquire(now + PAUSE).is_ok());
    }
}
