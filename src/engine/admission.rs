//! Admission: refuses pictures beyond the bound in flight (429), and gives megapixels of memory in turn.
//!
//! A request takes a [`Place`] for each picture, or is refused: refusing is cheaper for both sides than an unbounded queue. Accounts
//! share the places evenly; an account that holds none may take an extra one when all are taken.
//!
//! Every picture, also of a clip or a bulk run, then waits for its [`Slot`]: the megapixels that it needs in memory, whose number is in
//! its header, before the decoder allocates them. Accounts take turns. Peak memory follows from the megapixels.
//!
//! All work on a picture shares its slot. When the caller disconnects, work in progress keeps the slot until the work ends, because its
//! pixels are still in memory.

use super::EngineError;
use super::config::EngineConfig;
use super::fair_semaphore::{FairSemaphore, Permit, Shares, Tenant};
use crate::telemetry::metrics;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::timeout_at;

/// The unit of the pixel budget.
const PIXELS_PER_UNIT: usize = 1000;
const UNITS_PER_MEGAPIXEL: usize = 1_000_000 / PIXELS_PER_UNIT;

/// Divides the pixel budget: the quotient is reserved for pictures of at most half of it.
const RESERVE: usize = 8;
/// A picture with more pixels is large ([`Slot::is_large`]).
const LARGE: usize = 16_000_000;

/// The admission of one engine. Clones share it.
#[derive(Clone, Debug)]
pub struct Admission(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    pixels: FairSemaphore,
    /// Without the reserve.
    max_units: usize,
    /// Units of a picture at least: they bound the number of pictures in work.
    least_units: usize,
    stopped: watch::Sender<bool>,
    /// Number of slots, for the idle time and the end.
    slots: watch::Sender<usize>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Places that are taken, by tenant.
    places: Shares,
    /// Moving average of the time that a slot is held.
    mean_duration: Duration,
    last_left: Instant,
}

/// The place of a picture of a request in flight, returned on drop: after its reply has memory.
#[derive(Debug)]
pub struct Place {
    admission: Admission,
    tenant: Tenant,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.admission.state();
        state.places.give_back(self.tenant, 1);
        metrics::place_returned();
    }
}

/// The megapixels of a picture in work. Clones share them; they are returned when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Slot(Arc<Held>);

#[derive(Debug)]
struct Held {
    admission: Admission,
    tenant: Tenant,
    pixels: usize,
    since: Instant,
    _units: Permit,
}

impl Slot {
    /// The tenant whose turn the work takes.
    #[must_use]
    pub fn tenant(&self) -> Tenant {
        self.0.tenant
    }

    /// Whether the picture is large, so that work on it takes seconds.
    pub(super) fn is_large(&self) -> bool {
        self.0.pixels > LARGE
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.admission.state().leave(self.since.elapsed());
        self.admission.0.slots.send_modify(|slots| *slots -= 1);
        metrics::megapixels_returned(in_megapixels(self.pixels));
    }
}

fn in_megapixels(pixels: usize) -> f64 {
    pixels as f64 / 1e6
}

impl State {
    fn leave(&mut self, took: Duration) {
        self.last_left = Instant::now();
        self.mean_duration =
            if self.mean_duration.is_zero() { took } else { self.mean_duration.mul_f64(0.9) + took.mul_f64(0.1) };
    }
}

/// Beyond the places that all share, an eighth, at least one, is for tenants that hold none.
fn has_room(places: &Shares, tenant: Tenant) -> bool {
    let beyond = if places.has(tenant) { 0 } else { (places.units / 8).max(1) };
    places.taken < places.units.saturating_add(beyond) && places.allow(tenant, 1)
}

impl Admission {
    /// The admission of an engine with this configuration.
    #[must_use]
    pub fn new(config: &EngineConfig) -> Self {
        // For each picture on a worker or in a batch another one is prepared.
        let in_work = 2 * (config.workers() + config.max_batch);
        let units = config.max_megapixels_in_flight as usize * UNITS_PER_MEGAPIXEL;
        // Units of a picture at least: they bound the number of pictures in work.
        let least_units = (units / in_work).max(1);
        let reserve = (units / RESERVE).max(least_units).min(units - 1);
        let state = State {
            places: Shares::of(config.max_requests_in_flight, 8, 8),
            mean_duration: Duration::ZERO,
            last_left: Instant::now(),
        };
        Self(Arc::new(Shared {
            pixels: FairSemaphore::with_reserve(units - reserve, reserve, (reserve / 2).max(least_units)),
            max_units: units - reserve,
            least_units,
            stopped: watch::Sender::new(false),
            slots: watch::Sender::new(0),
            state: Mutex::new(state),
        }))
    }

