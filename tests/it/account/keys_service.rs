//! The key service: bootstrap, creation, rotation, revocation, expiry, last use.

use backdrop::account::{
    AccountModel, AccountName, ApiKey, CreatedKey, KeyRestrictions, KeyUpdate, Keys, Label, Plan, Scopes,
};
use backdrop::store::{ChangeError, UnixSeconds};

use crate::store::support::{InMemory, bootstrapped, open};

fn default() -> AccountName {
    AccountName::try_from("default").expect("a good name")
}

/// A new key of the account `default`.
async fn created(keys: &Keys) -> CreatedKey {
    let created = keys.create(&default(), Label::default(), false, KeyRestrictions::default()).await;
    created.expect("the account is there")
}

#[tokio::test]
async fn the_first_start_creates_a_plus_account_with_the_configured_or_a_new_key_and_later_starts_nothing() {
    for chosen in [Some(ApiKey::generate(false)), None] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let keys = open(folder.path());
        let created = keys.bootstrap(chosen.clone()).await.expect("the store writes").expect("it was empty");
        assert!(chosen.is_none_or(|chosen| chosen == created.secret));
        assert!(!format!("{created:?}").contains(created.secret.expose()), "a secret in a debug output");
        let info = keys.find(created.secret.expose()).expect("the key works");
        assert_eq!((info.account.name.as_str(), info.account.plan, info.key.test), ("default", Plan::Plus, false));
        assert!(keys.bootstrap(None).await.expect("nothing to write").is_none());
        drop(keys);
        let keys = open(folder.path());
        assert!(keys.bootstrap(None).await.expect("nothing to write").is_none());
        assert_eq!(keys.all(None).len(), 1);
    }
}

#[tokio::test]
async fn a_revoked_key_is_refused_immediately_and_after_a_restart() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (keys, first) = bootstrapped(folder.path()).await;
    let created = created(&keys).await;
    let revoked = keys.revoke(&created.key.id).await.expect("the key is there");
    assert_eq!(keys.find(created.secret.expose()), None);
    assert_eq!(keys.revoke(&created.key.id).await.expect("twice is no error").revoked_at, revoked.revoked_at);
    drop(keys);
    let keys = open(folder.path());
    assert_eq!(keys.find(created.secret.expose()), None);
    assert!(keys.find(first.expose()).is_some(), "the other key still works");
}

#[tokio::test]
async fn an_old_secret_is_valid_until_its_expiry_and_no_longer_than_the_key() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (mut keys, _) = bootstrapped(folder.path()).await;
    let now = UnixSeconds::now();
    let at = |seconds| Some(UnixSeconds(now.0 + seconds));
    let first = created(&keys).await;
    let id = first.key.id.clone();
    // An unwritten last use is kept by the rotation.
    assert!(keys.find(first.secret.expose()).is_some());
    let second = keys.rotate(&id, at(600)).await.expect("the key is there");
    keys.write_uses().await;
    drop(keys);
    keys = open(folder.path());
    assert!(keys.all(None).iter().any(|key| key.id == id && key.last_used_at >= Some(now)));
    let opens = |keys: &Keys, created: &[&CreatedKey]| -> Vec<bool> {
        let found = created.iter().map(|created| keys.find(created.secret.expose()));
        found.map(|info| info.is_some_and(|info| info.key.id == id)).collect()
    };
    assert_eq!(opens(&keys, &[&first, &second]), [true, true]);
    let third = keys.rotate(&id, at(600)).await.expect("the key is there");
    assert_eq!(opens(&keys, &[&first, &second, &third]), [false, true, true], "two secrets at most");
    let fourth = keys.rotate(&id, at(-1)).await.expect("the key is there");
    assert_eq!(opens(&keys, &[&second, &third, &fourth]), [false, false, true], "it has expired");
    let fifth = keys.rotate(&id, at(600)).await.expect("the key is there");
    assert_eq!(opens(&keys, &[&fourth, &fifth]), [true, true]);
    keys.revoke(&id).await.expect("the key is there");
    assert_eq!(opens(&keys, &[&fourth, &fifth]), [false, false]);
}

#[tokio::test]
async fn an_expired_key_is_refused_and_its_expiry_is_reported_for_its_secret_only() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (keys, _) = bootstrapped(folder.path()).await;
    let now = UnixSeconds::now();
    let created = created(&keys).await;
    let (id, secret) = (created.key.id.as_str(), created.secret.expose());
    // The expiry, and whether the key is valid.
    for (expires_at, works) in [(Some(now.0 + 600), true), (Some(now.0 - 600), false), (None, true)] {
        let expires_at = expires_at.map(UnixSeconds);
        let change = KeyUpdate { expires_at: Some(expires_at), ..KeyUpdate::default() };
        assert_eq!(keys.set(id, change).await.expect("the key is there").expires_at, expires_at);
        assert_eq!(keys.find(secret).is_some(), works);
        assert_eq!(keys.expired_at(secret), expires_at.filter(|_| !works));
        assert_eq!(keys.expired_at(ApiKey::generate(false).expose()), None);
    }
    let change = KeyUpdate { expires_at: Some(Some(now)), ..KeyUpdate::default() };
    keys.set(id, change).await.expect("the key is there");
    keys.revoke(id).await.expect("the key is there");
    assert_eq!(keys.expired_at(secret), None, "it was revoked");
}

