//! A counting semaphore whose waiters take turns by tenant.
//!
//! Where more units are wanted than are free, the next are those of the oldest waiter of the tenant whose turn it is (round robin;
//! Nagle, "On Packet Switches with Infinite Storage", RFC 970): a tenant with one waiter waits for at most one of each other
//! tenant, however many they have. The next waiter keeps its turn until its units are free, so that those who want few do not
//! overtake one who wants many without end.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Whose turn it is where work waits: an account's, or by default that of work without one, such as bulk runs and clips.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tenant(u64);

impl Tenant {
    /// Of an account.
    #[must_use]
    pub fn of(account: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        account.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// The semaphore. Clones share it.
#[derive(Clone, Debug)]
pub struct FairSemaphore(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    free: usize,
    /// The tenants with waiters in the order of their turns, each with its waiters, oldest first.
    waiting: VecDeque<(Tenant, VecDeque<Waiter>)>,
}

#[derive(Debug)]
struct Waiter {
    units: usize,
    permit: oneshot::Sender<Permit>,
}

/// Units of a semaphore, returned on drop.
#[derive(Debug)]
pub struct Permit {
    semaphore: FairSemaphore,
    units: usize,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.semaphore.state().free += self.units;
        self.semaphore.serve();
    }
}

impl FairSemaphore {
    /// With `units` free.
    #[must_use]
    pub fn new(units: usize) -> Self {
        Self(Arc::new(Mutex::new(State { free: units, waiting: VecDeque::new() })))
    }

    /// Waits until `units` are free and it is the turn of `tenant`. Waits for ever for more units than there are. When the
    /// future is dropped, the next waiter has the turn.
    pub async fn acquire(&self, tenant: Tenant, units: usize) -> Permit {
        let (permit, receiver) = oneshot::channel();
        let waiter = Waiter { units, permit };
        {
            let mut state = self.state();
            match state.waiting.iter_mut().find(|(other, _)| *other == tenant) {
                Some((_, waiters)) => waiters.push_back(waiter),
                None => state.waiting.push_back((tenant, VecDeque::from([waiter]))),
            }
        }
        let mut waiting = Waiting { semaphore: self, receiver };
        self.serve();
        (&mut waiting.receiver).await.expect("those who wait are kept until they have a permit")
    }

    /// `units` where they are free and nothing waits, also for a moment.
    pub fn try_acquire(&self, units: usize) -> Option<Permit> {
        let mut state = self.state();
        state.waiting.retain_mut(|(_, waiters)| {
            waiters.retain(|waiter| !waiter.permit.is_closed());
            !waiters.is_empty()
        });
        if !state.waiting.is_empty() {
            return None;
        }
        state.free = state.free.checked_sub(units)?;
        Some(Permit { semaphore: self.clone(), units })
    }

    /// Units that are free.
    #[cfg(test)]
    pub(super) fn free(&self) -> usize {
        self.state().free
    }

    /// Locked for a few steps, never across an await.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives units to the next waiters, while theirs are free.
    fn serve(&self) {
        loop {
            let mut state = self.state();
            let Some(Waiter { units, permit }) = state.next() else { return };
            drop(state);
            // Where it no longer waits, the permit is dropped and its units are free again.
            drop(permit.send(Permit { semaphore: self.clone(), units }));
        }
    }
}

impl State {
    /// The waiter whose turn it is, if its units are free, which are taken: the oldest of the first tenant, which then becomes the
    /// last.
    fn next(&mut self) -> Option<Waiter> {
        loop {
            let (_, waiters) = self.waiting.front_mut()?;
            while waiters.pop_front_if(|waiter| waiter.permit.is_closed()).is_some() {}
            let Some(first) = waiters.front() else {
                self.waiting.pop_front();
                continue;
            };
            self.free = self.free.checked_sub(first.units)?;
            let next = waiters.pop_front();
            let tenant = self.waiting.pop_front();
            self.waiting.extend(tenant.filter(|(_, waiters)| !waiters.is_empty()));
            return next;
        }
    }
}

/// A waiter's end of the channel. Dropped while it waits, it passes the turn on.
struct Waiting<'a> {
    semaphore: &'a FairSemaphore,
    receiver: oneshot::Receiver<Permit>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        // A permit that was sent meanwhile is returned with the receiver.
        self.receiver.close();
        self.semaphore.serve();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use futures_util::future::BoxFuture;

    const A: Tenant = Tenant(1);
    const B: Tenant = Tenant(2);
    const C: Tenant = Tenant(3);

    fn waiting(semaphore: &FairSemaphore, tenant: Tenant, units: usize) -> BoxFuture<'_, Permit> {
        let mut waiting = semaphore.acquire(tenant, units).boxed();
        assert!(waiting.as_mut().now_or_never().is_none(), "nothing is free");
        waiting
    }

    #[test]
    fn tenants_take_turns_however_many_of_one_wait() {
        let semaphore = FairSemaphore::new(1);
        let mut permit = semaphore.acquire(A, 1).now_or_never();
        let tenants = [A, A, A, B, C, B];
        let mut all: Vec<_> = tenants.iter().map(|&tenant| (tenant, waiting(&semaphore, tenant, 1))).collect();
        let mut order = Vec::new();
        while !all.is_empty() {
            drop(permit.take());
            let ready = all.iter_mut().enumerate().find_map(|(at, (_, one))| Some((at, one.now_or_never()?)));
            let (at, next) = ready.expect("a turn");
            permit = Some(next);
            order.push(all.remove(at).0);
        }
        assert_eq!(order, [A, B, C, A, B, A]);
    }

    #[test]
    fn one_who_wants_many_units_is_not_overtaken() {
        let semaphore = FairSemaphore::new(10);
        let first = semaphore.acquire(A, 6).now_or_never().expect("they are free");
        let mut many = waiting(&semaphore, B, 8);
        let mut few = waiting(&semaphore, C, 1);
        drop(first);
        let many = many.as_mut().now_or_never().expect("all are free");
        let few = few.as_mut().now_or_never().expect("one is free");
        drop((many, few));
        assert_eq!(semaphore.state().free, 10);
    }

    #[test]
    fn one_that_no_longer_waits_passes_its_turn_on() {
        let semaphore = FairSemaphore::new(10);
        let first = semaphore.acquire(A, 6).now_or_never().expect("they are free");
        let many = waiting(&semaphore, B, 8);
        let mut few = waiting(&semaphore, C, 4);
        drop(many);
        let few = few.as_mut().now_or_never().expect("the turn was passed on");
        // A permit that was sent and never received is returned as well.
        let late = waiting(&semaphore, B, 1);
        drop(first);
        drop(late);
        drop(few);
        let state = semaphore.state();
        assert!(state.free == 10 && state.waiting.is_empty(), "{state:?}");
    }

    #[test]
    fn tenants_are_those_of_accounts() {
        assert_eq!(Tenant::of("acme"), Tenant::of("acme"));
        assert!(Tenant::of("acme") != Tenant::of("other") && Tenant::of("acme") != Tenant::default());
    }
}
