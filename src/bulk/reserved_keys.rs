//! The result keys that a run has assigned, to detect two sources with one result.

use super::hash::Hash;
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

/// Hashes of the result keys in use.
#[derive(Debug, Default)]
pub(super) struct ReservedKeys(HashSet<Hash, BuildHasherDefault<IdentityHasher>>);

impl ReservedKeys {
    /// Reserves a key; false when it was reserved before.
    pub(super) fn reserve(&mut self, output: Hash) -> bool {
        self.0.insert(output)
    }
}

/// Hashes to the first eight bytes: the keys are hashes already.
#[derive(Debug, Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let mut first = [0; 8];
        let length = bytes.len().min(8);
        first[..length].copy_from_slice(&bytes[..length]);
        self.0 = u64::from_le_bytes(first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bulk::hash::hash;

    #[test]
    fn a_key_is_reserved_once() {
        let mut keys = ReservedKeys::default();
        assert!((0..10_000).all(|n| keys.reserve(hash(&[&n.to_string()]))));
        assert!(!(0..10_000).any(|n| keys.reserve(hash(&[&n.to_string()]))));
    }
}
