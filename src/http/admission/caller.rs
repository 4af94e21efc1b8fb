//! The authenticated caller of a request, and the trait by which the HTTP layer looks up API keys.

use crate::account::{Payer, Scopes};
use crate::generate::AccountScope;
use crate::recipe::Network;
use crate::store::{Plan, UnixSeconds};

/// Who sent a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Public id of the key; the rate limit is counted by it.
    pub key_id: String,
    /// The account it belongs to.
    pub account: String,
    /// What the account may use.
    pub plan: Plan,
    /// A sandbox key: never bills, stamps its results.
    pub test: bool,
    /// Whether the account is on the allow-list of `/replace-bg-ai`.
    pub generates: bool,
    /// The account's default model; `None` for the daemon's.
    pub model: Option<Network>,
    /// The key's own quota of images in a month; `None` without one.
    pub images_per_month: Option<u64>,
    /// The endpoints that the key may call.
    pub scopes: Scopes,
}

impl Caller {
    /// The account and key whose quotas the request counts against. A request with a sandbox key counts against none.
    pub(crate) fn payer(&self) -> Payer<'_> {
        Payer {
            account: &self.account,
            plan: self.plan,
            key_id: Some(&self.key_id),
            images_per_month: self.images_per_month,
        }
    }

    /// The account for which models of generated backdrops are selected.
    pub(crate) fn scope(&self) -> AccountScope<'_> {
        AccountScope { account: &self.account, plan: self.plan }
    }
}

/// Looks up API keys.
pub trait Authenticate: Send + Sync + 'static {
    /// The caller with this token; `None` for an unknown, revoked or expired one.
    fn authenticate(&self, token: &str) -> Option<Caller>;

    /// A caller without a key, as the account of this name; `None` where there is no such account.
    fn of_account(&self, account: &str) -> Option<Caller>;

    /// When the key of a refused token expired; `None` where expiry is not the reason.
    fn expired_at(&self, token: &str) -> Option<UnixSeconds>;

    /// Public ids and labels of an account's keys, revoked ones too.
    fn labels(&self, account: &str) -> Vec<(String, String)>;
}
