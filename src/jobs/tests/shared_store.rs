//! A store that another daemon uses too; the test does what that daemon would do.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::dying_store::delegate_reads;
use super::support::submit;
use crate::store::{
    Change, ChangeError, Day, Follower, Job, JobEnd, JobState, KeyDay, OnCommit, OpenError, Preset, RedbStore, Rows,
    StateStore, UnixSeconds,
};

/// The store as the daemon under test has it. Clones share one state.
#[derive(Clone, Debug)]
pub(super) struct SharedStore {
    store: Arc<RedbStore>,
    other: Arc<Other>,
}

/// The other daemon.
#[derive(Default)]
struct Other {
    /// Ids of its jobs.
    jobs: Mutex<HashSet<String>>,
    is_gone: AtomicBool,
    followers: Mutex<Vec<Follower>>,
}

impl std::fmt::Debug for Other {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Other").field("jobs", &self.jobs).finish_non_exhaustive()
    }
}

impl Other {
    fn has(&self, id: &str) -> bool {
        self.jobs.lock().expect("no panic").contains(id)
    }

    fn call_followers(&self, rows: &Rows) {
        self.followers.lock().expect("no panic").iter().for_each(|follower| follower(rows));
    }
}

impl SharedStore {
    pub(super) fn new(store: RedbStore) -> Self {
        Self { store: Arc::new(store), other: Arc::default() }
    }

    /// Makes a change as the other daemon.
    pub(super) fn by_other(&self, change: Change) {
        self.commit(change, |rows| rows);
    }

    /// Creates a job of the other daemon.
    pub(super) fn create_by_other(&self, job: Job) {
        self.other.jobs.lock().expect("no panic").insert(job.id.clone());
        self.by_other(Change::CreateJob { job: Box::new(job), at_most: usize::MAX, check: None });
    }

    /// The other daemon adopts jobs, without a notice to the daemon under test; all running ones among them.
    pub(super) fn adopt_by_other_unnoticed(&self, ids: &[&str]) {
        self.other.jobs.lock().expect("no panic").extend(ids.iter().map(|&id| id.to_owned()));
        submit(&*self.store, Change::RequeueJobs { at: UnixSeconds(1) }).expect("it is allowed");
    }

    /// The other daemon adopts jobs; all running ones among them.
    pub(super) fn adopt_by_other(&self, ids: &[&str]) {
        self.other.jobs.lock().expect("no panic").extend(ids.iter().map(|&id| id.to_owned()));
        let jobs = ids.iter().map(|id| self.job(id).expect("it reads").expect("it exists"));
        let jobs = jobs.map(|job| Job { state: JobState::Queued, ..job }).collect();
        self.commit(Change::RequeueJobs { at: UnixSeconds(1) }, move |rows| Rows { jobs, ..rows });
    }

    /// The other daemon renews its lease no more.
    pub(super) fn lose_other(&self) {
        self.other.is_gone.store(true, Ordering::SeqCst);
    }

    /// Commits a change and passes its rows on, in commit order.
    fn commit(&self, change: Change, rows: impl FnOnce(Rows) -> Rows + Send + 'static) {
        let other = Arc::clone(&self.other);
        let (answer, answers) = std::sync::mpsc::channel();
        let done = move |result: Result<Rows, ChangeError>| {
            let written = result.map(|written| other.call_followers(&rows(written)));
            answer.send(written).expect("the receiver waits");
        };
        self.store.submit(change, Box::new(done));
        answers.recv_timeout(Duration::from_secs(120)).expect("one answer").expect("it is allowed");
    }
}

/// The id of the job that a change needs to be of the daemon that makes it.
fn own_job(change: &Change) -> Option<&str> {
    if let Change::StartJob { id, .. }
    | Change::FinishJob { id, end: JobEnd::Done { .. } | JobEnd::Failed { .. }, .. } = change
    {
        Some(id)
    } else {
        None
    }
}

impl StateStore for SharedStore {
    fn load(&self) -> Result<Rows, OpenError> {
        self.store.load()
    }

    fn submit(&self, change: Change, done: OnCommit) {
        if let Some(id) = own_job(&change).filter(|id| self.other.has(id)) {
            return done(Err(ChangeError::JobElsewhere(id.to_owned())));
        }
        let Change::AdoptJobs { at } = change else { return self.store.submit(change, done) };
        let ids = self.other.jobs.lock().expect("no panic").clone();
        let jobs = ids.iter().filter_map(|id| self.store.job(id).expect("it reads"));
        let jobs = jobs.filter(|job| !job.state.is_final()).map(|job| Job { state: JobState::Queued, ..job }).collect();
        let other = Arc::clone(&self.other);
        let adopted = move |result: Result<Rows, ChangeError>| {
            other.jobs.lock().expect("no panic").retain(|id| !ids.contains(id));
            done(result.map(|rows| Rows { jobs, ..rows }));
        };
        // This queues jobs of the daemon under test too: none runs in the tests that adopt.
        self.store.submit(Change::RequeueJobs { at }, Box::new(adopted));
    }

    fn waiting_jobs(&self, limit: usize) -> Result<Vec<Job>, OpenError> {
        let jobs = self.store.waiting_jobs(limit)?;
        Ok(jobs.into_iter().filter(|job| !self.other.has(&job.id)).collect())
    }

    fn next_job(&self, taken: &HashSet<String>) -> Result<Option<Job>, OpenError> {
        let others = self.other.jobs.lock().expect("no panic").clone();
        self.store.next_job(&taken.union(&others).cloned().collect())
    }

    fn expiring_jobs(&self, limit: usize) -> Result<Vec<(UnixSeconds, Job)>, OpenError> {
        let jobs = self.store.expiring_jobs(limit)?;
        Ok(jobs.into_iter().filter(|(_, job)| !self.other.has(&job.id)).collect())
    }

    fn webhook_jobs(&self, limit: usize) -> Result<Vec<(UnixSeconds, Job)>, OpenError> {
        let jobs = self.store.webhook_jobs(limit)?;
        Ok(jobs.into_iter().filter(|(_, job)| !self.other.has(&job.id)).collect())
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn follow(&self, follower: Follower) {
        self.other.followers.lock().expect("no panic").push(follower);
    }

    fn has_orphaned_jobs(&self) -> Result<bool, OpenError> {
        let is_gone = self.other.is_gone.load(Ordering::SeqCst);
        Ok(is_gone && !self.other.jobs.lock().expect("no panic").is_empty())
    }

    delegate_reads! {
        preset(account: &str, id: &str) -> Option<Preset>;
        preset_named(account: &str, name: &str) -> Option<Preset>;
        presets(account: &str, after: Option<&str>, limit: usize) -> Vec<Preset>;
        key_days(account: &str, from: Day, to: Day, limit: usize) -> Vec<(Day, String, KeyDay)>;
        job(id: &str) -> Option<Job>;
        job_named(key_id: &str, name: &str) -> Option<Job>;
        jobs(key_id: &str, after: Option<(i64, &str)>, limit: usize) -> Vec<Job>;
    }
}
