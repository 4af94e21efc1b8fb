//! `Idempotency-Key`: claims a key for a request, so that a repeated request is not billed again.
//!
//! The first request with a key gets a [`ClaimGuard`]. When it is billed, the key is remembered for 24 hours, in the same
//! transaction as the bill; when it fails, the guard is dropped and the key is free again. The same request sent meanwhile
//! waits for that. Results are not stored: a repeated request is computed again, without a bill.
//!
//! The bytes behind an address are known only after fetching. Requests are remembered picture by picture, so that changed
//! bytes behind the same address are not computed again without a bill, and a failed picture of a batch may be billed
//! later: such a request gets a guard again.
//!
//! On a store that other processes change, the same request may run in two of them: the bill of the second one is refused
//! in its transaction, and its request is answered as a repetition.

use std::collections::hash_map::Entry as Slot;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use sha2::{Digest, Sha256};
use tokio::sync::watch;

use super::IdempotencyKey;
use super::store_write::{WriteError, write_change};
use crate::store::{Change, REQUEST_SECONDS, Request, Rows, StateStore, UnixSeconds};

/// Old requests dropped from memory with each new one: more than arrive, and little work.
const DROPPED_PER_CLAIM: usize = 4;

/// Old requests dropped from the store in one change, for which all bills wait.
const DROPPED_PER_CHANGE: usize = 5000;

/// The keys of the last 24 hours. Clones share one state.
#[derive(Clone, Debug)]
pub struct IdempotencyKeys(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    store: Arc<dyn StateStore>,
    memory: Mutex<Memory>,
}

/// Account and key as SHA-256: 32 bytes, however long the two are.
type Id = [u8; 32];

#[derive(Debug, Default)]
struct Memory {
    entries: HashMap<Id, Entry>,
    /// The billed ones in the order in which they were billed. Entries that are gone, or were billed again later, are
    /// skipped.
    billed: VecDeque<(UnixSeconds, Id)>,
}

#[derive(Debug)]
enum Entry {
    /// Claimed; the channel closes when the guard is dropped. `elsewhere` is what a followed commit billed meanwhile.
    Running { fingerprint: [u8; 32], ended: watch::Receiver<()>, elsewhere: Option<Billed> },
    /// Billed for at least some of its pictures.
    Billed(Billed),
}

#[derive(Clone, Debug)]
struct Billed {
    fingerprint: [u8; 32],
    images: u64,
    at: UnixSeconds,
    pictures: BilledPictures,
}

/// The pictures of a request by position: SHA-256 of what was fetched, for those that were billed.
pub type BilledPictures = Arc<[Option<[u8; 32]>]>;

/// The outcome of claiming a key.
#[derive(Debug)]
pub enum Claim {
    /// The first request with the key, or one with unbilled pictures: bill it with the guard, or drop the guard.
    New(ClaimGuard),
    /// A repetition, with all pictures billed: answer it without a bill.
    Replay(BilledPictures),
    /// The key belongs to another request.
    Conflict,
}

/// The exclusive right to bill under a key, until it is billed or dropped.
#[derive(Debug)]
#[must_use = "dropped, it frees the key"]
pub struct ClaimGuard {
    keys: IdempotencyKeys,
    id: Id,
    key: String,
    fingerprint: [u8; 32],
    at: UnixSeconds,
    /// What was billed under the key before.
    earlier: Option<Billed>,
    /// The pictures to remember as billed.
    pictures: BilledPictures,
    /// Dropped after the entry is changed: fields are dropped after `Drop::drop`.
    _ended: watch::Sender<()>,
}

impl IdempotencyKeys {
    /// With the requests that the store remembers.
    pub(super) fn new(store: Arc<dyn StateStore>, requests: Vec<(String, String, Request)>) -> Self {
        let mut memory = Memory::default();
        let mut requests: Vec<(Id, Request)> =
            requests.into_iter().map(|(account, key, request)| (id(&account, &key), request)).collect();
        requests.sort_unstable_by_key(|(_, request)| request.at);
        for (id, Request { fingerprint, images, at, pictures }) in requests {
            memory.remember(id, Billed { fingerprint, images, at, pictures: pictures.into() });
        }
        Self(Arc::new(Shared { store, memory: Mutex::new(memory) }))
    }

