//! API key tokens: generation, parsing and SHA-256 hashing.
//!
//! `bd_live_` or `bd_test_`, then 32 characters of base62: 190 bits from the operating system. The token exists
//! only at its creation and in requests; its SHA-256 is stored and queried. Querying by hash makes the comparison safe:
//! its timing depends on hash bits, which a caller cannot steer towards a stored hash.

use std::fmt;

use rand::TryRngCore;
use rand::distr::{Alphanumeric, SampleString};
use rand::rngs::OsRng;
use sha2::{Digest, Sha256};

use crate::store::KeyHash;

/// Characters after the prefix.
const SECRET_LENGTH: usize = 32;

/// The beginning of tokens that do real work, billed by the account's plan.
const LIVE: &str = "bd_live_";

/// The beginning of sandbox tokens, which work the same, are never billed, and whose results are marked.
const TEST: &str = "bd_test_";

/// A well-formed token. `Debug` shows only its prefix; there is no `Display`, only [`ApiKey::expose`].
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

/// A text does not have the form of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a key: expected bd_live_ or bd_test_ and then 32 letters and digits")]
pub struct ApiKeyError;

impl ApiKey {
    /// A new key from the operating system's randomness, of the sandbox if it `is_test`.
    #[must_use]
    pub fn generate(is_test: bool) -> Self {
        Self((if is_test { TEST } else { LIVE }).to_owned() + &random_text(SECRET_LENGTH))
    }

    /// Checks the form of a key; cheap, and refuses overlong input before hashing.
    ///
    /// # Errors
    /// When it is not exactly a prefix and 32 letters and digits.
    pub fn parse(token: &str) -> Result<Self, ApiKeyError> {
        check_form(token)?;
        Ok(Self(token.to_owned()))
    }

    /// The token itself, to be shown once.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether it is of the sandbox.
    #[must_use]
    pub fn is_test(&self) -> bool {
        self.0.starts_with(TEST)
    }

    /// The hash that is stored.
    #[must_use]
    pub fn hash(&self) -> KeyHash {
        sha256(&self.0)
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}***", if self.is_test() { TEST } else { LIVE })
    }
}

/// The hash under which a caller's token would be stored; `None` when it does not have the form of a key.
#[must_use]
pub fn token_hash(token: &str) -> Option<KeyHash> {
    check_form(token).ok().map(|()| sha256(token))
}

/// Whether two secrets are equal, in constant time.
pub(super) fn same_secret(a: &str, b: &str) -> bool {
    sha256(a) == sha256(b)
}

/// Letters and digits from the operating system's randomness, each equally likely.
pub(crate) fn random_text(length: usize) -> String {
    // `unwrap_err` panics on failure: a machine without randomness must not issue keys.
    Alphanumeric.sample_string(&mut OsRng.unwrap_err(), length)
}

fn check_form(token: &str) -> Result<(), ApiKeyError> {
    let secret = token.strip_prefix(LIVE).or_else(|| token.strip_prefix(TEST)).ok_or(ApiKeyError)?;
    let is_well_formed = secret.len() == SECRET_LENGTH && secret.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_well_formed { Ok(()) } else { Err(ApiKeyError) }
}

fn sha256(text: &str) -> KeyHash {
    KeyHash(Sha256::digest(text.as_bytes()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_key_has_the_documented_form_and_parses() {
        for (is_test, prefix) in [(false, "bd_live_"), (true, "bd_test_")] {
            let key = ApiKey::generate(is_test);
            assert_eq!((key.expose().len(), key.is_test()), (40, is_test));
            assert!(key.expose().starts_with(prefix));
            assert_eq!(ApiKey::parse(key.expose()).as_ref(), Ok(&key));
        }
    }

    #[test]
    fn generated_keys_differ_and_use_the_whole_alphabet() {
        let mut secrets: Vec<String> = (0..1000).map(|_| random_text(SECRET_LENGTH)).collect();
        let letters: std::collections::BTreeSet<char> = secrets.iter().flat_map(|secret| secret.chars()).collect();
        assert_eq!(letters.len(), 62);
        secrets.sort_unstable();
        secrets.dedup();
        assert_eq!(secrets.len(), 1000);
    }

    #[test]
    fn texts_of_another_form_are_refused() {
        let secret = "0123456789abcdefghijABCDEFGHIJ01";
        assert!(ApiKey::parse(&format!("bd_live_{secret}")).is_ok());
        for token in [
            String::new(),
            "bd_live_".into(),
            secret.into(),
            format!("bd_live_{}", &secret[1..]),
            format!("bd_live_{secret}2"),
            format!("bd_prod_{secret}"),
            format!("BD_LIVE_{secret}"),
            format!(" bd_live_{secret}"),
            format!("bd_live_{}-", &secret[1..]),
            format!("bd_live_{}é", &secret[2..]),
        ] {
            assert_eq!(ApiKey::parse(&token), Err(ApiKeyError), "{token:?}");
        }
    }

    #[test]
    fn the_debug_form_hides_the_secret() {
        let key = ApiKey::generate(false);
        assert_eq!(format!("{key:?}"), "bd_live_***");
    }

    #[test]
    fn the_stored_hash_is_sha_256_of_the_whole_token() {
        // sha256sum of "bd_test_" and 32 zeros.
        let key = ApiKey::parse(&format!("bd_test_{}", "0".repeat(32))).expect("the form of a key");
        let hex: String = key.hash().0.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "606ba5cc56334244ad6af5ae0837f53e5ae37ff92a6afad6791486b607d2ef27");
    }
}
