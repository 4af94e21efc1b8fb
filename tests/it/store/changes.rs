//! The rows that changes of keys write, and their refusals. `model` and `jobs` test the other changes.

use backdrop::store::{
    Change, ChangeError, Key, KeyChange, KeyHash, KeyUpdate, PreviousSecret, RedbStore, UnixSeconds,
};

use crate::store::support::{apply, key, with_account};

#[test]
fn a_rotation_replaces_the_secret_and_keeps_all_other_fields() {
    let (_folder, store) = with_account();
    let first = Key { scopes: vec!["remove".into()], images_per_month: Some(7), ..key("acme", "key_1") };
    apply(&store, Change::CreateKey { hash: KeyHash([1; 32]), key: first.clone() }).expect("a new key");
    apply(&store, Change::CreateKey { hash: KeyHash([9; 32]), key: key("acme", "key_9") }).expect("a new key");
    let rotate = |id: &str, from, to, keep_until| Change::Key {
        id: id.into(),
        change: KeyChange::Rotate { from: KeyHash([from; 32]), to: KeyHash([to; 32]), keep_until },
    };
    // With and without a grace period of the old secret; the last rotation drops the old one.
    for (from, to, keep_until) in [(1, 2, None), (2, 3, Some(UnixSeconds(9))), (3, 4, None)] {
        let rows = apply(&store, rotate("key_1", from, to, keep_until)).expect("it works");
        let previous = keep_until.map(|until| PreviousSecret { hash: [from; 32], until });
        assert_eq!(rows.keys, [(KeyHash([to; 32]), Key { previous, ..first.clone() })]);
        let stored = store.load_at(UnixSeconds::now()).expect("the store reads").keys;
        assert!(stored.len() == 2 && stored.contains(&rows.keys[0]), "{stored:?}");
        assert!(store.check().expect("the store reads").is_sound());
    }
    let before = store.load_at(UnixSeconds::now()).expect("the store reads").keys;
    let rotated = |id: &str| Err(ChangeError::KeyRotated(id.into()));
    assert_eq!(apply(&store, rotate("key_1", 3, 5, None)), rotated("key_1"));
    assert_eq!(apply(&store, rotate("key_2", 4, 5, None)), Err(ChangeError::NoSuchKey("key_2".into())));
    assert_eq!(apply(&store, rotate("key_1", 4, 9, None)), Err(ChangeError::KeyExists));
    assert_eq!(
        store.load_at(UnixSeconds::now()).expect("the store reads").keys,
        before,
        "a refused change wrote something"
    );
    apply(&store, Change::Key { id: "key_1".into(), change: KeyChange::Revoke { at: UnixSeconds(9) } })
        .expect("it is there");
    let revoked = || Err(ChangeError::KeyRevoked("key_1".into()));
    assert_eq!(apply(&store, rotate("key_1", 4, 5, None)), revoked());
    let set = Change::Key {
        id: "key_1".into(),
        change: KeyChange::Set(KeyUpdate { expires_at: Some(None), images_per_month: None, scopes: None }),
    };
    assert_eq!(apply(&store, set), revoked());
}

#[test]
fn restrictions_of_a_key_change_together_or_separately() {
    let (_folder, store) = with_account();
    apply(&store, Change::CreateKey { hash: KeyHash([1; 32]), key: key("acme", "key_1") }).expect("a new key");
    let (at, remove) = (UnixSeconds(9), vec!["remove".to_owned()]);
    // The change and the result: expiry, images per month, scopes.
    let steps = [
        ((Some(Some(at)), Some(Some(5)), Some(remove.clone())), (Some(at), Some(5), remove.clone())),
        ((None, None, None), (Some(at), Some(5), remove.clone())),
        ((Some(None), None, None), (None, Some(5), remove.clone())),
        ((None, Some(None), None), (None, None, remove)),
        ((None, None, Some(Vec::new())), (None, None, Vec::new())),
    ];
    for ((expires_at, images_per_month, scopes), expected) in steps {
        let set = Change::Key {
            id: "key_1".into(),
            change: KeyChange::Set(KeyUpdate { expires_at, images_per_month, scopes }),
        };
        apply(&store, set).expect("it is there");
        let (_, key) = store.load_at(UnixSeconds::now()).expect("the store reads").keys.remove(0);
        assert_eq!((key.expires_at, key.images_per_month, key.scopes), expected);
    }
}

#[test]
fn the_last_use_of_a_key_only_moves_forward() {
    let (_folder, store) = with_account();
    apply(&store, Change::CreateKey { hash: KeyHash([1; 32]), key: key("acme", "key_1") }).expect("a new key");
    let touch = |id: &str, at| (id.to_owned(), UnixSeconds(at));
    let used = vec![touch("key_1", 5), touch("key_9", 9), touch("key_1", 3)];
    let rows = apply(&store, Change::TouchKeys { used }).expect("unknown keys are ignored");
    assert_eq!(rows.keys.len(), 1);
    let last_used =
        |store: &RedbStore| store.load_at(UnixSeconds::now()).expect("the store reads").keys[0].1.last_used_at;
    assert_eq!(last_used(&store), Some(UnixSeconds(5)));
    // A revocation keeps it.
    apply(&store, Change::Key { id: "key_1".into(), change: KeyChange::Revoke { at: UnixSeconds(7) } })
        .expect("it is there");
    assert_eq!(last_used(&store), Some(UnixSeconds(5)));
}
