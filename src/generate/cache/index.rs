//! What is in the cache, and what of it was not asked for the longest.

use std::collections::{BTreeMap, HashMap};

use super::CacheKey;

/// The entries of a cache by their last use. It knows sizes and keeps no bytes.
#[derive(Debug)]
pub(super) struct Index {
    bound: u64,
    total: u64,
    entries: HashMap<CacheKey, Entry>,
    /// The same by turn, the longest unused first.
    turns: BTreeMap<u64, CacheKey>,
    next_turn: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    bytes: u64,
    turn: u64,
}

impl Index {
    /// Empty, for `bound` bytes.
    pub(super) fn new(bound: u64) -> Self {
        Self { bound, total: 0, entries: HashMap::new(), turns: BTreeMap::new(), next_turn: 0 }
    }

    /// Whether there is such an entry, which counts as a use of it.
    pub(super) fn touch(&mut self, key: CacheKey) -> bool {
        let Some(Entry { bytes, .. }) = self.remove(key) else { return false };
        self.put(key, bytes);
        true
    }

    /// Adds an entry, and gives those that had to make room. Nothing when it is larger than all the room there is.
    pub(super) fn insert(&mut self, key: CacheKey, bytes: u64) -> Option<Vec<CacheKey>> {
        if bytes > self.bound {
            return None;
        }
        self.remove(key);
        let mut gone = Vec::new();
        while self.total > self.bound - bytes
            && let Some((_, &oldest)) = self.turns.first_key_value()
        {
            self.remove(oldest);
            gone.push(oldest);
        }
        self.put(key, bytes);
        Some(gone)
    }

    /// Takes an entry out.
    pub(super) fn forget(&mut self, key: CacheKey) {
        self.remove(key);
    }

    fn put(&mut self, key: CacheKey, bytes: u64) {
        let turn = self.next_turn;
        self.next_turn += 1;
        self.entries.insert(key, Entry { bytes, turn });
        self.turns.insert(turn, key);
        self.total += bytes;
    }

    fn remove(&mut self, key: CacheKey) -> Option<Entry> {
        let entry = self.entries.remove(&key)?;
        self.turns.remove(&entry.turn);
        self.total -= entry.bytes;
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
    fn what_was_not_asked_for_the_longest_makes_room() {
        let mut index = Index::new(100);
        for number in 0..4 {
            assert_eq!(index.insert(key(number), 25), Some(vec![]));
        }
        assert!(index.touch(key(0)));
        assert_eq!(index.insert(key(4), 30), Some(vec![key(1), key(2)]));
        assert!(!index.touch(key(1)) && index.touch(key(0)) && index.touch(key(3)));
        assert_eq!(index.insert(key(4), 100), Some(vec![key(0), key(3)]), "in place of itself, it makes room first");
        assert_eq!(index.insert(key(5), 101), None);
        assert!(index.touch(key(4)), "what cannot be kept pushes nothing out");
        index.forget(key(4));
        assert_eq!(index.insert(key(6), 100), Some(vec![]));
        assert_eq!(Index::new(0).insert(key(0), 1), None);
    }

    proptest! {
        #[test]
        fn the_bound_holds_whatever_happens(steps in prop::collection::vec((0_u8..3, 0_u8..12, 0_u64..60), 0..200)) {
            let mut index = Index::new(100);
            for (what, number, bytes) in steps {
                match what {
                    0 => {
                        index.touch(key(number));
                    }
                    1 => {
                        index.insert(key(number), bytes);
                    }
                    _ => index.forget(key(number)),
                }
                prop_assert!(index.total <= 100);
                prop_assert_eq!(index.total, index.entries.values().map(|entry| entry.bytes).sum::<u64>());
                prop_assert_eq!(index.entries.len(), index.turns.len());
            }
        }
    }
}
