//! Accounts and keys in memory: every request is authenticated here, without touching the disk.
//!
//! A copy of the store's rows, fed with what each commit wrote, in commit order. A row replaces the one before it, so
//! the copy equals the store after any number of changes.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::Scopes;
use super::keys::KeyInfo;
use crate::store::{Account, Key, KeyHash, Rows, UnixSeconds};

/// No use to be written.
const WRITTEN: i64 = i64::MIN;

#[derive(Debug, Default)]
pub(super) struct Index {
    accounts: BTreeMap<String, Account>,
    /// By the newest token of each.
    keys: HashMap<KeyHash, Entry>,
    /// By public id, where the key lies.
    ids: HashMap<String, KeyHash>,
    /// Replaced tokens that may still work, each with the newest one of its key.
    previous: HashMap<KeyHash, KeyHash>,
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
            let before = self.ids.insert(key.id.clone(), hash).unwrap_or(hash);
            let entry = self.keys.remove(&before);
            if let Some(previous) = entry.as_ref().and_then(|entry| entry.key.previous) {
                self.previous.remove(&KeyHash(previous.hash));
            }
            if let Some(previous) = key.previous {
                self.previous.insert(KeyHash(previous.hash), hash);
            }
            // A use that waits to be written stays.
            let last_use = entry.map_or(AtomicI64::new(WRITTEN), |entry| entry.last_use);
            if before != hash && last_use.load(Ordering::Relaxed) != WRITTEN {
                self.used.lock().unwrap_or_else(PoisonError::into_inner).push(hash);
            }
            self.keys.insert(hash, Entry { key, last_use });
        }
    }

    /// The key that a token opens, whichever of its tokens it is, and where it lies; nothing where it is revoked.
    fn opened(&self, hash: &KeyHash, now: UnixSeconds) -> Option<(KeyHash, &Entry)> {
        let (hash, entry) = match self.keys.get(hash) {
            Some(entry) => (*hash, entry),
            None => {
                let newest = self.previous.get(hash)?;
                let kept = |entry: &&Entry| entry.key.previous.is_some_and(|previous| now < previous.until);
                (*newest, self.keys.get(newest).filter(kept)?)
            }
        };
        entry.key.revoked_at.is_none().then_some((hash, entry))
    }

    /// When the key of a token expired; nothing where it did not, and for a token of no key or of a revoked one.
    pub(super) fn expired_at(&self, hash: &KeyHash, now: UnixSeconds) -> Option<UnixSeconds> {
        self.opened(hash, now)?.1.key.expires_at.filter(|at| *at <= now)
    }

    /// Where the key of a public id lies, and the key.
    pub(super) fn placed(&self, id: &str) -> Option<(KeyHash, &Key)> {
        let hash = self.ids.get(id)?;
        self.keys.get(hash).map(|entry| (*hash, &entry.key))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.accounts.is_empty()
    }

    /// Whose key this is, unless it is unknown, revoked or expired; the use is noted.
    pub(super) fn find(&self, hash: &KeyHash, now: UnixSeconds) -> Option<KeyInfo> {
        let (hash, entry) = self.opened(hash, now)?;
        let key = &entry.key;
        if key.expires_at.is_some_and(|at| at <= now) {
            return None;
        }
        // The store takes no key without its account; a store that lost one must not let the key in.
        let account = self.accounts.get(&key.account)?;
        // Of many uses in a batch's time only the first takes the lock.
        if entry.last_use.swap(now.0, Ordering::Relaxed) == WRITTEN {
            self.used.lock().unwrap_or_else(PoisonError::into_inner).push(hash);
        }
        Some(KeyInfo {
            key_id: key.id.clone(),
            account: account.name.clone(),
            plan: account.plan,
            label: key.label.clone(),
            test: key.test,
            generates: account.generates,
            model: account.model.0,
            images_per_month: key.images_per_month,
            scopes: Scopes::stored(key.scopes.clone()),
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
