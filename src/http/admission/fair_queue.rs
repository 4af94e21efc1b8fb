//! Shares the engine among accounts: how many pictures of one may be in flight, and whose comes next.
//!
//! A picture takes a place, or is refused at once (429); a row of a batch first waits for those before it. One account may hold
//! at most eight times what remains free, and always [`FEW`]: alone it gets eight ninths of the places, one of two accounts
//! eight seventeenths (the dynamic thresholds of `upload_memory`, with α = 8).
//!
//! Where no place is free, a picture of an account that holds none waits for the next one, before all pictures that come later:
//! an account that is alone uses all of a few places, and leaves the next one to another account nevertheless.
//!
//! Where more pictures have places than the engine works on at once, they wait, and the accounts take turns ([`FairSemaphore`]),
//! then as well as later, for memory and for a worker. An account with one picture waits for at most one of each other account,
//! however many they have sent.

use crate::engine::{Capacity, EngineError, FairSemaphore, Permit, Tenant};
use crate::http::reply::error::{ApiError, ErrorCode};
use crate::telemetry::metrics;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::time::timeout_at;

/// An account may hold this multiple of the free places: the α of the thresholds.
const TIMES_FREE: usize = 8;
/// Places that an account may hold while there are any.
const FEW: usize = 8;
/// Pictures that wait for a place at once: more of them would add to the time of all that are accepted under overload.
const WAITING: usize = 1;
/// `Retry-After` of a picture beyond its account's share.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The places and turns of all accounts. Clones share them.
#[derive(Clone, Debug)]
pub(in crate::http) struct FairQueue(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// One unit for each place: a picture beyond the places waits for it.
    places: FairSemaphore,
    turns: FairSemaphore,
}

#[derive(Debug)]
struct State {
    /// Places, and [`WAITING`] beside them, that no picture has.
    free: usize,
    /// Places by account, with those that are waited for; accounts that hold none are removed.
    held: HashMap<Arc<str>, usize>,
}

/// A place of a picture in flight, or the one that it waits for; freed on drop.
#[derive(Debug)]
pub(in crate::http) struct Place {
    queue: FairQueue,
    account: Arc<str>,
    /// The unit of the place, once the picture waits no more for it.
    unit: Option<Permit>,
}

/// A picture's turn: it is in work until this is dropped.
pub(in crate::http) type Turn = Permit;

impl FairQueue {
    pub(in crate::http) fn new(capacity: Capacity) -> Self {
        let state = State { free: capacity.in_flight.saturating_add(WAITING), held: HashMap::new() };
        Self(Arc::new(Shared {
            state: Mutex::new(state),
            places: FairSemaphore::new(capacity.in_flight),
            turns: FairSemaphore::new(capacity.in_work.max(1)),
        }))
    }

    /// A place for a picture of `account`, or 429.
    pub(in crate::http) fn place(&self, account: &str) -> Result<Place, ApiError> {
        self.try_place(account).map_err(refusal)
    }

    /// A place for a picture of `account`, or why there is none. A picture that then waits for one is not counted as refused.
    pub(in crate::http) fn try_place(&self, account: &str) -> Result<Place, &'static str> {
        let mut state = self.state();
        let held = state.held.get(account).copied().unwrap_or_default() + 1;
        let free = state.free.checked_sub(1).ok_or("too many requests are in flight")?;
        let most = match free.checked_sub(WAITING) {
            Some(places) => FEW.max(places.saturating_mul(TIMES_FREE)),
            None => 1,
        };
        if held > most {
            return Err("too many requests of this account are in flight");
        }
        let account: Arc<str> = account.into();
        state.free = free;
        state.held.insert(Arc::clone(&account), held);
        drop(state);
        Ok(Place { queue: self.clone(), account, unit: None })
    }

    /// Locked for a few steps, never across an await.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// As [`Self::turn`], at most until the deadline of the request (503).
    pub(in crate::http) async fn turn_before(&mut self, deadline: Instant) -> Result<Turn, ApiError> {
        timeout_at(deadline.into(), self.turn()).await.map_err(|_| {
            metrics::queue_dropped(metrics::Dropped::Deadline);
            EngineError::DeadlineExceeded.into()
        })
    }

    /// Waits for the place, where none was free, and for the turn of the picture. A dropped future waits no longer.
    async fn turn(&mut self) -> Turn {
        let (tenant, shared) = (Tenant::of(&self.account), &*self.queue.0);
        if self.unit.is_none() {
            self.unit = Some(shared.places.acquire(tenant, 1).await);
        }
        shared.turns.acquire(tenant, 1).await
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.queue.state();
        state.free = state.free.saturating_add(1);
        if let Some(held) = state.held.get_mut(&self.account) {
            *held -= 1;
            if *held == 0 {
                state.held.remove(&self.account);
            }
        }
    }
}

