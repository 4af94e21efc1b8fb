//! Accounts and API keys: authenticates tokens from memory, and creates, changes, rotates and revokes durably.
//!
//! Reads are served from memory in microseconds. A write goes to the store first, to memory after its commit, on the
//! store's thread and in commit order, and is then acknowledged, even if its caller disconnects: a revoked key is refused
//! from the acknowledgement on.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, Weak};

use super::DEFAULT_ACCOUNT;
use super::api_key::{self, ApiKey, Mode};
use super::key_cache::KeyCache;
use super::key_info::KeyInfo;
use super::key_restrictions::{KeyRestrictions, KeyUpdate};
use super::names::{AccountName, Label};
use super::scopes::Scopes;
use super::store_write::{WriteError, write_change};
use crate::store::{Account, AccountModel, Change, ChangeError, Key, OpenError, Plan, Rows, StateStore, UnixSeconds};

/// Characters of a key's public id after `key_`.
const ID_LENGTH: usize = 12;

/// Keys whose last use is written in one change.
const USES_PER_CHANGE: usize = 500;

/// A created key, with its secret, which is not stored.
#[derive(Clone, Debug)]
pub struct CreatedKey {
    /// The stored key.
    pub key: Key,
    /// The token, to be shown once.
    pub secret: ApiKey,
}

/// Accounts and keys: authentication and administration. Clones share one state.
#[derive(Clone, Debug)]
pub struct Keys {
    store: Arc<dyn StateStore>,
    cache: Arc<RwLock<KeyCache>>,
}

