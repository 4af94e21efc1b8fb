//! `Idempotency-Key`: a request that is sent again is not billed again.
//!
//! The first request with a key gets a [`Permit`]. When it is billed, the key is remembered for 24 hours, in the same
//! transaction as the bill; when it fails, the permit is dropped and the key is as new. The same request sent meanwhile
//! waits for that. Results are not kept: the repeated request is computed again, with nothing to pay.
//!
//! What is fetched for a request is known only after that. It is remembered picture by picture, so that other bytes
//! behind the same address are not computed again for nothing, and a picture of a batch that failed may be made and
//! billed later: such a request gets a permit again.

use std::collections::hash_map::Entry as Place;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};
use tokio::sync::watch;

use super::IdempotencyKey;
use super::write::{WriteError, write};
use crate::store::{Change, REQUEST_SECONDS, Request, StateStore, UnixSeconds};

/// Old requests dropped from memory on the way of one that comes: more than come, and little to wait for.
const DROPPED_AT_ONCE: usize = 4;

/// The requests of the last 24 hours that had a key. Clones share one state.
#[derive(Clone, Debug)]
pub struct Requests(Arc<Shared>);

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
    /// The billed ones in the order in which they were billed. An entry that is not there any more, or was billed again
    /// later, is passed over.
    billed: VecDeque<(UnixSeconds, Id)>,
}

#[derive(Debug)]
enum Entry {
    /// Its permit is out; the channel closes when that is gone.
    Running { fingerprint: [u8; 32], ended: watch::Receiver<()> },
    /// Billed, for some of its pictures at least.
    Billed(Billed),
}

#[derive(Clone, Debug)]
struct Billed {
    fingerprint: [u8; 32],
    images: u64,
    at: UnixSeconds,
    pictures: BilledPictures,
}

/// The pictures of a request, by their place in it: SHA-256 of what was fetched for those that were billed.
pub type BilledPictures = Arc<[Option<[u8; 32]>]>;

/// What a request with a key is.
#[derive(Debug)]
pub enum Begin {
    /// The first one, or one of which some pictures are not billed: bill it with the permit, or drop the permit.
    First(Permit),
    /// The same again, and all of its pictures were billed: answer it, and bill nothing.
    Repeat(BilledPictures),
    /// Another request under the same key.
    Conflict,
}

/// The right to be billed under a key. Nobody else has it until this is billed or dropped.
#[derive(Debug)]
#[must_use = "dropped, it lets the next request with the key be the first"]
pub struct Permit {
    requests: Requests,
    id: Id,
    key: String,
    fingerprint: [u8; 32],
    at: UnixSeconds,
    /// What was billed before.
    earlier: Option<Billed>,
    /// What is to be remembered as billed.
    pictures: BilledPictures,
    /// Dropped after the entry was changed: fields go after `Drop::drop`.
    _ended: watch::Sender<()>,
}

impl Requests {
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

    /// Finds out what a request is. While the same request is under way this waits for its end; bound the waiting as
    /// the work is bound. `fingerprint` is the SHA-256 of all that was sent,
    /// with the fields of its preset.
    pub async fn begin(&self, account: &str, key: &IdempotencyKey, fingerprint: [u8; 32], now: UnixSeconds) -> Begin {
        let id = id(account, key.as_str());
        loop {
            let mut ended = match self.look(id, key, fingerprint, now) {
                Ok(begin) => return begin,
                Err(ended) => ended,
            };
            // Nothing is ever sent: this ends when the permit goes, with an error that says so.
            let _ = ended.changed().await;
        }
    }

    /// Forgets what is older than 24 hours, here and in the store.
    ///
    /// # Errors
    /// When the store cannot write.
    pub async fn forget(&self, now: UnixSeconds) -> Result<(), WriteError> {
        let before = oldest_kept(now);
        // In pieces, so that requests come in between.
        while self.lock().drop_before(before, 1000) {
            tokio::task::yield_now().await;
        }
        write(&*self.0.store, Change::ForgetRequests { before }, |_| ()).await?;
        Ok(())
    }

