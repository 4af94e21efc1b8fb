//! `Idempotency-Key`s of running requests, in memory. What was billed under a key is in the file.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::LocalStore;
use crate::store::claim::Hold;
use crate::store::{Claim, OpenError, REQUEST_SECONDS, UnixSeconds};

/// The running requests, by account and key. Clones share one state.
#[derive(Clone, Debug, Default)]
pub(super) struct Claims(Arc<Mutex<HashMap<Id, Running>>>);

type Id = (String, String);

/// A request whose key is claimed.
#[derive(Clone, Debug)]
struct Running {
    fingerprint: [u8; 32],
    /// Closes when the claim ends.
    ended: watch::Receiver<()>,
}

/// The exclusive right to bill under a key, until it is dropped.
#[derive(Debug)]
pub(in crate::store) struct MemoryClaim {
    claims: Claims,
    id: Id,
    /// Dropped after the request is removed: fields are dropped after `Drop::drop`.
    _ended: watch::Sender<()>,
}

impl LocalStore {
    /// Claims a key for a request. While the same request is in progress this waits for its end.
    pub(in crate::store) async fn claim(
        &self,
        account: &str,
        key: &str,
        fingerprint: [u8; 32],
        now: UnixSeconds,
    ) -> Result<Claim, OpenError> {
        let id: Id = (account.to_owned(), key.to_owned());
        loop {
            let (hold, running) = match self.0.claims.take(&id, fingerprint) {
                Ok(claim) => (Some(Hold::Memory { _claim: claim }), None),
                Err(running) => (None, Some(running)),
            };
            // After the key is taken: the bills of every earlier claim are committed.
            let row = id.clone();
            let billed = self.read(move |tables| tables.requests.rows.get((&row.0, &row.1))).await?;
            let billed = billed.filter(|billed| billed.at.0 >= now.0.saturating_sub(REQUEST_SECONDS));
            let is_other = running.as_ref().is_some_and(|running| running.fingerprint != fingerprint);
            if let Some(outcome) = Claim::of_attempt(key, fingerprint, now, billed, hold, is_other) {
                return Ok(outcome);
            }
            if let Some(Running { mut ended, .. }) = running {
                // Nothing is ever sent: this returns, with an error, when the claim is dropped.
                let _ = ended.changed().await;
            }
        }
    }
}

impl Claims {
    /// Takes a key for a request, or returns the request that has it.
    fn take(&self, id: &Id, fingerprint: [u8; 32]) -> Result<MemoryClaim, Running> {
        match self.lock().entry(id.clone()) {
            Entry::Occupied(running) => Err(running.get().clone()),
            Entry::Vacant(free) => {
                let (sender, ended) = watch::channel(());
                free.insert(Running { fingerprint, ended });
                Ok(MemoryClaim { claims: self.clone(), id: id.clone(), _ended: sender })
            }
        }
    }

