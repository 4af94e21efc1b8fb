//! Leased images in memory: how many of them each key has that no bill holds, and which leases to take, renew and give back.
//!
//! A lease is taken once a key is billed, renewed while that goes on, and given back after a while without bills. It
//! has a part of what is left of the quotas, so it shrinks with that. Without a quota no other daemon needs to know of it: such a
//! lease is granted here, and only limits how much stays unbilled when the daemon is killed.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::store::{LEASE, LEASED_IMAGES, LeaseChange, LeaseRequest, LeaseShare, Month, QuotaCheck, lease_target};

/// A lease is used for so much less than it lasts, and counts from before its renewal was sent: the server must not end it
/// before this daemon does.
const MARGIN: Duration = Duration::from_secs(5);

/// A lease is renewed when it has less than this.
const RENEWED_BELOW: Duration = Duration::from_secs(40);

/// How long a key keeps its lease after its last bill.
const IDLE_AFTER: Duration = Duration::from_secs(60);

/// Whose images a lease has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Holder {
    /// Name of the account.
    pub(super) account: String,
    /// Public id of the key.
    pub(super) key_id: String,
    pub(super) month: Month,
}

/// The leases of a daemon: one for each key and month that was billed lately.
#[derive(Debug, Default)]
pub(super) struct Leases(HashMap<Holder, Lease>);

#[derive(Debug)]
struct Lease {
    id: i64,
    /// Whether it was requested from the store before.
    is_requested: bool,
    /// Images that no bill holds.
    images: u64,
    /// Images beyond the lease's share, as the store last counted them.
    excess: u64,
    /// Until when they may be used; `None` before the first grant.
    until: Option<Instant>,
    used_at: Instant,
    /// The quotas of the last bill.
    quota: QuotaCheck,
}

impl Lease {
    fn new(used_at: Instant, quota: QuotaCheck) -> Self {
        Self { id: rand::random(), is_requested: false, images: 0, excess: 0, until: None, used_at, quota }
    }

    /// Another lease in place of one that is gone. Bills keep what they hold of that.
    fn replace(&mut self) {
        *self = Self::new(self.used_at, self.quota);
    }

    fn is_valid(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// Grants a lease without a quota. What bills hold of it comes back, so images are added only once.
    fn grant(&mut self, now: Instant) {
        if self.until.is_none() {
            self.images = LEASED_IMAGES;
        }
        self.until = Some(now + LEASE - MARGIN);
    }

    /// The request for the lease, which has `returned` images less from now on.
    fn request(&mut self, holder: &Holder, returned: u64, at_most: u64) -> LeaseRequest {
        self.images -= returned;
        let is_new = !std::mem::replace(&mut self.is_requested, true);
        let Holder { account, key_id, month } = holder.clone();
        LeaseRequest { id: self.id, is_new, account, key_id, month, returned, at_most, quota: self.quota }
    }
}

impl Leases {
    /// Records a bill, and takes up to `images` for it; also returns until when they may be used.
    pub(super) fn take(
        &mut self,
        holder: Holder,
        images: u64,
        quota: QuotaCheck,
        now: Instant,
    ) -> Option<(LeaseShare, Instant)> {
        let lease = self.0.entry(holder).or_insert_with(|| Lease::new(now, quota));
        if lease.quota.is_unlimited() != quota.is_unlimited() {
            // The store has a row of one with a quota, and none of one without.
            *lease = Lease::new(now, quota);
        }
        (lease.used_at, lease.quota) = (now, quota);
        let until = lease.until.filter(|until| now < *until)?;
        let images = images.min(lease.images);
        lease.images -= images;
        (images > 0).then_some((LeaseShare { id: lease.id, images }, until))
    }

    /// Takes back what a bill held and was not charged.
    pub(super) fn give_back(&mut self, holder: &Holder, share: LeaseShare) {
        if let Some(lease) = self.0.get_mut(holder).filter(|lease| lease.id == share.id) {
            lease.images = lease.images.saturating_add(share.images);
        }
    }

    /// Whether the lease of `holder` has so many images.
    pub(super) fn has_images_of(&self, holder: &Holder, images: u64, now: Instant) -> bool {
        self.0.get(holder).is_some_and(|lease| lease.images >= images && lease.is_valid(now))
    }

    /// Whether any lease has images.
    pub(super) fn has_images(&self, now: Instant) -> bool {
        self.0.values().any(|lease| lease.images > 0 && lease.is_valid(now))
    }

    /// The leases to take, renew and give back now, where `left` has the images that are left of quotas. What they return is
    /// taken from the leases. Those without a quota are renewed at once.
    pub(super) fn requests(
        &mut self,
        now: Instant,
        left: impl Fn(&Holder, QuotaCheck) -> Option<u64>,
    ) -> Vec<LeaseRequest> {
        let mut requests = Vec::new();
        self.0.retain(|holder, lease| {
            if lease.until.is_some() && !lease.is_valid(now) {
                lease.replace();
            }
            let is_idle = now.saturating_duration_since(lease.used_at) >= IDLE_AFTER;
            let is_due = lease.until.is_none_or(|until| until < now + RENEWED_BELOW);
            if lease.quota.is_unlimited() {
                if is_due {
                    lease.grant(now);
                }
                return !is_idle;
            }
            let at_most = if is_idle { 0 } else { lease_target(left(holder, lease.quota)) };
            let returned = lease.images.saturating_sub(at_most).max(lease.excess.min(lease.images));
            if returned > 0 || (is_due && at_most > 0) {
                requests.push(lease.request(holder, returned, at_most));
            }
            !is_idle
        });
        requests
    }

