//! All account services on one store.

use std::sync::Arc;
use std::time::Duration;

use super::write::{WriteError, write};
use super::{Daily, Keys, Ledger, Presets, Requests};
use crate::store::{Change, Day, KEY_DAYS_KEPT, OpenError, Rows, StateStore, UnixSeconds};

/// How often the last uses of keys are written.
const USES_EVERY: Duration = Duration::from_secs(10);

/// How often old requests are forgotten, in turns of [`USES_EVERY`]: once an hour.
const TURNS_TO_FORGET: u32 = 360;

/// Everything about accounts. Clones share one state.
#[derive(Clone, Debug)]
pub struct Services {
    /// Who a caller is.
    pub keys: Keys,
    /// Quota and billing.
    pub ledger: Ledger,
    /// Requests that may come again.
    pub requests: Requests,
    /// Saved parameters.
    pub presets: Presets,
    /// The backdrops of the day.
    pub daily: Daily,
    /// What all of them stand on.
    pub store: Arc<dyn StateStore>,
}

impl Services {
    /// Loads what lives in memory from the store. Blocks; meant for start-up.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn load(store: impl StateStore, free_images_per_month: u64) -> Result<Self, OpenError> {
        let Rows { accounts, keys, usage, key_days, requests, presets: _, jobs: _, generated } = store.load()?;
        let store: Arc<dyn StateStore> = Arc::new(store);
        Ok(Self {
            keys: Keys::new(Arc::clone(&store), Rows { accounts, keys, ..Rows::default() }),
            ledger: Ledger::new(Arc::clone(&store), usage, key_days, free_images_per_month),
            requests: Requests::new(Arc::clone(&store), requests),
            presets: Presets::new(Arc::clone(&store)),
            daily: Daily::new(Arc::clone(&store), generated.unwrap_or_default()),
            store,
        })
    }

    /// Drops the use by key and day that is older than 400 days.
    ///
    /// # Errors
    /// When the store cannot write.
    pub async fn forget_key_days(&self, now: UnixSeconds) -> Result<(), WriteError> {
        let before = Day::of(now).before(KEY_DAYS_KEPT);
        write(&*self.store, Change::ForgetKeyDays { before }, |_| ()).await?;
        Ok(())
    }

    /// Writes the last uses of keys every ten seconds, forgets old requests every hour and old use by key once a day,
    /// until it is dropped. Run it
    /// beside the daemon, and [`Keys::write_uses`] once more when that ends.
    pub async fn tend(&self) {
        let mut turns = 0;
        let mut forgotten_on = None;
        loop {
            tokio::time::sleep(USES_EVERY).await;
            if let Err(error) = self.keys.write_uses().await {
                tracing::warn!(%error, "could not write when keys were last used");
            }
            turns = (turns + 1) % TURNS_TO_FORGET;
            if turns == 0
                && let Err(error) = self.requests.forget(UnixSeconds::now()).await
            {
                tracing::warn!(%error, "could not forget old requests");
            }
            let now = UnixSeconds::now();
            if turns == 0 && forgotten_on != Some(Day::of(now)) {
                match self.forget_key_days(now).await {
                    Ok(()) => forgotten_on = Some(Day::of(now)),
                    Err(error) => tracing::warn!(%error, "could not forget the old use of keys"),
                }
            }
        }
    }
}
