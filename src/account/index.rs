//! Accounts and keys in memory: every request is authenticated here, without touching the disk.
//!
//! A copy of the store's rows, fed with what each commit wrote, in commit order. A row replaces the one before it, so
//! the copy equals the store after any number of changes.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::keys::KeyInfo;
use crate::store::{Account, Key, KeyHash, Rows, UnixSeconds};

/// No use to be written.
const WRITTEN: i64 = i64::MIN;

#[derive(Debug, Default)]
pub(super) struct Index {
    accounts: BTreeMap<String, Account>,
    keys: HashMap<KeyHash, Entry>,
    /// Keys with a use that is not written yet, each once.
    used: Mutex<Vec<KeyHash>>,
}

#[derive(Debug)]
struct Entry {
    key: Key,
    /// Last use that is not written yet, else [`WRITTEN`].
    last_use: AtomicI64,
}

impl Index {
    pub(super) fn absorb(&mut self, rows: Rows) {
        self.accounts.extend(rows.accounts.into_iter().map(|account| (account.name.clone(), account)));
        for (hash, key) in rows.keys {
            // A use that waits to be written stays.
            let last_use = self.keys.remove(&hash).map_or(AtomicI64::new(WRITTEN), |entry| entry.last_use);
            self.keys.insert(hash, Entry { key, last_use });
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.accounts.is_empty()
    }

    /// Whose key this is, unless it is unknown or revoked; the use is noted.
    pub(super) fn find(&self, hash: &KeyHash, now: UnixSeconds) -> Option<KeyInfo> {
        let entry = self.keys.get(hash).filter(|entry| entry.key.revoked_at.is_none())?;
        let key = &entry.key;
        // The store takes no key without its account; a store that lost one must not let the key in.
        let account = self.accounts.get(&key.account)?;
        // Of many uses in a batch's time only the first takes the lock.
        if entry.last_use.swap(now.0, Ordering::Relaxed) == WRITTEN {
            self.used.lock().unwrap_or_else(PoisonError::into_inner).push(*hash);
        }
        Some(KeyInfo {
            key_id: key.id.clone(),
            account: account.name.clone(),
            plan: account.plan,
            label: key.label.clone(),
            test: key.test,
            generates: account.generates,
            model: account.model.0,
        })
    }

    /// Up to `most` keys with uses to be written, by id; they count as written.
    pub(super) fn take_used(&self, most: usize) -> Vec<(String, UnixSeconds)> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let rest = used.len().saturating_sub(most);
        let taken = used.split_off(rest);
        let last_use = |hash: &KeyHash| {
            let entry = self.keys.get(hash)?;
            // Under the lock, so that a use from now on enters the key anew.
            let at = entry.last_use.swap(WRITTEN, Ordering::Relaxed);
            (at != WRITTEN).then(|| (entry.key.id.clone(), UnixSeconds(at)))
        };
        taken.iter().filter_map(last_use).collect()
    }

    pub(super) fn account(&self, name: &str) -> Option<&Account> {
        self.accounts.get(name)
    }

    /// By name.
    pub(super) fn accounts(&self) -> Vec<Account> {
        self.accounts.values().cloned().collect()
    }

    /// By its public id.
    pub(super) fn key(&self, id: &str) -> Option<Key> {
        self.keys.values().find(|entry| entry.key.id == id).map(Entry::newest)
    }

    /// Of one account or of all, oldest first, revoked ones too.
    pub(super) fn keys(&self, account: Option<&str>) -> Vec<Key> {
        let of_account = |entry: &&Entry| account.is_none_or(|name| entry.key.account == name);
        let mut keys: Vec<Key> = self.keys.values().filter(of_account).map(Entry::newest).collect();
        keys.sort_unstable_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        keys
    }
}

impl Entry {
    /// The key with its last use, written or not.
    fn newest(&self) -> Key {
        let at = self.last_use.load(Ordering::Relaxed);
        let noted = (at != WRITTEN).then_some(UnixSeconds(at));
        Key { last_used_at: self.key.last_used_at.max(noted), ..self.key.clone() }
    }
}