    /// A place for a picture of `account`.
    ///
    /// # Errors
    /// [`EngineError::QueueFull`].
    pub fn place(&self, account: &str) -> Result<Place, EngineError> {
        self.try_place(account).ok_or_else(|| {
            metrics::queue_dropped(metrics::Dropped::Full);
            EngineError::QueueFull { retry_after: self.state().retry_after() }
        })
    }

    /// As [`Self::place`], for a caller that waits until a place is free: its refusal is not counted.
    #[must_use]
    pub fn try_place(&self, account: &str) -> Option<Place> {
        let tenant = Tenant::of(account);
        let mut state = self.state();
        if !has_room(&state.places, tenant) {
            return None;
        }
        state.places.take(tenant, 1);
        drop(state);
        metrics::place_taken();
        Some(Place { admission: self.clone(), tenant })
    }

    /// Waits until `pixels` more may be in memory and it is the turn of `tenant`.
    ///
    /// # Errors
    /// [`EngineError::DeadlineExceeded`]; [`EngineError::Stopped`] during shutdown.
    pub async fn slot(&self, tenant: Tenant, pixels: usize, deadline: Instant) -> Result<Slot, EngineError> {
        let shared = &*self.0;
        // A picture larger than the budget for large pictures takes all of it; else it would wait for ever.
        let units = pixels.div_ceil(PIXELS_PER_UNIT).max(shared.least_units).min(shared.max_units);
        let mut stopped = shared.stopped.subscribe();
        let granted = tokio::select! {
            biased;
            _ = stopped.wait_for(|stopped| *stopped) => return Err(EngineError::Stopped),
            granted = timeout_at(deadline.into(), shared.pixels.acquire(tenant, units)) => granted.map_err(|_| {
                metrics::queue_dropped(metrics::Dropped::Deadline);
                EngineError::DeadlineExceeded
            })?,
        };
        shared.slots.send_modify(|slots| *slots += 1);
        metrics::megapixels_taken(in_megapixels(pixels));
        let since = Instant::now();
        let slot = Slot(Arc::new(Held { admission: self.clone(), tenant, pixels, since, _units: granted }));
        // `drain` may have seen no slot after the units were granted.
        if *stopped.borrow() { Err(EngineError::Stopped) } else { Ok(slot) }
    }

    /// Time without a slot; `None` while there is one.
    pub(super) fn idle_for(&self) -> Option<Duration> {
        (*self.0.slots.borrow() == 0).then(|| self.state().last_left.elapsed())
    }

    /// Refuses further slots, and waits until none is held.
    pub(super) async fn drain(&self) {
        self.0.stopped.send_replace(true);
        // Never closed.
        let _: Result<_, _> = self.0.slots.subscribe().wait_for(|&slots| slots == 0).await;
    }