    /// The answer, or what to wait for before asking again.
    fn look(
        &self,
        id: Id,
        key: &IdempotencyKey,
        fingerprint: [u8; 32],
        now: UnixSeconds,
    ) -> Result<Begin, watch::Receiver<()>> {
        let mut memory = self.lock();
        let oldest = oldest_kept(now);
        memory.drop_before(oldest, DROPPED_AT_ONCE);
        let (sender, receiver) = watch::channel(());
        let running = Entry::Running { fingerprint, ended: receiver };
        let mut earlier = None;
        match memory.entries.entry(id) {
            Place::Occupied(mut place) => {
                match place.get() {
                    Entry::Running { fingerprint: first, ended } if *first == fingerprint => return Err(ended.clone()),
                    Entry::Running { .. } => return Ok(Begin::Conflict),
                    Entry::Billed(first) if first.at < oldest => {}
                    Entry::Billed(first) if first.fingerprint != fingerprint => return Ok(Begin::Conflict),
                    Entry::Billed(first) if first.pictures.iter().all(Option::is_some) => {
                        return Ok(Begin::Repeat(Arc::clone(&first.pictures)));
                    }
                    Entry::Billed(first) => earlier = Some(first.clone()),
                }
                place.insert(running);
            }
            Place::Vacant(place) => drop(place.insert(running)),
        }
        let key = key.as_str().to_owned();
        let pictures = earlier.as_ref().map(|earlier| Arc::clone(&earlier.pictures)).unwrap_or_default();
        let requests = self.clone();
        Ok(Begin::First(Permit { requests, id, key, fingerprint, at: now, earlier, pictures, _ended: sender }))
    }

    /// Held for a look-up, never across an await. A panic under the lock leaves whole entries, so poison is no reason
    /// to stop.
    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.0.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    fn remember(&mut self, id: Id, billed: Billed) {
        self.billed.push_back((billed.at, id));
        self.entries.insert(id, Entry::Billed(billed));
    }

    /// Drops up to `most` billed requests from before a time, oldest first. Whether there may be more.
    fn drop_before(&mut self, before: UnixSeconds, most: usize) -> bool {
        // Added again at the end, or one that runs on would be seen without end.
        let mut running = Vec::new();
        let mut may_be_more = true;
        for _ in 0..most {
            let Some(&(at, id)) = self.billed.front().filter(|(at, _)| *at < before) else {
                may_be_more = false;
                break;
            };
            self.billed.pop_front();
            match self.entries.get(&id) {
                Some(Entry::Billed(latest)) if latest.at == at => drop(self.entries.remove(&id)),
                // Its permit may restore what was billed before.
                Some(Entry::Running { .. }) => running.push((at, id)),
                Some(Entry::Billed(_)) | None => {}
            }
        }
        may_be_more &= running.len() < most;
        self.billed.extend(running);
        may_be_more
    }
}

impl Permit {
    /// The pictures that were billed under the key before.
    #[must_use]
    pub fn pictures(&self) -> &BilledPictures {
        &self.pictures
    }

    /// With all the pictures that are billed when this is, those of before included.
    pub fn with_pictures(mut self, pictures: BilledPictures) -> Self {
        self.pictures = pictures;
        self
    }

    /// What the store is to remember when `images` more are billed.
    pub(super) fn request(&self, images: u64) -> (String, Request) {
        let Billed { fingerprint, images, at, pictures } = self.bill(images);
        (self.key.clone(), Request { fingerprint, images, at, pictures: pictures.to_vec() })
    }

    /// To be called when the store has it.
    pub(super) fn billed(self, images: u64) {
        let billed = self.bill(images);
        self.requests.lock().remember(self.id, billed);
    }

    fn bill(&self, images: u64) -> Billed {
        let before = self.earlier.as_ref().map_or(0, |earlier| earlier.images);
        let (fingerprint, at, pictures) = (self.fingerprint, self.at, Arc::clone(&self.pictures));
        Billed { fingerprint, images: before.saturating_add(images), at, pictures }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut memory = self.requests.lock();
        // A billed one stays.
        if !matches!(memory.entries.get(&self.id), Some(Entry::Running { .. })) {
            return;
        }
        match self.earlier.take() {
            // Its place in the queue is still there.
            Some(earlier) => drop(memory.entries.insert(self.id, Entry::Billed(earlier))),
            None => drop(memory.entries.remove(&self.id)),
        }
    }
}

