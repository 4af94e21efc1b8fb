//! The engine of one machine: the file with copies in memory of accounts, keys and usage.
//!
//! Reads are served from memory in microseconds. A change goes to the file first, to memory after its commit, on the
//! file's thread and in commit order, and is then acknowledged, even if its caller disconnects: the copies equal the file,
//! and a revoked key is refused from the acknowledgement on.
//!
//! Quotas are checked against billed plus reserved images under one lock, so that concurrent requests never exceed them.
//! Reservations of requests end with the process; reservations of unfinished jobs are loaded from their records.

mod claims;
mod counters;
mod key_cache;
mod rate_limit;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::admission::id_without_key;
use super::quota::{QuotaKind, plan_quota, require};
use super::storage_fault::Fault;
use super::tables::Reading;
use super::{
    Admission, Admitted, Change, ChangeError, ClaimedJob, Credential, ImagesLeft, Job, JobChange, JobHeartbeat,
    JobState, Month, OpenError, RateKind, RateRule, RateStatus, Renewal, Rows, StateStore, UnixSeconds, Usage,
};

use claims::Claims;
pub(super) use claims::MemoryClaim;
use counters::{Counters, Of};
use key_cache::KeyCache;
use rate_limit::RateLimiter;
#[cfg(test)]
pub(crate) use tests::memory_store::{CommitMode, MemoryStore};

/// Keys whose last use is written in one change.
const USES_PER_CHANGE: usize = 500;

/// How long a change waits for a file that cannot be used, before its caller gets an error of unknown outcome.
const OUTCOME_TIMEOUT: Duration = Duration::from_millis(if cfg!(test) { 20 } else { 30_000 });

/// A file with its copies in memory. Clones share them.
#[derive(Clone, Debug)]
pub struct LocalStore(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    file: Arc<dyn StateStore>,
    free_images_per_month: u64,
    keys: RwLock<KeyCache>,
    counters: Mutex<Counters>,
    claims: Claims,
    /// By [`RateKind`].
    rates: [RateLimiter; 2],
}

