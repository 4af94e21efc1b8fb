//! A counting semaphore whose waiters take turns by tenant, and whose units tenants may share evenly.
//!
//! When more units are wanted than are free, the next units go to the oldest waiter of the tenant whose turn it is (round robin;
//! Nagle, "On Packet Switches with Infinite Storage", RFC 970): a tenant with one waiter waits for at most one waiter of each other
//! tenant. The next waiter keeps its turn until its units are free, so that waiters for few units do not overtake a waiter for many
//! without end.
//!
//! A part of the units can be reserved for waiters for few units: they have it while a waiter for many keeps its turn.
//!
//! Units cannot be taken back from a tenant. Where tenants share units ([`Shares`]), a tenant that holds its share therefore waits; this
//! delays no other tenant.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// A party that takes turns: an account's requests, its background work, or by default work without an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tenant(u64);

impl Tenant {
    /// The requests of an account.
    #[must_use]
    pub fn of(account: &str) -> Self {
        Self::hashed((account, "requests"))
    }

    /// The clips of an account, or a bulk run: they take turns with the account's requests, which they delay by one turn at most.
    #[must_use]
    pub fn background(name: &str) -> Self {
        Self::hashed((name, "background"))
    }

    fn hashed(name: (&str, &str)) -> Self {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// The units that each tenant holds, of units that tenants share evenly.
///
/// A tenant that holds nothing is always allowed units. A tenant that holds units is allowed its share (seven eighths divided by the
/// number of holders, at least two), and more as long as it holds at most `alpha` times the units that remain free (Choudhury and Hahne,
/// "Dynamic Queue Length Thresholds", 1998).
#[derive(Debug)]
pub(super) struct Shares {
    pub(super) units: usize,
    least: usize,
    alpha: usize,
    pub(super) taken: usize,
    held: HashMap<Tenant, usize>,
}

impl Shares {
    /// Shares of `units`; each tenant is allowed `least`, whatever the number of tenants.
    pub(super) fn of(units: usize, least: usize, alpha: usize) -> Self {
        Self { units, least, alpha, taken: 0, held: HashMap::new() }
    }

    /// Whether `tenant` may hold `units` more.
    pub(super) fn allow(&self, tenant: Tenant, units: usize) -> bool {
        let Some(held) = self.held.get(&tenant) else { return true };
        let (wanted, free) = (held.saturating_add(units), self.free().saturating_sub(units));
        let share = (self.units - self.units / 8) / self.held.len().max(2);
        wanted <= self.least.max(share) || wanted <= free.saturating_mul(self.alpha)
    }

    /// Units that no tenant holds.
    pub(super) fn free(&self) -> usize {
        self.units.saturating_sub(self.taken)
    }

    /// Whether `tenant` holds any.
    pub(super) fn has(&self, tenant: Tenant) -> bool {
        self.held.contains_key(&tenant)
    }

    pub(super) fn take(&mut self, tenant: Tenant, units: usize) {
        if units > 0 {
            *self.held.entry(tenant).or_default() += units;
            self.taken += units;
        }
    }

    pub(super) fn give_back(&mut self, tenant: Tenant, units: usize) {
        if let Some(held) = self.held.get_mut(&tenant) {
            *held = held.saturating_sub(units);
            self.taken = self.taken.saturating_sub(units);
            if *held == 0 {
                self.held.remove(&tenant);
            }
        }
    }
}

/// The semaphore. Clones share it.
#[derive(Clone, Debug)]
pub struct FairSemaphore(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    shares: Shares,
    reserve: Reserve,
    /// The tenants with waiters in the order of their turns, each with its waiters, oldest first.
    waiting: VecDeque<(Tenant, VecDeque<Waiter>)>,
}

/// Units beside the shares, for waiters for at most `most` units.
#[derive(Debug, Default)]
struct Reserve {
    free: usize,
    most: usize,
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
    tenant: Tenant,
    units: usize,
    is_reserved: bool,
}

impl Permit {
    /// Adds the units of `other`, of the same tenant and the same part.
    pub fn add(&mut self, mut other: Self) {
        self.units += std::mem::take(&mut other.units);
    }

    /// Returns all but `units`.
    pub fn shrink_to(&mut self, units: usize) {
        let freed = self.units.saturating_sub(units);
        if freed > 0 {
            self.units -= freed;
            let mut state = self.semaphore.state();
            if self.is_reserved {
                state.reserve.free += freed;
            } else {
                state.shares.give_back(self.tenant, freed);
            }
            drop(state);
            self.semaphore.serve();
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

impl FairSemaphore {
    /// With `units` free.
    #[must_use]
    pub fn new(units: usize) -> Self {
        Self::with_reserve(units, 0, 0)
    }

    /// With `units` free for all, and `reserved` more for those who want at most `most` of them.
    #[must_use]
    pub fn with_reserve(units: usize, reserved: usize, most: usize) -> Self {
        Self::of(Shares::of(units, usize::MAX, 0), Reserve { free: reserved, most })
    }

    fn of(shares: Shares, reserve: Reserve) -> Self {
        Self(Arc::new(Mutex::new(State { shares, reserve, waiting: VecDeque::new() })))
    }

    /// With `units` free, which tenants share evenly; each tenant is allowed `least`.
    #[must_use]
    pub fn shared(units: usize, least: usize) -> Self {
        Self::of(Shares::of(units, least, 2), Reserve::default())
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

    /// `units`, if they are free, within the share of `tenant`, and delay no waiter.
    #[must_use]
    pub fn try_acquire(&self, tenant: Tenant, units: usize) -> Option<Permit> {
        let mut state = self.state();
        state.forget_closed();
        let delays = |(other, waiters): &(Tenant, VecDeque<Waiter>)| {
            *other == tenant || waiters.front().is_some_and(|first| state.shares.allow(*other, first.units))
        };
        if units > 0
            && (state.waiting.iter().any(delays) || !state.shares.allow(tenant, units) || units > state.shares.free())
        {
            return None;
        }
        state.shares.take(tenant, units);
        drop(state);
        Some(Permit { semaphore: self.clone(), tenant, units, is_reserved: false })
    }

    /// Units that are free.
    #[cfg(test)]
    pub(crate) fn free(&self) -> usize {
        self.state().shares.free()
    }

    /// Locked for a few steps, never across an await.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives free units to the next waiters.
    fn serve(&self) {
        loop {
            let mut state = self.state();
            let Some((tenant, Waiter { units, permit }, is_reserved)) = state.next() else { return };
            drop(state);
            // If the waiter has left, the permit is dropped and its units are free again.
            drop(permit.send(Permit { semaphore: self.clone(), tenant, units, is_reserved }));
        }
    }
}

impl State {
    fn forget_closed(&mut self) {
        self.waiting.retain_mut(|(_, waiters)| {
            waiters.retain(|waiter| !waiter.permit.is_closed());
            !waiters.is_empty()
        });
    }

    /// Takes the units of the next waiter, and whether they are reserved. The turn is of the oldest waiter of the first tenant that may
    /// hold more, and the tenant becomes the last one. Until its units are free, the others, and at last its own tenant's, have the
    /// reserve.
    fn next(&mut self) -> Option<(Tenant, Waiter, bool)> {
        self.forget_closed();
        let may_hold = |(tenant, waiters): &(Tenant, VecDeque<Waiter>)| self.shares.allow(*tenant, waiters[0].units);
        let turn = self.waiting.iter().position(may_hold)?;
        let is_reserved = self.waiting[turn].1[0].units > self.shares.free();
        let most = self.reserve.free.min(self.reserve.most);
        let small = |at: usize| Some((at, self.waiting[at].1.iter().position(|waiter| waiter.units <= most)?));
        let mut in_order = (turn + 1..self.waiting.len()).chain(0..=turn);
        let (at, place) = if is_reserved { in_order.find_map(small)? } else { (turn, 0) };
        let (tenant, mut waiters) = self.waiting.remove(at)?;
        let next = waiters.remove(place)?;
        if !waiters.is_empty() {
            let to = if is_reserved && at == turn { turn } else { self.waiting.len() };
            self.waiting.insert(to, (tenant, waiters));
        }
        if is_reserved {
            self.reserve.free -= next.units;
        } else {
            self.shares.take(tenant, next.units);
        }
        Some((tenant, next, is_reserved))
    }
}

/// A waiter's end of the channel. If it is dropped before it has its permit, the turn passes to the next waiter.
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
    fn one_that_no_longer_waits_passes_its_turn_on() {
        let semaphore = FairSemaphore::new(10);
        let first = semaphore.acquire(A, 6).now_or_never().expect("they are free");
        let many = waiting(&semaphore, B, 8);
        let mut few = waiting(&semaphore, C, 4);
        assert!(semaphore.try_acquire(A, 1).is_none(), "it would delay a waiter for many");
        drop(many);
        let few = few.as_mut().now_or_never().expect("the turn was passed on");
        // A permit that was sent and never received is returned as well.
        let late = waiting(&semaphore, B, 1);
        drop(first);
        drop(late);
        drop(few);
        let state = semaphore.state();
        assert!(state.shares.free() == 10 && state.waiting.is_empty(), "{state:?}");
    }

    #[test]
    fn few_units_are_reserved_while_a_waiter_for_many_keeps_its_turn() {
        let semaphore = FairSemaphore::with_reserve(8, 4, 2);
        let mut held = semaphore.acquire(A, 6).now_or_never();
        let mut many = waiting(&semaphore, A, 8);
        let mut more = waiting(&semaphore, B, 3);
        let few = [A, C].map(|tenant| semaphore.acquire(tenant, 2).now_or_never().expect("it is reserved"));
        let mut late = waiting(&semaphore, C, 2);
        drop(held.take());
        let many = many.as_mut().now_or_never().expect("its turn");
        drop(few);
        let late = late.as_mut().now_or_never().expect("it is reserved");
        assert!(more.as_mut().now_or_never().is_none(), "too many for the reserve");
        drop((many, late));
        drop(more.as_mut().now_or_never().expect("its turn"));
        let state = semaphore.state();
        assert!(state.shares.free() == 8 && state.reserve.free == 4 && state.waiting.is_empty(), "{state:?}");
    }

    #[test]
    fn one_that_holds_its_share_waits_and_delays_no_other() {
        let semaphore = FairSemaphore::shared(80, 10);
        let mut of_a = semaphore.try_acquire(A, 70).expect("it holds none");
        assert!(semaphore.try_acquire(A, 1).is_none());
        let mut more = waiting(&semaphore, A, 5);
        let of_b = semaphore.try_acquire(B, 10).expect("the last eighth");
        drop(of_b);
        of_a.shrink_to(45);
        drop(more.as_mut().now_or_never().expect("its share again"));
        let mut of_b = semaphore.try_acquire(B, 10).expect("half of the share is free to it");
        assert!(semaphore.try_acquire(A, 5).is_none(), "more than half, and others hold some");
        of_a.shrink_to(10);
        of_b.add(semaphore.try_acquire(B, 25).expect("half of seven eighths"));
        assert!(semaphore.try_acquire(B, 20).is_none(), "more than twice what would be free");
        let others: Vec<_> = (3..9).map(|tenant| semaphore.try_acquire(Tenant(tenant), 1).expect("free")).collect();
        of_b.shrink_to(1);
        assert!(semaphore.try_acquire(B, 30).is_some(), "more than the even share, while much is free");
        drop((of_a, of_b, others));
        let all = semaphore.try_acquire(C, 80).expect("more than a share, for one that holds none");
        drop(all);
        let state = semaphore.state();
        assert!(state.shares.free() == 80 && state.shares.held.is_empty(), "{state:?}");
    }
}
