//! The key service: bootstrap, creation, rotation, revocation, expiry, last use.

use backdrop::account::{
    AccountModel, AccountName, ApiKey, CreatedKey, Key, KeyRestrictions, KeyUpdate, Keys, Label, Mode, Plan, Scopes,
};
use backdrop::store::{ChangeError, UnixSeconds};

use crate::store::support::{InMemory, bootstrapped, open};

fn default() -> AccountName {
    AccountName::try_from("default").expect("a good name")
}

fn label(text: &str) -> Label {
    Label::try_from(text).expect("a good label")
}

#[tokio::test]
async fn the_first_start_creates_a_plus_account_with_the_configured_key_and_later_starts_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let chosen = ApiKey::generate(Mode::Live);
    let keys = open(folder.path());
    let created = keys.bootstrap(Some(chosen.clone())).await.expect("the store writes").expect("it was empty");
    assert_eq!(created.secret, chosen);
    let info = keys.find(chosen.expose()).expect("the key works");
    assert_eq!((info.account.name.as_str(), info.account.plan, info.key.test), ("default", Plan::Plus, false));
    assert!(keys.bootstrap(None).await.expect("nothing to write").is_none());
    drop(keys);
    let keys = open(folder.path());
    assert!(keys.bootstrap(None).await.expect("nothing to write").is_none());
    assert_eq!(keys.all(None).len(), 1);
}

#[tokio::test]
async fn a_first_start_without_a_configured_key_generates_one() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let keys = open(folder.path());
    let created = keys.bootstrap(None).await.expect("the store writes").expect("it was empty");
    assert!(keys.find(created.secret.expose()).is_some());
    assert!(!format!("{created:?}").contains(created.secret.expose()), "a secret in a debug output");
}

#[tokio::test]
async fn a_created_key_is_valid_immediately_and_identifies_its_account() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (keys, _) = bootstrapped(folder.path()).await;
    let acme = AccountName::try_from("acme").expect("a good name");
    keys.create_account(acme.clone(), Plan::Free, false, AccountModel::default()).await.expect("a new name");
    let created =
        keys.create(&acme, label("CI"), Mode::Test, KeyRestrictions::default()).await.expect("the account is there");
    let info = keys.find(created.secret.expose()).expect("it works");
    assert_eq!(info.key.id, created.key.id);
    assert_eq!(
        (info.account.name.as_str(), info.key.label.as_str(), info.account.plan, info.key.test),
        ("acme", "CI", Plan::Free, true)
    );
    assert!(created.secret.expose().starts_with("bd_test_"));
    assert!(created.key.id.starts_with("key_") && created.key.id.len() == 16);
    let [listed] = keys.all(Some("acme")).try_into().expect("one key");
    assert!(listed.last_used_at.is_some(), "it was used just now");
    assert_eq!(Key { last_used_at: None, ..listed }, created.key);
}

#[tokio::test]
async fn a_revoked_key_is_refused_immediately_and_after_a_restart() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (keys, first) = bootstrapped(folder.path()).await;
    let created = keys
        .create(&default(), Label::default(), Mode::Live, KeyRestrictions::default())
        .await
        .expect("the account is there");
    let revoked = keys.revoke(&created.key.id).await.expect("the key is there");
    assert_eq!(keys.find(created.secret.expose()), None);
    assert_eq!(keys.revoke(&created.key.id).await.expect("twice is no error").revoked_at, revoked.revoked_at);
    drop(keys);
    let keys = open(folder.path());
    assert_eq!(keys.find(created.secret.expose()), None);
    assert!(keys.find(first.expose()).is_some(), "the other key still works");
}

#[tokio::test]
async fn a_changed_plan_takes_effect_with_the_next_request() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (keys, secret) = bootstrapped(folder.path()).await;
    keys.set_account("default", Some(Plan::Free), None, None).await.expect("the account is there");
    assert_eq!(keys.find(secret.expose()).expect("it works").account.plan, Plan::Free);
}

#[tokio::test]
async fn the_allow_list_takes_effect_with_the_next_request_and_survives_a_restart() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (keys, secret) = bootstrapped(folder.path()).await;
    let generates = |keys: &Keys| keys.find(secret.expose()).expect("it works").account.generates;
    assert!(generates(&keys), "the account of an empty store");
    keys.set_account("default", None, Some(false), None).await.expect("the account is there");
    assert!(!generates(&keys));
    assert!(keys.set_account("default", None, Some(true), None).await.expect("the account is there").generates);
    assert!(generates(&keys));
    drop(keys);
    let keys = open(folder.path());
    assert!(generates(&keys));
    assert_eq!(
        keys.set_account("default", Some(Plan::Paid), None, None).await.expect("the account is there").plan,
        Plan::Paid
    );
    assert!(generates(&keys), "a changed plan does not affect the list");
    keys.set_account("default", None, Some(false), None).await.expect("the account is there");
    assert!(!generates(&keys));
    let allowed = AccountName::try_from("allowed").expect("a good name");
    assert!(
        keys.create_account(allowed, Plan::Free, true, AccountModel::default()).await.expect("a new name").generates
    );
}

