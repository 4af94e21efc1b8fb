//! The calls of the service, and what all of it shares.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::folders::Folders;
use super::live::{Left, Lives};
use super::space::{Bounds, Space};
use super::{
    Created, Incoming, Job, JobError, JobState, Jobs, JobsConfig, JobsError, MAX_PAGE, Means, NewJob, Page,
    RECORD_SECONDS, Removed, Shown, UnixSeconds, Webhook, runner, sweeper, webhooks,
};
use crate::account::{WriteError, random_text, write};
use crate::store::{Change, ChangeError, JobEnd, Month, OpenError, Rows, StateStore};
use crate::telemetry::metrics;

/// Characters of a job's id after `job_`.
const ID_LENGTH: usize = 24;

/// How long to wait before a change that the store had no room for is tried again.
const BUSY_PAUSE: Duration = Duration::from_millis(200);

/// How often a job is tried to be recorded whose name is that of one that is about to go.
const NAME_TURNS: u32 = 3;

/// What the clones of [`Jobs`] share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) means: Means,
    pub(super) habits: Habits,
    pub(super) folders: Folders,
    pub(super) space: Space,
    pub(super) lives: Lives,
    /// There is a job that waits.
    pub(super) queued: Notify,
    /// There is a job at its end.
    pub(super) ended: Notify,
    /// The place of the newest job.
    place: AtomicI64,
}

/// Tells the present in milliseconds since 1970.
#[derive(Clone)]
pub(super) struct Clock(pub(super) Arc<dyn Fn() -> i64 + Send + Sync>);

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Clock").field(&self.0()).finish()
    }
}

/// What tests want otherwise.
#[derive(Clone, Debug)]
pub(super) struct Habits {
    pub(super) parallel: usize,
    pub(super) max_queued_per_key: usize,
    pub(super) clock: Clock,
    /// A job that is no farther after this time has failed.
    pub(super) stall: Duration,
    /// How long a work that was told to end may take for that.
    pub(super) grace: Duration,
    /// How long to wait after the store failed.
    pub(super) pause: Duration,
    pub(super) space: Bounds,
}

impl Habits {
    pub(super) fn of(config: &JobsConfig) -> Self {
        Self {
            parallel: config.parallel,
            max_queued_per_key: config.max_queued_per_key,
            clock: Clock(Arc::new(|| jiff::Timestamp::now().as_millisecond())),
            // A percent of the longest clip takes a minute or two on two cores.
            stall: Duration::from_secs(30 * 60),
            grace: Duration::from_secs(10),
            pause: Duration::from_secs(5),
            space: Bounds::of(config),
        }
    }
}

impl Jobs {
    /// Puts jobs that were under way when the daemon ended back into the queue, holds their part of the quota again, and
    /// deletes folders that belong to no job. Blocks; meant for start-up.
    ///
    /// # Errors
    /// When the store or the folder `jobs` of the data directory cannot be read or written.
    pub fn start(means: Means, config: &JobsConfig, data_dir: &Path) -> Result<Self, JobsError> {
        Self::start_with(means, Habits::of(config), data_dir)
    }

    pub(super) fn start_with(means: Means, habits: Habits, data_dir: &Path) -> Result<Self, JobsError> {
        let folders = Folders::open(data_dir)?;
        let at = UnixSeconds(habits.clock.0().div_euclid(1000));
        let requeued = submit_and_wait(&*means.store, Change::RequeueJobs { at })?.jobs.len();
        let waiting = means.store.waiting_jobs(usize::MAX)?;
        folders.retain(&waiting.iter().map(|job| job.id.as_str()).collect::<HashSet<_>>())?;
        if !waiting.is_empty() {
            tracing::info!(waiting = waiting.len(), begun = requeued, "jobs were left by the last run");
        }
        let lives = Lives::default();
        for job in &waiting {
            let reservation = means.ledger.hold(&job.account, Some(&job.key_id), job.month, job.reserved);
            let progress = folders.progress(&job.id).max(job.progress);
            lives.enter(&job.id, &job.key_id, progress, Some(reservation));
        }
        let results = means.keep.folder().map(Path::to_owned);
        let space = Space::new([folders.root().to_owned()].into_iter().chain(results), habits.space.clone());
        let newest = waiting.iter().map(|job| job.place).max().unwrap_or(i64::MIN);
        Ok(Self(Arc::new(Shared {
            means,
            habits,
            folders,
            space,
            lives,
            queued: Notify::new(),
            ended: Notify::new(),
            place: AtomicI64::new(newest),
        })))
    }

    /// A fresh folder for a clip of `bytes` at most.
    ///
    /// # Errors
    /// When the disk space of the jobs has no room for it, or it cannot be made.
    pub async fn incoming(&self, bytes: u64) -> Result<Incoming, JobsError> {
        self.0.folders.incoming(&self.0.space, bytes).await
    }

