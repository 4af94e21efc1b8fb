//! Stores, keys and child processes for the tests of `store_*` and `keys_*`.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use backdrop::account::{ApiKey, Keys, Mode};
use backdrop::store::{self, RedbStore};

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
