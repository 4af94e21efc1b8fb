//! Admission control: the bounds on requests and megapixels in flight, and the `Retry-After` of a request that is refused.
//!
//! A request takes its [`Slot`] first, or is refused, or waits where its caller bounds the queue: refusing is cheaper for both sides
//! than an unbounded one. It then waits for its megapixels, whose number is in the header, before the decoder allocates them. Peak
//! memory follows from the two.
//!
//! A slot is shared by all work of its request. Work in progress when the caller disconnects keeps the slot, and the pixels in
//! it, until it ends: the counts are of what is in memory.

use super::EngineError;
use super::fair_semaphore::{FairSemaphore, Permit, Tenant};
use crate::telemetry::metrics;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::time::timeout_at;

/// The unit of the pixel budget.
const PIXELS_PER_UNIT: usize = 1000;
const UNITS_PER_MEGAPIXEL: usize = 1_000_000 / PIXELS_PER_UNIT;

/// Divides the pixel budget: the quotient is reserved for small pictures.
const SPARE: usize = 8;
/// Divides that reserve: a small picture takes at most the quotient.
const SMALL: usize = 2;
/// A picture that takes more units is large ([`Slot::is_large`]).
const LARGE_UNITS: usize = 16 * UNITS_PER_MEGAPIXEL;

/// A place among the requests in flight. Clones share it; dropping the last one frees it.
#[derive(Clone, Debug)]
pub struct Slot(Arc<Held>);

#[derive(Debug)]
struct Held {
    since: Instant,
    stats: Arc<Mutex<InFlightStats>>,
    pixels: OnceLock<Mutex<Option<Pixels>>>,
    _request: Permit,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner).leave(self.since.elapsed());
        metrics::slot_returned();
    }
}

impl Slot {
    /// Releases the megapixels before the slot: when no pixel is in memory any more and only the request's place is still
    /// needed.
    pub fn release_pixels(&self) {
        if let Some(pixels) = self.0.pixels.get() {
            drop(pixels.lock().unwrap_or_else(PoisonError::into_inner).take());
        }
    }

    /// Whether its picture is large, so that work on it takes seconds.
    pub(super) fn is_large(&self) -> bool {
        let pixels = self.0.pixels.get().map(|pixels| pixels.lock().unwrap_or_else(PoisonError::into_inner));
        pixels.is_some_and(|pixels| pixels.as_ref().is_some_and(|pixels| pixels.units > LARGE_UNITS))
    }
}

fn in_megapixels(units: usize) -> f64 {
    units as f64 / UNITS_PER_MEGAPIXEL as f64
}

#[derive(Debug)]
struct Pixels {
    units: usize,
    _permit: Permit,
}

impl Drop for Pixels {
    fn drop(&mut self) {
        metrics::megapixels_returned(in_megapixels(self.units));
    }
}

/// Statistics of the requests in flight, for `Retry-After` and the idle time.
#[derive(Debug)]
struct InFlightStats {
    in_flight: usize,
    /// Moving average of a request's duration.
    mean_duration: Duration,
    last_left: Instant,
}

impl InFlightStats {
    fn leave(&mut self, took: Duration) {
        self.in_flight -= 1;
        self.last_left = Instant::now();
        self.mean_duration =
            if self.mean_duration.is_zero() { took } else { self.mean_duration.mul_f64(0.9) + took.mul_f64(0.1) };
    }
}

#[derive(Debug)]
pub(super) struct Admission {
    requests: FairSemaphore,
    max_requests: usize,
    pixels: FairSemaphore,
    max_units: usize,
    spare: FairSemaphore,
    small_units: usize,
    stats: Arc<Mutex<InFlightStats>>,
}

impl Admission {
    pub(super) fn new(max_requests: usize, max_megapixels: u32) -> Self {
        let units = max_megapixels as usize * UNITS_PER_MEGAPIXEL;
        let spare_units = units / SPARE;
        let max_units = units - spare_units;
        Self {
            requests: FairSemaphore::new(max_requests),
            max_requests,
            pixels: FairSemaphore::new(max_units),
            max_units,
            spare: FairSemaphore::new(spare_units),
            small_units: spare_units / SMALL,
            stats: Arc::new(Mutex::new(InFlightStats {
                in_flight: 0,
                mean_duration: Duration::ZERO,
                last_left: Instant::now(),
            })),
        }
    }

