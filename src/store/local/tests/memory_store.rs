//! The store on a disk in memory, for tests: it outlives the services on it, and holds or refuses changes on demand.

use std::sync::{Arc, Mutex, MutexGuard, mpsc};

use crate::store::local::LocalStore;
use crate::store::tests::faulty_disk::FaultyDisk;
use crate::store::{
    Account, AccountModel, Change, ChangeError, Month, OnCommit, Plan, RedbStore, Rows, StateStore, Store, UnixSeconds,
    Usage,
};

/// A store with the accounts `a` and `b`. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct MemoryStore {
    file: Arc<RedbStore>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    mode: CommitMode,
    is_away: bool,
    held: Vec<(Change, OnCommit)>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").finish_non_exhaustive()
    }
}

/// How changes are committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CommitMode {
    /// At once.
    #[default]
    Immediate,
    /// Held until [`MemoryStore::release`].
    Held,
    /// Refused.
    Busy,
}

impl Default for MemoryStore {
    fn default() -> Self {
        let file = Arc::new(FaultyDisk::new().open().expect("a good disk"));
        let store = Self { file, state: Arc::default() };
        for name in ["a", "b"] {
            let (plan, created_at, model) = (Plan::Free, UnixSeconds(0), AccountModel::default());
            let account = Account { name: name.into(), plan, created_at, generates: false, model };
            store.commit(Change::CreateAccount { account, first_key: None }, Box::new(|_| {}));
        }
        store
    }
}

impl MemoryStore {
    pub(crate) fn set_mode(&self, mode: CommitMode) {
        self.lock().mode = mode;
    }

    /// Whether the disk is away.
    pub(crate) fn set_away(&self, is_away: bool) {
        self.lock().is_away = is_away;
    }

    /// Commits held changes.
    pub(crate) fn release(&self) {
        let held = std::mem::take(&mut self.lock().held);
        held.into_iter().for_each(|(change, done)| self.commit(change, done));
    }

    /// Drops held changes, as a store that is closed meanwhile.
    pub(crate) fn drop_held(&self) {
        drop(std::mem::take(&mut self.lock().held));
    }

    /// What an account used in all its months, oldest first.
    pub(crate) fn usage(&self, account: &str) -> Vec<(Month, Usage)> {
        let rows = self.file.load_at(UnixSeconds(0)).expect("it reads");
        let usage = rows.usage.into_iter().filter(|(name, ..)| name == account);
        usage.map(|(_, month, usage)| (month, usage)).collect()
    }

    pub(crate) fn requests(&self) -> u64 {
        self.file.check().expect("it reads").rows.requests
    }

    /// The store as a process loads it that starts at `now`.
    pub(crate) fn start(&self, quota: u64, now: UnixSeconds) -> Store {
        Store::File(LocalStore::load(Arc::new(self.clone()), quota, now).expect("it reads"))
    }

    /// Makes a change, and waits for its callback.
    fn commit(&self, change: Change, done: OnCommit) {
        let (committed, outcome) = mpsc::channel();
        let done = move |result: Result<Rows, ChangeError>| {
            done(result);
            committed.send(()).expect("the caller waits");
        };
        self.file.submit(change, Box::new(done));
        outcome.recv().expect("every change has an outcome");
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics in here")
    }
}

impl StateStore for MemoryStore {
    fn file(&self) -> &RedbStore {
        &self.file
    }

    fn submit(&self, change: Change, done: OnCommit) {
        let mut state = self.lock();
        match state.mode {
            CommitMode::Immediate => self.file.submit(change, done),
            CommitMode::Held => state.held.push((change, done)),
            CommitMode::Busy => {
                drop(state);
                done(Err(ChangeError::Busy));
            }
        }
    }

    fn fault(&self) -> Option<String> {
        self.lock().is_away.then(|| "the disk is away".to_owned())
    }
}
