//! The queue of changes for the disk: bounded, in order, without losses.

use std::sync::mpsc;

use backdrop::store::{self, ChangeError, QUEUED_CHANGES, RedbStore, StateStore, UnixSeconds};

use crate::store::support::{LIMIT, account as create, new_store};

#[test]
fn a_full_queue_refuses_a_change_as_busy_and_completes_the_others_in_order() {
    let (_folder, store) = new_store();
    let (started, has_started) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    // Blocks the writer in its acknowledgement, so that nothing leaves the queue.
    store.submit(
        create("first"),
        Box::new(move |result| {
            started.send(result.is_ok()).expect("the test waits");
            released.recv().expect("the test releases");
        }),
    );
    assert!(has_started.recv_timeout(LIMIT).expect("the writer runs"));

    let (outcome, outcomes) = mpsc::channel();
    for number in 0..=QUEUED_CHANGES {
        let outcome = outcome.clone();
        let done = move |result: Result<_, ChangeError>| {
            outcome.send((number, result.map(drop))).expect("the receiver is open")
        };
        store.submit(create(&format!("account-{number}")), Box::new(done));
    }
    assert_eq!(outcomes.recv_timeout(LIMIT), Ok((QUEUED_CHANGES, Err(ChangeError::Busy))));
    assert!(outcomes.try_recv().is_err(), "an outcome while the writer was blocked");

    release.send(()).expect("the writer waits");
    for number in 0..QUEUED_CHANGES {
        assert_eq!(outcomes.recv_timeout(LIMIT), Ok((number, Ok(()))));
    }
    assert_eq!(store.load_at(UnixSeconds::now()).expect("the store reads").accounts.len(), QUEUED_CHANGES + 1);
}

#[test]
fn closing_the_store_writes_the_queued_changes() {
    let (folder, store) = new_store();
    for number in 0..100 {
        store.submit(create(&number.to_string()), Box::new(|_| {}));
    }
    drop(store);
    let again = RedbStore::open(&store::file_in(folder.path())).expect("it was closed");
    assert_eq!(again.load_at(UnixSeconds::now()).expect("the store reads").accounts.len(), 100);
}