/// 429; counted.
fn refusal(message: &str) -> ApiError {
    metrics::queue_dropped(metrics::Dropped::Full);
    ApiError::new(ErrorCode::RateLimitExceeded, message).retry_after(RETRY_AFTER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use futures_util::future::BoxFuture;

    fn queue(in_flight: usize, in_work: usize) -> FairQueue {
        FairQueue::new(Capacity { in_flight, in_work })
    }

    /// As many places as `account` gets.
    fn fill(queue: &FairQueue, account: &str) -> Vec<Place> {
        std::iter::from_fn(|| queue.place(account).ok()).take(1000).collect()
    }

    fn is_ready(waiting: &mut BoxFuture<'_, Turn>) -> Option<Turn> {
        waiting.as_mut().now_or_never()
    }

    #[test]
    fn an_account_leaves_places_for_others_and_gets_most_alone() {
        let queue = queue(64, 64);
        let mut first = fill(&queue, "a");
        assert_eq!(first.len(), 56, "eight ninths");
        let second = fill(&queue, "b");
        assert_eq!(second.len(), 8, "what is left, for once");
        // As those of the first are done, it gets no more until both hold the same.
        let mut others = second;
        while first.len() > others.len() {
            drop(first.pop());
            assert!(queue.place("a").is_err() || first.len() <= others.len() + TIMES_FREE, "{}", first.len());
            others.extend(queue.place("b").ok());
        }
        assert!(others.len() >= 28, "{} of {}", others.len(), first.len() + others.len());
        let error = queue.place("a").expect_err("its share is used up");
        assert_eq!(error.code, ErrorCode::RateLimitExceeded);
    }

    #[test]
    fn few_places_are_all_for_an_account_alone_and_dropped_ones_are_free() {
        let queue = queue(5, 5);
        let all = fill(&queue, "a");
        assert_eq!(all.len(), 5);
        drop(all);
        assert_eq!(fill(&queue, "b").len(), 5);
        assert!(queue.state().held.is_empty() && queue.state().free == 5 + WAITING);
    }

    #[test]
    fn an_account_without_a_picture_in_flight_gets_the_next_place() {
        for in_flight in [1, 2, FEW, 64] {
            let queue = queue(in_flight, 64);
            // More than one account fills many places.
            let mut all: Vec<_> = ["a", "b"].into_iter().flat_map(|account| fill(&queue, account)).collect();
            // Few places are all filled by "a": then "b" has a picture that only waits.
            all.truncate(in_flight);
            all.iter_mut().for_each(|place| assert!(is_ready(&mut place.turn().boxed()).is_some()));
            let mut next = queue.place("c").expect("it may wait");
            let mut turn = next.turn().boxed();
            assert!(is_ready(&mut turn).is_none(), "{in_flight}: no place is free");
            for account in ["a", "d"] {
                assert!(queue.place(account).is_err(), "{in_flight}: one picture waits at a time");
            }
            drop(all.pop());
            assert_eq!(queue.place("a").is_ok(), in_flight == 1, "only an account that holds none waits");
            assert!(is_ready(&mut turn).is_some(), "{in_flight}: the place was freed");
            drop(turn);
            drop((all, next));
            assert!(queue.state().held.is_empty() && queue.state().free == in_flight + WAITING);
        }
    }

    #[test]
    fn a_picture_that_no_longer_waits_for_a_place_leaves_it_to_the_next() {
        let queue = queue(1, 1);
        let mut held = queue.place("a").expect("a place");
        let turn = is_ready(&mut held.turn().boxed()).expect("nothing is in work");
        let mut gone = queue.place("b").expect("it may wait");
        assert!(is_ready(&mut gone.turn().boxed()).is_none());
        drop(gone);
        let mut next = queue.place("c").expect("it may wait");
        assert!(is_ready(&mut next.turn().boxed()).is_none());
        drop((turn, held));
        assert!(is_ready(&mut next.turn().boxed()).is_some());
    }

    #[test]
    fn accounts_take_turns_however_many_pictures_one_has_sent() {
        let queue = queue(64, 1);
        let mut places: Vec<Place> = (0..20).map(|_| queue.place("a").expect("a place")).collect();
        let mut many: Vec<_> = places.iter_mut().map(|place| place.turn().boxed()).collect();
        let mut turn = is_ready(&mut many[0]).expect("nothing else is in work");
        many[1..].iter_mut().for_each(|waiting| assert!(is_ready(waiting).is_none()));
        let mut others = ["b", "c", "b"].map(|account| queue.place(account).expect("a place"));
        let mut others = others.each_mut().map(|place| place.turn().boxed());
        others.iter_mut().for_each(|waiting| assert!(is_ready(waiting).is_none()));
        let mut waiting: Vec<_> = many.drain(1..).map(|waiting| ("a", waiting)).collect();
        waiting.extend(["b", "c", "b"].into_iter().zip(others));
        let mut order = Vec::new();
        for _ in 0..6 {
            drop(turn);
            let ready = waiting.iter_mut().enumerate().find_map(|(at, (_, waiting))| Some((at, is_ready(waiting)?)));
            let at;
            (at, turn) = ready.expect("a turn");
            order.push(waiting.remove(at).0);
        }
        assert_eq!(order, ["a", "b", "c", "a", "b", "a"]);
    }
}