    /// Ends all leases; returns the requests that give them back.
    pub(super) fn end(&mut self) -> Vec<LeaseRequest> {
        let requested = self.0.drain().filter(|(_, lease)| lease.is_requested);
        requested.map(|(holder, mut lease)| lease.request(&holder, lease.images, 0)).collect()
    }

    /// Records the outcome of a request that was sent at `sent`.
    pub(super) fn granted(&mut self, request: &LeaseRequest, changes: &[LeaseChange], sent: Instant) {
        let Some(lease) = self.requested(request) else { return };
        match changes.iter().find(|change| change.id == request.id) {
            Some(change) => {
                lease.images = lease.images.saturating_add(change.granted);
                lease.excess = change.excess;
                lease.until = Some(sent + LEASE - MARGIN);
            }
            None => lease.replace(),
        }
    }

    /// Records that a request did not happen.
    pub(super) fn refused(&mut self, request: &LeaseRequest) {
        if let Some(lease) = self.requested(request) {
            lease.images = lease.images.saturating_add(request.returned);
            lease.is_requested = !request.is_new;
        }
    }

    /// Gives up a lease of which it is not known what it has; it ends by itself.
    pub(super) fn give_up(&mut self, request: &LeaseRequest) {
        if let Some(lease) = self.requested(request) {
            lease.replace();
        }
    }