impl LocalStore {
    /// Loads what lives in memory. Blocks; meant for start-up.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(super) fn load(
        file: Arc<dyn StateStore>,
        free_images_per_month: u64,
        now: UnixSeconds,
    ) -> Result<Self, OpenError> {
        let rows = file.file().load_at(now)?;
        let local = Self(Arc::new(Shared {
            file,
            free_images_per_month,
            keys: RwLock::default(),
            counters: Mutex::default(),
            claims: Claims::default(),
            rates: Default::default(),
        }));
        local.copy(&rows);
        Ok(local)
    }

    pub(super) fn free_images_per_month(&self) -> u64 {
        self.0.free_images_per_month
    }

    pub(super) fn fault(&self) -> Option<String> {
        self.0.file.fault()
    }

    /// Admits a caller, and counts the call.
    pub(super) fn admit(&self, credential: Credential<'_>, rule: &RateRule) -> Admission {
        let now = UnixSeconds::now();
        let keys = self.key_cache();
        let (account, key) = match credential {
            Credential::Key(hash) => match keys.authenticate(&hash, now) {
                Ok((account, key)) => (account.clone(), Some(key.clone())),
                Err(refused) => return refused,
            },
            Credential::Account(name) => match keys.account(name) {
                Some(account) => (account.clone(), None),
                None => return Admission::Unknown,
            },
        };
        drop(keys);
        let plan = plan_quota(account.plan, self.0.free_images_per_month);
        let quota = ImagesLeft { plan, key: key.as_ref().and_then(|key| key.images_per_month) };
        let key_id = key.as_ref().map(|key| key.id.as_str());
        let left = left(&self.counters(), (&account.name, key_id, Month::of(now)), quota);
        let counted = key_id.map_or_else(|| id_without_key(&account.name), str::to_owned);
        let rate = self.rates(rule.kind).check(&counted, rule.limit(account.plan), Instant::now());
        Admission::Admitted(Box::new(Admitted { account, key, rate, left }))
    }

    /// Counts `more` calls of a key, also beyond its limit.
    pub(super) fn count_work(&self, key_id: &str, more: u32) {
        self.rates(RateKind::Calls).count_work(key_id, more, Instant::now());
    }

    pub(super) fn rate(&self, key_id: &str, limit: u32) -> RateStatus {
        self.rates(RateKind::Calls).status(key_id, limit, Instant::now())
    }

    pub(super) fn drop_idle_rates(&self) {
        self.0.rates.iter().for_each(|rates| rates.drop_idle(Instant::now()));
    }

    fn rates(&self, kind: RateKind) -> &RateLimiter {
        &self.0.rates[kind as usize]
    }

    pub(super) fn billed(&self, account: &str, month: Month) -> Usage {
        self.counters().billed(account, month)
    }

    /// Reserves images, if they are left of the quotas.
    pub(super) fn reserve(&self, of: Of<'_>, images: u64, quota: ImagesLeft) -> Result<(), QuotaKind> {
        let mut counters = self.counters();
        require(left(&counters, of, quota), images)?;
        counters.reserve(of, images);
        Ok(())
    }

    /// Copies what a bill wrote and releases reserved images, under one lock, so that no image is counted twice or not at all.
    pub(super) fn finalize(&self, rows: &Rows, of: Of<'_>, reserved: u64) {
        let mut counters = self.counters();
        counters.copy(rows);
        counters.release(of, reserved);
    }

    /// Makes a change and copies its rows.
    pub(super) async fn change(&self, change: Change) -> Result<Rows, ChangeError> {
        let local = self.clone();
        self.write(change, move |rows| local.copy(rows)).await
    }

    /// Makes a change, durable when this returns. `committed` copies its rows, in commit order and also when this future is
    /// dropped, or has returned [`ChangeError::Storage`]; it runs on the file's thread and must be short. It is dropped without
    /// a call when the change does not happen.
    pub(super) async fn write(
        &self,
        change: Change,
        committed: impl FnOnce(&Rows) + Send + 'static,
    ) -> Result<Rows, ChangeError> {
        let (reply, mut answer) = oneshot::channel();
        let done = move |result: Result<Rows, ChangeError>| {
            match &result {
                Ok(rows) => committed(rows),
                // Before the reply: what the closure holds is released when the caller continues.
                Err(_) => drop(committed),
            }
            // The caller may be gone; the change happened all the same.
            drop(reply.send(result));
        };
        self.0.file.submit(change, Box::new(done));
        loop {
            match timeout(OUTCOME_TIMEOUT, &mut answer).await {
                Ok(answer) => return answer.map_err(|_| ChangeError::Closed)?,
                // The disk is slow: the change will be made.
                Err(_) if self.0.file.fault().is_none() => {}
                Err(_) => {
                    return Err(ChangeError::Storage("the disk does not say whether it was written".into()));
                }
            }
        }
    }

    fn copy(&self, rows: &Rows) {
        if !rows.accounts.is_empty() || !rows.keys.is_empty() {
            self.0.keys.write().unwrap_or_else(PoisonError::into_inner).apply(rows);
        }
        self.counters().copy(rows);
    }

    /// Reads the file on a thread for blocking work.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Reading<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, OpenError> {
        let file = Arc::clone(&self.0.file);
        // It only fails when the reading panics, or the runtime ends.
        let outcome = tokio::task::spawn_blocking(move || file.file().read(read)).await;
        let failed = |error| OpenError::Io { path: PathBuf::from("the store"), source: std::io::Error::other(error) };
        outcome.map_err(failed)?
    }

    /// Adds a job whose images are counted as reserved, for it from now on.
    pub(super) async fn create_job(&self, job: &Job, at_most: usize) -> Result<(), ChangeError> {
        // Entered before: the runner may start it at once.
        self.counters().take_over(job);
        let created = self.change(Change::CreateJob { job: Box::new(job.clone()), at_most }).await;
        if created.is_err() {
            // The caller still has the reservation.
            self.counters().jobs.remove(&job.id);
        }
        created.map(drop)
    }

    /// Starts the next unfinished job, none of `running`.
    pub(super) async fn claim_job(
        &self,
        at: UnixSeconds,
        running: &[String],
    ) -> Result<Option<ClaimedJob>, ChangeError> {
        loop {
            let running = running.to_vec();
            let next = self.read(move |tables| tables.jobs.next(tables.meta.last_turn()?, &running)).await?;
            let Some(job) = next else { return Ok(None) };
            // Its start was recorded, and reported as failed.
            if job.state == JobState::Processing {
                return Ok(Some(ClaimedJob { job, attempt: 0 }));
            }
            match self.change(Change::Job { id: job.id, attempt: None, change: JobChange::Start { at } }).await {
                Ok(rows) => return Ok(rows.jobs.into_iter().next().map(|job| ClaimedJob { job, attempt: 0 })),
                // Cancelled meanwhile.
                Err(ChangeError::JobState { .. } | ChangeError::NoSuchJob(_)) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// How many jobs have not ended.
    pub(super) fn unfinished_jobs(&self) -> usize {
        self.counters().jobs.len()
    }

    /// Which running jobs have ended meanwhile.
    pub(super) fn renew_jobs(&self, running: &[JobHeartbeat]) -> Vec<Renewal> {
        let counters = self.counters();
        let is_unfinished = |job: &JobHeartbeat| counters.jobs.contains_key(&job.id);
        running.iter().map(|job| if is_unfinished(job) { Renewal::Kept } else { Renewal::Ended }).collect()
    }

    /// Writes the last use of keys that were used since the previous call.
    pub(super) async fn write_uses(&self) -> Result<(), ChangeError> {
        loop {
            let used = self.key_cache().take_used(USES_PER_CHANGE);
            let is_last = used.len() < USES_PER_CHANGE;
            if !used.is_empty() {
                self.change(Change::TouchKeys { used }).await?;
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// Held for a few sums, never across an await. No sum panics, so poison is no reason to stop.
    fn counters(&self) -> MutexGuard<'_, Counters> {
        self.0.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Held for a look-up, never across an await. A panic under the lock leaves whole rows, so poison is no reason to stop.
    pub(super) fn key_cache(&self) -> RwLockReadGuard<'_, KeyCache> {
        self.0.keys.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What plan and key have left of their quotas, reservations counted; `None` for no quota.
fn left(counters: &Counters, (account, key_id, month): Of<'_>, quota: ImagesLeft) -> ImagesLeft {
    let key_total = key_id.map_or(0, |id| counters.key_total(id, month));
    ImagesLeft {
        plan: quota.plan.map(|quota| quota.saturating_sub(counters.account_total(account, month))),
        key: quota.key.map(|quota| quota.saturating_sub(key_total)),
    }
}
