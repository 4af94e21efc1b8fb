//! The interface between accounts, jobs and the engine of the state, with its two implementations: the file of one machine,
//! and a database.
//!
//! A request is admitted ([`Store::admit`]), may claim its `Idempotency-Key` (`claim.rs`), and is billed (`billing.rs`). On a
//! database each of these is one round trip, and nothing is held in memory in between.

use std::sync::Arc;
use std::time::Duration;

use super::local::LocalStore;
use super::postgres::Database;
use super::{
    Account, Admission, Change, ChangeError, ClaimedJob, Credential, Day, Job, JobChange, JobHeartbeat, KEY_DAYS_KEPT,
    Key, KeyDay, KeyHash, LookupBy, OpenError, Preset, REQUEST_SECONDS, RateRule, RateStatus, Renewal, Rows,
    StateStore, UnixSeconds,
};
use crate::telemetry::with_causes;

/// How often the last use of keys is written to a file.
const USES_WRITTEN_EVERY: Duration = Duration::from_secs(10);

/// How often a database is queried whether it answers, so that `/readyz` reports an outage while there are no requests.
const TESTED_EVERY: Duration = Duration::from_secs(1);

/// How often old rows are dropped. The first time is the start, because a daemon may run for less than this.
const CLEANED_EVERY: Duration = Duration::from_secs(3600);

/// Requests that are dropped in one change, for which the bills of a file wait.
const DROPPED_PER_CHANGE: usize = 5000;

/// A store. Clones share it.
#[derive(Clone, Debug)]
pub enum Store {
    /// A file, with copies in memory.
    File(LocalStore),
    /// A PostgreSQL database, of which nothing is held in memory.
    Database(Database),
}

