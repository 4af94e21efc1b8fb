//! A circuit breaker: who has failed again and again is left alone for a while.
//!
//! Closed, it counts failures in a row; at [`FAILURES`] it opens. Open, nobody gets through. After the pause it is half
//! open: one call gets through, and says by its end whether it closes or opens again.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Failures in a row that open it.
pub(super) const FAILURES: u32 = 5;

/// How long it stays open.
pub(super) const PAUSE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Breaker {
    pause: Duration,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Closed {
        failures: u32,
    },
    Open {
        until: Instant,
    },
    /// One call is out to try.
    Trying,
}

/// A call that was let through. Dropped without having said how it ended, it changes nothing.
#[derive(Debug)]
#[must_use = "it has to be told how the call ended"]
pub(super) struct Through<'a> {
    breaker: &'a Breaker,
    tries: bool,
    told: bool,
}

impl Breaker {
    pub(super) const fn new(pause: Duration) -> Self {
        Self { pause, state: Mutex::new(State::Closed { failures: 0 }) }
    }

    /// Lets a call through, or says how long to wait.
    pub(super) fn enter(&self, now: Instant) -> Result<Through<'_>, Duration> {
        let mut state = self.lock();
        let tries = match *state {
            State::Closed { .. } => false,
            State::Open { until } if now >= until => {
                *state = State::Trying;
                true
            }
            State::Open { until } => return Err(until - now),
            // It will be known soon.
            State::Trying => return Err(Duration::from_secs(1)),
        };
        Ok(Through { breaker: self, tries, told: false })
    }

    /// Held for a look, never across an await; poison is no reason to stop.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Through<'_> {
    /// The other side works.
    pub(super) fn succeeded(mut self) {
        self.told = true;
        *self.breaker.lock() = State::Closed { failures: 0 };
    }

    /// The other side does not work.
    pub(super) fn failed(mut self, now: Instant) {
        self.told = true;
        let mut state = self.breaker.lock();
        let failures = match *state {
            State::Closed { failures } => failures + 1,
            State::Trying if self.tries => FAILURES,
            // Others have found that out before, or are about to.
            State::Open { .. } | State::Trying => return,
        };
        *state = if failures >= FAILURES {
            State::Open { until: now + self.breaker.pause }
        } else {
            State::Closed { failures }
        };
    }
}

impl Drop for Through<'_> {
    fn drop(&mut self) {
        if self.tries && !self.told {
            // Nobody knows: the next one tries.
            *self.breaker.lock() = State::Open { until: Instant::now() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fail(breaker: &Breaker, now: Instant) {
        breaker.enter(now).expect("it is let through").failed(now);
    }

    #[test]
    fn failures_in_a_row_open_it_and_a_success_between_them_does_not() {
        let (breaker, now) = (Breaker::new(PAUSE), Instant::now());
        for _ in 1..FAILURES {
            fail(&breaker, now);
        }
        breaker.enter(now).expect("still closed").succeeded();
        for _ in 1..FAILURES {
            fail(&breaker, now);
        }
        fail(&breaker, now);
        assert_eq!(breaker.enter(now).expect_err("open"), PAUSE);
        assert_eq!(breaker.enter(now + PAUSE / 2).expect_err("open"), PAUSE / 2);
    }

    #[test]
    fn after_the_pause_one_call_tries_and_decides() {
        let (breaker, now) = (Breaker::new(PAUSE), Instant::now());
        for _ in 0..FAILURES {
            fail(&breaker, now);
        }
        let later = now + PAUSE;
        let first = breaker.enter(later).expect("it tries");
        assert!(breaker.enter(later).is_err(), "one at a time");
        first.failed(later);
        assert_eq!(breaker.enter(later).expect_err("open again"), PAUSE);
        breaker.enter(later + PAUSE).expect("it tries again").succeeded();
        assert!(breaker.enter(later + PAUSE).is_ok() && breaker.enter(later + PAUSE).is_ok());
    }

    #[test]
    fn a_try_that_was_given_up_is_followed_by_another() {
        let (breaker, now) = (Breaker::new(Duration::ZERO), Instant::now());
        for _ in 0..FAILURES {
            fail(&breaker, now);
        }
        drop(breaker.enter(now).expect("it tries"));
        assert!(breaker.enter(Instant::now()).is_ok());
    }

    #[test]
    fn a_late_failure_of_before_does_not_disturb_a_try() {
        let (breaker, now) = (Breaker::new(PAUSE), Instant::now());
        let late = breaker.enter(now).expect("closed");
        for _ in 0..FAILURES {
            fail(&breaker, now);
        }
        let trying = breaker.enter(now + PAUSE).expect("it tries");
        late.failed(now + PAUSE);
        trying.succeeded();
        assert!(breaker.enter(now + PAUSE).is_ok());
    }
}