#[tokio::test]
async fn restrictions_of_a_key_apply_from_its_creation_and_survive_a_restart() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (keys, _) = bootstrapped(folder.path()).await;
    let scopes = Scopes::of(&["remove"]).expect("an endpoint");
    let restrictions = KeyRestrictions { expires_at: None, images_per_month: Some(5), scopes: scopes.clone() };
    let created = keys.create(&default(), Label::default(), false, restrictions).await.expect("the account is there");
    let rotated = keys.rotate(&created.key.id, None).await.expect("the key is there");
    let assert_restricted = |keys: &Keys| {
        let info = keys.find(rotated.secret.expose()).expect("it works");
        assert_eq!((info.key.images_per_month, Scopes::of(&info.key.scopes).as_ref()), (Some(5), Ok(&scopes)));
    };
    assert_restricted(&keys);
    drop(keys);
    assert_restricted(&open(folder.path()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_rotations_of_a_key_leave_one_valid_secret() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (keys, _) = bootstrapped(folder.path()).await;
    let old = created(&keys).await;
    let rotate = |_| {
        let (keys, id) = (keys.clone(), old.key.id.clone());
        tokio::spawn(async move { keys.rotate(&id, None).await })
    };
    let tasks: Vec<_> = (0..20).map(rotate).collect();
    let mut new = Vec::new();
    for task in tasks {
        new.extend(task.await.expect("no panic").ok());
    }
    // One that starts after another's commit rotates the new secret, and succeeds, too.
    assert!(!new.is_empty());
    let valid = new.iter().filter(|created| keys.find(created.secret.expose()).is_some()).count();
    assert_eq!(valid, 1, "of {} rotations that succeeded", new.len());
    assert!(keys.find(old.secret.expose()).is_none());
    assert_eq!(keys.all(None).iter().filter(|key| key.revoked_at.is_none()).count(), 2, "the first one and this");
}

#[tokio::test]
async fn the_last_use_is_visible_immediately_and_written_in_a_batch() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (keys, first) = bootstrapped(folder.path()).await;
    let mut secrets = vec![first];
    for _ in 0..3 {
        secrets.push(created(&keys).await.secret);
    }
    let before = UnixSeconds::now();
    for secret in &secrets[1..3] {
        for _ in 0..10 {
            assert!(keys.find(secret.expose()).is_some());
        }
    }
    let used = |keys: &Keys| keys.all(None).iter().filter(|key| key.last_used_at >= Some(before)).count();
    assert_eq!(used(&keys), 2);
    drop(keys);
    let keys = open(folder.path());
    assert_eq!(used(&keys), 0, "unwritten uses, and only they, are lost with the process");
    for secret in &secrets[1..3] {
        assert!(keys.find(secret.expose()).is_some());
    }
    let revoked = keys.find(secrets[1].expose()).expect("it works").key.id;
    keys.revoke(&revoked).await.expect("the key is there");
    keys.write_uses().await;
    keys.write_uses().await;
    drop(keys);
    let keys = open(folder.path());
    assert_eq!(used(&keys), 2);
    assert_eq!(keys.find(secrets[1].expose()), None, "a late use does not restore a revoked key");
    assert!(keys.find(secrets[2].expose()).is_some());
}

#[tokio::test]
async fn impossible_changes_are_refused_and_change_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (keys, _) = bootstrapped(folder.path()).await;
    let before = (keys.all(None), keys.all_accounts());
    let missing = AccountName::try_from("missing").expect("a good name");
    let refused = [
        (
            keys.create(&missing, Label::default(), false, KeyRestrictions::default()).await.map(drop),
            ChangeError::NoSuchAccount("missing".into()),
        ),
        (keys.revoke("key_unknown").await.map(drop), ChangeError::NoSuchKey("key_unknown".into())),
        (keys.rotate("key_unknown", None).await.map(drop), ChangeError::NoSuchKey("key_unknown".into())),
        (
            keys.set_account("missing", Some(Plan::Plus), None, None).await.map(drop),
            ChangeError::NoSuchAccount("missing".into()),
        ),
        (
            keys.create_account(default(), Plan::Free, false, AccountModel::default()).await.map(drop),
            ChangeError::AccountExists("default".into()),
        ),
    ];
    for (result, expected) in refused {
        assert!(matches!(&result, Err(error) if *error == expected), "{result:?}");
    }
    assert_eq!((keys.all(None), keys.all_accounts()), before);
    drop(keys);
    let again = open(folder.path());
    assert_eq!((again.all(None), again.all_accounts()), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn memory_and_disk_agree_after_concurrent_changes_of_a_plan() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (keys, _) = bootstrapped(folder.path()).await;
    let tasks: Vec<_> = (0..60)
        .map(|turn| {
            let keys = keys.clone();
            tokio::spawn(
                async move { keys.set_account("default", Some(Plan::ALL[turn % 3]), None, None).await.map(drop) },
            )
        })
        .collect();
    for task in tasks {
        task.await.expect("no panic").expect("the store writes");
    }
    let in_memory = keys.all_accounts();
    drop(keys);
    assert_eq!(open(folder.path()).all_accounts(), in_memory);
}

#[tokio::test]
async fn a_revocation_whose_caller_was_dropped_still_happens() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (keys, secret) = bootstrapped(folder.path()).await;
    let id = keys.all(None)[0].id.clone();
    // Polled once, so that it is submitted; then dropped, as the handler of a closed connection is.
    tokio::select! {
        biased;
        // Where the commit ends within one poll, there is nothing to drop.
        _ = keys.revoke(&id) => {}
        () = std::future::ready(()) => {}
    }
    // A later change is behind it in the queue.
    created(&keys).await;
    assert_eq!(keys.find(secret.expose()), None);
}
