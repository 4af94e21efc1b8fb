//! The quotas that a change is checked against in its transaction.

/// The quotas of a month that a bill, or a new job, is checked against when it is committed; `None` for no quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaCheck {
    /// Images of the account.
    pub plan_images: Option<u64>,
    /// Images of the key.
    pub key_images: Option<u64>,
}

impl QuotaCheck {
    /// Whether there is no quota to check.
    #[must_use]
    pub fn is_unlimited(self) -> bool {
        self == Self::default()
    }
}