    /// The job of a key that has this `Idempotency-Key`.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn named(&self, key_id: &str, name: &str) -> Result<Option<Shown>, JobsError> {
        let (of, name) = (key_id.to_owned(), name.to_owned());
        self.0.show(key_id, move |store| store.job_named(&of, &name)).await
    }

    /// Makes a job of a clip that came in. It is in the queue, durable, when this returns.
    ///
    /// Once polled the making is under way, and is not undone when this is dropped.
    ///
    /// # Errors
    /// When the key has too many, the clip cannot be kept, or the store fails.
    pub async fn create(&self, new: NewJob, incoming: Incoming) -> Result<Created, JobsError> {
        let shared = Arc::clone(&self.0);
        // A caller who goes away must not leave a job without its folder.
        let made = tokio::spawn(async move { shared.create(new, incoming).await });
        made.await.unwrap_or(Err(JobsError::Write(WriteError::Closed)))
    }

    /// A job of the key; another key's is none.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn get(&self, key_id: &str, id: &str) -> Result<Option<Shown>, JobsError> {
        let id = id.to_owned();
        self.0.show(key_id, move |store| store.job(&id)).await
    }

    /// The key's jobs, the newest first, up to `limit` (1 to [`MAX_PAGE`]) of those after `cursor`, the `next` of
    /// another page.
    ///
    /// # Errors
    /// When the cursor is none, or the store cannot be read.
    pub async fn list(&self, key_id: &str, cursor: Option<&str>, limit: usize) -> Result<Page, JobsError> {
        let after = cursor.map(|text| read_cursor(text).ok_or(JobsError::Cursor)).transpose()?;
        let limit = limit.clamp(1, MAX_PAGE);
        let progress = self.0.lives.progress_of(key_id);
        let of = key_id.to_owned();
        let read = move |store: &dyn StateStore| {
            let after = after.as_ref().map(|(place, id)| (*place, id.as_str()));
            // One more, to know whether there is another page.
            store.jobs(&of, after, limit + 1)
        };
        let mut jobs = self.0.read(read).await?;
        let is_last = jobs.len() <= limit;
        jobs.truncate(limit);
        let next = if is_last { None } else { jobs.last().map(|job| format!("{}.{}", job.place, job.id)) };
        let now = self.0.now();
        let shown = jobs.into_iter().filter(|job| is_shown(job, now));
        Ok(Page { jobs: shown.map(|job| Shown::of(&progress, job)).collect(), next })
    }

    /// Ends a job of the key that waits or is under way; deletes one that is at its end. Another key's is none.
    ///
    /// Once polled it is under way, and is not undone when this is dropped.
    ///
    /// # Errors
    /// When the store or the place of the results fails; the job is as it was.
    pub async fn remove(&self, key_id: &str, id: &str) -> Result<Option<Removed>, JobsError> {
        let (shared, key_id, id) = (Arc::clone(&self.0), key_id.to_owned(), id.to_owned());
        let removed = tokio::spawn(async move { shared.remove(&key_id, &id).await });
        removed.await.unwrap_or(Err(JobsError::Write(WriteError::Closed)))
    }

    /// Does the jobs, deletes what is over, and tells of ends, until `stop`. What is under way then is dropped, and
    /// goes on at the next start of the process.
    pub async fn run(&self, stop: impl Future<Output = ()>) {
        let (stopping, stopped) = watch::channel(false);
        let all = async {
            tokio::join!(
                runner::run(&self.0, stopped.clone()),
                sweeper::run(&self.0, stopped.clone()),
                webhooks::run(&self.0, stopped.clone()),
            )
        };
        let stop = async {
            stop.await;
            stopping.send_replace(true);
        };
        tokio::join!(all, stop);
    }
}

impl Shared {
    pub(super) fn now(&self) -> UnixSeconds {
        UnixSeconds(self.habits.clock.0().div_euclid(1000))
    }

    async fn create(&self, new: NewJob, incoming: Incoming) -> Result<Created, JobsError> {
        let id = format!("job_{}", random_text(ID_LENGTH));
        self.folders.adopt(incoming, &id).await?;
        let outcome = self.create_in(&id, new).await;
        match &outcome {
            // A store that failed may have recorded it: the next start knows, and deletes the folder if it has not.
            Ok(Created::New(_))
            | Err(JobsError::Write(WriteError::Closed | WriteError::Change(ChangeError::Storage(_)))) => {}
            Ok(Created::Same(_) | Created::Conflict) | Err(_) => self.folders.remove(&id).await,
        }
        outcome
    }

