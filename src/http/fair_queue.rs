//! Shares the engine among accounts: how many pictures of one may be in flight, and whose comes next.
//!
//! A picture takes a place, or is refused at once (429). One account may hold at most eight times what remains free, and always
//! [`FEW`]: alone it gets eight ninths of the places, one of two accounts eight seventeenths, and some are always left for
//! another one (the dynamic thresholds of `upload_memory`, with α = 8). Where more pictures have places than the engine works
//! on at once, they wait, and the accounts take turns: each turn begins one picture of the next account that waits, its oldest
//! (round robin; Nagle, "On Packet Switches with Infinite Storage", RFC 970). An account with one picture waits for at most one
//! of each other account, however many they have sent.

use super::error::{ApiError, ErrorCode};
use crate::engine::{Capacity, EngineError};
use crate::telemetry::metrics;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::time::timeout_at;

/// An account may hold this multiple of the free places: the α of the thresholds.
const TIMES_FREE: usize = 8;
/// Places that an account may hold while there are any.
const FEW: usize = 8;
/// `Retry-After` of a picture beyond its account's share.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The places and turns of all accounts. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct FairQueue(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    in_work: usize,
}

#[derive(Debug)]
struct State {
    free: usize,
    /// Places by account; accounts that hold none are removed.
    held: HashMap<Arc<str>, usize>,
    in_work: usize,
    /// The accounts whose pictures wait, in the order of their turns, each with its pictures, oldest first.
    waiting: VecDeque<(Arc<str>, VecDeque<oneshot::Sender<Turn>>)>,
}

/// A place of a picture in flight; freed on drop.
#[derive(Debug)]
pub(super) struct Place {
    queue: FairQueue,
    account: Arc<str>,
}

/// A picture's turn: it is in work until this is dropped.
#[derive(Debug)]
pub(super) struct Turn(Option<FairQueue>);

impl FairQueue {
    pub(super) fn new(capacity: Capacity) -> Self {
        let state = State { free: capacity.in_flight, held: HashMap::new(), in_work: 0, waiting: VecDeque::new() };
        Self(Arc::new(Shared { state: Mutex::new(state), in_work: capacity.in_work.max(1) }))
    }

    /// A place for a picture of `account`, or 429.
    pub(super) fn place(&self, account: &str) -> Result<Place, ApiError> {
        let mut state = self.state();
        let held = state.held.get(account).copied().unwrap_or_default() + 1;
        let free = state.free.checked_sub(1).ok_or_else(|| refusal("too many requests are in flight"))?;
        if held > FEW.max(free.saturating_mul(TIMES_FREE)) {
            return Err(refusal("too many requests of this account are in flight"));
        }
        let account: Arc<str> = account.into();
        state.free = free;
        state.held.insert(Arc::clone(&account), held);
        drop(state);
        Ok(Place { queue: self.clone(), account })
    }

    /// Locked for a few steps, never across an await.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives turns to those who wait, while there are any.
    fn give_turns(&self) {
        loop {
            let mut state = self.state();
            if state.in_work >= self.0.in_work {
                return;
            }
            let Some(next) = state.next() else { return };
            state.in_work += 1;
            drop(state);
            if let Err(mut turn) = next.send(Turn(Some(self.clone()))) {
                // It no longer waits: the turn is the next one's.
                turn.0 = None;
                self.state().in_work -= 1;
            }
        }
    }
}

impl State {
    /// The picture whose turn it is: the oldest of the account that is first, which then becomes the last.
    fn next(&mut self) -> Option<oneshot::Sender<Turn>> {
        let (account, mut pictures) = self.waiting.pop_front()?;
        let next = pictures.pop_front();
        if !pictures.is_empty() {
            self.waiting.push_back((account, pictures));
        }
        next
    }
}

impl Place {
    /// As [`Self::turn`], at most until the deadline of the request (503).
    pub(super) async fn turn_before(&self, deadline: Instant) -> Result<Turn, ApiError> {
        timeout_at(deadline.into(), self.turn()).await.map_err(|_| EngineError::DeadlineExceeded.into())
    }

    /// Waits for the turn of the picture. A dropped future waits no longer.
    async fn turn(&self) -> Turn {
        let (sender, receiver) = oneshot::channel();
        {
            let mut state = self.queue.state();
            match state.waiting.iter_mut().find(|(account, _)| *account == self.account) {
                Some((_, pictures)) => pictures.push_back(sender),
                None => state.waiting.push_back((Arc::clone(&self.account), VecDeque::from([sender]))),
            }
        }
        self.queue.give_turns();
        receiver.await.expect("those who wait are kept until they have their turn")
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

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(queue) = &self.0 {
            queue.state().in_work -= 1;
            queue.give_turns();
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
    fn few_places_are_not_shared_and_dropped_ones_are_free() {
        let queue = queue(5, 5);
        let all = fill(&queue, "a");
        assert_eq!(all.len(), 5);
        assert!(queue.place("b").is_err());
        drop(all);
        assert_eq!(fill(&queue, "b").len(), 5);
        assert!(queue.state().held.is_empty() && queue.state().free == 5);
    }

    #[test]
    fn accounts_take_turns_however_many_pictures_one_has_sent() {
        let queue = queue(64, 1);
        let places: Vec<Place> = (0..20).map(|_| queue.place("a").expect("a place")).collect();
        let mut many: Vec<_> = places.iter().map(|place| place.turn().boxed()).collect();
        let mut turn = is_ready(&mut many[0]).expect("nothing else is in work");
        many[1..].iter_mut().for_each(|waiting| assert!(is_ready(waiting).is_none()));
        let others = ["b", "c", "b"].map(|account| queue.place(account).expect("a place"));
        let mut others = others.each_ref().map(|place| place.turn().boxed());
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

    #[test]
    fn one_that_no_longer_waits_is_passed_over() {
        let queue = queue(64, 1);
        let places = ["a", "b", "c"].map(|account| queue.place(account).expect("a place"));
        let [mut first, mut second, mut third] = places.each_ref().map(|place| place.turn().boxed());
        let turn = is_ready(&mut first).expect("nothing else is in work");
        assert!(is_ready(&mut second).is_none() && is_ready(&mut third).is_none());
        drop(second);
        drop(turn);
        let turn = is_ready(&mut third).expect("its turn");
        // A turn that was given and never taken is given back as well.
        let mut fourth = places[0].turn().boxed();
        assert!(is_ready(&mut fourth).is_none());
        drop(turn);
        drop(fourth);
        assert_eq!(queue.state().in_work, 0);
    }
}