    /// Claims a key for a request. While the same request is in progress this waits for its end; put the same time limit
    /// on it as on the work. `fingerprint` is the SHA-256 of the request, with the fields of its preset.
    pub async fn claim(&self, account: &str, key: &IdempotencyKey, fingerprint: [u8; 32], now: UnixSeconds) -> Claim {
        let id = id(account, key.as_str());
        loop {
            let mut ended = match self.try_claim(id, key, fingerprint, now) {
                Ok(begin) => return begin,
                Err(ended) => ended,
            };
            // Nothing is ever sent: this returns, with an error, when the guard is dropped.
            let _ = ended.changed().await;
        }
    }

    /// Drops keys older than 24 hours, in memory and in the store.
    ///
    /// # Errors
    /// When the store cannot write.
    pub async fn drop_old(&self, now: UnixSeconds) -> Result<(), WriteError> {
        let before = oldest_kept(now);
        // Both in batches, so that requests are served and billed in between.
        while self.lock().drop_before(before, 1000) {
            tokio::task::yield_now().await;
        }
        loop {
            let change = Change::ForgetRequests { before, at_most: DROPPED_PER_CHANGE };
            let dropped = write_change(&*self.0.store, change, |_| ()).await?.forgotten_requests;
            if dropped < DROPPED_PER_CHANGE {
                return Ok(());
            }
        }
    }

    /// The outcome, or a channel to wait for before the next attempt.
    fn try_claim(
        &self,
        id: Id,
        key: &IdempotencyKey,
        fingerprint: [u8; 32],
        now: UnixSeconds,
    ) -> Result<Claim, watch::Receiver<()>> {
        let mut memory = self.lock();
        let oldest = oldest_kept(now);
        memory.drop_before(oldest, DROPPED_PER_CLAIM);
        let (sender, receiver) = watch::channel(());
        let running = Entry::Running { fingerprint, ended: receiver, elsewhere: None };
        let mut earlier = None;
        match memory.entries.entry(id) {
            Slot::Occupied(mut place) => {
                match place.get() {
                    Entry::Running { fingerprint: first, ended, .. } if *first == fingerprint => {
                        return Err(ended.clone());
                    }
                    Entry::Running { .. } => return Ok(Claim::Conflict),
                    Entry::Billed(first) if first.at < oldest => {}
                    Entry::Billed(first) if first.fingerprint != fingerprint => return Ok(Claim::Conflict),
                    Entry::Billed(first) if first.pictures.iter().all(Option::is_some) => {
                        return Ok(Claim::Replay(Arc::clone(&first.pictures)));
                    }
                    Entry::Billed(first) => earlier = Some(first.clone()),
                }
                place.insert(running);
            }
            Slot::Vacant(place) => drop(place.insert(running)),
        }
        let key = key.as_str().to_owned();
        let pictures = earlier.as_ref().map(|earlier| Arc::clone(&earlier.pictures)).unwrap_or_default();
        let keys = self.clone();
        Ok(Claim::New(ClaimGuard { keys, id, key, fingerprint, at: now, earlier, pictures, _ended: sender }))
    }

    /// A copy that followed commits are written to.
    pub(super) fn downgrade(&self) -> IdempotencyCopy {
        IdempotencyCopy(Arc::downgrade(&self.0))
    }

    /// Held for a look-up, never across an await. A panic under the lock leaves whole entries, so poison is no reason
    /// to stop.
    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.0.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The billed requests, as long as their service lives.
#[derive(Debug)]
pub(super) struct IdempotencyCopy(Weak<Shared>);

impl IdempotencyCopy {
    /// Copies the requests of a followed commit. One that runs here too is checked when it is billed.
    pub(super) fn copy(&self, rows: &Rows) {
        let Some(shared) = self.0.upgrade().filter(|_| !rows.requests.is_empty()) else { return };
        let keys = IdempotencyKeys(shared);
        let mut memory = keys.lock();
        for (account, key, Request { fingerprint, images, at, pictures }) in &rows.requests {
            let id = id(account, key);
            let pictures = pictures.clone().into();
            let billed = Billed { fingerprint: *fingerprint, images: *images, at: *at, pictures };
            match memory.entries.get_mut(&id) {
                // Remembered when its guard is dropped.
                Some(Entry::Running { elsewhere, .. }) => *elsewhere = Some(billed),
                Some(Entry::Billed(_)) | None => memory.remember(id, billed),
            }
        }
    }
}

impl Memory {
    fn remember(&mut self, id: Id, billed: Billed) {
        self.billed.push_back((billed.at, id));
        self.entries.insert(id, Entry::Billed(billed));
    }