    /// Records a job whose folder is there.
    async fn create_in(&self, id: &str, new: NewJob) -> Result<Created, JobsError> {
        let now = self.now();
        let NewJob { key_id, account, test, fields, format, name, fingerprint, unit_price, webhook, reservation } = new;
        let (month, reserved) = reservation.as_ref().map_or((Month::of(now), 0), |held| (held.month(), held.images()));
        let job = Job {
            id: id.to_owned(),
            key_id,
            account,
            test,
            state: JobState::Queued,
            progress: 0,
            fields,
            format: format.to_owned(),
            name,
            fingerprint,
            unit_price,
            month,
            reserved,
            created_at: now,
            place: self.next_place(),
            updated_at: now,
            expires_at: UnixSeconds(now.0.saturating_add(RECORD_SECONDS)),
            result: None,
            warnings: Vec::new(),
            error: None,
            webhook: webhook.map(|hook| Webhook { url: hook.url, base: hook.base, attempts: 0, next_at: None }),
        };
        self.lives.enter(id, &job.key_id, 0, reservation);
        let created = self.record(job).await;
        if matches!(created, Ok(Created::New(_))) {
            self.queued.notify_one();
        } else {
            // Gives its part of the quota back.
            self.lives.leave(id);
        }
        created
    }

    async fn record(&self, job: Job) -> Result<Created, JobsError> {
        let at_most = self.habits.max_queued_per_key;
        // More than one turn only where the first job of the name goes in this moment.
        for _ in 0..NAME_TURNS {
            let change = Change::CreateJob { job: Box::new(job.clone()), at_most };
            let first = match write(&*self.means.store, change, |_| ()).await {
                Ok(_) => return Ok(Created::New(Shown { job, progress: 0 })),
                Err(WriteError::Change(ChangeError::TooManyJobs { .. })) => return Err(JobsError::TooMany(at_most)),
                Err(WriteError::Change(ChangeError::JobNameTaken(id))) => id,
                Err(error) => return Err(error.into()),
            };
            match self.show(&job.key_id, move |store| store.job(&first)).await? {
                Some(first) if first.job.fingerprint == job.fingerprint => return Ok(Created::Same(first)),
                Some(_) => return Ok(Created::Conflict),
                // Its time is over, and nobody has deleted it yet.
                None => sweeper::sweep(self, self.now()).await,
            }
        }
        Err(WriteError::Change(ChangeError::Busy).into())
    }

    /// A place behind all before, also when the clock runs backwards.
    fn next_place(&self) -> i64 {
        let now = self.habits.clock.0();
        let next = |newest: i64| Some(now.max(newest.saturating_add(1)));
        let before = self.place.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap_or(now);
        now.max(before.saturating_add(1))
    }

