//! In-memory copy of all accounts and keys, by which requests are authenticated without disk access.
//!
//! Every commit's rows are applied in commit order, each replacing its predecessor, so the copy equals the store.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::store::{Account, Key, KeyHash, Rows, UnixSeconds};

/// `last_use` of a key without an unwritten use.
const NO_PENDING_USE: i64 = i64::MIN;

#[derive(Debug, Default)]
pub(super) struct KeyCache {
    accounts: BTreeMap<String, Account>,
    /// By the hash of the newest token.
    keys: HashMap<KeyHash, Entry>,
    /// Public id to the hash of the newest token.
    ids: HashMap<String, KeyHash>,
    /// Replaced tokens that may still be accepted, each with the newest one of its key.
    previous: HashMap<KeyHash, KeyHash>,
    /// Keys with an unwritten use, each once.
    used: Mutex<Vec<KeyHash>>,
}

#[derive(Debug)]
struct Entry {
    key: Key,
    /// The last unwritten use, else [`NO_PENDING_USE`].
    last_use: AtomicI64,
}

impl KeyCache {
    /// Applies the rows of a commit.
    pub(super) fn apply(&mut self, rows: &Rows) {
        self.accounts.extend(rows.accounts.iter().map(|account| (account.name.clone(), account.clone())));
        for (hash, key) in rows.keys.iter().cloned() {
            let before = self.ids.insert(key.id.clone(), hash).unwrap_or(hash);
            let entry = self.keys.remove(&before);
            if let Some(previous) = entry.as_ref().and_then(|entry| entry.key.previous) {
                self.previous.remove(&KeyHash(previous.hash));
            }
            if let Some(previous) = key.previous {
                self.previous.insert(KeyHash(previous.hash), hash);
            }
            // An unwritten use is kept.
            let last_use = entry.map_or(AtomicI64::new(NO_PENDING_USE), |entry| entry.last_use);
            if before != hash && last_use.load(Ordering::Relaxed) != NO_PENDING_USE {
                self.used.lock().unwrap_or_else(PoisonError::into_inner).push(hash);
            }
            self.keys.insert(hash, Entry { key, last_use });
        }
    }

    /// The key of a current or previous token, and the hash of its newest one; `None` where it is revoked.
    fn resolve(&self, hash: &KeyHash, now: UnixSeconds) -> Option<(KeyHash, &Entry)> {
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

    /// When the key of a token expired; `None` where it did not, and for an unknown or revoked key.
    pub(super) fn expired_at(&self, hash: &KeyHash, now: UnixSeconds) -> Option<UnixSeconds> {
        self.resolve(hash, now)?.1.key.expires_at.filter(|at| *at <= now)
    }

    /// The key of a public id, and the hash of its newest token.
    pub(super) fn locate(&self, id: &str) -> Option<(KeyHash, &Key)> {
        let hash = self.ids.get(id)?;
        self.keys.get(hash).map(|entry| (*hash, &entry.key))
    }

    /// The account and key of this token, unless the key is unknown, revoked or expired; the use is noted.
    pub(super) fn authenticate(&self, hash: &KeyHash, now: UnixSeconds) -> Option<(&Account, &Key)> {
        let (hash, entry) = self.resolve(hash, now)?;
        let key = &entry.key;
        if key.expires_at.is_some_and(|at| at <= now) {
            return None;
        }
        // The store refuses a key without its account; a damaged store that lost one must not grant access.
        let account = self.accounts.get(&key.account)?;
        // Only the first use since the last write takes the lock.
        if entry.last_use.swap(now.0, Ordering::Relaxed) == NO_PENDING_USE {
            self.used.lock().unwrap_or_else(PoisonError::into_inner).push(hash);
        }
        Some((account, key))
    }

    /// Takes up to `max` keys with unwritten uses, by id; they then count as written.
    pub(super) fn take_used(&self, max: usize) -> Vec<(String, UnixSeconds)> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let rest = used.len().saturating_sub(max);
        let taken = used.split_off(rest);
        let last_use = |hash: &KeyHash| {
            let entry = self.keys.get(hash)?;
            // Under the lock, so that a later use inserts the key again.
            let at = entry.last_use.swap(NO_PENDING_USE, Ordering::Relaxed);
            (at != NO_PENDING_USE).then(|| (entry.key.id.clone(), UnixSeconds(at)))
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

    /// The keys of one account or of all, oldest first, revoked ones included.
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
        let noted = (at != NO_PENDING_USE).then_some(UnixSeconds(at));
        Key { last_used_at: self.key.last_used_at.max(noted), ..self.key.clone() }
    }
}
