//! Stores and records for the tests of `store` and `account`.

use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use backdrop::account::{ApiKey, Keys, token_hash};
use backdrop::store::{
    self, Account, AccountModel, Admission, Admitted, Change, ChangeError, Credential, Key, OpenError, Plan, Preset,
    RateKind, RateRule, RedbStore, Rows, Store, UnixSeconds,
};
use futures_util::FutureExt;
use tempfile::TempDir;

use crate::store::backend::Submit;

/// Stops a test that hangs.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// Waits until something is so.
#[track_caller]
pub(crate) fn wait_until(mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LIMIT, "it does not happen");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The keys of the store in `data_dir`, opened now.
pub(crate) fn open(data_dir: &Path) -> Keys {
    let store = RedbStore::open(&store::file_in(data_dir)).expect("the store opens");
    Keys::new(Store::file(store, 50).expect("the store loads"))
}

/// A key with its account.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) account: Account,
    pub(crate) key: Key,
}

/// What a file has in memory, without waiting for anything.
pub(crate) trait InMemory {
    /// The outcome of an admission.
    fn admit(&self, token: &str) -> Option<Admission>;

    /// The active key with a token.
    fn find(&self, token: &str) -> Option<Found> {
        let Admission::Admitted(admitted) = self.admit(token)? else { return None };
        let Admitted { account, key, .. } = *admitted;
        key.map(|key| Found { account, key })
    }

    /// When the key of a token expired.
    fn expired_at(&self, token: &str) -> Option<UnixSeconds> {
        if let Admission::Expired(at) = self.admit(token)? { Some(at) } else { None }
    }

    fn all(&self, account: Option<&str>) -> Vec<Key>;

    fn all_accounts(&self) -> Vec<Account>;

    fn one_account(&self, name: &str) -> Option<Account>;

    async fn write_uses(&self);
}

impl InMemory for Keys {
    fn admit(&self, token: &str) -> Option<Admission> {
        let unlimited = RateRule { kind: RateKind::Calls, limits: [u32::MAX; Plan::ALL.len()] };
        let hash = token_hash(token)?;
        Some(at_once(self.store().admit(Credential::Key(hash), &unlimited)).expect("it reads"))
    }

    fn all(&self, account: Option<&str>) -> Vec<Key> {
        at_once(self.store().keys(account)).expect("it reads")
    }

    fn all_accounts(&self) -> Vec<Account> {
        at_once(self.store().accounts()).expect("it reads")
    }

    fn one_account(&self, name: &str) -> Option<Account> {
        at_once(self.store().account(name)).expect("it reads")
    }

    async fn write_uses(&self) {
        self.store().write_uses().await.expect("the store writes");
    }
}

fn at_once<T>(answer: impl Future<Output = T>) -> T {
    answer.now_or_never().expect("it is in memory")
}

/// The store after the first start of a daemon: the account `default` and one key.
pub(crate) async fn bootstrapped(data_dir: &Path) -> (Keys, ApiKey) {
    let keys = open(data_dir);
    let first = keys.bootstrap(Some(ApiKey::generate(false))).await.expect("the store writes");
    (keys, first.expect("the store was empty").secret)
}

/// A store without a row, and its folder.
pub(crate) fn new_store() -> (TempDir, RedbStore) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = RedbStore::open(&store::file_in(folder.path())).expect("a new store");
    (folder, store)
}

/// Opens a store once the process that had it has ended.
pub(crate) fn open_released(file: &Path) -> RedbStore {
    let start = Instant::now();
    loop {
        match RedbStore::open(file) {
            Err(OpenError::Locked { .. }) if start.elapsed() < LIMIT => std::thread::sleep(Duration::from_millis(25)),
            opened => return opened.expect("the store opens"),
        }
    }
}

/// A store with the account `acme`, and its folder.
pub(crate) fn with_account() -> (TempDir, RedbStore) {
    let (folder, store) = new_store();
    apply(&store, account("acme")).expect("a new name");
    (folder, store)
}

/// Submits all changes at once and waits for their outcomes.
pub(crate) fn apply_all(
    store: &dyn Submit,
    changes: impl IntoIterator<Item = Change>,
) -> Vec<Result<Rows, ChangeError>> {
    let (outcome, outcomes) = mpsc::channel();
    for change in changes {
        let outcome = outcome.clone();
        store.submit(change, Box::new(move |result| outcome.send(result).expect("the receiver is open")));
    }
    drop(outcome);
    let next = || match outcomes.recv_timeout(LIMIT) {
        Ok(outcome) => Some(outcome),
        Err(RecvTimeoutError::Disconnected) => None,
        Err(RecvTimeoutError::Timeout) => panic!("a change has no outcome"),
    };
    std::iter::from_fn(next).collect()
}

/// Submits a change and waits for its outcome.
pub(crate) fn apply(store: &dyn Submit, change: Change) -> Result<Rows, ChangeError> {
    apply_all(store, [change]).pop().expect("one change has one outcome")
}

/// The creation of an account.
pub(crate) fn account(name: &str) -> Change {
    let account = Account {
        name: name.into(),
        plan: Plan::Free,
        created_at: UnixSeconds(1),
        generates: false,
        model: AccountModel::default(),
    };
    Change::CreateAccount { account, first_key: None }
}

/// A key `id` of an account, created at 1.
pub(crate) fn key(account: &str, id: &str) -> Key {
    Key {
        id: id.into(),
        account: account.into(),
        label: "Büro".into(),
        test: false,
        created_at: UnixSeconds(1),
        revoked_at: None,
        last_used_at: None,
        expires_at: None,
        images_per_month: None,
        scopes: Vec::new(),
        previous: None,
    }
}

/// A preset created and changed at 1.
pub(crate) fn preset(account: &str, id: &str, name: &str) -> Preset {
    Preset {
        id: id.into(),
        account: account.into(),
        name: name.into(),
        endpoint: Some("/remove".into()),
        params: r#"{"edge":"hard"}"#.into(),
        created_at: UnixSeconds(1),
        updated_at: UnixSeconds(1),
    }
}
