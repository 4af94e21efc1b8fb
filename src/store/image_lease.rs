//! Leases of images: shares of a quota that a daemon may bill while the database is away.
//!
//! A lease is a row of one daemon, for one key and month. Its images count as used for all others until the row is
//! gone: in every transaction billed, reserved and leased images together are within the quota. A bill that finds no other
//! room is charged to the lease of its daemon, so that it cannot be refused however late it is committed; one that
//! finds room leaves the lease as it was.
//!
//! A row is dropped once its time is over by the server's clock. Whether it is there decides, not the clock: a bill
//! that comes after that needs room in the quota again.

use std::time::Duration;

use super::{Month, QuotaCheck};

/// How long a lease lasts after its last renewal. What a dead daemon held returns then.
pub const LEASE: Duration = Duration::from_secs(60);

/// Images of a lease. At most as many pictures of a key stay unbilled when its daemon is killed while the database is away.
pub const LEASED_IMAGES: u64 = 100;

/// A lease has one image of so many that are left.
const LEFT_PER_LEASED: u64 = 10;

/// All leases together have one image of so many that are not billed or reserved: enough for some daemons, and most of a quota is free
/// for jobs and for daemons without a lease.
const UNUSED_PER_LEASED: u64 = 4;

/// Images that a lease should have where `left` are left of the quotas; `None` for no quota.
#[must_use]
pub fn lease_target(left: Option<u64>) -> u64 {
    left.map_or(LEASED_IMAGES, |left| (left / LEFT_PER_LEASED).min(LEASED_IMAGES))
}

/// Images that a lease should have of a quota of which `unused` are not billed or reserved, where the other leases have `others`.
pub(super) fn shared_target(unused: u64, others: u64) -> u64 {
    let all = unused / UNUSED_PER_LEASED;
    lease_target(Some(unused.saturating_sub(others))).min(all.saturating_sub(others))
}

/// A lease to take, renew or give back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRequest {
    /// Random.
    pub id: i64,
    /// Whether it is a new lease. Another one that is gone is not taken again, since bills may depend on it.
    pub is_new: bool,
    /// Name of the account.
    pub account: String,
    /// Public id of the key.
    pub key_id: String,
    /// The month of its images.
    pub month: Month,
    /// Images that no bill holds, to give back.
    pub returned: u64,
    /// The most that it should have afterwards. It keeps more where bills hold them.
    pub at_most: u64,
    /// The quotas of account and key.
    pub quota: QuotaCheck,
}

/// Images of a lease that a bill holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseShare {
    /// The lease.
    pub id: i64,
    /// How many.
    pub images: u64,
}

/// How a change altered a lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseChange {
    /// The lease.
    pub id: i64,
    /// Images that were added to it.
    pub granted: u64,
    /// Images that a bill was charged to it.
    pub spent: u64,
    /// Images that it has beyond its share, to give back once no bill holds them.
    pub excess: u64,
}