    /// Drops up to `max` billed requests from before a time, oldest first. Returns whether there may be more.
    fn drop_before(&mut self, before: UnixSeconds, max: usize) -> bool {
        // Appended after the loop: a running request would otherwise be found again and again.
        let mut running = Vec::new();
        let mut may_be_more = true;
        for _ in 0..max {
            let Some(&(at, id)) = self.billed.front().filter(|(at, _)| *at < before) else {
                may_be_more = false;
                break;
            };
            self.billed.pop_front();
            match self.entries.get(&id) {
                Some(Entry::Billed(latest)) if latest.at == at => drop(self.entries.remove(&id)),
                // Its guard may restore what was billed before.
                Some(Entry::Running { .. }) => running.push((at, id)),
                Some(Entry::Billed(_)) | None => {}
            }
        }
        may_be_more &= running.len() < max;
        self.billed.extend(running);
        may_be_more
    }
}

impl ClaimGuard {
    /// The pictures that were billed under the key before.
    #[must_use]
    pub fn pictures(&self) -> &BilledPictures {
        &self.pictures
    }

    /// Sets the pictures that are billed with this, earlier ones included.
    pub fn with_pictures(mut self, pictures: BilledPictures) -> Self {
        self.pictures = pictures;
        self
    }

    /// Time and images of the record that this continues.
    pub(super) fn earlier(&self) -> Option<(UnixSeconds, u64)> {
        self.earlier.as_ref().map(|earlier| (earlier.at, earlier.images))
    }

    /// The record to store when `images` more are billed.
    pub(super) fn request(&self, images: u64) -> (String, Request) {
        let Billed { fingerprint, images, at, pictures } = self.bill(images);
        (self.key.clone(), Request { fingerprint, images, at, pictures: pictures.to_vec() })
    }

    /// To be called when the record is committed, or a lease covers it.
    pub(super) fn billed(self, images: u64) {
        let mut memory = self.keys.lock();
        let elsewhere = match memory.entries.get_mut(&self.id) {
            Some(Entry::Running { elsewhere, .. }) => elsewhere.take(),
            Some(Entry::Billed(_)) | None => None,
        };
        // What another process has committed meanwhile is what the database has: it refuses this record.
        let billed = elsewhere.unwrap_or_else(|| self.bill(images));
        memory.remember(self.id, billed);
        // `self` is dropped after the lock, which its drop takes.
    }

