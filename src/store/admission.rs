//! What a request is admitted with: who sends it, the rate of its key, and what is left of its quotas.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Account, Key, KeyHash, Plan, UnixSeconds};

/// Who asks to be admitted.
#[derive(Clone, Copy, Debug)]
pub enum Credential<'a> {
    /// By the hash of a token.
    Key(KeyHash),
    /// Without a key, as an account that the configuration names.
    Account(&'a str),
}

/// Which calls of a key are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateKind {
    /// Requests.
    Calls,
    /// Services that make no picture.
    Services,
}

/// The limit of an admission: calls of the kind in any minute, by plan.
#[derive(Clone, Copy, Debug)]
pub struct RateRule {
    /// The kind.
    pub kind: RateKind,
    /// By plan, in the order of [`Plan::ALL`].
    pub limits: [u32; Plan::ALL.len()],
}

impl RateRule {
    pub(super) const fn limit(&self, plan: Plan) -> u32 {
        self.limits[plan as usize]
    }
}

/// The state of a key's rate after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateStatus {
    /// Whether the call is within the limit.
    pub allowed: bool,
    /// Calls in any minute.
    pub limit: u32,
    /// Remaining calls.
    pub remaining: u32,
    /// When the oldest counted call leaves the window and one more becomes possible.
    pub reset: Duration,
}

impl RateStatus {
    /// [`Self::reset`] in whole seconds, as reported to the caller.
    #[must_use]
    pub fn reset_seconds(&self) -> u64 {
        whole_seconds(self.reset)
    }
}

/// Whole seconds, rounded up and at least one, so that a caller who waits that long is not early.
#[must_use]
pub fn whole_seconds(wait: Duration) -> u64 {
    (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1)
}

/// The outcome of an admission.
#[derive(Clone, Debug)]
pub enum Admission {
    /// No active key has the token, or there is no such account.
    Unknown,
    /// The key expired then.
    Expired(UnixSeconds),
    /// The caller is known; its rate may be exceeded.
    Admitted(Box<Admitted>),
}

/// A known caller.
#[derive(Clone, Debug)]
pub struct Admitted {
    /// The account.
    pub account: Account,
    /// The key; `None` for [`Credential::Account`].
    pub key: Option<Key>,
    /// The rate, with this call.
    pub rate: RateStatus,
    /// What is left of the quotas.
    pub left: ImagesLeft,
}

/// The id that replaces a key's public id in a request without a key. The SQL function `admit` repeats it.
#[must_use]
pub fn id_without_key(account: &str) -> String {
    format!("without-key-{account}")
}

/// Images left in the present month; `None` for no quota. Reservations of jobs are subtracted, reservations of requests only
/// on a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImagesLeft {
    /// Images left of the plan.
    pub plan: Option<u64>,
    /// Images left of the key.
    pub key: Option<u64>,
}

/// What a request may still use of its quotas: what was left at its admission, without what it reserved and billed since.
/// Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Allowance {
    left: ImagesLeft,
    used: Arc<AtomicU64>,
}

impl From<ImagesLeft> for Allowance {
    fn from(left: ImagesLeft) -> Self {
        Self { left, used: Arc::default() }
    }
}

impl Allowance {
    /// What is left of both quotas.
    pub(super) fn left(&self) -> ImagesLeft {
        let used = self.used.load(Ordering::Relaxed);
        let left = |quota: Option<u64>| quota.map(|left| left.saturating_sub(used));
        ImagesLeft { plan: left(self.left.plan), key: left(self.left.key) }
    }

    /// Images left: the smaller of the plan's and the key's; `None` where neither has a quota.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        let ImagesLeft { plan, key } = self.left();
        plan.into_iter().chain(key).min()
    }

    pub(super) fn take(&self, images: u64) {
        self.used.fetch_add(images, Ordering::Relaxed);
    }

    pub(super) fn give_back(&self, images: u64) {
        self.used.fetch_sub(images, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowance_is_the_smaller_quota_without_what_is_in_use() {
        let allowance = Allowance::from(ImagesLeft { plan: Some(10), key: Some(3) });
        let clone = allowance.clone();
        clone.take(2);
        assert_eq!((allowance.remaining(), allowance.left().plan), (Some(1), Some(8)));
        clone.take(5);
        assert_eq!(allowance.remaining(), Some(0));
        clone.give_back(7);
        assert_eq!(allowance.remaining(), Some(3));
        assert_eq!(Allowance::default().remaining(), None);
    }
}