impl Keys {
    /// Loads everything from the store. Blocks; meant for start-up.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn load(store: impl StateStore) -> Result<Self, OpenError> {
        let rows = store.load()?;
        Ok(Self::new(Arc::new(store), rows))
    }

    /// With the accounts and keys that the store has now.
    pub(super) fn new(store: Arc<dyn StateStore>, rows: Rows) -> Self {
        let mut cache = KeyCache::default();
        cache.apply(rows);
        Self { store, cache: Arc::new(RwLock::new(cache)) }
    }

    /// Creates the first account of an empty store, `default` on plan `plus`, with `chosen` as its key or a fresh one, which
    /// is returned to be shown once. `None` for a store that has accounts.
    ///
    /// Account and key are one change, so that a crash cannot leave an account without a key.
    ///
    /// # Errors
    /// When the store cannot write.
    pub async fn bootstrap(&self, chosen: Option<ApiKey>) -> Result<Option<CreatedKey>, WriteError> {
        if !self.read().is_empty() {
            return Ok(None);
        }
        let secret = chosen.unwrap_or_else(|| ApiKey::generate(Mode::Live));
        let key = new_key(DEFAULT_ACCOUNT.into(), "bootstrap".into(), secret.mode(), KeyRestrictions::default());
        let account = Account {
            name: DEFAULT_ACCOUNT.into(),
            plan: Plan::Plus,
            created_at: key.created_at,
            generates: true,
            model: AccountModel::default(),
        };
        match self.change(Change::CreateAccount { account, first_key: Some((secret.hash(), key.clone())) }).await {
            Ok(_) => Ok(Some(CreatedKey { key, secret })),
            // Another daemon that started at the same time was faster.
            Err(WriteError::Change(ChangeError::AccountExists(_))) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The caller with this token; `None` for anything but an active key. The use is noted in memory.
    #[must_use]
    pub fn authenticate(&self, token: &str) -> Option<KeyInfo> {
        let hash = api_key::hash_of(token)?;
        self.read().authenticate(&hash, UnixSeconds::now())
    }

    /// When the key of a refused token expired; `None` where that is not the reason.
    #[must_use]
    pub fn expired_at(&self, token: &str) -> Option<UnixSeconds> {
        let hash = api_key::hash_of(token)?;
        self.read().expired_at(&hash, UnixSeconds::now())
    }

    /// Writes the last use of keys that were used since the previous call. Meant for every ten seconds or so, and for the
    /// end: a use that was not written is lost with the process.
    ///
    /// # Errors
    /// When the store cannot write; the times of one batch are then lost.
    pub async fn write_uses(&self) -> Result<(), WriteError> {
        loop {
            let used = self.read().take_used(USES_PER_CHANGE);
            let is_last = used.len() < USES_PER_CHANGE;
            if !used.is_empty() {
                self.change(Change::TouchKeys { used }).await?;
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// Creates a key of an account; it is active when this returns.
    ///
    /// # Errors
    /// When there is no such account, or the store cannot write.
    pub async fn create(&self, account: &AccountName, label: Label, mode: Mode) -> Result<CreatedKey, WriteError> {
        self.create_restricted(account, label, mode, KeyRestrictions::default()).await
    }

    /// As [`Self::create`], with restrictions.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub async fn create_restricted(
        &self,
        account: &AccountName,
        label: Label,
        mode: Mode,
        restrictions: KeyRestrictions,
    ) -> Result<CreatedKey, WriteError> {
        let secret = ApiKey::generate(mode);
        let key = new_key(account.to_string(), label.into(), mode, restrictions);
        self.change(Change::CreateKey { hash: secret.hash(), key: key.clone() }).await?;
        Ok(CreatedKey { key, secret })
    }

    /// Revokes a key by its public id; it is refused when this returns. Revoking it again changes nothing.
    ///
    /// # Errors
    /// When there is no such key, or the store cannot write.
    pub async fn revoke(&self, id: &str) -> Result<Key, WriteError> {
        let rows = self.change(Change::RevokeKey { id: id.to_owned(), at: UnixSeconds::now() }).await?;
        rows.keys.into_iter().map(|(_, key)| key).next().ok_or(WriteError::Closed)
    }

    /// Replaces the secret of a key; its id, and so its jobs, stay. The new secret is active when this returns, the old one
    /// is refused from then on, or from `keep_until` on.
    ///
    /// # Errors
    /// When there is no such key, it is revoked, another rotation came first, or the store cannot write.
    pub async fn rotate(&self, id: &str, keep_until: Option<UnixSeconds>) -> Result<CreatedKey, WriteError> {
        let located = self.read().locate(id).map(|(hash, key)| (hash, key.test));
        let (from, test) = located.ok_or_else(|| ChangeError::NoSuchKey(id.to_owned()))?;
        let secret = ApiKey::generate(if test { Mode::Test } else { Mode::Live });
        let rows = self.change(Change::RotateKey { id: id.to_owned(), from, to: secret.hash(), keep_until }).await?;
        let key = rows.keys.into_iter().map(|(_, key)| key).next().ok_or(WriteError::Closed)?;
        Ok(CreatedKey { key, secret })
    }

    /// Changes the restrictions of a key, from its next request on. `None` leaves a value unchanged.
    ///
    /// # Errors
    /// When there is no such key, it is revoked, or the store cannot write.
    pub async fn set(&self, id: &str, update: KeyUpdate) -> Result<Key, WriteError> {
        let KeyUpdate { expires_at, images_per_month, scopes } = update;
        let scopes = scopes.map(Scopes::into_names);
        let rows = self.change(Change::SetKey { id: id.to_owned(), expires_at, images_per_month, scopes }).await?;
        rows.keys.into_iter().map(|(_, key)| key).next().ok_or(WriteError::Closed)
    }

    /// Keys of one account or of all, oldest first, revoked ones included.
    #[must_use]
    pub fn list(&self, account: Option<&str>) -> Vec<Key> {
        self.read().keys(account)
    }

    /// Creates an account without a key; `generates` puts it on the allow-list of `/replace-bg-ai`, and `model` is its
    /// inference mode.
    ///
    /// # Errors
    /// When the name is taken, or the store cannot write.
    pub async fn create_account(
        &self,
        name: AccountName,
        plan: Plan,
        generates: bool,
        model: AccountModel,
    ) -> Result<Account, WriteError> {
        let account = Account { name: name.into(), plan, created_at: UnixSeconds::now(), generates, model };
        self.change(Change::CreateAccount { account: account.clone(), first_key: None }).await?;
        Ok(account)
    }

    /// Changes the plan of an account, its permission for `/replace-bg-ai` and its inference mode, from the next request on.
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
    ) -> Result<Account, WriteError> {
        let rows = self.change(Change::SetAccount { account: account.to_owned(), plan, generates, model }).await?;
        rows.accounts.into_iter().next().ok_or(WriteError::Closed)
    }

    /// One account.
    #[must_use]
    pub fn account(&self, name: &str) -> Option<Account> {
        self.read().account(name).cloned()
    }

    /// All accounts by name.
    #[must_use]
    pub fn accounts(&self) -> Vec<Account> {
        self.read().accounts()
    }

    /// A copy that followed commits are written to.
    pub(super) fn downgrade(&self) -> KeysCopy {
        KeysCopy(Arc::downgrade(&self.cache))
    }

    async fn change(&self, change: Change) -> Result<Rows, WriteError> {
        let cache = Arc::clone(&self.cache);
        let committed = move |rows: &Rows| cache.write().unwrap_or_else(PoisonError::into_inner).apply(rows.clone());
        write_change(&*self.store, change, committed).await
    }

    /// Held for a look-up, never across an await. A panic under the lock leaves whole rows, so poison is no reason to stop.
    fn read(&self) -> RwLockReadGuard<'_, KeyCache> {
        self.cache.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Accounts and keys, as long as their service lives.
#[derive(Debug)]
pub(super) struct KeysCopy(Weak<RwLock<KeyCache>>);

impl KeysCopy {
    /// Copies the rows of a followed commit.
    pub(super) fn copy(&self, rows: &Rows) {
        if rows.accounts.is_empty() && rows.keys.is_empty() {
            return;
        }
        if let Some(cache) = self.0.upgrade() {
            cache.write().unwrap_or_else(PoisonError::into_inner).apply(rows.clone());
        }
    }
}

fn new_key(account: String, label: String, mode: Mode, restrictions: KeyRestrictions) -> Key {
    let KeyRestrictions { expires_at, images_per_month, scopes } = restrictions;
    Key {
        id: format!("key_{}", api_key::random_text(ID_LENGTH)),
        account,
        label,
        test: mode == Mode::Test,
        created_at: UnixSeconds::now(),
        revoked_at: None,
        last_used_at: None,
        expires_at,
        images_per_month,
        scopes: scopes.into_names(),
        previous: None,
    }
}
