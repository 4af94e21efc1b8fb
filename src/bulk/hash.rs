//! 128-bit hashes that stand for keys and report rows, so that a run over a million objects fits in 200 MB.

use sha2::{Digest, Sha256};

/// The first 16 bytes of a SHA-256. A collision within a run is not expected.
pub(super) type Hash = u128;

/// Hashes a list of strings; each is prefixed with its length, so that moving bytes between them changes the hash.
pub(super) fn hash(texts: &[&str]) -> Hash {
    let mut hasher = Sha256::new();
    for text in texts {
        hasher.update((text.len() as u64).to_le_bytes());
        hasher.update(text);
    }
    let digest = hasher.finalize();
    u128::from_le_bytes(digest[..16].try_into().expect("a digest has 32 bytes"))
}
