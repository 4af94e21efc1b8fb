//! Creates, changes, rotates and revokes accounts and API keys durably.

use super::DEFAULT_ACCOUNT;
use super::api_key::{self, ApiKey};
use super::key_restrictions::KeyRestrictions;
use super::names::{AccountName, Label};
use crate::store::{
    Account, AccountModel, Change, ChangeError, Key, KeyChange, KeyUpdate, Plan, Store, UnixSeconds, written,
};

/// Characters of a key's public id after `key_`.
const ID_LENGTH: usize = 12;

/// A created key, with its secret, which is not stored.
#[derive(Clone, Debug)]
pub struct CreatedKey {
    /// The stored key.
    pub key: Key,
    /// The token, to be shown once.
    pub secret: ApiKey,
}

/// Administers accounts and keys. Clones share one store.
#[derive(Clone, Debug)]
pub struct Keys {
    store: Store,
}

impl Keys {
    /// The keys of a store.
    #[must_use]
    pub const fn new(store: Store) -> Self {
        Self { store }
    }

    /// The store of these keys.
    #[must_use]
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// Creates the first account of an empty store, `default` on plan `plus`, with `chosen` as its key or a fresh one, which
    /// is returned to be shown once. `None` for a store that has accounts.
    ///
    /// Account and key are one change, so that a crash cannot leave an account without a key.
    ///
    /// # Errors
    /// When the store cannot write.
    pub async fn bootstrap(&self, chosen: Option<ApiKey>) -> Result<Option<CreatedKey>, ChangeError> {
        if !self.store.accounts().await?.is_empty() {
            return Ok(None);
        }
        let secret = chosen.unwrap_or_else(|| ApiKey::generate(false));
        let key = new_key(DEFAULT_ACCOUNT.into(), "bootstrap".into(), secret.is_test(), KeyRestrictions::default());
        let account = Account {
            name: DEFAULT_ACCOUNT.into(),
            plan: Plan::Plus,
            created_at: key.created_at,
            generates: true,
            model: AccountModel::default(),
        };
        match self.store.change(Change::CreateAccount { account, first_key: Some((secret.hash(), key.clone())) }).await
        {
            Ok(_) => Ok(Some(CreatedKey { key, secret })),
            // Another daemon that started at the same time was faster.
            Err(ChangeError::AccountExists(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates a key of an account, for the sandbox if it `is_test`; it is active when this returns.
    ///
    /// # Errors
    /// When there is no such account, or the store cannot write.
    pub async fn create(
        &self,
        account: &AccountName,
        label: Label,
        is_test: bool,
        restrictions: KeyRestrictions,
    ) -> Result<CreatedKey, ChangeError> {
        let secret = ApiKey::generate(is_test);
        let key = new_key(account.to_string(), label.into(), is_test, restrictions);
        self.store.change(Change::CreateKey { hash: secret.hash(), key: key.clone() }).await?;
        Ok(CreatedKey { key, secret })
    }

    /// Revokes a key by its public id; it is refused when this returns. Revoking it again changes nothing.
    ///
    /// # Errors
    /// When there is no such key, or the store cannot write.
    pub async fn revoke(&self, id: &str) -> Result<Key, ChangeError> {
        self.change(id, KeyChange::Revoke { at: UnixSeconds::now() }).await
    }

    /// Replaces the secret of a key; its id, and so its jobs, stay. The new secret is active when this returns, the old one
    /// is refused from then on, or from `keep_until` on.
    ///
    /// # Errors
    /// When there is no such key, it is revoked, another rotation came first, or the store cannot write.
    pub async fn rotate(&self, id: &str, keep_until: Option<UnixSeconds>) -> Result<CreatedKey, ChangeError> {
        let located = self.store.key(id).await?.map(|(hash, key)| (hash, key.test));
        let (from, test) = located.ok_or_else(|| ChangeError::NoSuchKey(id.to_owned()))?;
        let secret = ApiKey::generate(test);
        let key = self.change(id, KeyChange::Rotate { from, to: secret.hash(), keep_until }).await?;
        Ok(CreatedKey { key, secret })
    }

    /// Changes the restrictions of a key, from its next request on. `None` leaves a value unchanged.
    ///
    /// # Errors
    /// When there is no such key, it is revoked, or the store cannot write.
    pub async fn set(&self, id: &str, update: KeyUpdate) -> Result<Key, ChangeError> {
        self.change(id, KeyChange::Set(update)).await
    }

    async fn change(&self, id: &str, change: KeyChange) -> Result<Key, ChangeError> {
        written(self.store.change(Change::Key { id: id.to_owned(), change }).await?.keys).map(|(_, key)| key)
    }

    /// Creates an account without a key; `generates` puts it on the allow-list of `/replace-bg-ai`, and `model` cuts
    /// out its pictures.
    ///
    /// # Errors
    /// When the name is taken, or the store cannot write.
    pub async fn create_account(
        &self,
        name: AccountName,
        plan: Plan,
        generates: bool,
        model: AccountModel,
    ) -> Result<Account, ChangeError> {
        let account = Account { name: name.into(), plan, created_at: UnixSeconds::now(), generates, model };
        self.store.change(Change::CreateAccount { account: account.clone(), first_key: None }).await?;
        Ok(account)
    }

    /// Changes the plan of an account, its permission for `/replace-bg-ai` and its model, from the next request on.
    /// `None` leaves a value unchanged.
    ///
    /// # Errors
    /// When there is no such account, or the store cannot write.
    pub async fn set_account(
        &self,
        account: &str,
        plan: Option<Plan>,
        generates: Option<bool>,
        model: Option<AccountModel>,
    ) -> Result<Account, ChangeError> {
        let rows =
            self.store.change(Change::SetAccount { account: account.to_owned(), plan, generates, model }).await?;
        written(rows.accounts)
    }
}

fn new_key(account: String, label: String, test: bool, restrictions: KeyRestrictions) -> Key {
    let KeyRestrictions { expires_at, images_per_month, scopes } = restrictions;
    Key {
        id: format!("key_{}", api_key::random_text(ID_LENGTH)),
        account,
        label,
        test,
        created_at: UnixSeconds::now(),
        revoked_at: None,
        last_used_at: None,
        expires_at,
        images_per_month,
        scopes: scopes.into_names(),
        previous: None,
    }
}
