//! Least-recently-used index of the cache: keys, sizes and recency, bounded in bytes; no picture data.

use super::key::CacheKey;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Entries of the cache, ordered by last use.
#[derive(Debug)]
pub(super) struct LruIndex {
    max_bytes: u64,
    total_bytes: u64,
    entries: HashMap<CacheKey, IndexEntry>,
    /// Keys by sequence number of their last use, least recent first.
    by_recency: BTreeMap<u64, CacheKey>,
    next_sequence: u64,
}

#[derive(Clone, Copy, Debug)]
struct IndexEntry {
    bytes: u64,
    sequence: u64,
}

impl LruIndex {
    /// An empty index, bounded by `max_bytes`.
    pub(super) fn new(max_bytes: u64) -> Self {
        Self { max_bytes, total_bytes: 0, entries: HashMap::new(), by_recency: BTreeMap::new(), next_sequence: 0 }
    }

    /// Drops entries that are not in `listed`, and adds its new ones in their order. Returns the evicted keys.
    pub(super) fn reconcile(&mut self, listed: impl IntoIterator<Item = (CacheKey, u64)>) -> Vec<CacheKey> {
        let listed: Vec<_> = listed.into_iter().collect();
        let there: HashSet<CacheKey> = listed.iter().map(|&(key, _)| key).collect();
        let gone: Vec<_> = self.entries.keys().copied().filter(|key| !there.contains(key)).collect();
        gone.into_iter().for_each(|key| self.remove(key));
        let new: Vec<_> = listed.into_iter().filter(|(key, _)| !self.entries.contains_key(key)).collect();
        new.into_iter().flat_map(|(key, bytes)| self.insert(key, bytes).unwrap_or_else(|| vec![key])).collect()
    }

    /// Adds or replaces an entry as the most recently used, and returns the evicted keys. `None`, without eviction,
    /// when the entry alone exceeds the bound.
    pub(super) fn insert(&mut self, key: CacheKey, bytes: u64) -> Option<Vec<CacheKey>> {
        if bytes > self.max_bytes {
            return None;
        }
        self.take(key);
        let mut evicted = Vec::new();
        while self.total_bytes > self.max_bytes - bytes
            && let Some((_, &oldest)) = self.by_recency.first_key_value()
        {
            self.take(oldest);
            evicted.push(oldest);
        }
        self.push(key, bytes);
        Some(evicted)
    }

    pub(super) fn remove(&mut self, key: CacheKey) {
        self.take(key);
    }

    /// Keys, least recently used first.
    #[cfg(test)]
    fn keys(&self) -> Vec<CacheKey> {
        self.by_recency.values().copied().collect()
    }

    fn push(&mut self, key: CacheKey, bytes: u64) {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.entries.insert(key, IndexEntry { bytes, sequence });
        self.by_recency.insert(sequence, key);
        self.total_bytes += bytes;
    }

    fn take(&mut self, key: CacheKey) -> Option<IndexEntry> {
        let entry = self.entries.remove(&key)?;
        self.by_recency.remove(&entry.sequence);
        self.total_bytes -= entry.bytes;
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(number: u8) -> CacheKey {
        CacheKey([number; 32])
    }

    #[test]
    fn the_least_recently_used_entries_are_evicted() {
        let mut index = LruIndex::new(100);
        for number in 0..4 {
            assert_eq!(index.insert(key(number), 25), Some(vec![]));
        }
        assert_eq!(index.insert(key(0), 25), Some(vec![]), "used again");
        assert_eq!(index.insert(key(4), 30), Some(vec![key(1), key(2)]));
        assert_eq!(index.keys(), [key(3), key(0), key(4)]);
        assert_eq!(index.insert(key(4), 100), Some(vec![key(3), key(0)]), "replacing an entry frees its bytes first");
        assert_eq!(index.insert(key(5), 101), None);
        assert_eq!(index.keys(), [key(4)], "an entry beyond the bound evicts nothing");
        index.remove(key(4));
        assert_eq!(index.insert(key(6), 100), Some(vec![]));
        assert_eq!(LruIndex::new(0).insert(key(0), 1), None);
    }

    #[test]
    fn a_listing_adds_objects_of_other_daemons_and_drops_deleted_ones() {
        let mut index = LruIndex::new(100);
        for number in 0..3 {
            index.insert(key(number), 20);
        }
        let listed = [(key(9), 20), (key(2), 20), (key(0), 20), (key(8), 20), (key(7), 101)];
        assert_eq!(index.reconcile(listed), [key(7)], "larger than the bound");
        assert_eq!(index.keys(), [key(0), key(2), key(9), key(8)]);
        assert_eq!(index.reconcile((0..6).map(|number| (key(number), 25))), [key(0), key(2)]);
        assert_eq!(index.keys(), [key(1), key(3), key(4), key(5)]);
    }

    proptest! {
        #[test]
        fn the_bound_holds_for_any_sequence_of_operations(steps in prop::collection::vec((0_u8..3, 0_u8..12, 0_u64..60), 0..200)) {
            let mut index = LruIndex::new(100);
            for (operation, number, bytes) in steps {
                match operation {
                    0 => {
                        index.reconcile([(key(number), bytes), (key(number + 1), 50)]);
                    }
                    1 => {
                        index.insert(key(number), bytes);
                    }
                    _ => index.remove(key(number)),
                }
                prop_assert!(index.total_bytes <= 100);
                prop_assert_eq!(index.total_bytes, index.entries.values().map(|entry| entry.bytes).sum::<u64>());
                prop_assert_eq!(index.entries.len(), index.by_recency.len());
            }
        }
    }
}