    /// Locked for a few steps, never across an await.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The mean time of a slot: after it, about as many places as there are slots are free. Whole seconds, 1 to 60.
    fn retry_after(&self) -> Duration {
        Duration::from_secs(self.mean_duration.as_secs_f64().ceil().clamp(1.0, 60.0) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use futures_util::future::BoxFuture;

    const MEGAPIXEL: usize = 1_000_000;

    fn admission(max_requests_in_flight: usize, max_megapixels_in_flight: u32) -> Admission {
        let config = EngineConfig {
            max_requests_in_flight,
            max_megapixels_in_flight,
            cpu_workers: 100,
            max_batch: 60,
            ..EngineConfig::default()
        };
        Admission::new(&config)
    }

    /// As many places as `account` gets.
    fn fill(admission: &Admission, account: &str) -> Vec<Place> {
        std::iter::from_fn(|| admission.place(account).ok()).take(1000).collect()
    }

    fn slot(admission: &Admission, account: &str, pixels: usize) -> BoxFuture<'static, Slot> {
        let (admission, tenant) = (admission.clone(), Tenant::of(account));
        let deadline = Instant::now() + Duration::from_secs(60);
        async move { admission.slot(tenant, pixels, deadline).await.expect("in time") }.boxed()
    }

    fn is_ready(waiting: &mut BoxFuture<'_, Slot>) -> Option<Slot> {
        waiting.as_mut().now_or_never()
    }

    #[test]
    fn accounts_share_the_places_evenly_and_one_alone_leaves_an_eighth() {
        let admission = admission(64, 10);
        let mut first = fill(&admission, "a");
        assert_eq!(first.len(), 56);
        let mut second = fill(&admission, "b");
        assert_eq!(second.len(), 8, "what is left");
        // As pictures of the first account are done, it gets no more until both hold nearly the same.
        while first.len() > second.len() {
            drop(first.pop());
            assert!(admission.place("a").is_err() || first.len() < 32, "{}", first.len());
            second.extend(admission.place("b").ok());
        }
        assert_eq!(second.len(), 30, "half, but for what remains free");
        let full = admission.place("b").expect_err("its share is used up");
        assert_eq!(full, EngineError::QueueFull { retry_after: Duration::from_secs(1) });
        assert_eq!(fill(&admission, "c").len(), 4, "what is left, of a share of 18");
    }

    #[test]
    fn an_account_without_a_picture_in_flight_has_a_place_beside_all_others() {
        for (in_flight, beside) in [(1, 1), (2, 1), (8, 1), (64, 8)] {
            let admission = admission(in_flight, 10);
            // More than one account fills many places.
            let all: Vec<_> = ["a", "b"].into_iter().flat_map(|account| fill(&admission, account)).collect();
            let held = all.len();
            let others: Vec<_> = (0..20).filter_map(|other| admission.place(&format!("other-{other}")).ok()).collect();
            assert_eq!(held + others.len(), in_flight + beside, "{in_flight}");
            for account in ["a", "other-0", "new"] {
                assert!(admission.place(account).is_err(), "{in_flight}: {account}");
            }
            drop((all, others));
            let state = admission.state();
            assert!(state.places.taken == 0 && !state.places.has(Tenant::of("a")));
        }
        assert_eq!(fill(&admission(5, 10), "a").len(), 5, "few places are all for an account alone");
    }

    #[tokio::test]
    async fn accounts_take_turns_for_megapixels() {
        let admission = admission(8, 16);
        let mut held = slot(&admission, "a", 14 * MEGAPIXEL).now_or_never();
        let mut all = ["a", "a", "b", "c"].map(|account| slot(&admission, account, 14 * MEGAPIXEL));
        assert!(all.iter_mut().all(|one| is_ready(one).is_none()));
        for next in [0, 2, 3, 1] {
            drop(held.take());
            held = is_ready(&mut all[next]);
            assert!(held.is_some(), "{next}");
        }
    }

    #[tokio::test]
    async fn a_picture_larger_than_the_budget_leaves_room_for_small_ones_alone() {
        let admission = admission(8, 16);
        let first = is_ready(&mut slot(&admission, "a", 2 * MEGAPIXEL)).expect("all is free");
        let mut huge = slot(&admission, "a", 1000 * MEGAPIXEL);
        assert!(is_ready(&mut huge).is_none(), "the first is in memory");
        let mut medium = slot(&admission, "b", 2 * MEGAPIXEL);
        assert!(is_ready(&mut medium).is_none(), "later pictures do not overtake it, else it might wait for ever");
        assert!(is_ready(&mut slot(&admission, "b", MEGAPIXEL)).is_some(), "but for small ones");
        drop(first);
        let huge = is_ready(&mut huge).expect("nothing else is in memory");
        assert!(huge.is_large());
        assert!(is_ready(&mut slot(&admission, "a", 1000 * MEGAPIXEL)).is_none(), "one at a time");
        assert!(is_ready(&mut medium).is_none());
        assert!(is_ready(&mut slot(&admission, "b", MEGAPIXEL)).is_some());
        drop(huge);
        assert!(is_ready(&mut medium).is_some());
    }

    #[tokio::test]
    async fn small_pictures_in_work_are_bounded_by_the_workers() {
        let config = EngineConfig { cpu_workers: 1, max_batch: 1, ..EngineConfig::default() };
        let admission = Admission::new(&config);
        let slots: Vec<_> = (0..20).filter_map(|_| is_ready(&mut slot(&admission, "a", 1000))).collect();
        assert_eq!(slots.len(), 4, "three of the budget, and one of the reserve");
    }

    #[test]
    fn retry_after_is_the_mean_time_of_slots() {
        let admission = admission(1, 1);
        let after = |seconds: f64| {
            admission.state().mean_duration = Duration::from_secs_f64(seconds);
            admission.state().retry_after().as_secs()
        };
        assert_eq!((after(0.0), after(0.4), after(2.3), after(1000.0)), (1, 1, 3, 60));
    }
}
