//! Monthly image quotas: whose quota a request uses, which quota is exhausted, and what an account has used.

use std::fmt;

use super::{Allowance, ImagesLeft, Plan, UnixSeconds};

/// Whose images a request uses.
#[derive(Clone, Copy, Debug)]
pub struct Payer<'a> {
    /// Name of the account.
    pub account: &'a str,
    /// The account's plan.
    pub plan: Plan,
    /// Public id of the key.
    pub key_id: Option<&'a str>,
    /// The key's own quota of images in a month, if it has one.
    pub images_per_month: Option<u64>,
    /// What was left at the admission of the request.
    pub allowance: &'a Allowance,
}

/// Which quota is exhausted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaKind {
    /// The images of the account's plan.
    Plan,
    /// The images of the key.
    Key,
}

impl fmt::Display for QuotaKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plan => "the free images of this month",
            Self::Key => "the images that this API key has in a month",
        })
    }
}

/// The images of the month are used up, or fewer are left than were requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} are used up; there are new ones from {resets_at}")]
pub struct QuotaExhausted {
    /// Which quota it is.
    pub kind: QuotaKind,
    /// When the next month begins.
    pub resets_at: UnixSeconds,
}

/// What an account used in a month.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageSummary {
    /// Images billed.
    pub used: u64,
    /// Images that the plan has; `None` where it has no quota.
    pub quota: Option<u64>,
    /// Their price.
    pub microdollars: u64,
    /// When the next month begins.
    pub resets_at: UnixSeconds,
}

/// The quota of a plan in a month; `None` for no quota.
pub(super) const fn plan_quota(plan: Plan, free_images_per_month: u64) -> Option<u64> {
    match plan {
        Plan::Free => Some(free_images_per_month),
        Plan::Paid | Plan::Plus => None,
    }
}

/// Refuses more images than are left; 0 are always left.
pub(super) fn require(left: ImagesLeft, images: u64) -> Result<(), QuotaKind> {
    for (left, kind) in [(left.plan, QuotaKind::Plan), (left.key, QuotaKind::Key)] {
        if images > 0 && left.is_some_and(|left| images > left) {
            return Err(kind);
        }
    }
    Ok(())
}
