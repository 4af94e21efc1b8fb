//! Least-recently-used index of the cache: keys, sizes and recency, bounded in bytes; no picture data.

use super::key::CacheKey;
use std::collections::{BTreeMap, HashMap};

/// Entries of a cache, ordered by last use.
#[derive(Debug)]
pub(super) struct LruIndex {
    max_bytes: u64,
    total_bytes: u64,
    entries: HashMap<CacheKey, Entry>,
    /// Keys by sequence number of their last use, least recent first.
    by_recency: BTreeMap<u64, CacheKey>,
    next_sequence: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    bytes: u64,
    sequence: u64,
}

impl LruIndex {
    /// An empty index, bounded by `max_bytes`.
    pub(super) fn new(max_bytes: u64) -> Self {
        Self { max_bytes, total_bytes: 0, entries: HashMap::new(), by_recency: BTreeMap::new(), next_sequence: 0 }
    }

    /// Marks an entry as just used; false when there is none.
    pub(super) fn touch(&mut self, key: CacheKey) -> bool {
        let Some(Entry { bytes, .. }) = self.take(key) else { return false };
        self.push(key, bytes);
        true
    }

    /// Adds an entry and returns the evicted keys; `None`, without eviction, when it exceeds the whole bound.
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

    /// Removes an entry.
    pub(super) fn remove(&mut self, key: CacheKey) {
        self.take(key);
    }

    fn push(&mut self, key: CacheKey, bytes: u64) {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.entries.insert(key, Entry { bytes, sequence });
        self.by_recency.insert(sequence, key);
        self.total_bytes += bytes;
    }

    fn take(&mut self, key: CacheKey) -> Option<Entry> {
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
        assert!(index.touch(key(0)));
        assert_eq!(index.insert(key(4), 30), Some(vec![key(1), key(2)]));
        assert!(!index.touch(key(1)) && index.touch(key(0)) && index.touch(key(3)));
        assert_eq!(index.insert(key(4), 100), Some(vec![key(0), key(3)]), "replacing an entry frees its bytes first");
        assert_eq!(index.insert(key(5), 101), None);
        assert!(index.touch(key(4)), "an entry beyond the bound evicts nothing");
        index.remove(key(4));
        assert_eq!(index.insert(key(6), 100), Some(vec![]));
        assert_eq!(LruIndex::new(0).insert(key(0), 1), None);
    }

    proptest! {
        #[test]
        fn the_bound_holds_for_any_sequence_of_operations(steps in prop::collection::vec((0_u8..3, 0_u8..12, 0_u64..60), 0..200)) {
            let mut index = LruIndex::new(100);
            for (operation, number, bytes) in steps {
                match operation {
                    0 => {
                        index.touch(key(number));
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
