//! Property test: any sequence of changes, lookups and restarts agrees with a model in maps.

use std::collections::{BTreeMap, HashMap};

use backdrop::account::{AccountModel, AccountName, ApiKey, CreatedKey, Key, KeyRestrictions, Label, Plan};
use backdrop::store::UnixSeconds;
use proptest::prelude::*;

use crate::store::support::{InMemory, open};

const ACCOUNTS: [&str; 3] = ["a", "b", "c"];

#[derive(Clone, Debug)]
enum Step {
    CreateAccount(usize, usize),
    SetPlan(usize, usize),
    CreateKey { account: usize, label: String, test: bool },
    Revoke(prop::sample::Index),
    Rotate(prop::sample::Index, bool),
    SetAllowed(usize, bool),
    WriteUses,
    Authenticate(prop::sample::Index),
    AuthenticateUnknown,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..3_usize, 0..3_usize).prop_map(|(account, plan)| Step::CreateAccount(account, plan)),
        1 => (0..3_usize, 0..3_usize).prop_map(|(account, plan)| Step::SetPlan(account, plan)),
        5 => (0..3_usize, "[a-zé ]{0,8}", any::<bool>())
            .prop_map(|(account, label, test)| Step::CreateKey { account, label, test }),
        2 => any::<prop::sample::Index>().prop_map(Step::Revoke),
        2 => (any::<prop::sample::Index>(), any::<bool>()).prop_map(|(which, keep)| Step::Rotate(which, keep)),
        1 => (0..3_usize, any::<bool>()).prop_map(|(account, generates)| Step::SetAllowed(account, generates)),
        1 => Just(Step::WriteUses),
        5 => any::<prop::sample::Index>().prop_map(Step::Authenticate),
        1 => Just(Step::AuthenticateUnknown),
        1 => Just(Step::Reopen),
    ]
}

struct ModelKey {
    secret: ApiKey,
    id: String,
    account: &'static str,
    label: String,
    test: bool,
    revoked: bool,
    used: bool,
    /// The secret before this one, which still works.
    kept: Option<ApiKey>,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_key_service_agrees_with_the_model(steps in prop::collection::vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(run(steps))?;
    }
}

async fn run(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut keys = open(folder.path());
    let mut accounts: BTreeMap<&str, (Plan, bool)> = BTreeMap::new();
    let mut model: Vec<ModelKey> = Vec::new();
    for step in steps {
        match step {
            Step::CreateAccount(account, plan) => {
                let (name, plan) = (ACCOUNTS[account], Plan::ALL[plan]);
                let account = AccountName::try_from(name).expect("a good name");
                let created = keys.create_account(account, plan, false, AccountModel::default()).await;
                prop_assert_eq!(created.is_ok(), !accounts.contains_key(name));
                accounts.entry(name).or_insert((plan, false));
            }
            Step::SetPlan(account, plan) => {
                let (name, plan) = (ACCOUNTS[account], Plan::ALL[plan]);
                let set = keys.set_account(name, Some(plan), None, None).await;
                prop_assert_eq!(set.is_ok(), accounts.contains_key(name));
                accounts.entry(name).and_modify(|account| account.0 = plan);
            }
            Step::CreateKey { account, label, test } => {
                let name = AccountName::try_from(ACCOUNTS[account]).expect("a good name");
                let text = Label::try_from(label.as_str()).expect("a good label");
                let created = keys.create(&name, text, test, KeyRestrictions::default()).await;
                prop_assert_eq!(created.is_ok(), accounts.contains_key(ACCOUNTS[account]));
                if let Ok(CreatedKey { secret, key: Key { id, .. } }) = created {
                    let account = ACCOUNTS[account];
                    model.push(ModelKey { secret, id, account, label, test, revoked: false, used: false, kept: None });
                }
            }
            Step::SetAllowed(account, generates) => {
                let set = keys.set_account(ACCOUNTS[account], None, Some(generates), None).await;
                prop_assert_eq!(set.is_ok(), accounts.contains_key(ACCOUNTS[account]));
                accounts.entry(ACCOUNTS[account]).and_modify(|account| account.1 = generates);
            }
            Step::WriteUses => keys.write_uses().await,
            Step::Revoke(_) | Step::Rotate(..) | Step::Authenticate(_) if model.is_empty() => {
                prop_assert!(keys.revoke("key_none").await.is_err());
                prop_assert!(keys.rotate("key_none", None).await.is_err());
            }
            Step::Rotate(which, keep) => {
                let old = which.get_mut(&mut model);
                let keep_until = keep.then(|| UnixSeconds(UnixSeconds::now().0 + 600));
                let rotated = keys.rotate(&old.id, keep_until).await;
                prop_assert_eq!(rotated.is_ok(), !old.revoked);
                if let Ok(CreatedKey { key, secret }) = rotated {
                    prop_assert_eq!(&key.id, &old.id);
                    let replaced = std::mem::replace(&mut old.secret, secret);
                    let (kept, ended) = if keep { (Some(replaced), None) } else { (None, Some(replaced)) };
                    let before = std::mem::replace(&mut old.kept, kept);
                    for ended in before.into_iter().chain(ended) {
                        prop_assert_eq!(keys.find(ended.expose()), None);
                    }
                }
            }
            Step::Revoke(which) => {
                let key = which.get_mut(&mut model);
                prop_assert!(keys.revoke(&key.id).await.is_ok());
                key.revoked = true;
            }
            Step::Authenticate(which) => {
                let key = which.get_mut(&mut model);
                if let Some(kept) = &key.kept {
                    prop_assert_eq!(keys.find(kept.expose()).is_none(), key.revoked);
                }
                let found = keys.find(key.secret.expose());
                prop_assert_eq!(found.is_none(), key.revoked);
                if let Some(info) = found {
                    let (account, stored) = (info.account, info.key);
                    prop_assert_eq!((account.plan, account.generates), accounts[key.account]);
                    let expected = (&*key.id, key.account, &*key.label, key.test);
                    prop_assert_eq!((&*stored.id, &*account.name, &*stored.label, stored.test), expected);
                    key.used = true;
                }
            }
            Step::AuthenticateUnknown => {
                prop_assert_eq!(keys.find(ApiKey::generate(false).expose()), None);
            }
            Step::Reopen => {
                // As a daemon does at its end.
                keys.write_uses().await;
                drop(keys);
                keys = open(folder.path());
            }
        }
    }
    keys.write_uses().await;
    drop(keys);
    let keys = open(folder.path());
    let stored: BTreeMap<String, Plan> =
        keys.all_accounts().into_iter().map(|account| (account.name, account.plan)).collect();
    let expected: BTreeMap<String, Plan> =
        accounts.into_iter().map(|(name, (plan, _))| (name.to_owned(), plan)).collect();
    prop_assert_eq!(stored, expected);
    let state = |key: Key| (key.id, (key.revoked_at.is_some(), key.last_used_at.is_some()));
    let stored: HashMap<String, (bool, bool)> = keys.all(None).into_iter().map(state).collect();
    let expected: HashMap<String, (bool, bool)> =
        model.into_iter().map(|key| (key.id, (key.revoked, key.used))).collect();
    prop_assert_eq!(stored, expected);
    Ok(())
}
