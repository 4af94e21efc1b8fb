//! The service behind the `Authorization` header and the key commands.
//!
//! Reads come from memory and cost microseconds. A write goes to the store first and to memory after its commit, on the
//! store's thread and in commit order, then it is acknowledged: a caller that goes away while waiting changes nothing
//! about that, and a revoked key stops with the acknowledgement.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use tokio::sync::oneshot;

use super::api_key::{self, ApiKey, Mode};
use super::index::Index;
use super::{AccountName, DEFAULT_ACCOUNT, Label};
use crate::store::{Account, Change, ChangeError, Key, OpenError, Plan, Rows, StateStore, UnixSeconds};

/// Characters of a key's public id after `key_`.
const ID_LENGTH: usize = 12;

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
}

/// A key at its creation: the only time its secret is there.
#[derive(Clone, Debug)]
pub struct CreatedKey {
    /// What is stored.
    pub key: Key,
    /// What the owner has to keep.
    pub secret: ApiKey,
}

/// Why a change of accounts or keys did not happen.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// The store refused or failed.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// The store was closed while the change was under way; it may or may not have happened.
    #[error("the store was closed")]
    Closed,
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
        let mut index = Index::default();
        index.absorb(store.load()?);
        Ok(Self { store: Arc::new(store), index: Arc::new(RwLock::new(index)) })
    }

    /// Gives an empty store its first account, `default` on plan `plus`, with `chosen` as its key or a fresh one, which
    /// is returned to be shown once. A store that has accounts is left alone: `None`.
    ///
    /// Account and key are one change, so that a crash cannot leave an account that nobody has a key for.
    ///
    /// # Errors
    /// When the store cannot write.
    pub async fn bootstrap(&self, chosen: Option<ApiKey>) -> Result<Option<CreatedKey>, KeysError> {
        if !self.read().is_empty() {
            return Ok(None);
        }
        let secret = chosen.unwrap_or_else(|| ApiKey::generate(Mode::Live));
        let key = new_key(DEFAULT_ACCOUNT.into(), "bootstrap".into(), secret.mode());
        let account =
            Account { name: DEFAULT_ACCOUNT.into(), plan: Plan::Plus, created_at: key.created_at, generates: false };
        self.change(Change::CreateAccount { account, first_key: Some((secret.hash(), key.clone())) }).await?;
        Ok(Some(CreatedKey { key, secret }))
    }

    /// Whose token this is; `None` for anything that is not a working key.
    #[must_use]
    pub fn authenticate(&self, token: &str) -> Option<KeyInfo> {
        let hash = api_key::hash_of(token)?;
        self.read().find(&hash)
    }

    /// Creates a key of an account; it works when this returns.
    ///
    /// # Errors
    /// When there is no such account, or the store cannot write.
    pub async fn create(&self, account: &AccountName, label: Label, mode: Mode) -> Result<CreatedKey, KeysError> {
        let secret = ApiKey::generate(mode);
        let key = new_key(account.to_string(), label.into(), mode);
        self.change(Change::CreateKey { hash: secret.hash(), key: key.clone() }).await?;
        Ok(CreatedKey { key, secret })
    }

    /// Revokes a key by its public id; it is refused when this returns. Revoking it again changes nothing.
    ///
    /// # Errors
    /// When there is no such key, or the store cannot write.
    pub async fn revoke(&self, id: &str) -> Result<Key, KeysError> {
        let rows = self.change(Change::RevokeKey { id: id.to_owned(), at: UnixSeconds::now() }).await?;
        rows.keys.into_iter().map(|(_, key)| key).next().ok_or(KeysError::Closed)
    }

    /// Keys of one account or of all, oldest first, revoked ones too.
    #[must_use]
    pub fn list(&self, account: Option<&str>) -> Vec<Key> {
        self.read().keys(account)
    }

    /// Creates an account without a key.
    ///
    /// # Errors
    /// When the name is taken, or the store cannot write.
    pub async fn create_account(&self, name: AccountName, plan: Plan) -> Result<Account, KeysError> {
        let account = Account { name: name.into(), plan, created_at: UnixSeconds::now(), generates: false };
        self.change(Change::CreateAccount { account: account.clone(), first_key: None }).await?;
        Ok(account)
    }

    /// Puts an account on another plan, from the next request on.
    ///
    /// # Errors
    /// When there is no such account, or the store cannot write.
    pub async fn set_plan(&self, account: &str, plan: Plan) -> Result<Account, KeysError> {
        let rows = self.change(Change::SetPlan { account: account.to_owned(), plan }).await?;
        rows.accounts.into_iter().next().ok_or(KeysError::Closed)
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

    async fn change(&self, change: Change) -> Result<Rows, KeysError> {
        let (reply, answer) = oneshot::channel();
        let index = Arc::clone(&self.index);
        self.store.submit(
            change,
            Box::new(move |result| {
                if let Ok(rows) = &result {
                    index.write().unwrap_or_else(PoisonError::into_inner).absorb(rows.clone());
                }
                // Whoever asked may be gone; the change happened all the same.
                drop(reply.send(result));
            }),
        );
        Ok(answer.await.map_err(|_| KeysError::Closed)??)
    }

    /// Held for a look-up, never across an await. A panic under the lock leaves whole rows, so poison is no reason to stop.
    fn read(&self) -> RwLockReadGuard<'_, Index> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }
}

fn new_key(account: String, label: String, mode: Mode) -> Key {
    Key {
        id: format!("key_{}", api_key::random_text(ID_LENGTH)),
        account,
        label,
        test: mode == Mode::Test,
        created_at: UnixSeconds::now(),
        revoked_at: None,
        last_used_at: None,
    }
}
