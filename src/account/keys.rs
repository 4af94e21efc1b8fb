//! The service behind the `Authorization` header and the key commands.
//!
//! Reads come from memory and cost microseconds. A write goes to the store first and to memory after its commit, on the
//! store's thread and in commit order, then it is acknowledged: a caller that goes away while waiting changes nothing
//! about that, and a revoked key stops with the acknowledgement.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use super::api_key::{self, ApiKey, Mode};
use super::index::Index;
use super::write::{WriteError, write};
use super::{AccountName, DEFAULT_ACCOUNT, KeyBounds, KeyChange, Label, Scopes};
use crate::recipe::InferenceMode;
use crate::store::{Account, AccountModel, Change, ChangeError, Key, OpenError, Plan, Rows, StateStore, UnixSeconds};

/// Characters of a key's public id after `key_`.
const ID_LENGTH: usize = 12;

/// Keys whose last use is written in one change.
const USES_PER_CHANGE: usize = 500;

/// Who sent a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyInfo {
    /// Public id of the key; jobs are scoped to it.
    pub key_id: String,
    /// Name of the account; presets and quota are scoped to it.
    pub account: String,
    /// The account's plan at this moment.
    pub plan: Plan,
    /// The owner's words for the key.
    pub label: String,
    /// A sandbox key.
    pub test: bool,
    /// Whether the account is on the allow-list of `/replace-bg-ai`.
    pub generates: bool,
    /// Which model cuts out for the account; nothing where the daemon's does.
    pub model: Option<InferenceMode>,
    /// Images that the key may have made in a month; nothing where it has no bound of its own.
    pub images_per_month: Option<u64>,
    /// The endpoints that it is for.
    pub scopes: Scopes,
}

/// A key at its creation: the only time its secret is there.
#[derive(Clone, Debug)]
pub struct CreatedKey {
    /// What is stored.
    pub key: Key,
    /// What the owner has to keep.
    pub secret: ApiKey,
}

/// Accounts and keys: authentication and administration. Clones share one state.
#[derive(Clone, Debug)]
pub struct Keys {
    store: Arc<dyn StateStore>,
    index: Arc<RwLock<Index>>,
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
        let mut index = Index::default();
        index.absorb(rows);
        Self { store, index: Arc::new(RwLock::new(index)) }
    }

    /// Gives an empty store its first account, `default` on plan `plus`, with `chosen` as its key or a fresh one, which
    /// is returned to be shown once. A store that has accounts is left alone: `None`.
    ///
    /// Account and key are one change, so that a crash cannot leave an account that nobody has a key for.
    ///
    /// # Errors
    /// When the store cannot write.
    pub async fn bootstrap(&self, chosen: Option<ApiKey>) -> Result<Option<CreatedKey>, WriteError> {
        if !self.read().is_empty() {
            return Ok(None);
        }
        let secret = chosen.unwrap_or_else(|| ApiKey::generate(Mode::Live));
        let key = new_key(DEFAULT_ACCOUNT.into(), "bootstrap".into(), secret.mode(), KeyBounds::default());
        let account = Account {
            name: DEFAULT_ACCOUNT.into(),
            plan: Plan::Plus,
            created_at: key.created_at,
            generates: false,
            model: AccountModel::default(),
        };
        self.change(Change::CreateAccount { account, first_key: Some((secret.hash(), key.clone())) }).await?;
        Ok(Some(CreatedKey { key, secret }))
    }

    /// Whose token this is; `None` for anything that is not a working key. The use is noted in memory.
    #[must_use]
    pub fn authenticate(&self, token: &str) -> Option<KeyInfo> {
        let hash = api_key::hash_of(token)?;
        self.read().find(&hash, UnixSeconds::now())
    }

    /// When the key of a token that does not authenticate expired; nothing where that is not the reason.
    #[must_use]
    pub fn expired_at(&self, token: &str) -> Option<UnixSeconds> {
        let hash = api_key::hash_of(token)?;
        self.read().expired_at(&hash, UnixSeconds::now())
    }

    /// Writes when keys were last used, of those that were since the last time. Meant for every ten seconds or so, and
    /// for the end: a use that was not written is lost with the process, and nothing else.
    ///
    /// # Errors
    /// When the store cannot write; the times of one batch are lost then.
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

    /// Creates a key of an account; it works when this returns.
    ///
    /// # Errors
    /// When there is no such account, or the store cannot write.
    pub async fn create(&self, account: &AccountName, label: Label, mode: Mode) -> Result<CreatedKey, WriteError> {
        self.create_bounded(account, label, mode, KeyBounds::default()).await
    }

    /// As [`Self::create`], with bounds of its own.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub async fn create_bounded(
        &self,
        account: &AccountName,
        label: Label,
        mode: Mode,
        bounds: KeyBounds,
    ) -> Result<CreatedKey, WriteError> {
        let secret = ApiKey::generate(mode);
        let key = new_key(account.to_string(), label.into(), mode, bounds);
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

    /// Gives a key another secret; its id and all else of it stay, and with them its jobs. When this returns the new
    /// secret works. The old one is refused from then on, or from `keep_until` on.
    ///
    /// # Errors
    /// When there is no such key, it is revoked, another rotation came first, or the store cannot write.
    pub async fn rotate(&self, id: &str, keep_until: Option<UnixSeconds>) -> Result<CreatedKey, WriteError> {
        let placed = self.read().placed(id).map(|(hash, key)| (hash, key.test));
        let (from, test) = placed.ok_or_else(|| ChangeError::NoSuchKey(id.to_owned()))?;
        let secret = ApiKey::generate(if test { Mode::Test } else { Mode::Live });
        let rows = self.change(Change::RotateKey { id: id.to_owned(), from, to: secret.hash(), keep_until }).await?;
        let key = rows.keys.into_iter().map(|(_, key)| key).next().ok_or(WriteError::Closed)?;
        Ok(CreatedKey { key, secret })
    }

    /// Changes the bounds of a key, from its next request on. What is `None` stays.
    ///
    /// # Errors
    /// When there is no such key, it is revoked, or the store cannot write.
    pub async fn set(&self, id: &str, change: KeyChange) -> Result<Key, WriteError> {
        let KeyChange { expires_at, images_per_month, scopes } = change;
        let scopes = scopes.map(Scopes::into_names);
        let rows = self.change(Change::SetKey { id: id.to_owned(), expires_at, images_per_month, scopes }).await?;
        rows.keys.into_iter().map(|(_, key)| key).next().ok_or(WriteError::Closed)
    }

    /// Keys of one account or of all, oldest first, revoked ones too.
    #[must_use]
    pub fn list(&self, account: Option<&str>) -> Vec<Key> {
        self.read().keys(account)
    }

    /// Creates an account without a key; `generates` puts it on the allow-list of `/replace-bg-ai`, and `model` cuts out for
    /// it.
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

    /// Puts an account on another plan, on the allow-list of `/replace-bg-ai` or off it, and has another model cut out for
    /// it, from the next request on. What is `None` stays.
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

    async fn change(&self, change: Change) -> Result<Rows, WriteError> {
        let index = Arc::clone(&self.index);
        let committed = move |rows: &Rows| index.write().unwrap_or_else(PoisonError::into_inner).absorb(rows.clone());
        write(&*self.store, change, committed).await
    }

    /// Held for a look-up, never across an await. A panic under the lock leaves whole rows, so poison is no reason to stop.
    fn read(&self) -> RwLockReadGuard<'_, Index> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }
}

fn new_key(account: String, label: String, mode: Mode, bounds: KeyBounds) -> Key {
    let KeyBounds { expires_at, images_per_month, scopes } = bounds;
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
