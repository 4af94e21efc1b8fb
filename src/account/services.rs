//! The account services on one store, and their periodic maintenance.

use std::sync::Arc;
use std::time::Duration;

use super::store_write::{WriteError, write_change};
use super::{BackdropQuota, Billing, IdempotencyKeys, Keys, Presets};
use crate::store::{Change, Day, KEY_DAYS_KEPT, OpenError, Rows, StateStore, UnixSeconds};

/// How often the last use of keys is written.
const USES_EVERY: Duration = Duration::from_secs(10);

/// How often old requests are dropped, in multiples of [`USES_EVERY`]: once an hour.
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
        let Rows { accounts, keys, usage, key_days, requests, presets: _, jobs: _, generated } = store.load()?;
        Ok(Self {
            keys: Keys::new(Arc::clone(&store), Rows { accounts, keys, ..Rows::default() }),
            billing: Billing::new(Arc::clone(&store), usage, key_days, free_images_per_month),
            idempotency: IdempotencyKeys::new(Arc::clone(&store), requests),
            presets: Presets::new(Arc::clone(&store)),
            backdrop_quota: BackdropQuota::new(Arc::clone(&store), generated.unwrap_or_default()),
            store,
        })
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

    /// Writes the last use of keys every ten seconds, drops old requests every hour and old usage by key once a day, until
    /// it is dropped. Run it beside the daemon, and [`Keys::write_uses`] once more at its end.
    pub async fn run_maintenance(&self) {
        let mut turns = 0;
        let mut cleaned_on = None;
        loop {
            tokio::time::sleep(USES_EVERY).await;
            if let Err(error) = self.keys.write_uses().await {
                tracing::warn!(%error, "could not write when keys were last used");
            }
            turns = (turns + 1) % TURNS_PER_CLEANUP;
            if turns == 0
                && let Err(error) = self.idempotency.drop_old(UnixSeconds::now()).await
            {
                tracing::warn!(%error, "could not drop old requests");
            }
            let now = UnixSeconds::now();
            if turns == 0 && cleaned_on != Some(Day::of(now)) {
                match self.drop_old_key_days(now).await {
                    Ok(()) => cleaned_on = Some(Day::of(now)),
                    Err(error) => tracing::warn!(%error, "could not drop the old usage of keys"),
                }
            }
        }
    }
}