impl Store {
    /// A file with what lives in memory. Blocks; meant for start-up. `free_images_per_month` is the quota of the free plan.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn file(file: impl StateStore, free_images_per_month: u64) -> Result<Self, OpenError> {
        LocalStore::load(Arc::new(file), free_images_per_month, UnixSeconds::now()).map(Self::File)
    }

    /// Whether daemons on other machines use it too.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        matches!(self, Self::Database(_))
    }

    /// Why it cannot be used at present; `None` while it works.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        match self {
            Self::File(local) => local.fault(),
            Self::Database(database) => database.fault(),
        }
    }

    /// Admits a caller: finds key and account, counts the call, and reads what is left of the quotas.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub async fn admit(&self, credential: Credential<'_>, rule: &RateRule) -> Result<Admission, OpenError> {
        match self {
            Self::File(local) => Ok(local.admit(credential, rule)),
            Self::Database(database) => database.admit(credential, rule).await,
        }
    }

    /// Counts `more` calls of a key, also beyond its limit, for the work of a call that was admitted.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub async fn count_work(&self, key_id: &str, more: u32) -> Result<(), OpenError> {
        match self {
            _ if more == 0 => Ok(()),
            Self::File(local) => {
                local.count_work(key_id, more);
                Ok(())
            }
            Self::Database(database) => database.count_work(key_id, more).await,
        }
    }

    /// The rate of a key's requests; no call is counted.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub async fn rate(&self, key_id: &str, limit: u32) -> Result<RateStatus, OpenError> {
        match self {
            Self::File(local) => Ok(local.rate(key_id, limit)),
            Self::Database(database) => database.rate(key_id, limit).await,
        }
    }

    /// Makes a change. It is durable when this returns.
    ///
    /// Once polled the change is in progress, and is not lost when this is dropped.
    ///
    /// # Errors
    /// When it did not happen. After [`ChangeError::Interrupted`](super::ChangeError::Interrupted) or
    /// [`ChangeError::Storage`](super::ChangeError::Storage) it may have happened.
    pub async fn change(&self, change: Change) -> Result<Rows, ChangeError> {
        match self {
            Self::File(local) => local.change(change).await,
            Self::Database(database) => {
                let database = database.clone();
                let changing = tokio::spawn(async move { database.change(change).await });
                changing.await.unwrap_or(Err(ChangeError::Closed))
            }
        }
    }

    /// One account.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn account(&self, name: &str) -> Result<Option<Account>, OpenError> {
        match self {
            Self::File(local) => Ok(local.key_cache().account(name).cloned()),
            Self::Database(database) => database.account(name).await,
        }
    }

    /// All accounts by name.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn accounts(&self) -> Result<Vec<Account>, OpenError> {
        match self {
            Self::File(local) => Ok(local.key_cache().accounts()),
            Self::Database(database) => database.accounts().await,
        }
    }

    /// One key by its public id, with the hash of its newest token.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn key(&self, id: &str) -> Result<Option<(KeyHash, Key)>, OpenError> {
        match self {
            Self::File(local) => Ok(local.key_cache().locate(id).map(|(hash, key)| (hash, key.clone()))),
            Self::Database(database) => database.key(id).await,
        }
    }

    /// The keys of one account or of all, oldest first, revoked ones included.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn keys(&self, account: Option<&str>) -> Result<Vec<Key>, OpenError> {
        match self {
            Self::File(local) => Ok(local.key_cache().keys(account)),
            Self::Database(database) => database.keys(account).await,
        }
    }

    /// One preset by its id or its name, tried as `first` first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn preset(&self, account: &str, id_or_name: &str, first: LookupBy) -> Result<Option<Preset>, OpenError> {
        match self {
            Self::File(local) => {
                let (account, id_or_name) = (account.to_owned(), id_or_name.to_owned());
                local.read(move |tables| tables.presets.find(&account, &id_or_name, first)).await
            }
            Self::Database(database) => database.preset(account, id_or_name, first).await,
        }
    }

    /// Up to `limit` presets of an account by id, those after the id `after` or from the first one on.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn presets(&self, account: &str, after: Option<&str>, limit: usize) -> Result<Vec<Preset>, OpenError> {
        match self {
            Self::File(local) => {
                let (account, after) = (account.to_owned(), after.map(str::to_owned));
                local.read(move |tables| tables.presets.page(&account, after.as_deref(), limit)).await
            }
            Self::Database(database) => database.presets(account, after, limit).await,
        }
    }

    /// Usage of an account's keys on the days from `from` to `to`, both included, by day and key id: up to `limit` rows.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn key_days(
        &self,
        account: &str,
        (from, to): (Day, Day),
        limit: usize,
    ) -> Result<Vec<(Day, String, KeyDay)>, OpenError> {
        match self {
            Self::File(local) => {
                let account = account.to_owned();
                local.read(move |tables| tables.key_days.of_account(&account, from, to, limit)).await
            }
            Self::Database(database) => database.key_days(account, (from, to), limit).await,
        }
    }

    /// One job by its id.
    ///
    /// # Errors
    /// When the store or the record cannot be read.
    pub async fn job(&self, id: &str) -> Result<Option<Job>, OpenError> {
        match self {
            Self::File(local) => {
                let id = id.to_owned();
                local.read(move |tables| tables.jobs.rows.get(&id)).await
            }
            Self::Database(database) => database.job(id).await,
        }
    }

    /// One job by its key and its `Idempotency-Key`.
    ///
    /// # Errors
    /// When the store or the record cannot be read.
    pub async fn job_named(&self, key_id: &str, name: &str) -> Result<Option<Job>, OpenError> {
        match self {
            Self::File(local) => {
                let (key_id, name) = (key_id.to_owned(), name.to_owned());
                local.read(move |tables| tables.jobs.named(&key_id, &name)).await
            }
            Self::Database(database) => database.job_named(key_id, name).await,
        }
    }

    /// Up to `limit` jobs of a key, newest first, after the job with the place and id `after`, which may be deleted, or from
    /// the newest on.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn jobs(&self, key_id: &str, after: Option<(i64, &str)>, limit: usize) -> Result<Vec<Job>, OpenError> {
        match self {
            Self::File(local) => {
                let (key_id, after) = (key_id.to_owned(), after.map(|(place, id)| (place, id.to_owned())));
                local.read(move |tables| tables.jobs.page(&key_id, after, limit)).await
            }
            Self::Database(database) => database.jobs(key_id, after, limit).await,
        }
    }

    /// Up to `limit` queued and running jobs, in the order of the queue.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn waiting_jobs(&self, limit: usize) -> Result<Vec<Job>, OpenError> {
        match self {
            Self::File(local) => local.read(move |tables| tables.jobs.waiting(limit)).await,
            Self::Database(database) => database.waiting_jobs(limit).await,
        }
    }

    /// How many jobs wait in the queue. `running` is the number of jobs that this process runs.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn count_queued(&self, running: usize) -> Result<u64, OpenError> {
        match self {
            Self::File(local) => Ok(local.unfinished_jobs().saturating_sub(running) as u64),
            Self::Database(database) => database.count_queued().await,
        }
    }

    /// Up to `limit` finished jobs, each with the time when its result or record expires, earliest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn expiring_jobs(&self, limit: usize) -> Result<Vec<(UnixSeconds, Job)>, OpenError> {
        match self {
            Self::File(local) => local.read(move |tables| tables.jobs.timed(Job::due_at, limit)).await,
            Self::Database(database) => database.expiring_jobs(limit).await,
        }
    }

    /// Up to `limit` jobs with a pending webhook, each with the time of the next attempt, earliest first. On a database those
    /// that are due at `now` are this process's for the next minutes: other daemons do not get them.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn webhook_jobs(&self, now: UnixSeconds, limit: usize) -> Result<Vec<(UnixSeconds, Job)>, OpenError> {
        match self {
            Self::File(local) => local.read(move |tables| tables.jobs.timed(Job::webhook_at, limit)).await,
            Self::Database(database) => database.claim_webhooks(now, limit).await,
        }
    }

    /// Claims the next job, none of `running`, the jobs that this process runs: a queued one, or one that was started and does not
    /// run. On a database that is one whose daemon has not renewed its lease. Accounts take turns.
    ///
    /// # Errors
    /// As [`Self::change`].
    pub async fn claim_job(&self, at: UnixSeconds, running: &[String]) -> Result<Option<ClaimedJob>, ChangeError> {
        match self {
            Self::File(local) => local.claim_job(at, running).await,
            Self::Database(database) => database.claim_job(at, running).await,
        }
    }

    /// Renews the leases of running jobs and records their progress; returns what became of each, in their order.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub async fn renew_jobs(&self, running: &[JobHeartbeat]) -> Result<Vec<Renewal>, OpenError> {
        match self {
            _ if running.is_empty() => Ok(Vec::new()),
            Self::File(local) => Ok(local.renew_jobs(running)),
            Self::Database(database) => database.renew_jobs(running).await,
        }
    }

    /// Gives a job back into the queue, or ends it, with its bill in the same transaction: a job that the claim `attempt` runs, or
    /// any.
    ///
    /// # Errors
    /// As [`Self::change`]; [`ChangeError::JobElsewhere`] where another claim has it.
    pub async fn change_job(&self, id: &str, attempt: Option<i64>, change: JobChange) -> Result<Job, ChangeError> {
        written(self.change(Change::Job { id: id.to_owned(), attempt, change }).await?.jobs)
    }

    /// Maintains the state until the future is dropped: drops what is old, and records when keys were last used. Run it during
    /// the life of the daemon, and [`Self::write_uses`] at its end.
    pub async fn run_maintenance(&self) {
        let clean = async {
            loop {
                if let Err(error) = self.drop_old(UnixSeconds::now()).await {
                    tracing::warn!(error = with_causes(&error), "old rows could not be dropped");
                }
                tokio::time::sleep(CLEANED_EVERY).await;
            }
        };
        let refresh = async {
            loop {
                match self {
                    Self::File(local) => {
                        tokio::time::sleep(USES_WRITTEN_EVERY).await;
                        if let Err(error) = local.write_uses().await {
                            tracing::warn!(error = with_causes(&error), "the last use of keys could not be written");
                        }
                    }
                    Self::Database(database) => {
                        tokio::time::sleep(TESTED_EVERY).await;
                        database.test().await;
                    }
                }
            }
        };
        tokio::join!(clean, refresh);
    }

    /// Drops old usage by key, requests older than 24 hours, idle rates, and ended claims in a database. Daemons on a database do
    /// not exclude each other: a row that a daemon has dropped is not found by the next.
    pub(super) async fn drop_old(&self, now: UnixSeconds) -> Result<(), ChangeError> {
        match self {
            Self::File(local) => local.drop_idle_rates(),
            Self::Database(database) => database.drop_ended().await?,
        }
        let before = UnixSeconds(now.0.saturating_sub(REQUEST_SECONDS));
        // In batches, so that no transaction is long.
        let forget = || Change::ForgetRequests { before, at_most: DROPPED_PER_CHANGE };
        while self.change(forget()).await?.forgotten_requests == DROPPED_PER_CHANGE {}
        self.change(Change::ForgetKeyDays { before: Day::of(now).before(KEY_DAYS_KEPT) }).await.map(drop)
    }

    /// Writes when keys were last used, where that is in memory.
    ///
    /// # Errors
    /// When the store cannot write; the times are then lost.
    pub async fn write_uses(&self) -> Result<(), ChangeError> {
        match self {
            Self::File(local) => local.write_uses().await,
            Self::Database(_) => Ok(()),
        }
    }
}

/// The row that a change of one row has written.
pub(crate) fn written<T>(rows: impl IntoIterator<Item = T>) -> Result<T, ChangeError> {
    rows.into_iter().next().ok_or(ChangeError::Closed)
}
