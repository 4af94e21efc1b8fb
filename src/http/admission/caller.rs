//! The authenticated caller of a request.

use crate::account::Scopes;
use crate::generate::AccountScope;
use crate::recipe::Network;
use crate::store::{Admitted, Allowance, Payer, Plan, id_without_key};

/// Who sent a request.
#[derive(Clone, Debug)]
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
    /// What was left of the quotas when the request was admitted.
    pub allowance: Allowance,
}

impl Caller {
    /// The account and key whose quotas the request counts against. A request with a sandbox key counts against none.
    pub(crate) fn payer(&self) -> Payer<'_> {
        Payer {
            account: &self.account,
            plan: self.plan,
            key_id: Some(&self.key_id),
            images_per_month: self.images_per_month,
            allowance: &self.allowance,
        }
    }

    /// The account for which models of generated backdrops are selected.
    pub(crate) fn scope(&self) -> AccountScope<'_> {
        AccountScope { account: &self.account, plan: self.plan }
    }
}

impl From<Admitted> for Caller {
    fn from(Admitted { account, key, left, .. }: Admitted) -> Self {
        let (key_id, test, images_per_month, scopes) = match key {
            Some(key) => (key.id, key.test, key.images_per_month, Scopes::from_stored(key.scopes)),
            None => (id_without_key(&account.name), false, None, Scopes::default()),
        };
        Self {
            key_id,
            account: account.name,
            plan: account.plan,
            test,
            generates: account.generates,
            model: account.model.0,
            images_per_month,
            scopes,
            allowance: left.into(),
        }
    }
}
