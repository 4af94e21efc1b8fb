//! What an API key authenticates as: account, plan, permissions and limits.

use super::scopes::Scopes;
use crate::recipe::Network;
use crate::store::{Account, Key, Plan};

/// The caller of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyInfo {
    /// Public id of the key; jobs are scoped to it.
    pub key_id: String,
    /// Name of the account; presets and quota are scoped to it.
    pub account: String,
    /// The account's plan at this moment.
    pub plan: Plan,
    /// The owner's name for the key.
    pub label: String,
    /// A sandbox key.
    pub test: bool,
    /// Whether the account is on the allow-list of `/replace-bg-ai`.
    pub generates: bool,
    /// The account's network; `None` for the daemon's default.
    pub model: Option<Network>,
    /// The key's own quota of images in a month, if it has one.
    pub images_per_month: Option<u64>,
    /// The endpoints that the key may call.
    pub scopes: Scopes,
}

impl KeyInfo {
    /// A key of an account.
    #[must_use]
    pub fn of(account: Account, key: Key) -> Self {
        Self {
            key_id: key.id,
            account: account.name,
            plan: account.plan,
            label: key.label,
            test: key.test,
            generates: account.generates,
            model: account.model.0,
            images_per_month: key.images_per_month,
            scopes: Scopes::from_stored(key.scopes),
        }
    }
}