    fn bill(&self, images: u64) -> Billed {
        let before = self.earlier.as_ref().map_or(0, |earlier| earlier.images);
        let (fingerprint, at, pictures) = (self.fingerprint, self.at, Arc::clone(&self.pictures));
        Billed { fingerprint, images: before.saturating_add(images), at, pictures }
    }
}

impl Drop for ClaimGuard {
    fn drop(&mut self) {
        let mut memory = self.keys.lock();
        // A billed entry stays.
        let Some(Entry::Running { elsewhere, .. }) = memory.entries.get_mut(&self.id) else { return };
        if let Some(billed) = elsewhere.take() {
            return memory.remember(self.id, billed);
        }
        match self.earlier.take() {
            // Its entry in `billed` is still there.
            Some(earlier) => drop(memory.entries.insert(self.id, Entry::Billed(earlier))),
            None => drop(memory.entries.remove(&self.id)),
        }
    }
}

fn oldest_kept(now: UnixSeconds) -> UnixSeconds {
    UnixSeconds(now.0.saturating_sub(REQUEST_SECONDS))
}

fn id(account: &str, key: &str) -> Id {
    // An account's name has no zero byte, so different pairs have different texts.
    Sha256::new().chain_update(account).chain_update([0]).chain_update(key).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::Billing;
    use crate::account::memory_store::{CommitMode, MemoryStore};
    use crate::store::Plan;
    use futures_util::FutureExt;
    use proptest::prelude::*;

    const NOW: UnixSeconds = UnixSeconds(1_796_000_000);
    const DAY: i64 = 86_400;

    fn key(text: &str) -> IdempotencyKey {
        IdempotencyKey::try_from(text).expect("a key")
    }

    fn at(seconds: i64) -> UnixSeconds {
        UnixSeconds(NOW.0 + seconds)
    }

    async fn bill(billing: &Billing, guard: ClaimGuard) {
        let reservation = billing.reserve("a", Plan::Paid, 1, NOW).expect("no bound");
        reservation.bill(1, 5000, Some(guard)).await.expect("the store writes");
    }

    /// `None` where it would wait.
    fn claim(keys: &IdempotencyKeys, name: &str, fingerprint: u8, now: UnixSeconds) -> Option<Claim> {
        keys.claim("a", &key(name), [fingerprint; 32], now).now_or_never()
    }

    fn claim_new(keys: &IdempotencyKeys, name: &str, fingerprint: u8, now: UnixSeconds) -> ClaimGuard {
        match claim(keys, name, fingerprint, now) {
            Some(Claim::New(guard)) => guard,
            other @ (None | Some(Claim::Replay(_) | Claim::Conflict)) => panic!("not new: {other:?}"),
        }
    }

    #[tokio::test]
    async fn a_request_is_new_until_it_is_billed_and_then_a_repetition() {
        let (billing, keys, _) = MemoryStore::default().start(50, NOW);
        drop(claim_new(&keys, "k", 1, NOW));
        let guard = claim_new(&keys, "k", 1, NOW);
        assert!(matches!(claim(&keys, "k", 2, NOW), Some(Claim::Conflict)), "another one while it runs");
        assert!(claim(&keys, "k", 1, NOW).is_none(), "the same one waits");
        bill(&billing, guard).await;
        assert!(matches!(claim(&keys, "k", 1, NOW), Some(Claim::Replay(_))));
        assert!(matches!(claim(&keys, "k", 2, NOW), Some(Claim::Conflict)));
        drop(claim_new(&keys, "K", 2, NOW));
        let other = keys.claim("b", &key("k"), [2; 32], NOW).await;
        assert!(matches!(other, Claim::New(_)), "another account has its own keys");
    }

    #[tokio::test]
    async fn a_request_with_an_unbilled_picture_gets_a_guard_again() {
        let store = MemoryStore::default();
        let (billing, keys, _) = store.start(50, NOW);
        let some: BilledPictures = Arc::from([Some([7; 32]), None]);
        bill(&billing, claim_new(&keys, "k", 1, NOW).with_pictures(Arc::clone(&some))).await;
        for keys in [keys, store.start(50, NOW).1] {
            // Dropped, it leaves the billed pictures as they were.
            for _ in 0..2 {
                let guard = claim_new(&keys, "k", 1, NOW);
                assert_eq!(guard.pictures(), &some);
                assert!(claim(&keys, "k", 1, NOW).is_none(), "the same one waits");
                assert!(matches!(claim(&keys, "k", 2, NOW), Some(Claim::Conflict)));
            }
        }
        let (billing, keys, _) = store.start(50, NOW);
        let all: BilledPictures = Arc::from([Some([7; 32]), Some([8; 32])]);
        bill(&billing, claim_new(&keys, "k", 1, NOW).with_pictures(Arc::clone(&all))).await;
        assert!(matches!(claim(&keys, "k", 1, NOW), Some(Claim::Replay(pictures)) if pictures == all));
        assert_eq!(store.start(50, NOW).1.lock().entries.len(), 1);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn of_100_equal_concurrent_requests_one_is_billed() {
        let store = MemoryStore::default();
        let (billing, keys, _) = store.start(50, NOW);
        let request = |number| {
            let (billing, keys) = (billing.clone(), keys.clone());
            tokio::spawn(async move {
                match keys.claim("a", &key("k"), [1; 32], NOW).await {
                    // The first ones fail.
                    Claim::New(guard) if number < 10 => {
                        tokio::task::yield_now().await;
                        drop(guard);
                    }
                    Claim::New(guard) => bill(&billing, guard).await,
                    Claim::Replay(_) => {}
                    Claim::Conflict => panic!("they are equal"),
                }
            })
        };
        let tasks: Vec<_> = (0..100).map(request).collect();
        for task in tasks {
            task.await.expect("no panic");
        }
        assert_eq!(billing.usage("a", Plan::Paid, NOW).used, 1);
        assert_eq!((store.requests(), keys.lock().entries.len()), (1, 1));
    }

    #[tokio::test]
    async fn a_key_that_could_not_be_billed_is_free_again() {
        let store = MemoryStore::default();
        let (billing, keys, _) = store.start(50, NOW);
        let guard = claim_new(&keys, "k", 1, NOW);
        store.set_mode(CommitMode::Busy);
        let reservation = billing.reserve("a", Plan::Paid, 1, NOW).expect("no bound");
        reservation.bill(1, 5000, Some(guard)).await.expect_err("busy");
        drop(claim_new(&keys, "k", 2, NOW));
    }

    #[tokio::test]
    async fn a_key_is_remembered_for_24_hours_and_over_a_restart() {
        let store = MemoryStore::default();
        let (billing, keys, _) = store.start(50, NOW);
        bill(&billing, claim_new(&keys, "k", 1, NOW)).await;
        for keys in [keys, store.start(50, at(DAY)).1] {
            assert!(matches!(claim(&keys, "k", 1, at(DAY)), Some(Claim::Replay(_))));
            assert!(matches!(claim(&keys, "k", 2, at(DAY)), Some(Claim::Conflict)));
            drop(claim_new(&keys, "k", 2, at(DAY + 1)));
        }
        drop(claim_new(&store.start(50, at(DAY + 1)).1, "k", 1, at(DAY + 1)));
    }

    #[tokio::test]
    async fn old_requests_are_dropped_in_memory_and_in_the_store() {
        let store = MemoryStore::default();
        let (billing, keys, _) = store.start(50, NOW);
        for number in 0..100 {
            bill(&billing, claim_new(&keys, &format!("k{number}"), 1, at(number))).await;
        }
        let sizes = || {
            let memory = keys.lock();
            (store.requests(), memory.entries.len(), memory.billed.len())
        };
        assert_eq!(sizes(), (100, 100, 100));
        // Each new request drops more old ones than it adds.
        for number in 0..20 {
            bill(&billing, claim_new(&keys, &format!("new{number}"), 1, at(DAY + 60))).await;
        }
        assert_eq!(sizes(), (120, 60, 60));
        keys.drop_old(at(DAY + 200)).await.expect("the store writes");
        assert_eq!(sizes(), (20, 20, 20));
        assert!(matches!(claim(&keys, "new0", 1, at(DAY + 200)), Some(Claim::Replay(_))));
    }

    #[tokio::test]
    async fn more_old_requests_than_one_change_drops_are_dropped_by_several() {
        let store = MemoryStore::default();
        let (billing, keys, _) = store.start(50, NOW);
        for number in 0..=DROPPED_PER_CHANGE {
            bill(&billing, claim_new(&keys, &number.to_string(), 1, NOW)).await;
        }
        assert_eq!(store.requests(), DROPPED_PER_CHANGE + 1);
        keys.drop_old(at(DAY + 1)).await.expect("the store writes");
        assert_eq!((store.requests(), keys.lock().entries.len()), (0, 0));
    }

    #[tokio::test]
    async fn a_key_billed_again_after_its_day_stays_for_another() {
        let store = MemoryStore::default();
        let (billing, keys, _) = store.start(50, NOW);
        bill(&billing, claim_new(&keys, "k", 1, NOW)).await;
        bill(&billing, claim_new(&keys, "k", 2, at(DAY + 1))).await;
        keys.drop_old(at(DAY + 2)).await.expect("the store writes");
        assert!(matches!(claim(&keys, "k", 2, at(DAY + 2)), Some(Claim::Replay(_))));
        assert_eq!(keys.lock().billed.len(), 1);
    }

    #[tokio::test]
    async fn what_another_process_has_billed_meanwhile_is_remembered_also_when_the_own_bill_is_acknowledged() {
        let (_, keys, _) = MemoryStore::default().start(50, NOW);
        let guard = claim_new(&keys, "k", 1, NOW);
        let pictures = vec![Some([9; 32])];
        let elsewhere = Request { fingerprint: [1; 32], images: 1, at: NOW, pictures: pictures.clone() };
        keys.downgrade().copy(&Rows { requests: vec![("a".into(), "k".into(), elsewhere)], ..Rows::default() });
        guard.with_pictures(Arc::from([Some([7; 32])])).billed(1);
        let claimed = claim(&keys, "k", 1, NOW);
        assert!(matches!(&claimed, Some(Claim::Replay(billed)) if billed.to_vec() == pictures), "{claimed:?}");
    }

    #[tokio::test]
    async fn a_waiting_request_continues_when_the_guard_is_dropped() {
        let (_, keys, _) = MemoryStore::default().start(50, NOW);
        let guard = claim_new(&keys, "k", 1, NOW);
        let waiting = tokio::spawn({
            let keys = keys.clone();
            async move { keys.claim("a", &key("k"), [1; 32], NOW).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(guard);
        assert!(matches!(waiting.await.expect("no panic"), Claim::New(_)));
        assert!(keys.lock().entries.is_empty());
    }

    #[derive(Clone, Debug)]
    enum Step {
        Claim { key: u8, fingerprint: u8 },
        Bill(prop::sample::Index, CommitMode),
        Drop(prop::sample::Index),
        Advance(i64),
        DropOld,
        Restart,
    }

    fn step() -> impl Strategy<Value = Step> {
        let mode = prop_oneof![4 => Just(CommitMode::Immediate), 1 => Just(CommitMode::Busy)];
        prop_oneof![
            8 => (0..4_u8, 0..2_u8).prop_map(|(key, fingerprint)| Step::Claim { key, fingerprint }),
            4 => (any::<prop::sample::Index>(), mode).prop_map(|(which, mode)| Step::Bill(which, mode)),
            2 => any::<prop::sample::Index>().prop_map(Step::Drop),
            2 => (0..DAY).prop_map(Step::Advance),
            1 => Just(Step::DropOld),
            1 => Just(Step::Restart),
        ]
    }

    #[test]
    fn a_running_request_does_not_keep_the_cleanup_from_ending() {
        let mut memory = Memory::default();
        let (_sender, ended) = watch::channel(());
        memory.entries.insert([1; 32], Entry::Running { fingerprint: [0; 32], ended, elsewhere: None });
        memory.billed.push_back((UnixSeconds(1), [1; 32]));
        for max in [1, 1000] {
            assert!(!memory.drop_before(UnixSeconds(2), max), "nothing more can be dropped");
            assert_eq!(memory.billed.len(), 1, "it is checked again later");
        }
    }

    /// The model's state of a key.
    #[derive(Clone, Copy)]
    enum ModelEntry {
        Running(u8),
        Billed(u8, UnixSeconds),
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn idempotency_keys_agree_with_a_map(steps in prop::collection::vec(step(), 1..60)) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
            runtime.block_on(run(steps))?;
        }
    }

    async fn run(steps: Vec<Step>) -> Result<(), TestCaseError> {
        let store = MemoryStore::default();
        let (mut billing, mut keys, _) = store.start(50, NOW);
        let mut now = NOW;
        let mut model: std::collections::BTreeMap<u8, ModelEntry> = std::collections::BTreeMap::new();
        let mut guards: Vec<(u8, u8, UnixSeconds, ClaimGuard)> = Vec::new();
        for step in steps {
            model.retain(|_, entry| {
                matches!(entry, ModelEntry::Running(_))
                    || matches!(entry, ModelEntry::Billed(_, at) if at.0 + DAY >= now.0)
            });
            match step {
                Step::Claim { key, fingerprint } => {
                    let claimed = claim(&keys, &key.to_string(), fingerprint, now);
                    let seen = match &claimed {
                        None => "waits",
                        Some(Claim::New(_)) => "new",
                        Some(Claim::Replay(_)) => "repeat",
                        Some(Claim::Conflict) => "conflict",
                    };
                    let expected = match model.get(&key) {
                        None => "new",
                        Some(ModelEntry::Running(of) | ModelEntry::Billed(of, _)) if *of != fingerprint => "conflict",
                        Some(ModelEntry::Running(_)) => "waits",
                        Some(ModelEntry::Billed(..)) => "repeat",
                    };
                    prop_assert_eq!(seen, expected);
                    if let Some(Claim::New(guard)) = claimed {
                        model.insert(key, ModelEntry::Running(fingerprint));
                        guards.push((key, fingerprint, now, guard));
                    }
                }
                Step::Bill(..) | Step::Drop(_) if guards.is_empty() => {}
                Step::Bill(which, mode) => {
                    let (key, fingerprint, begun, guard) = guards.swap_remove(which.index(guards.len()));
                    store.set_mode(mode);
                    let reservation = billing.reserve("a", Plan::Paid, 1, now).expect("no bound");
                    let outcome = reservation.bill(1, 0, Some(guard)).await;
                    store.set_mode(CommitMode::Immediate);
                    model.remove(&key);
                    if outcome.is_ok() {
                        model.insert(key, ModelEntry::Billed(fingerprint, begun));
                    }
                }
                Step::Drop(which) => {
                    let (key, ..) = guards.swap_remove(which.index(guards.len()));
                    model.remove(&key);
                }
                Step::Advance(seconds) => now = UnixSeconds(now.0 + seconds),
                Step::DropOld => keys.drop_old(now).await.expect("the store writes"),
                Step::Restart => {
                    guards.clear();
                    model.retain(|_, entry| matches!(entry, ModelEntry::Billed(..)));
                    (billing, keys, _) = store.start(50, now);
                }
            }
            prop_assert!(keys.lock().entries.len() <= 4);
        }
        Ok(())
    }
}