fn oldest_kept(now: UnixSeconds) -> UnixSeconds {
    UnixSeconds(now.0.saturating_sub(REQUEST_SECONDS))
}

fn id(account: &str, key: &str) -> Id {
    // An account's name has no zero byte, so two pairs never read the same.
    Sha256::new().chain_update(account).chain_update([0]).chain_update(key).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::Ledger;
    use crate::account::memory_store::{MemoryStore, Mood};
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

    async fn bill(ledger: &Ledger, permit: Permit) {
        let reservation = ledger.reserve("a", Plan::Paid, 1, NOW).expect("no bound");
        reservation.bill(1, 5000, Some(permit)).await.expect("the store writes");
    }

    /// Without waiting: `None` where it would.
    fn begin(requests: &Requests, name: &str, fingerprint: u8, now: UnixSeconds) -> Option<Begin> {
        requests.begin("a", &key(name), [fingerprint; 32], now).now_or_never()
    }

    fn first(requests: &Requests, name: &str, fingerprint: u8, now: UnixSeconds) -> Permit {
        match begin(requests, name, fingerprint, now) {
            Some(Begin::First(permit)) => permit,
            other @ (None | Some(Begin::Repeat(_) | Begin::Conflict)) => panic!("not the first: {other:?}"),
        }
    }

    #[tokio::test]
    async fn a_request_is_the_first_until_it_is_billed_and_then_a_repetition() {
        let (ledger, requests, _) = MemoryStore::default().start(50, NOW);
        drop(first(&requests, "k", 1, NOW));
        let permit = first(&requests, "k", 1, NOW);
        assert!(matches!(begin(&requests, "k", 2, NOW), Some(Begin::Conflict)), "another one while it runs");
        assert!(begin(&requests, "k", 1, NOW).is_none(), "the same one waits");
        bill(&ledger, permit).await;
        assert!(matches!(begin(&requests, "k", 1, NOW), Some(Begin::Repeat(_))));
        assert!(matches!(begin(&requests, "k", 2, NOW), Some(Begin::Conflict)));
        drop(first(&requests, "K", 2, NOW));
        let other = requests.begin("b", &key("k"), [2; 32], NOW).await;
        assert!(matches!(other, Begin::First(_)), "another account has its own keys");
    }

    #[tokio::test]
    async fn a_request_of_which_a_picture_is_not_billed_gets_a_permit_again() {
        let store = MemoryStore::default();
        let (ledger, requests, _) = store.start(50, NOW);
        let some: BilledPictures = Arc::from([Some([7; 32]), None]);
        bill(&ledger, first(&requests, "k", 1, NOW).with_pictures(Arc::clone(&some))).await;
        for requests in [requests, store.start(50, NOW).1] {
            // Dropped, it leaves what was billed as it was.
            for _ in 0..2 {
                let permit = first(&requests, "k", 1, NOW);
                assert_eq!(permit.pictures(), &some);
                assert!(begin(&requests, "k", 1, NOW).is_none(), "the same one waits");
                assert!(matches!(begin(&requests, "k", 2, NOW), Some(Begin::Conflict)));
            }
        }
        let (ledger, requests, _) = store.start(50, NOW);
        let all: BilledPictures = Arc::from([Some([7; 32]), Some([8; 32])]);
        bill(&ledger, first(&requests, "k", 1, NOW).with_pictures(Arc::clone(&all))).await;
        assert!(matches!(begin(&requests, "k", 1, NOW), Some(Begin::Repeat(pictures)) if pictures == all));
        assert_eq!(store.start(50, NOW).1.lock().entries.len(), 1);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn of_100_equal_requests_at_once_one_is_billed() {
        let store = MemoryStore::default();
        let (ledger, requests, _) = store.start(50, NOW);
        let request = |number| {
            let (ledger, requests) = (ledger.clone(), requests.clone());
            tokio::spawn(async move {
                match requests.begin("a", &key("k"), [1; 32], NOW).await {
                    // The first ones fail.
                    Begin::First(permit) if number < 10 => {
                        tokio::task::yield_now().await;
                        drop(permit);
                    }
                    Begin::First(permit) => bill(&ledger, permit).await,
                    Begin::Repeat(_) => {}
                    Begin::Conflict => panic!("they are equal"),
                }
            })
        };
        let tasks: Vec<_> = (0..100).map(request).collect();
        for task in tasks {
            task.await.expect("no panic");
        }
        assert_eq!(ledger.standing("a", Plan::Paid, NOW).used, 1);
        assert_eq!((store.requests(), requests.lock().entries.len()), (1, 1));
    }

    #[tokio::test]
    async fn a_key_that_could_not_be_billed_is_as_new() {
        let store = MemoryStore::default();
        let (ledger, requests, _) = store.start(50, NOW);
        let permit = first(&requests, "k", 1, NOW);
        store.set(Mood::Busy);
        let reservation = ledger.reserve("a", Plan::Paid, 1, NOW).expect("no bound");
        reservation.bill(1, 5000, Some(permit)).await.expect_err("busy");
        drop(first(&requests, "k", 2, NOW));
    }

    #[tokio::test]
    async fn a_key_is_remembered_for_24_hours_and_over_a_restart() {
        let store = MemoryStore::default();
        let (ledger, requests, _) = store.start(50, NOW);
        bill(&ledger, first(&requests, "k", 1, NOW)).await;
        for requests in [requests, store.start(50, at(DAY)).1] {
            assert!(matches!(begin(&requests, "k", 1, at(DAY)), Some(Begin::Repeat(_))));
            assert!(matches!(begin(&requests, "k", 2, at(DAY)), Some(Begin::Conflict)));
            drop(first(&requests, "k", 2, at(DAY + 1)));
        }
        drop(first(&store.start(50, at(DAY + 1)).1, "k", 1, at(DAY + 1)));
    }

    #[tokio::test]
    async fn old_requests_are_forgotten_here_and_in_the_store() {
        let store = MemoryStore::default();
        let (ledger, requests, _) = store.start(50, NOW);
        for number in 0..100 {
            bill(&ledger, first(&requests, &format!("k{number}"), 1, at(number))).await;
        }
        let sizes = || {
            let memory = requests.lock();
            (store.requests(), memory.entries.len(), memory.billed.len())
        };
        assert_eq!(sizes(), (100, 100, 100));
        // Requests that come drop old ones on their way, more than they add.
        for number in 0..20 {
            bill(&ledger, first(&requests, &format!("new{number}"), 1, at(DAY + 60))).await;
        }
        assert_eq!(sizes(), (120, 60, 60));
        requests.forget(at(DAY + 200)).await.expect("the store writes");
        assert_eq!(sizes(), (20, 20, 20));
        assert!(matches!(begin(&requests, "new0", 1, at(DAY + 200)), Some(Begin::Repeat(_))));
    }

    #[tokio::test]
    async fn a_key_that_is_billed_again_after_its_day_stays_for_another() {
        let store = MemoryStore::default();
        let (ledger, requests, _) = store.start(50, NOW);
        bill(&ledger, first(&requests, "k", 1, NOW)).await;
        bill(&ledger, first(&requests, "k", 2, at(DAY + 1))).await;
        requests.forget(at(DAY + 2)).await.expect("the store writes");
        assert!(matches!(begin(&requests, "k", 2, at(DAY + 2)), Some(Begin::Repeat(_))));
        assert_eq!(requests.lock().billed.len(), 1);
    }

    #[tokio::test]
    async fn whoever_waits_goes_on_when_the_permit_is_dropped() {
        let (_, requests, _) = MemoryStore::default().start(50, NOW);
        let permit = first(&requests, "k", 1, NOW);
        let waiting = tokio::spawn({
            let requests = requests.clone();
            async move { requests.begin("a", &key("k"), [1; 32], NOW).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(permit);
        assert!(matches!(waiting.await.expect("no panic"), Begin::First(_)));
        assert!(requests.lock().entries.is_empty());
    }

    #[derive(Clone, Debug)]
    enum Step {
        Begin { key: u8, fingerprint: u8 },
        Bill(prop::sample::Index, Mood),
        Drop(prop::sample::Index),
        Advance(i64),
        Forget,
        Restart,
    }

    fn step() -> impl Strategy<Value = Step> {
        let mood = prop_oneof![4 => Just(Mood::Willing), 1 => Just(Mood::Busy)];
        prop_oneof![
            8 => (0..4_u8, 0..2_u8).prop_map(|(key, fingerprint)| Step::Begin { key, fingerprint }),
            4 => (any::<prop::sample::Index>(), mood).prop_map(|(which, mood)| Step::Bill(which, mood)),
            2 => any::<prop::sample::Index>().prop_map(Step::Drop),
            2 => (0..DAY).prop_map(Step::Advance),
            1 => Just(Step::Forget),
            1 => Just(Step::Restart),
        ]
    }

    #[test]
    fn a_request_that_runs_on_does_not_keep_the_forgetting_from_its_end() {
        let mut memory = Memory::default();
        let (_sender, ended) = watch::channel(());
        memory.entries.insert([1; 32], Entry::Running { fingerprint: [0; 32], ended });
        memory.billed.push_back((UnixSeconds(1), [1; 32]));
        for most in [1, 1000] {
            assert!(!memory.drop_before(UnixSeconds(2), most), "nothing more can be dropped");
            assert_eq!(memory.billed.len(), 1, "it is looked at again later");
        }
    }

    /// What the model knows of a key.
    #[derive(Clone, Copy)]
    enum Known {
        Running(u8),
        Billed(u8, UnixSeconds),
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn requests_agree_with_a_map(steps in prop::collection::vec(step(), 1..60)) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
            runtime.block_on(run(steps))?;
        }
    }

    async fn run(steps: Vec<Step>) -> Result<(), TestCaseError> {
        let store = MemoryStore::default();
        let (mut ledger, mut requests, _) = store.start(50, NOW);
        let mut now = NOW;
        let mut known: std::collections::BTreeMap<u8, Known> = std::collections::BTreeMap::new();
        let mut permits: Vec<(u8, u8, UnixSeconds, Permit)> = Vec::new();
        for step in steps {
            known.retain(|_, entry| {
                matches!(entry, Known::Running(_)) || matches!(entry, Known::Billed(_, at) if at.0 + DAY >= now.0)
            });
            match step {
                Step::Begin { key, fingerprint } => {
                    let begun = begin(&requests, &key.to_string(), fingerprint, now);
                    let seen = match &begun {
                        None => "waits",
                        Some(Begin::First(_)) => "first",
                        Some(Begin::Repeat(_)) => "repeat",
                        Some(Begin::Conflict) => "conflict",
                    };
                    let expected = match known.get(&key) {
                        None => "first",
                        Some(Known::Running(of) | Known::Billed(of, _)) if *of != fingerprint => "conflict",
                        Some(Known::Running(_)) => "waits",
                        Some(Known::Billed(..)) => "repeat",
                    };
                    prop_assert_eq!(seen, expected);
                    if let Some(Begin::First(permit)) = begun {
                        known.insert(key, Known::Running(fingerprint));
                        permits.push((key, fingerprint, now, permit));
                    }
                }
                Step::Bill(..) | Step::Drop(_) if permits.is_empty() => {}
                Step::Bill(which, mood) => {
                    let (key, fingerprint, begun, permit) = permits.swap_remove(which.index(permits.len()));
                    store.set(mood);
                    let reservation = ledger.reserve("a", Plan::Paid, 1, now).expect("no bound");
                    let outcome = reservation.bill(1, 0, Some(permit)).await;
                    store.set(Mood::Willing);
                    known.remove(&key);
                    if outcome.is_ok() {
                        known.insert(key, Known::Billed(fingerprint, begun));
                    }
                }
                Step::Drop(which) => {
                    let (key, ..) = permits.swap_remove(which.index(permits.len()));
                    known.remove(&key);
                }
                Step::Advance(seconds) => now = UnixSeconds(now.0 + seconds),
                Step::Forget => requests.forget(now).await.expect("the store writes"),
                Step::Restart => {
                    permits.clear();
                    known.retain(|_, entry| matches!(entry, Known::Billed(..)));
                    (ledger, requests, _) = store.start(50, now);
                }
            }
            prop_assert!(requests.lock().entries.len() <= 4);
        }
        Ok(())
    }
}
