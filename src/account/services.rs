//! The account services on one store, and their periodic maintenance.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::rate_limit::RateLimits;
use super::store_write::{WriteError, write_change};
use super::{BackdropQuota, Billing, IdempotencyKeys, Keys, Presets};
use crate::store::{Change, Day, KEY_DAYS_KEPT, OpenError, Rows, StateStore, UnixSeconds};
use crate::telemetry::with_causes;

/// How often the last use of keys is written.
const USES_EVERY: Duration = Duration::from_secs(10);

/// How often calls are exchanged with other daemons.
const CALLS_EVERY: Duration = Duration::from_millis(500);

/// How often old requests are dropped, in multiples of [`USES_EVERY`]: once an hour, beginning with the first turn.
const TURNS_PER_CLEANUP: u32 = 360;

/// Everything about accounts. Clones share one state.
#[derive(Clone, Debug)]
pub struct Services {
    /// Authentication, accounts and keys.
    pub keys: Keys,
    /// Quotas and bills.
    pub billing: Billing,
    /// Requests under an `Idempotency-Key`.
    pub idempotency: IdempotencyKeys,
    /// Saved parameters.
    pub presets: Presets,
    /// The daily quota of generated backdrops.
    pub backdrop_quota: BackdropQuota,
    /// The rate limits of keys.
    pub rate_limits: RateLimits,
    /// The store behind all of them.
    pub store: Arc<dyn StateStore>,
}

impl Services {
    /// Loads what lives in memory from the store. Blocks; meant for start-up.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn load(store: impl StateStore, free_images_per_month: u64) -> Result<Self, OpenError> {
        Self::load_shared(Arc::new(store), free_images_per_month)
    }

    /// As [`Self::load`], from a store of whatever kind.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_shared(store: Arc<dyn StateStore>, free_images_per_month: u64) -> Result<Self, OpenError> {
        let Rows {
            accounts,
            keys,
            usage,
            key_days,
            requests,
            presets: _,
            leases: _,
            jobs: _,
            generated,
            forgotten_requests: _,
        } = store.load()?;
        let services = Self {
            keys: Keys::new(Arc::clone(&store), Rows { accounts, keys, ..Rows::default() }),
            billing: Billing::new(Arc::clone(&store), usage, key_days, free_images_per_month),
            idempotency: IdempotencyKeys::new(Arc::clone(&store), requests),
            presets: Presets::new(Arc::clone(&store)),
            backdrop_quota: BackdropQuota::new(Arc::clone(&store), generated.unwrap_or_default()),
            rate_limits: if store.is_shared() { RateLimits::exchanged() } else { RateLimits::default() },
            store,
        };
        services.follow();
        Ok(services)
    }

    /// Copies commits that no callback of an own change got: those of other processes, and own ones whose outcome was known late.
    fn follow(&self) {
        let Self { keys, billing, idempotency, backdrop_quota, .. } = self;
        // Weak: the store holds the follower, and they hold the store.
        let copies = (keys.downgrade(), billing.downgrade(), idempotency.downgrade(), backdrop_quota.downgrade());
        self.store.follow(Box::new(move |rows| {
            let (keys, billing, idempotency, backdrop_quota) = &copies;
            keys.copy(rows);
            billing.copy(rows);
            idempotency.copy(rows);
            backdrop_quota.copy(rows);
        }));
    }

    /// Exchanges counted calls with the other daemons, several times a second, until it is dropped. Ends at once on a store of
    /// one process.
    pub async fn exchange_calls(&self) {
        let mut is_away = false;
        while self.store.is_shared() {
            tokio::time::sleep(CALLS_EVERY).await;
            let own = self.rate_limits.calls.take_unpublished();
            let store = Arc::clone(&self.store);
            let others = match tokio::task::spawn_blocking(move || store.exchange_calls(&own)).await {
                Ok(Ok(others)) => others,
                Ok(Err(error)) => {
                    // Limits are per daemon meanwhile. The store itself reports that the database is away.
                    if !std::mem::replace(&mut is_away, true) {
                        tracing::warn!(error = with_causes(&error), "calls cannot be exchanged with other daemons");
                    }
                    continue;
                }
                // It panicked, or the runtime ends.
                Err(_) => return,
            };
            is_away = false;
            self.rate_limits.calls.count_others(&others, Instant::now());
        }
    }

    /// Drops usage by key and day that is older than [`KEY_DAYS_KEPT`].
    ///
    /// # Errors
    /// When the store cannot write.
    pub async fn drop_old_key_days(&self, now: UnixSeconds) -> Result<(), WriteError> {
        let before = Day::of(now).before(KEY_DAYS_KEPT);
        write_change(&*self.store, Change::ForgetKeyDays { before }, |_| ()).await?;
        Ok(())
    }

    /// Writes the last use of keys every ten seconds, drops old requests every hour and old usage by key once a day, both for
    /// the first time after ten seconds, until it is dropped. Run it beside the daemon, and [`Keys::write_uses`] once more at
    /// its end.
    pub async fn run_maintenance(&self) {
        let mut done = Maintained::default();
        loop {
            tokio::time::sleep(USES_EVERY).await;
            self.maintain(&mut done, UnixSeconds::now()).await;
        }
    }

    /// One turn of [`Self::run_maintenance`].
    async fn maintain(&self, done: &mut Maintained, now: UnixSeconds) {
        if let Err(error) = self.keys.write_uses().await {
            tracing::warn!(%error, "could not write when keys were last used");
        }
        // From the first turn on: a daemon may never run for an hour.
        let is_cleanup_due = done.turns.is_multiple_of(TURNS_PER_CLEANUP);
        done.turns += 1;
        if !is_cleanup_due {
            return;
        }
        if let Err(error) = self.idempotency.drop_old(now).await {
            tracing::warn!(%error, "could not drop old requests");
        }
        if done.cleaned_on != Some(Day::of(now)) {
            match self.drop_old_key_days(now).await {
                Ok(()) => done.cleaned_on = Some(Day::of(now)),
                Err(error) => tracing::warn!(%error, "could not drop the old usage of keys"),
            }
        }
    }
}

/// What [`Services::run_maintenance`] has done.
#[derive(Debug, Default)]
struct Maintained {
    turns: u32,
    /// The day on which the old usage of keys was last dropped.
    cleaned_on: Option<Day>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::memory_store::MemoryStore;
    use crate::store::{Bill, KeyUse, Month, Request};

    #[tokio::test]
    async fn the_first_turn_of_maintenance_drops_what_is_old_and_the_next_one_does_not() {
        let store = MemoryStore::default();
        let services = Services::load(store.clone(), 50).expect("it loads");
        let mut done = Maintained::default();
        for left in [0, 1] {
            let at = UnixSeconds(1);
            let request = Request { fingerprint: [1; 32], images: 1, at, pictures: Vec::new() };
            let bill = Change::Bill(Bill {
                account: "a".into(),
                month: Month::of(at),
                images: 1,
                microdollars: 0,
                request: Some(("k".into(), request)),
                by: Some(KeyUse { key_id: "key_1".into(), day: Day::of(at), milliseconds: 0 }),
                check: None,
            });
            write_change(&store, bill, |_| ()).await.expect("it writes");
            services.maintain(&mut done, UnixSeconds::now()).await;
            assert_eq!((store.requests(), store.load().expect("it reads").key_days.len()), (left, left));
        }
    }
}
