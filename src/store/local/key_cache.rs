//! In-memory copy of all accounts and keys, by which requests are authenticated without disk access.
//!
//! Every commit's rows are applied in commit order, each replacing its predecessor, so the copy equals the store.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::store::{Account, Admission, Key, KeyHash, Rows, UnixSeconds};

#[derive(Debug, Default)]
pub(in crate::store) struct KeyCache {
    accounts: BTreeMap<String, Account>,
    /// By the hash of the newest token.
    keys: HashMap<KeyHash, Key>,
    /// Public id to the hash of the newest token.
    ids: HashMap<String, KeyHash>,
    /// Replaced tokens that may still be accepted, each with the newest one of its key.
    previous: HashMap<KeyHash, KeyHash>,
    /// The last use of each key that is not written yet, by public id.
    used: Mutex<HashMap<String, UnixSeconds>>,
}

impl KeyCache {
    /// Applies the rows of a commit.
    pub(super) fn apply(&mut self, rows: &Rows) {
        self.accounts.extend(rows.accounts.iter().map(|account| (account.name.clone(), account.clone())));
        for (hash, key) in rows.keys.iter().cloned() {
            let before = self.ids.insert(key.id.clone(), hash).unwrap_or(hash);
            if let Some(previous) = self.keys.remove(&before).and_then(|key| key.previous) {
                self.previous.remove(&KeyHash(previous.hash));
            }
            if let Some(previous) = key.previous {
                self.previous.insert(KeyHash(previous.hash), hash);
            }
            self.keys.insert(hash, key);
        }
    }

    /// The key of a public id, and the hash of its newest token.
    pub(in crate::store) fn locate(&self, id: &str) -> Option<(KeyHash, &Key)> {
        let hash = self.ids.get(id)?;
        self.keys.get(hash).map(|key| (*hash, key))
    }

    /// The account and key of a current or previous token, whose use is noted, or why there is none.
    pub(super) fn authenticate(&self, hash: &KeyHash, now: UnixSeconds) -> Result<(&Account, &Key), Admission> {
        let is_kept = |key: &&Key| key.previous.is_some_and(|previous| now < previous.until);
        let previous = || self.keys.get(self.previous.get(hash)?).filter(is_kept);
        let key = self.keys.get(hash).or_else(previous).filter(|key| key.revoked_at.is_none());
        let key = key.ok_or(Admission::Unknown)?;
        if let Some(at) = key.expires_at.filter(|at| *at <= now) {
            return Err(Admission::Expired(at));
        }
        // The store refuses a key without its account; a damaged store that lost one must not grant access.
        let account = self.accounts.get(&key.account).ok_or(Admission::Unknown)?;
        let mut used = self.used();
        match used.get_mut(&key.id) {
            Some(last) => *last = now,
            None => drop(used.insert(key.id.clone(), now)),
        }
        Ok((account, key))
    }

    /// Takes up to `max` unwritten uses, by id of the key; they then count as written.
    pub(super) fn take_used(&self, max: usize) -> Vec<(String, UnixSeconds)> {
        self.used().extract_if(|_, _| true).take(max).collect()
    }

    /// Held for a look-up. A panic under the lock leaves whole rows, so poison is no reason to stop.
    fn used(&self) -> MutexGuard<'_, HashMap<String, UnixSeconds>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::store) fn account(&self, name: &str) -> Option<&Account> {
        self.accounts.get(name)
    }

    /// By name.
    pub(in crate::store) fn accounts(&self) -> Vec<Account> {
        self.accounts.values().cloned().collect()
    }

    /// The keys of one account or of all, oldest first, revoked ones included.
    pub(in crate::store) fn keys(&self, account: Option<&str>) -> Vec<Key> {
        let used = self.used().clone();
        // With the last use, written or not.
        let newest = |key: &Key| Key { last_used_at: key.last_used_at.max(used.get(&key.id).copied()), ..key.clone() };
        let of_account = self.keys.values().filter(|key| account.is_none_or(|name| key.account == name));
        let mut keys: Vec<Key> = of_account.map(newest).collect();
        keys.sort_unstable_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        keys
    }
}