    async fn remove(&self, key_id: &str, id: &str) -> Result<Option<Removed>, JobsError> {
        loop {
            let of = id.to_owned();
            let Some(Shown { job, progress }) = self.show(key_id, move |store| store.job(&of)).await? else {
                return Ok(None);
            };
            if job.state.is_final() {
                return self.delete(&job).await.map(|()| Some(Removed::Deleted));
            }
            let error = JobError { code: "cancelled".into(), message: "the job was cancelled".into() };
            match self.end(&job, JobEnd::Failed { error, progress }).await {
                Ok((job, left)) => {
                    if left.as_ref().is_some_and(|left| left.was_running) {
                        // Whoever works on it cleans up.
                        left.inspect(|left| left.cancel.notify_one());
                    } else {
                        self.clear(&job).await;
                    }
                    return Ok(Some(Removed::Cancelled(Box::new(Shown::at_end(job)))));
                }
                // It came to its end, or was removed, in between.
                Err(WriteError::Change(ChangeError::JobState { .. } | ChangeError::NoSuchJob(_))) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Deletes what a job without a result has left: its folder, and what it may have put to the results before a crash.
    pub(super) async fn clear(&self, job: &Job) {
        if let Err(error) = self.means.keep.discard(job).await {
            tracing::warn!(job = job.id, %error, "what the job may have put to the results was not deleted");
        }
        self.folders.remove(&job.id).await;
    }

    /// Deletes a job at its end, its result first: a crash in between leaves no result without a job.
    pub(super) async fn delete(&self, job: &Job) -> Result<(), JobsError> {
        if job.result.as_ref().is_some_and(|result| result.object.is_some()) {
            self.means.keep.discard(job).await?;
        }
        match self.change(Change::RemoveJob { id: job.id.clone() }).await {
            Ok(_) | Err(WriteError::Change(ChangeError::NoSuchJob(_))) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Brings a job to its end, billed where it has a bill; gives it, and what was in memory of it.
    pub(super) async fn end(&self, job: &Job, end: JobEnd) -> Result<(Job, Option<Left>), WriteError> {
        let mut held = self.lives.take_reservation(&job.id);
        let was_held = held.is_some();
        let rows = loop {
            // Without one it is given back already; the change settles the bill all the same.
            let reservation =
                held.take().unwrap_or_else(|| self.means.ledger.hold(&job.account, Some(&job.key_id), job.month, 0));
            let at = self.now();
            let expires_at = UnixSeconds(at.0.saturating_add(RECORD_SECONDS));
            let change = Change::FinishJob { id: job.id.clone(), at, expires_at, end: end.clone() };
            match reservation.end(change).await {
                Err(WriteError::Change(ChangeError::Busy)) => {
                    held = Some(self.means.ledger.hold(&job.account, Some(&job.key_id), job.month, job.reserved));
                    tokio::time::sleep(BUSY_PAUSE).await;
                }
                Err(error) => {
                    // The job may go on: it holds its part of the quota as before.
                    if was_held {
                        let held = self.means.ledger.hold(&job.account, Some(&job.key_id), job.month, job.reserved);
                        self.lives.give_reservation(&job.id, held);
                    }
                    return Err(error);
                }
                Ok(rows) => break rows,
            }
        };
        let left = self.lives.leave(&job.id);
        let ended = rows.jobs.into_iter().next().ok_or(WriteError::Closed)?;
        metrics::job_ended(ended.state.name());
        self.ended.notify_one();
        Ok((ended, left))
    }

    /// Enters a queued job of which nothing is in memory: its creation was reported as failed and was written all the
    /// same.
    pub(super) async fn adopt(&self, id: &str) -> Result<(), JobsError> {
        let of = id.to_owned();
        let job = self.read(move |store| store.job(&of)).await?;
        if let Some(job) = job.filter(|job| job.state == JobState::Queued) {
            tracing::warn!(job = id, "a job that was not in memory is taken up");
            let reservation = self.means.ledger.hold(&job.account, Some(&job.key_id), job.month, job.reserved);
            self.lives.enter(id, &job.key_id, job.progress, Some(reservation));
        }
        Ok(())
    }

    /// An error when a job under way has to end for want of disk space, or the space cannot be measured.
    pub(super) async fn check_space(&self) -> Result<(), JobsError> {
        let space = self.space.clone();
        let checked = tokio::task::spawn_blocking(move || space.check()).await;
        checked.unwrap_or(Err(JobsError::Write(WriteError::Closed)))
    }

    /// Makes a change, and waits where the store has no room for it.
    pub(super) async fn change(&self, change: Change) -> Result<Rows, WriteError> {
        loop {
            match write(&*self.means.store, change.clone(), |_| ()).await {
                Err(WriteError::Change(ChangeError::Busy)) => tokio::time::sleep(BUSY_PAUSE).await,
                outcome => return outcome,
            }
        }
    }

    /// A job that `read` finds, where it is the key's.
    async fn show(
        &self,
        key_id: &str,
        read: impl FnOnce(&dyn StateStore) -> Result<Option<Job>, OpenError> + Send + 'static,
    ) -> Result<Option<Shown>, JobsError> {
        // Before the record: see `live`.
        let progress = self.lives.progress_of(key_id);
        let now = self.now();
        let job = self.read(read).await?.filter(|job| job.key_id == key_id && is_shown(job, now));
        Ok(job.map(|job| Shown::of(&progress, job)))
    }

    pub(super) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn StateStore) -> Result<T, OpenError> + Send + 'static,
    ) -> Result<T, JobsError> {
        let store = Arc::clone(&self.means.store);
        // It only fails when the reading panics, or the runtime ends.
        let outcome = tokio::task::spawn_blocking(move || read(&*store)).await;
        Ok(outcome.map_err(|_| WriteError::Closed)??)
    }
}

impl Shown {
    fn of(progress: &HashMap<String, u8>, job: Job) -> Self {
        if job.state.is_final() {
            return Self::at_end(job);
        }
        let live = progress.get(&job.id).copied().unwrap_or(0);
        Self { progress: live.max(job.progress), job }
    }

    pub(super) const fn at_end(job: Job) -> Self {
        Self { progress: job.progress, job }
    }
}

/// Whether its owner still sees a job: the sweeper may be late.
fn is_shown(job: &Job, now: UnixSeconds) -> bool {
    !job.state.is_final() || now < job.expires_at
}

fn read_cursor(text: &str) -> Option<(i64, String)> {
    let (place, id) = text.split_once('.')?;
    let place = place.parse().ok()?;
    Job::is_id(id).then(|| (place, id.to_owned()))
}

/// As [`write`], on a thread that may block.
fn submit_and_wait(store: &dyn StateStore, change: Change) -> Result<Rows, WriteError> {
    let (reply, answer) = mpsc::sync_channel(1);
    store.submit(change, Box::new(move |result| drop(reply.send(result))));
    Ok(answer.recv().map_err(|_| WriteError::Closed)??)
}