#[tokio::test]
async fn a_rotation_replaces_the_secret_and_keeps_the_key() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (mut keys, _) = bootstrapped(folder.path()).await;
    for mode in [Mode::Live, Mode::Test] {
        let old =
            keys.create(&default(), label("CI"), mode, KeyRestrictions::default()).await.expect("the account is there");
        let new = keys.rotate(&old.key.id, None).await.expect("the key is there");
        assert_eq!(new.key, old.key);
        assert_eq!(new.secret.mode(), mode);
        for _ in 0..2 {
            assert_eq!(keys.find(old.secret.expose()), None);
            let info = keys.find(new.secret.expose()).expect("the new one works");
            assert_eq!(
                (info.key.id.as_str(), info.key.label.as_str(), info.key.test),
                (&*old.key.id, "CI", mode == Mode::Test)
            );
            drop(keys);
            keys = open(folder.path());
        }
        keys.revoke(&old.key.id).await.expect("the key is there");
        let again = keys.rotate(&old.key.id, None).await.expect_err("it is revoked");
        assert!(matches!(&again, ChangeError::KeyRevoked(id) if *id == old.key.id), "{again}");
        assert_eq!(keys.find(new.secret.expose()), None);
    }
    assert!(matches!(keys.rotate("key_none", None).await, Err(ChangeError::NoSuchKey(_))));
}

#[tokio::test]
async fn an_old_secret_is_valid_until_its_expiry_and_no_longer_than_the_key() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (mut keys, _) = bootstrapped(folder.path()).await;
    let now = UnixSeconds::now();
    let at = |seconds| Some(UnixSeconds(now.0 + seconds));
    let first = keys
        .create(&default(), label("CI"), Mode::Live, KeyRestrictions::default())
        .await
        .expect("the account is there");
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
    let created = keys
        .create(&default(), label("CI"), Mode::Live, KeyRestrictions::default())
        .await
        .expect("the account is there");
    let (id, secret) = (created.key.id.as_str(), created.secret.expose());
    // The expiry, and whether the key is valid.
    for (expires_at, works) in [(Some(now.0 + 600), true), (Some(now.0 - 600), false), (None, true)] {
        let expires_at = expires_at.map(UnixSeconds);
        let change = KeyUpdate { expires_at: Some(expires_at), ..KeyUpdate::default() };
        assert_eq!(keys.set(id, change).await.expect("the key is there").expires_at, expires_at);
        assert_eq!(keys.find(secret).is_some(), works);
        assert_eq!(keys.expired_at(secret), expires_at.filter(|_| !works));
        assert_eq!(keys.expired_at(ApiKey::generate(Mode::Live).expose()), None);
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
    let created = keys.create(&default(), label("CI"), Mode::Live, restrictions).await.expect("the account is there");
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
    let old = keys
        .create(&default(), Label::default(), Mode::Live, KeyRestrictions::default())
        .await
        .expect("the account is there");
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
        secrets.push(
            keys.create(&default(), Label::default(), Mode::Live, KeyRestrictions::default())
                .await
                .expect("it writes")
                .secret,
        );
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
async fn tokens_that_are_no_valid_key_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (keys, secret) = bootstrapped(folder.path()).await;
    let working = secret.expose();
    assert!(keys.find(working).is_some());
    let unknown = ApiKey::generate(Mode::Live);
    let other_mode = working.replace("bd_live_", "bd_test_");
    let other_case = working.to_ascii_uppercase();
    for token in [
        "",
        " ",
        "garbage",
        "bd_live_",
        "ä€😀",
        "\0",
        unknown.expose(),
        &other_mode,
        &other_case,
        &working[..39],
        &format!("{working}0"),
        &format!(" {working}"),
        &format!("{working}\n"),
        &"x".repeat(1 << 20),
        &format!("bd_live_{}", "x".repeat(1 << 20)),
    ] {
        let shown: String = token.chars().take(60).collect();
        assert_eq!(keys.find(token), None, "{shown:?}");
    }
}

#[tokio::test]
async fn impossible_changes_are_refused_and_change_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (keys, _) = bootstrapped(folder.path()).await;
    let before = (keys.all(None), keys.all_accounts());
    let missing = AccountName::try_from("missing").expect("a good name");
    let refused = [
        (
            keys.create(&missing, Label::default(), Mode::Live, KeyRestrictions::default()).await.map(drop),
            ChangeError::NoSuchAccount("missing".into()),
        ),
        (keys.revoke("key_unknown").await.map(drop), ChangeError::NoSuchKey("key_unknown".into())),
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
async fn keys_created_concurrently_are_all_stored() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (keys, _) = bootstrapped(folder.path()).await;
    let tasks: Vec<_> = (0..500)
        .map(|number| {
            let keys: Keys = keys.clone();
            tokio::spawn(async move {
                let created =
                    keys.create(&default(), label(&number.to_string()), Mode::Live, KeyRestrictions::default()).await;
                // Valid as soon as it was created.
                created.inspect(|created| assert!(keys.find(created.secret.expose()).is_some()))
            })
        })
        .collect();
    let mut secrets = Vec::new();
    for task in tasks {
        secrets.push(task.await.expect("no panic").expect("the store writes").secret);
    }
    drop(keys);
    let keys = open(folder.path());
    let mut labels: Vec<usize> = secrets
        .iter()
        .map(|secret| keys.find(secret.expose()).expect("it is there").key.label.parse().expect("a number"))
        .collect();
    labels.sort_unstable();
    assert_eq!(labels, (0..500).collect::<Vec<_>>());
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
    keys.create(&default(), Label::default(), Mode::Live, KeyRestrictions::default())
        .await
        .expect("the account is there");
    assert_eq!(keys.find(secret.expose()), None);
}
