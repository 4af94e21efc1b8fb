//! Stores, keys and child processes for the tests of `store_*` and `keys_*`.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use backdrop::account::{ApiKey, Keys, Mode};
use backdrop::store::{
    self, Account, AccountModel, Change, ChangeError, Key, Plan, Preset, RedbStore, Rows, StateStore, UnixSeconds,
};
use tempfile::TempDir;

/// The keys of the store in `data_dir`, opened now.
pub(crate) fn open(data_dir: &Path) -> Keys {
    let store = RedbStore::open(&store::file_in(data_dir)).expect("the store opens");
    Keys::load(store).expect("the store loads")
}

/// As a daemon finds it after its first start: the account `default` and one key.
pub(crate) async fn bootstrapped(data_dir: &Path) -> (Keys, ApiKey) {
    let keys = open(data_dir);
    let first = keys.bootstrap(Some(ApiKey::generate(Mode::Live))).await.expect("the store writes");
    (keys, first.expect("the store was empty").secret)
}

/// Runs one ignored test of this binary in a process of its own; it reads `input` from its stdin, up to the end.
pub(crate) fn child(test: &str, input: &str) -> Child {
    let mut child = Command::new(std::env::current_exe().expect("this test binary"))
        .args(["--ignored", "--exact", "--nocapture", "--test-threads=1", test])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a second process starts");
    child.stdin.take().expect("piped above").write_all(input.as_bytes()).expect("the child reads its input");
    child
}

/// What [`child`] was given; empty when somebody ran the ignored test by hand.
pub(crate) fn child_input() -> String {
    std::io::read_to_string(std::io::stdin()).expect("the parent writes text")
}

/// A store without a row, and its folder.
pub(crate) fn new_store() -> (TempDir, RedbStore) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = RedbStore::open(&store::file_in(folder.path())).expect("a new store");
    (folder, store)
}

/// Hands over all changes at once and waits for what became of each.
pub(crate) fn apply_all(
    store: &dyn StateStore,
    changes: impl IntoIterator<Item = Change>,
) -> Vec<Result<Rows, ChangeError>> {
    let (answer, answers) = mpsc::channel();
    for change in changes {
        let answer = answer.clone();
        store.submit(change, Box::new(move |result| answer.send(result).expect("we listen")));
    }
    drop(answer);
    answers.iter().collect()
}

/// Hands over a change and waits for what became of it.
pub(crate) fn apply(store: &dyn StateStore, change: Change) -> Result<Rows, ChangeError> {
    apply_all(store, [change]).pop().expect("one change has one answer")
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

/// A key `id` of an account, made at 1.
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

/// A preset that was made and changed at 1.
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