    /// The lease of a request, unless it was replaced or has ended meanwhile.
    fn requested(&mut self, request: &LeaseRequest) -> Option<&mut Lease> {
        let holder = Holder { account: request.account.clone(), key_id: request.key_id.clone(), month: request.month };
        self.0.get_mut(&holder).filter(|lease| lease.id == request.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder() -> Holder {
        Holder { account: "acme".into(), key_id: "key_1".into(), month: Month(202_611) }
    }

    fn all_left(left: u64) -> impl Fn(&Holder, QuotaCheck) -> Option<u64> {
        move |_, _| Some(left)
    }

    const QUOTA: QuotaCheck = QuotaCheck { plan_images: Some(1000), key_images: None };

    /// A lease of 10 images, and when it was requested.
    fn leased() -> (Leases, Instant) {
        let (mut leases, now) = (Leases::default(), Instant::now());
        assert_eq!(leases.take(holder(), 1, QUOTA, now), None, "the first bill has no lease");
        let requests = leases.requests(now, all_left(100));
        assert_eq!(requests.iter().map(|it| (it.is_new, it.at_most)).collect::<Vec<_>>(), [(true, 10)]);
        let granted = LeaseChange { id: requests[0].id, granted: 10, ..LeaseChange::default() };
        leases.granted(&requests[0], &[granted], now);
        (leases, now)
    }

    fn take(leases: &mut Leases, images: u64, now: Instant) -> u64 {
        leases.take(holder(), images, QUOTA, now).map_or(0, |(share, _)| share.images)
    }

    #[test]
    fn a_lease_is_spent_until_it_is_empty_or_its_time_is_over() {
        let (mut leases, start) = leased();
        assert!(leases.has_images(start));
        assert_eq!([7, 7, 7].map(|images| take(&mut leases, images, start)), [7, 3, 0]);
        assert!(!leases.has_images(start));
        let share = LeaseShare { id: leases.0[&holder()].id, images: 4 };
        leases.give_back(&holder(), share);
        leases.give_back(&holder(), LeaseShare { id: share.id.wrapping_add(1), ..share });
        assert_eq!(take(&mut leases, 1, start + LEASE - MARGIN), 0, "before the server ends it");
        assert_eq!(take(&mut leases, 9, start + LEASE - 2 * MARGIN), 4);
    }

    #[test]
    fn a_lease_is_renewed_in_time_shrinks_with_the_quota_and_is_given_back_when_idle() {
        let (mut leases, start) = leased();
        assert_eq!(leases.requests(start, all_left(100)), []);
        let later = start + LEASE - MARGIN - RENEWED_BELOW + Duration::from_secs(1);
        let requests = leases.requests(later, all_left(100));
        assert_eq!(
            requests.iter().map(|it| (it.is_new, it.returned, it.at_most)).collect::<Vec<_>>(),
            [(false, 0, 10)]
        );
        leases.refused(&requests[0]);
        // Three of ten images are held by a bill.
        assert_eq!(take(&mut leases, 3, later), 3);
        let requests = leases.requests(later, all_left(25));
        assert_eq!(requests.iter().map(|it| (it.returned, it.at_most)).collect::<Vec<_>>(), [(5, 2)]);
        leases.refused(&requests[0]);
        assert_eq!(take(&mut leases, 9, later), 7, "it did not happen");
        leases.give_back(&holder(), LeaseShare { id: requests[0].id, images: 7 });
        let kept = LeaseChange { id: requests[0].id, ..LeaseChange::default() };
        leases.granted(&requests[0], &[kept], later);
        let idle = later + IDLE_AFTER - Duration::from_secs(10);
        assert_eq!(leases.requests(idle, |_, _| None).len(), 1, "renewed, not given back");
        let requests = leases.requests(later + IDLE_AFTER, |_, _| None);
        assert_eq!(requests, [], "its time is over as well");
        assert!(leases.0.is_empty());
    }

    #[test]
    fn what_a_lease_has_beyond_its_share_is_given_back_at_the_next_turn_as_far_as_no_bill_holds_it() {
        let (mut leases, start) = leased();
        let later = start + LEASE - MARGIN - RENEWED_BELOW + Duration::from_secs(1);
        let renewal = leases.requests(later, all_left(100)).remove(0);
        let share = |excess| LeaseChange { id: renewal.id, excess, ..LeaseChange::default() };
        leases.granted(&renewal, &[share(6)], later);
        assert_eq!(take(&mut leases, 7, later), 7);
        let requests = leases.requests(later, all_left(100));
        assert_eq!(requests.iter().map(|it| (it.returned, it.at_most)).collect::<Vec<_>>(), [(3, 10)]);
        leases.granted(&requests[0], &[share(3)], later);
        leases.give_back(&holder(), LeaseShare { id: renewal.id, images: 7 });
        let requests = leases.requests(later, all_left(100));
        assert_eq!(requests.iter().map(|it| it.returned).collect::<Vec<_>>(), [3]);
        leases.granted(&requests[0], &[share(0)], later);
        assert_eq!(leases.requests(later, all_left(100)), []);
        assert_eq!(take(&mut leases, 9, later), 4);
    }

    #[test]
    fn a_lease_without_a_quota_needs_no_request() {
        let (mut leases, start) = (Leases::default(), Instant::now());
        let take =
            |leases: &mut Leases, images, quota, now| leases.take(holder(), images, quota, now).map(|(share, _)| share);
        assert_eq!(take(&mut leases, 1, QuotaCheck::default(), start), None, "the first bill has no lease");
        assert_eq!(leases.requests(start, |_, _| None), []);
        let held = take(&mut leases, 60, QuotaCheck::default(), start).expect("it is granted");
        let later = start + LEASE - MARGIN - Duration::from_secs(1);
        assert_eq!(leases.requests(later, |_, _| None), []);
        let rest = take(&mut leases, 100, QuotaCheck::default(), later + MARGIN).expect("it is renewed");
        assert_eq!(held.images + rest.images, LEASED_IMAGES, "what bills hold counts");
        leases.give_back(&holder(), held);
        assert_eq!(take(&mut leases, 1, QUOTA, later), None, "the store has no row of it");
        assert!(leases.requests(later, all_left(100))[0].is_new);
        assert_eq!(take(&mut leases, 1, QuotaCheck::default(), later), None);
        assert_eq!(leases.requests(later, |_, _| None), []);
        assert_eq!(leases.end(), [], "it needs no request either");
    }

    #[test]
    fn all_leases_are_given_back_at_the_end_but_for_what_bills_hold() {
        let (mut leases, start) = leased();
        assert_eq!(take(&mut leases, 3, start), 3);
        let ended = leases.end();
        assert_eq!(ended.iter().map(|it| (it.is_new, it.returned, it.at_most)).collect::<Vec<_>>(), [(false, 7, 0)]);
        assert!(leases.0.is_empty());
    }

    #[test]
    fn an_idle_lease_is_given_back() {
        let (mut leases, start) = leased();
        let id = leases.0[&holder()].id;
        leases.0.get_mut(&holder()).expect("it is leased").until = Some(start + 2 * LEASE);
        let requests = leases.requests(start + IDLE_AFTER, |_, _| None);
        assert_eq!(requests.iter().map(|it| (it.id, it.returned, it.at_most)).collect::<Vec<_>>(), [(id, 10, 0)]);
        assert!(leases.0.is_empty());
    }

    #[test]
    fn a_lease_that_is_gone_or_in_doubt_is_replaced_by_a_new_one() {
        for is_gone in [true, false] {
            let (mut leases, start) = leased();
            let later = start + LEASE - MARGIN - Duration::from_secs(1);
            let requests = leases.requests(later, all_left(100));
            if is_gone {
                leases.granted(&requests[0], &[], later);
            } else {
                leases.give_up(&requests[0]);
            }
            assert_eq!(take(&mut leases, 1, later), 0);
            let again = leases.requests(later, all_left(100));
            assert!(again[0].is_new && again[0].id != requests[0].id);
        }
        // Ended while the database was away.
        let (mut leases, start) = leased();
        take(&mut leases, 1, start + LEASE);
        let again = leases.requests(start + LEASE, all_left(100));
        assert!(again[0].is_new && again[0].returned == 0);
    }
}
