//! Stored API key: id, account, label, lifetime, monthly limit, scopes; never the token itself.

use serde::{Deserialize, Serialize};

use super::Record;
use crate::store::UnixSeconds;

/// A key in its newest form, whatever version it was stored in.
pub type Key = KeyV3;

/// SHA-256 of a secret token; the only form in which one is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeyHash(pub [u8; 32]);

/// A key, as stored. The token is not part of it: its SHA-256 is the key of the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyRecord {
    /// Schema 1.
    V1(KeyV1),
    /// Since schema 2.
    V2(KeyV2),
    /// Since schema 6.
    V3(KeyV3),
}

/// Version 1 of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyV1 {
    /// Public id, `key_` + 12 characters.
    pub id: String,
    /// Name of the account it belongs to.
    pub account: String,
    /// The owner's name for it.
    pub label: String,
    /// A sandbox key: never billed, its results are marked.
    pub test: bool,
    /// When it was created.
    pub created_at: UnixSeconds,
    /// When it was revoked.
    pub revoked_at: Option<UnixSeconds>,
}

/// Version 2 of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyV2 {
    /// Public id, `key_` + 12 characters.
    pub id: String,
    /// Name of the account it belongs to.
    pub account: String,
    /// The owner's name for it.
    pub label: String,
    /// A sandbox key: never billed, its results are marked.
    pub test: bool,
    /// When it was created.
    pub created_at: UnixSeconds,
    /// When it was revoked.
    pub revoked_at: Option<UnixSeconds>,
    /// When it was last used, with some seconds of delay: uses are written in batches.
    pub last_used_at: Option<UnixSeconds>,
}

/// Version 3 of a key: adds expiry, monthly images, scopes, and a previous secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyV3 {
    /// Public id, `key_` + 12 characters. It stays when the secret is replaced.
    pub id: String,
    /// Name of the account it belongs to.
    pub account: String,
    /// The owner's name for it.
    pub label: String,
    /// A sandbox key: never billed, its results are marked.
    pub test: bool,
    /// When it was created.
    pub created_at: UnixSeconds,
    /// When it was revoked.
    pub revoked_at: Option<UnixSeconds>,
    /// When it was last used, with some seconds of delay: uses are written in batches.
    pub last_used_at: Option<UnixSeconds>,
    /// When it expires.
    pub expires_at: Option<UnixSeconds>,
    /// Its own quota of images in a calendar month (UTC).
    pub images_per_month: Option<u64>,
    /// The endpoints it may call, each as its path without the leading slash; empty for all of them.
    pub scopes: Vec<String>,
    /// The previous secret, while it is still accepted.
    pub previous: Option<PreviousSecret>,
}

/// A replaced secret that is still accepted. Part of a stored key: never edited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviousSecret {
    /// SHA-256 of the token.
    pub hash: [u8; 32],
    /// From when on it is refused.
    pub until: UnixSeconds,
}

impl Record for KeyRecord {
    type Latest = KeyV3;

    fn latest(self) -> KeyV3 {
        let unbounded = |KeyV2 { id, account, label, test, created_at, revoked_at, last_used_at }| KeyV3 {
            id,
            account,
            label,
            test,
            created_at,
            revoked_at,
            last_used_at,
            expires_at: None,
            images_per_month: None,
            scopes: Vec::new(),
            previous: None,
        };
        match self {
            Self::V1(KeyV1 { id, account, label, test, created_at, revoked_at }) => {
                unbounded(KeyV2 { id, account, label, test, created_at, revoked_at, last_used_at: None })
            }
            Self::V2(key) => unbounded(key),
            Self::V3(key) => key,
        }
    }

    fn from_latest(latest: KeyV3) -> Self {
        Self::V3(latest)
    }
}
