//! Quotas in the transaction of a change: refuses images beyond one, and leases a share of what is left.

use super::image_lease::{LEASED_IMAGES, LeaseChange, LeaseRequest, LeaseShare, shared_target};
use super::storage_fault::ApplyError;
use super::write_tables::{BillTables, ImagesInMonth, WriteTables};
use super::{ChangeError, Month, QuotaCheck};

/// Refuses images beyond a quota, those counted that unfinished jobs reserve and that daemons lease. Where only a lease is
/// in the way, images of the caller's own one are used, as far as `share` goes; returns what that lost.
pub(super) fn check_quota(
    tables: &mut dyn BillTables,
    (account, key_id, month): (&str, Option<&str>, Month),
    images: u64,
    quota: QuotaCheck,
    share: Option<LeaseShare>,
) -> Result<Option<LeaseChange>, ApplyError> {
    if images == 0 || quota.is_unlimited() {
        return Ok(None);
    }
    let is_short = |used: ImagesInMonth| used.leased > 0 && used.excess(images, quota).is_some();
    let used = current_images(tables, (account, key_id, month), is_short)?;
    let Some(excess) = used.excess(images, quota) else { return Ok(None) };
    if let Some(LeaseShare { id, images }) = share
        && excess.images <= images
        && tables.spend_lease(id, excess.images)?
    {
        return Ok(Some(LeaseChange { id, spent: excess.images, ..LeaseChange::default() }));
    }
    match used.without_leases().excess(images, quota) {
        Some(Excess { of_key, .. }) => Err(ChangeError::QuotaExceeded { of_key }.into()),
        // They may be given back unused, so the quota is not exhausted.
        None => Err(ChangeError::Unavailable("other daemons lease the last images of this month".into()).into()),
    }
}

/// Takes, renews or gives back a lease; `None` where it is gone.
pub(super) fn lease_images(
    tables: &mut dyn WriteTables,
    request: &LeaseRequest,
) -> Result<Option<LeaseChange>, ApplyError> {
    let LeaseRequest { id, is_new, ref account, ref key_id, month, returned, at_most, quota } = *request;
    let held = tables.leased_images(id)?;
    if held.is_none() && (!is_new || !tables.has_account(account)?) {
        return Ok(None);
    }
    let held = held.unwrap_or(0);
    let kept = held.saturating_sub(returned);
    let is_short = |used: ImagesInMonth| used.leased > held && used.lease_target(held, quota) < at_most;
    let used = current_images(tables, (account, Some(key_id), month), is_short)?;
    let target = used.lease_target(held, quota).min(at_most);
    let images = kept.max(target);
    tables.put_lease(request, images)?;
    Ok(Some(LeaseChange { id, granted: images - kept, spent: 0, excess: images - target }))
}

/// The images of a month; where they are short because of leases, without those whose time is over.
fn current_images(
    tables: &mut dyn BillTables,
    (account, key_id, month): (&str, Option<&str>, Month),
    is_short: impl FnOnce(ImagesInMonth) -> bool,
) -> Result<ImagesInMonth, ApplyError> {
    let used = tables.images_in_month(account, key_id, month)?;
    if !is_short(used) {
        return Ok(used);
    }
    tables.drop_ended_leases()?;
    Ok(tables.images_in_month(account, key_id, month)?)
}

/// Images beyond a quota.
#[derive(Clone, Copy, Debug)]
struct Excess {
    /// Of the quota that lacks the most.
    images: u64,
    /// Whether only the key's quota is exceeded.
    of_key: bool,
}

impl ImagesInMonth {
    fn of_account(self) -> u64 {
        self.account.saturating_add(self.leased)
    }

    fn of_key(self) -> u64 {
        self.key.saturating_add(self.leased_by_key)
    }

    fn without_leases(self) -> Self {
        Self { leased: 0, leased_by_key: 0, ..self }
    }

    fn excess(self, more: u64, quota: QuotaCheck) -> Option<Excess> {
        let beyond =
            |used: u64, quota: Option<u64>| quota.map_or(0, |quota| used.saturating_add(more).saturating_sub(quota));
        let account = beyond(self.of_account(), quota.plan_images);
        let images = account.max(beyond(self.of_key(), quota.key_images));
        (images > 0).then_some(Excess { images, of_key: account == 0 })
    }

    /// Images that a lease of the key should have which has `held`: the smaller share of the two quotas.
    fn lease_target(self, held: u64, quota: QuotaCheck) -> u64 {
        let share =
            |quota: u64, used: u64, leased: u64| shared_target(quota.saturating_sub(used), leased.saturating_sub(held));
        let plan = quota.plan_images.map(|quota| share(quota, self.account, self.leased));
        let key = quota.key_images.map(|quota| share(quota, self.key, self.leased_by_key));
        plan.into_iter().chain(key).min().unwrap_or(LEASED_IMAGES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excess_counts_leases_and_names_the_key_only_where_the_plan_has_room() {
        let used = ImagesInMonth { account: 40, key: 10, leased: 5, leased_by_key: 3 };
        let quota = |plan_images, key_images| QuotaCheck { plan_images, key_images };
        let excess = |more, quota| used.excess(more, quota).map(|Excess { images, of_key }| (images, of_key));
        assert_eq!(excess(5, quota(Some(50), None)), None);
        assert_eq!(excess(6, quota(Some(50), None)), Some((1, false)));
        assert_eq!(excess(6, quota(Some(50), Some(15))), Some((4, false)));
        assert_eq!(excess(3, quota(Some(50), Some(15))), Some((1, true)));
        assert_eq!(excess(u64::MAX, quota(None, None)), None);
        assert_eq!(used.without_leases().excess(10, quota(Some(50), Some(20))).map(|excess| excess.images), None);
    }

    #[test]
    fn a_lease_has_a_tenth_of_what_is_left_and_all_leases_a_quarter_of_what_is_unused() {
        let target = |quota: Option<u64>, leased, held| {
            let used = ImagesInMonth { account: 100, key: 0, leased, leased_by_key: 0 };
            used.lease_target(held, QuotaCheck { plan_images: quota, key_images: None })
        };
        assert_eq!(target(None, 0, 0), LEASED_IMAGES);
        assert_eq!(target(Some(1_000_000), 0, 0), LEASED_IMAGES);
        assert_eq!(target(Some(300), 0, 0), 20);
        assert_eq!(target(Some(300), 20, 20), 20, "its own images are no others'");
        assert_eq!(target(Some(300), 20, 0), 18);
        assert_eq!(target(Some(300), 38, 0), 12, "of 50 for all leases");
        assert_eq!(target(Some(300), 50, 12), 12);
        assert_eq!(target(Some(300), 50, 0), 0);
        assert_eq!(target(Some(200), 50, 12), 0, "others have more than their share");
        assert_eq!(target(Some(50), 10, 10), 0, "more is used than the quota has");
        let used = ImagesInMonth { account: 100, key: 60, leased: 0, leased_by_key: 0 };
        let quota = QuotaCheck { plan_images: Some(300), key_images: Some(100) };
        assert_eq!(used.lease_target(0, quota), 4, "of the key's quota, which has less left");
    }
}
