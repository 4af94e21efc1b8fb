//! The random bearer token that protects the admin interface of one run of the daemon.

use serde::{Deserialize, Serialize};

use crate::account::api_key::{random_text, same_secret};

/// The bearer token of the admin interface; `Debug` hides it, the discovery file has it.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AdminToken(String);

impl AdminToken {
    /// A new one from the operating system's randomness.
    #[must_use]
    pub fn generate() -> Self {
        Self(random_text(43))
    }

    pub(super) fn expose(&self) -> &str {
        &self.0
    }

    /// Compares in constant time.
    pub(super) fn matches(&self, token: &str) -> bool {
        same_secret(token, &self.0)
    }
}

impl std::fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}