    pub(super) fn admit(&self) -> Result<Slot, EngineError> {
        let request = self.requests.try_acquire(1).ok_or_else(|| {
            metrics::queue_dropped(metrics::Dropped::Full);
            EngineError::QueueFull { retry_after: self.retry_after() }
        })?;
        Ok(self.slot_of(request))
    }

    /// Waits for a slot, in the turn of `tenant`.
    pub(super) async fn admit_waiting(&self, tenant: Tenant) -> Slot {
        self.slot_of(self.requests.acquire(tenant, 1).await)
    }

    fn slot_of(&self, request: Permit) -> Slot {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner).in_flight += 1;
        metrics::slot_taken();
        Slot(Arc::new(Held {
            since: Instant::now(),
            stats: Arc::clone(&self.stats),
            pixels: OnceLock::new(),
            _request: request,
        }))
    }

    /// The mean duration of a request: after it, about as many as are in flight have finished. Whole seconds, 1 to 60.
    fn retry_after(&self) -> Duration {
        let mean = self.stats.lock().unwrap_or_else(PoisonError::into_inner).mean_duration;
        Duration::from_secs(mean.as_secs_f64().ceil().clamp(1.0, 60.0) as u64)
    }

    pub(super) async fn reserve_pixels(
        &self,
        slot: &Slot,
        tenant: Tenant,
        pixels: usize,
        deadline: Instant,
    ) -> Result<(), EngineError> {
        // More than the whole budget would wait for ever: it takes all that large pictures may.
        let units = pixels.div_ceil(PIXELS_PER_UNIT).min(self.max_units);
        let permit = timeout_at(deadline.into(), self.units(tenant, units)).await.map_err(|_| {
            metrics::queue_dropped(metrics::Dropped::Deadline);
            EngineError::DeadlineExceeded
        })?;
        metrics::megapixels_taken(in_megapixels(units));
        let reserved = slot.0.pixels.set(Mutex::new(Some(Pixels { units, _permit: permit })));
        assert!(reserved.is_ok(), "a slot reserves once: waiting for more while holding some could wait for ever");
        Ok(())
    }

    /// Waits for units of the budget; a small picture at the same time for units of the reserve.
    async fn units(&self, tenant: Tenant, units: usize) -> Permit {
        if units > self.small_units {
            return self.pixels.acquire(tenant, units).await;
        }
        tokio::select! {
            biased;
            permit = self.pixels.acquire(tenant, units) => permit,
            permit = self.spare.acquire(tenant, units) => permit,
        }
    }

    /// Time without a request in flight; `None` while one is.
    pub(super) fn idle_for(&self) -> Option<Duration> {
        let stats = self.stats.lock().unwrap_or_else(PoisonError::into_inner);
        (stats.in_flight == 0).then(|| stats.last_left.elapsed())
    }

    /// Waits until no request is in flight.
    pub(super) async fn drained(&self) {
        drop(self.requests.acquire(Tenant::default(), self.max_requests).await);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    fn poll_once<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[tokio::test]
    async fn a_freed_slot_is_the_next_waiters() {
        let admission = Admission::new(1, 10);
        let held = admission.admit().unwrap();
        let mut waiting = pin!(admission.admit_waiting(Tenant::default()));
        let mut other = pin!(admission.admit_waiting(Tenant::of("shop")));
        assert!(poll_once(waiting.as_mut()).is_pending() && poll_once(other.as_mut()).is_pending());
        drop(held);
        assert!(matches!(admission.admit(), Err(EngineError::QueueFull { .. })), "it is the waiter's");
        let Poll::Ready(first) = poll_once(waiting.as_mut()) else { panic!("the slot was freed") };
        // Work that takes slot after slot waits behind the others.
        drop(first);
        let mut again = pin!(admission.admit_waiting(Tenant::default()));
        assert!(poll_once(again.as_mut()).is_pending());
        assert!(poll_once(other.as_mut()).is_ready());
    }

    #[tokio::test]
    async fn a_picture_waits_for_its_megapixels() {
        let admission = Admission::new(8, 10);
        let (first, second) = (admission.admit().unwrap(), admission.admit().unwrap());
        admission.reserve_pixels(&first, Tenant::default(), 6_000_000, soon()).await.unwrap();
        let mut waiting = pin!(admission.reserve_pixels(&second, Tenant::default(), 3_000_000, soon()));
        assert!(poll_once(waiting.as_mut()).is_pending());
        drop(first);
        assert_eq!(poll_once(waiting.as_mut()), Poll::Ready(Ok(())));
    }

    #[tokio::test]
    async fn a_picture_larger_than_the_budget_leaves_room_for_small_ones_alone() {
        let admission = Admission::new(8, 16);
        let reserve = async |account: &str, megapixels: usize| {
            let slot = admission.admit().unwrap();
            admission.reserve_pixels(&slot, Tenant::of(account), megapixels * 1_000_000, soon()).await.unwrap();
            slot
        };
        let first = reserve("a", 2).await;
        let mut huge = pin!(reserve("a", 1000));
        assert!(poll_once(huge.as_mut()).is_pending(), "the first is in memory");
        let mut medium = pin!(reserve("b", 2));
        assert!(
            poll_once(medium.as_mut()).is_pending(),
            "later pictures do not overtake it, else it might wait for ever"
        );
        assert!(poll_once(pin!(reserve("b", 1))).is_ready(), "but for small ones");
        drop(first);
        let Poll::Ready(huge) = poll_once(huge.as_mut()) else { panic!("nothing else is in memory") };
        let mut another = pin!(reserve("a", 1000));
        assert!(poll_once(another.as_mut()).is_pending(), "one at a time");
        assert!(poll_once(medium.as_mut()).is_pending());
        assert!(poll_once(pin!(reserve("b", 1))).is_ready());
        drop(huge);
        assert!(poll_once(medium.as_mut()).is_ready(), "accounts take turns");
    }

    #[tokio::test]
    async fn a_slot_is_free_only_after_the_last_clone_is_dropped() {
        let admission = Admission::new(2, 10);
        let slot = admission.admit().unwrap();
        admission.reserve_pixels(&slot, Tenant::default(), 10_000_000, soon()).await.unwrap();
        let still_working = slot.clone();
        drop(slot);
        let next = admission.admit().unwrap();
        assert!(matches!(admission.admit(), Err(EngineError::QueueFull { .. })));
        let mut waiting = pin!(admission.reserve_pixels(&next, Tenant::default(), 1_000_000, soon()));
        assert!(poll_once(waiting.as_mut()).is_pending());
        drop(still_working);
        assert!(poll_once(waiting.as_mut()).is_ready());
        assert!(admission.admit().is_ok());
    }

    #[tokio::test]
    async fn pixels_may_be_released_before_the_slot() {
        let admission = Admission::new(1, 10);
        let slot = admission.admit().unwrap();
        admission.reserve_pixels(&slot, Tenant::default(), 10_000_000, soon()).await.unwrap();
        slot.release_pixels();
        assert_eq!(admission.pixels.free(), admission.max_units);
        assert!(matches!(admission.admit(), Err(EngineError::QueueFull { .. })), "the place is still taken");
    }

    #[tokio::test]
    async fn waiting_for_megapixels_ends_at_the_deadline() {
        let admission = Admission::new(8, 1);
        let (first, second) = (admission.admit().unwrap(), admission.admit().unwrap());
        admission.reserve_pixels(&first, Tenant::default(), 1_000_000, soon()).await.unwrap();
        assert_eq!(
            admission.reserve_pixels(&second, Tenant::default(), 1_000_000, Instant::now()).await,
            Err(EngineError::DeadlineExceeded)
        );
    }

    #[test]
    fn retry_after_is_the_mean_duration_of_requests() {
        let admission = Admission::new(1, 1);
        let after = |seconds: f64| {
            admission.stats.lock().unwrap().mean_duration = Duration::from_secs_f64(seconds);
            admission.retry_after().as_secs()
        };
        assert_eq!((after(0.0), after(0.4), after(2.3), after(1000.0)), (1, 1, 3, 60));
    }
}