    /// Held for a look-up, never across an await. A panic under the lock leaves whole entries, so poison is no reason
    /// to stop.
    fn lock(&self) -> MutexGuard<'_, HashMap<Id, Running>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for MemoryClaim {
    fn drop(&mut self) {
        self.claims.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{
        Allowance, BilledPictures, ClaimGuard, CommitMode, MemoryStore, Payer, Plan, Reservation, Store,
    };
    use proptest::prelude::*;
    use std::time::Duration;
    use tokio::time::timeout;

    const NOW: UnixSeconds = UnixSeconds(1_796_000_000);
    const DAY: i64 = 86_400;

    /// The keys of a store.
    #[derive(Clone)]
    struct Keys(Store);

    impl Keys {
        async fn claim(&self, account: &str, key: &str, fingerprint: [u8; 32], now: UnixSeconds) -> Claim {
            self.0.claim(account, key, fingerprint, now, Duration::from_secs(60)).await.expect("it reads")
        }

        /// How many requests run.
        fn running(&self) -> usize {
            let Store::File(local) = &self.0 else { panic!("no file") };
            local.0.claims.lock().len()
        }

        async fn drop_old(&self, now: UnixSeconds) {
            self.0.drop_old(now).await.expect("the store writes");
        }
    }

    /// A store as a process loads it that starts at `now`, and its keys.
    fn started(store: &MemoryStore, now: UnixSeconds) -> (Store, Keys) {
        let store = store.start(50, now);
        (store.clone(), Keys(store))
    }

    fn reserve(store: &Store, now: UnixSeconds) -> Reservation {
        let allowance = &Allowance::default();
        let payer = Payer { account: "a", plan: Plan::Paid, key_id: None, images_per_month: None, allowance };
        store.reserve(&payer, 1, now).expect("no bound")
    }

    fn at(seconds: i64) -> UnixSeconds {
        UnixSeconds(NOW.0 + seconds)
    }

    async fn bill(billing: &Store, guard: ClaimGuard) {
        bill_pictures(billing, guard, &BilledPictures::default()).await;
    }

    async fn bill_pictures(billing: &Store, mut guard: ClaimGuard, pictures: &BilledPictures) {
        let claim = Some((&mut guard, pictures.clone()));
        reserve(billing, NOW).bill(1, 5000, claim).await.expect("the store writes");
    }

    async fn claim(keys: &Keys, name: &str, fingerprint: u8, now: UnixSeconds) -> Claim {
        keys.claim("a", name, [fingerprint; 32], now).await
    }

    /// Whether a claim waits, as far as a moment shows.
    async fn waits(keys: &Keys, name: &str, fingerprint: u8, now: UnixSeconds) -> bool {
        timeout(Duration::from_millis(10), claim(keys, name, fingerprint, now)).await.is_err()
    }

    async fn claim_new(keys: &Keys, name: &str, fingerprint: u8, now: UnixSeconds) -> ClaimGuard {
        match claim(keys, name, fingerprint, now).await {
            Claim::New(guard) => guard,
            other @ (Claim::Replay(_) | Claim::Conflict) => panic!("not new: {other:?}"),
        }
    }

    #[tokio::test]
    async fn a_request_is_new_until_it_is_billed_and_then_a_repetition() {
        let (billing, keys) = started(&MemoryStore::default(), NOW);
        drop(claim_new(&keys, "k", 1, NOW).await);
        let guard = claim_new(&keys, "k", 1, NOW).await;
        assert!(matches!(claim(&keys, "k", 2, NOW).await, Claim::Conflict), "another one while it runs");
        assert!(waits(&keys, "k", 1, NOW).await, "the same one waits");
        bill(&billing, guard).await;
        assert!(matches!(claim(&keys, "k", 1, NOW).await, Claim::Replay(_)));
        assert!(matches!(claim(&keys, "k", 2, NOW).await, Claim::Conflict));
        drop(claim_new(&keys, "K", 2, NOW).await);
        let other = keys.claim("b", "k", [2; 32], NOW).await;
        assert!(matches!(other, Claim::New(_)), "another account has its own keys");
    }

    #[tokio::test]
    async fn a_request_with_an_unbilled_picture_gets_a_guard_again() {
        let store = MemoryStore::default();
        let (billing, keys) = started(&store, NOW);
        let some: BilledPictures = Arc::from([Some([7; 32]), None]);
        bill_pictures(&billing, claim_new(&keys, "k", 1, NOW).await, &some).await;
        for keys in [keys, started(&store, NOW).1] {
            // Dropped, it leaves the billed pictures as they were.
            for _ in 0..2 {
                let guard = claim_new(&keys, "k", 1, NOW).await;
                assert_eq!(guard.pictures(), some);
                assert!(waits(&keys, "k", 1, NOW).await, "the same one waits");
                assert!(matches!(claim(&keys, "k", 2, NOW).await, Claim::Conflict));
            }
        }
        let (billing, keys) = started(&store, NOW);
        let all: BilledPictures = Arc::from([Some([7; 32]), Some([8; 32])]);
        bill_pictures(&billing, claim_new(&keys, "k", 1, NOW).await, &all).await;
        assert!(matches!(claim(&keys, "k", 1, NOW).await, Claim::Replay(pictures) if pictures == all));
        assert_eq!(store.requests(), 1);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn of_100_equal_concurrent_requests_one_is_billed() {
        let store = MemoryStore::default();
        let (billing, keys) = started(&store, NOW);
        let request = |number| {
            let (billing, keys) = (billing.clone(), keys.clone());
            tokio::spawn(async move {
                match keys.claim("a", "k", [1; 32], NOW).await {
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
        assert_eq!(billing.usage("a", Plan::Paid, NOW).await.expect("in memory").used, 1);
        assert_eq!((store.requests(), keys.running()), (1, 0));
    }

    #[tokio::test]
    async fn a_key_is_remembered_for_24_hours_and_over_a_restart() {
        let store = MemoryStore::default();
        let (billing, keys) = started(&store, NOW);
        bill(&billing, claim_new(&keys, "k", 1, NOW).await).await;
        for keys in [keys, started(&store, at(DAY)).1] {
            assert!(matches!(claim(&keys, "k", 1, at(DAY)).await, Claim::Replay(_)));
            assert!(matches!(claim(&keys, "k", 2, at(DAY)).await, Claim::Conflict));
            drop(claim_new(&keys, "k", 2, at(DAY + 1)).await);
        }
        drop(claim_new(&started(&store, at(DAY + 1)).1, "k", 1, at(DAY + 1)).await);
    }

    #[tokio::test]
    async fn old_requests_are_dropped() {
        let store = MemoryStore::default();
        let (billing, keys) = started(&store, NOW);
        for number in 0..100 {
            bill(&billing, claim_new(&keys, &format!("k{number}"), 1, at(number)).await).await;
        }
        assert_eq!(store.requests(), 100);
        for number in 0..20 {
            bill(&billing, claim_new(&keys, &format!("new{number}"), 1, at(DAY + 60)).await).await;
        }
        assert_eq!(store.requests(), 120);
        keys.drop_old(at(DAY + 200)).await;
        assert_eq!(store.requests(), 20);
        assert!(matches!(claim(&keys, "new0", 1, at(DAY + 200)).await, Claim::Replay(_)));
    }

    #[tokio::test]
    async fn more_old_requests_than_one_change_drops_are_dropped_by_several() {
        let store = MemoryStore::default();
        let (billing, keys) = started(&store, NOW);
        for number in 0..=5000 {
            bill(&billing, claim_new(&keys, &number.to_string(), 1, NOW).await).await;
        }
        assert_eq!(store.requests(), 5001);
        keys.drop_old(at(DAY + 1)).await;
        assert_eq!(store.requests(), 0);
    }

    #[tokio::test]
    async fn a_key_billed_again_after_its_day_stays_for_another() {
        let store = MemoryStore::default();
        let (billing, keys) = started(&store, NOW);
        bill(&billing, claim_new(&keys, "k", 1, NOW).await).await;
        bill(&billing, claim_new(&keys, "k", 2, at(DAY + 1)).await).await;
        keys.drop_old(at(DAY + 2)).await;
        assert!(matches!(claim(&keys, "k", 2, at(DAY + 2)).await, Claim::Replay(_)));
        assert_eq!(store.requests(), 1);
    }

    #[tokio::test]
    async fn a_waiting_request_continues_when_the_guard_is_dropped() {
        let (_, keys) = started(&MemoryStore::default(), NOW);
        let guard = claim_new(&keys, "k", 1, NOW).await;
        let waiting = tokio::spawn({
            let keys = keys.clone();
            async move { keys.claim("a", "k", [1; 32], NOW).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(guard);
        assert!(matches!(waiting.await.expect("no panic"), Claim::New(_)));
        assert_eq!(keys.running(), 0);
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

    #[tokio::test]
    async fn a_request_that_is_dropped_while_its_rest_is_made_does_not_come_back() {
        let store = MemoryStore::default();
        let (billing, keys) = started(&store, NOW);
        let some: BilledPictures = Arc::from([Some([7; 32]), None]);
        bill_pictures(&billing, claim_new(&keys, "k", 1, NOW).await, &some).await;
        let guard = claim_new(&keys, "k", 1, at(DAY)).await;
        keys.drop_old(at(DAY + 1)).await;
        assert!(matches!(claim(&keys, "k", 2, at(DAY + 1)).await, Claim::Conflict), "it runs");
        drop(guard);
        assert_eq!((store.requests(), keys.running()), (0, 0));
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
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
            runtime.block_on(run(steps))?;
        }
    }

    async fn run(steps: Vec<Step>) -> Result<(), TestCaseError> {
        let store = MemoryStore::default();
        let (mut billing, mut keys) = started(&store, NOW);
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
                    let expected = match model.get(&key) {
                        None => "new",
                        Some(ModelEntry::Running(of) | ModelEntry::Billed(of, _)) if *of != fingerprint => "conflict",
                        Some(ModelEntry::Running(_)) => "waits",
                        Some(ModelEntry::Billed(..)) => "repeat",
                    };
                    if expected == "waits" {
                        prop_assert!(waits(&keys, &key.to_string(), fingerprint, now).await);
                        continue;
                    }
                    let claimed = claim(&keys, &key.to_string(), fingerprint, now).await;
                    let seen = match &claimed {
                        Claim::New(_) => "new",
                        Claim::Replay(_) => "repeat",
                        Claim::Conflict => "conflict",
                    };
                    prop_assert_eq!(seen, expected);
                    if let Claim::New(guard) = claimed {
                        model.insert(key, ModelEntry::Running(fingerprint));
                        guards.push((key, fingerprint, now, guard));
                    }
                }
                Step::Bill(..) | Step::Drop(_) if guards.is_empty() => {}
                Step::Bill(which, mode) => {
                    let (key, fingerprint, begun, mut guard) = guards.swap_remove(which.index(guards.len()));
                    store.set_mode(mode);
                    let claim = Some((&mut guard, BilledPictures::default()));
                    let outcome = reserve(&billing, now).bill(1, 0, claim).await;
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
                Step::DropOld => keys.drop_old(now).await,
                Step::Restart => {
                    guards.clear();
                    model.retain(|_, entry| matches!(entry, ModelEntry::Billed(..)));
                    (billing, keys) = started(&store, now);
                }
            }
            prop_assert_eq!(keys.running(), guards.len());
        }
        Ok(())
    }
}
