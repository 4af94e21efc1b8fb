//! Cache keys: the SHA-256 of everything that determines a picture; the object name, and the checksum of an object.

use sha2::{Digest, Sha256};

/// Suffix of the names of cache objects. Other objects are ignored.
pub(super) const SUFFIX: &str = ".picture";
pub(super) const CHECKSUM_BYTES: usize = 32;

/// The SHA-256 of everything that determines a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::generate) struct CacheKey(pub(super) [u8; 32]);

impl CacheKey {
    /// The key for these texts, each prefixed by its length.
    pub(in crate::generate) fn of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut hash = Sha256::new();
        for text in texts {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
        Self(hash.finalize().into())
    }

    /// The object name: 64 hexadecimal digits and [`SUFFIX`].
    pub(super) fn name(self) -> String {
        let digits: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        digits + SUFFIX
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        let digits = name.strip_suffix(SUFFIX).filter(|digits| digits.len() == 64 && digits.is_ascii())?;
        let mut key = [0; 32];
        for (byte, at) in key.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&digits[at..at + 2], 16).ok()?;
        }
        // Canonical names only: `from_str_radix` also accepts signs and capitals.
        Some(Self(key)).filter(|key| key.name() == name)
    }

    /// SHA-256 of the key and `picture`.
    pub(super) fn checksum(self, picture: &[u8]) -> [u8; CHECKSUM_BYTES] {
        Sha256::new().chain_update(self.0).chain_update(picture).finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_parsed_from_its_canonical_name_only() {
        let key = CacheKey::of(["1"]);
        assert_eq!(CacheKey::from_name(&key.name()), Some(key));
        assert_ne!(CacheKey::of(["ab", "c"]), CacheKey::of(["a", "bc"]));
        let name = key.name();
        for other in [
            name.to_uppercase(),
            format!("{name}x"),
            name[1..].to_owned(),
            format!("+{}", &name[1..]),
            "é".repeat(32) + SUFFIX,
        ] {
            assert_eq!(CacheKey::from_name(&other), None, "{other}");
        }
    }
}
