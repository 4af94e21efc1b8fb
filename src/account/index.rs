//! Accounts and keys in memory: every request is authenticated here, without touching the disk.
//!
//! A copy of the store's rows, fed with what each commit wrote, in commit order. A row replaces the one before it, so
//! the copy equals the store after any number of changes.

use std::collections::{BTreeMap, HashMap};

use super::keys::KeyInfo;
use crate::store::{Account, Key, KeyHash, Rows};

#[derive(Debug, Default)]
pub(super) struct Index {
    accounts: BTreeMap<String, Account>,
    keys: HashMap<KeyHash, Key>,
}

impl Index {
    pub(super) fn absorb(&mut self, rows: Rows) {
        self.accounts.extend(rows.accounts.into_iter().map(|account| (account.name.clone(), account)));
        self.keys.extend(rows.keys);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.accounts.is_empty()
    }

    /// Whose key this is, unless it is unknown or revoked.
    pub(super) fn find(&self, hash: &KeyHash) -> Option<KeyInfo> {
        let key = self.keys.get(hash).filter(|key| key.revoked_at.is_none())?;
        // The store takes no key without its account; a store that lost one must not let the key in.
        let account = self.accounts.get(&key.account)?;
        Some(KeyInfo {
            key_id: key.id.clone(),
            account: account.name.clone(),
            plan: account.plan,
            label: key.label.clone(),
            test: key.test,
        })
    }

    pub(super) fn account(&self, name: &str) -> Option<&Account> {
        self.accounts.get(name)
    }

    /// By name.
    pub(super) fn accounts(&self) -> Vec<Account> {
        self.accounts.values().cloned().collect()
    }

    /// Of one account or of all, oldest first, revoked ones too.
    pub(super) fn keys(&self, account: Option<&str>) -> Vec<Key> {
        let mut keys: Vec<Key> =
            self.keys.values().filter(|key| account.is_none_or(|name| key.account == name)).cloned().collect();
        keys.sort_unstable_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        keys
    }
}
