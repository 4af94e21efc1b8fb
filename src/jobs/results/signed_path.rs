//! Signed paths below `/results/`: HMAC-SHA-256 over object name and expiry, issued and verified.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::jobs::secret::{DaemonSecret, hmac, is_signed};
use crate::store::UnixSeconds;

/// The path prefix of results on this daemon.
pub const RESULTS_PATH: &str = "/results/";

/// Signs paths; `Debug` hides the key.
pub(super) struct PathSigner([u8; 32]);

impl std::fmt::Debug for PathSigner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

impl PathSigner {
    pub(super) fn new(secret: &DaemonSecret) -> Self {
        Self(secret.derive("result URLs"))
    }

    /// The path and query that open an object until `expires_at`.
    pub(super) fn sign(&self, object: &str, expires_at: UnixSeconds) -> String {
        let expires = expires_at.0;
        let signature = URL_SAFE_NO_PAD.encode(hmac(&self.0, &signed_parts(object, &expires.to_string())));
        format!("{RESULTS_PATH}{object}?expires={expires}&signature={signature}")
    }

    /// Whether `query` opens an object at `now`.
    pub(super) fn verify(&self, object: &str, query: &str, now: UnixSeconds) -> bool {
        let Some((expires, signature)) = expiry_and_signature(query) else { return false };
        let Ok(signature) = URL_SAFE_NO_PAD.decode(signature) else { return false };
        // The number is parsed after the check: another notation of it has another signature.
        let in_time = || expires.parse::<i64>().is_ok_and(|expires| now.0 < expires);
        is_signed(&self.0, &signed_parts(object, expires), &signature) && in_time()
    }
}

/// The signed text of a path. A name has no line break, so different pairs have different texts.
fn signed_parts<'a>(object: &'a str, expires: &'a str) -> [&'a [u8]; 3] {
    [object.as_bytes(), b"\n", expires.as_bytes()]
}

/// `expires` and `signature`, once each; other parameters, such as a cache buster, are ignored.
fn expiry_and_signature(query: &str) -> Option<(&str, &str)> {
    let only = |name: &str| {
        let mut values = query.split('&').filter_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        values.next().filter(|_| values.next().is_none())
    };
    only("expires").zip(only("signature"))
}
