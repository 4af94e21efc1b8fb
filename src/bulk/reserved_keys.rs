//! Which results are spoken for.

use super::Hash;
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

/// Results that an object of this run makes. The first in the listing has it.
#[derive(Debug, Default)]
pub(super) struct Claims(HashSet<Hash, BuildHasherDefault<AsItIs>>);

impl Claims {
    /// Whether nobody had it yet.
    pub(super) fn take(&mut self, output: Hash) -> bool {
        self.0.insert(output)
    }
}

/// The keys are hashes already.
#[derive(Debug, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
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
    use crate::bulk::hash;

    #[test]
    fn a_result_is_given_away_once() {
        let mut claims = Claims::default();
        assert!((0..10_000).all(|n| claims.take(hash(&[&n.to_string()]))));
        assert!(!(0..10_000).any(|n| claims.take(hash(&[&n.to_string()]))));
    }
}
