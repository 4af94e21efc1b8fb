//! Writer thread on PostgreSQL, with group commit: all changes that queue up during one transaction share the next.
//!
//! Its connection holds the advisory lock that makes this process the owner of the database. When the connection breaks it
//! is made again, and changes are refused until then; those whose commit was in progress wait for its outcome.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::connect::{Connection, Server};
use super::migrations::{LOCKS, SCHEMA, schema_of};
use crate::store::apply_change::apply;
use crate::store::storage_fault::{ApplyError, Fault};
use crate::store::{Change, ChangeError, OnCommit, QUEUED_CHANGES, Rows};

/// Changes in one transaction. Limits how long the first waits for the others to be written: each takes some round trips.
const CHANGES_PER_COMMIT: usize = 256;

/// How long changes with an unknown outcome wait for the connection.
const OUTCOME_TIMEOUT: Duration = Duration::from_secs(30);

/// How often an idle connection is tested, and a broken one is made again. Within this time a daemon notices that it lost
/// the database.
const INTERVAL: Duration = Duration::from_secs(1);

/// How often a new connection tries to take the lock: the server needs a moment to end the session of a broken one.
const OWNERSHIP_TRIES: u32 = 10;

/// The pause between two of them.
const OWNERSHIP_PAUSE: Duration = Duration::from_millis(50);

/// Second half of the lock of the owner.
const OWNER_LOCK: i32 = 2;

/// How long the server may take to answer the test of an idle connection.
const TEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a process cannot go on with a database that another one owned meanwhile.
const USED_SINCE: &str = "another process has used it since the connection broke";

/// The row of `meta` that identifies the last owner.
const OWNER: &str = "owner";

/// The row of `meta` with the number of commits that changed rows.
pub(super) const COMMITS: &str = "commits";

/// The state that the writer shows to others.
#[derive(Debug, Default)]
pub(super) struct Health {
    fault: Mutex<Option<String>>,
    superseded: AtomicBool,
}

impl Health {
    pub(super) fn fault(&self) -> Option<String> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn is_superseded(&self) -> bool {
        self.superseded.load(Ordering::Relaxed)
    }

    fn set(&self, fault: Option<String>) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }
}

/// The outcome of taking the lock of the owner.
pub(super) enum Ownership {
    /// This connection has it.
    Taken,
    /// Another session has it.
    InUse,
}

/// Takes the lock of the owner, which lasts as long as the connection.
pub(super) fn take_ownership(connection: &mut Connection) -> Result<Ownership, Fault> {
    let mut queries = connection.writing()?;
    let is_taken = queries.has("SELECT 1 WHERE pg_try_advisory_lock($1, $2)", &[&LOCKS, &OWNER_LOCK])?;
    Ok(if is_taken { Ownership::Taken } else { Ownership::InUse })
}

/// Writes that this process is the owner, on a connection that has the lock; returns its number. What earlier owners have in
/// memory is stale from here on.
pub(super) fn record_ownership(connection: &mut Connection) -> Result<i64, Fault> {
    let owner: i64 = rand::random();
    let mut queries = connection.writing()?;
    queries.put_number(OWNER, owner)?;
    queries.commit()?;
    Ok(owner)
}

/// Releases the lock before the connection ends, so that the next process does not wait for the server to notice.
pub(super) fn release_ownership(connection: &Connection) {
    // A broken connection has no lock.
    drop(connection.batch("SELECT pg_advisory_unlock_all()"));
}

/// The owner of the writer thread. Dropped, it commits what is queued and waits for the thread.
#[derive(Debug)]
pub(super) struct Writer {
    queue: Option<SyncSender<Submitted>>,
    thread: Option<JoinHandle<()>>,
}

struct Submitted {
    change: Change,
    done: OnCommit,
}

impl Writer {
    /// With a connection that has the lock of the owner.
    pub(super) fn start(server: Server, mut connection: Connection, health: Arc<Health>) -> Result<Self, Fault> {
        let owner = record_ownership(&mut connection)?;
        let committed = connection.snapshot()?.number(COMMITS)?.unwrap_or(0);
        let (queue, submitted) = sync_channel(QUEUED_CHANGES);
        let state =
            WriterState { server, connection: Some(connection), owner, committed, health, unknown_outcome: None };
        let thread = std::thread::Builder::new().name("store-writer".into()).spawn(move || state.run(&submitted));
        let thread = thread.map_err(|error| Fault::Server(format!("no thread can be started: {error}")))?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    /// Queues a change, or refuses it at once when the queue is full.
    pub(super) fn submit(&self, change: Change, done: OnCommit) {
        let stopped = || ChangeError::Storage("the writer has stopped".into());
        let Some(queue) = &self.queue else { return done(Err(stopped())) };
        match queue.try_send(Submitted { change, done }) {
            Ok(()) => {}
            Err(TrySendError::Full(refused)) => (refused.done)(Err(ChangeError::Busy)),
            Err(TrySendError::Disconnected(refused)) => (refused.done)(Err(stopped())),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            // The thread ends when the queue is empty.
            drop(thread.join());
        }
    }
}

/// The state of the thread.
struct WriterState {
    server: Server,
    /// `None` while it is broken.
    connection: Option<Connection>,
    /// Identifies this process as the owner.
    owner: i64,
    /// The number of commits whose changes were answered.
    committed: i64,
    health: Arc<Health>,
    /// Changes whose outcome only the next connection shows.
    unknown_outcome: Option<UnknownOutcome>,
}

struct UnknownOutcome {
    waiting: Vec<OnCommit>,
    attempt: Attempt,
    until: Instant,
}

/// The progress of one transaction.
#[derive(Default)]
struct Attempt {
    /// Its number; `None` before the last of its changes was applied.
    number: Option<i64>,
    results: Vec<Result<Rows, ChangeError>>,
}

impl WriterState {
    fn run(mut self, submitted: &Receiver<Submitted>) {
        let mut due = Instant::now() + INTERVAL;
        loop {
            // Continuous changes must not delay the test.
            let wait = due.saturating_duration_since(Instant::now());
            let next = if wait.is_zero() { Err(RecvTimeoutError::Timeout) } else { submitted.recv_timeout(wait) };
            match next {
                Ok(first) => self.write_group(first, submitted),
                Err(RecvTimeoutError::Timeout) => {
                    self.test();
                    due = Instant::now() + INTERVAL;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        if let Some(UnknownOutcome { waiting, .. }) = self.unknown_outcome.take() {
            answer_all(waiting, &ChangeError::Storage("the store was closed".into()));
        }
        if let Some(connection) = &self.connection {
            release_ownership(connection);
        }
    }

    /// Tests the connection, or makes it again.
    fn test(&mut self) {
        if let Some(connection) = &self.connection {
            match connection.test(TEST_TIMEOUT) {
                Ok(()) => return,
                Err(fault) => self.fail(fault.to_string()),
            }
        }
        // A failure is in `health`, and the next test tries again.
        let _ = self.reconnect(None);
    }

    /// Writes the first change with all others that wait.
    fn write_group(&mut self, first: Submitted, submitted: &Receiver<Submitted>) {
        let (mut changes, mut waiting) = (vec![first.change], vec![first.done]);
        while changes.len() < CHANGES_PER_COMMIT
            && let Ok(next) = submitted.try_recv()
        {
            changes.push(next.change);
            waiting.push(next.done);
        }
        for is_last in [false, true] {
            let Some(connection) = &mut self.connection else {
                let reason = self.health.fault().unwrap_or_default();
                return answer_all(waiting, &ChangeError::Unavailable(reason));
            };
            let mut attempt = Attempt::default();
            let Err(fault) = commit(connection, &changes, &mut attempt) else {
                self.committed = attempt.number.unwrap_or(self.committed);
                return answer(waiting, attempt);
            };
            let reason = fault.to_string();
            tracing::error!(reason, changes = waiting.len(), "the store failed to commit");
            if !fault.needs_reopening() {
                // A damaged row: the transaction was rolled back when it was dropped.
                return answer_all(waiting, &ChangeError::Storage(reason));
            }
            self.fail(reason.clone());
            match self.reconnect(attempt.number) {
                Ok(commits) if attempt.number == Some(commits) => return answer(waiting, attempt),
                Ok(_) if is_last => return answer_all(waiting, &ChangeError::Unavailable(reason)),
                Ok(_) => {}
                Err(()) if attempt.number.is_none() => {
                    return answer_all(waiting, &ChangeError::Unavailable(reason));
                }
                Err(()) => {
                    self.unknown_outcome =
                        Some(UnknownOutcome { waiting, attempt, until: Instant::now() + OUTCOME_TIMEOUT });
                    return;
                }
            }
        }
    }

    /// Gives the connection up.
    fn fail(&mut self, reason: String) {
        if self.health.fault().is_none() {
            tracing::error!(reason, "the database cannot be used; the connection is made again until it can");
        }
        self.health.set(Some(reason));
        self.connection = None;
    }

    /// Connects, takes the lock again, and resolves a transaction whose outcome is unknown; returns the number of commits.
    /// `attempted` is the number of a transaction that the caller resolves.
    fn reconnect(&mut self, attempted: Option<i64>) -> Result<i64, ()> {
        if self.health.is_superseded() {
            return Err(());
        }
        let attempted = attempted.or(self.unknown_outcome.as_ref().and_then(|unknown| unknown.attempt.number));
        match self.try_reconnect(attempted) {
            Ok((connection, commits)) => {
                (self.connection, self.committed) = (Some(connection), commits);
                self.health.set(None);
                tracing::info!("the database can be used again");
                if let Some(UnknownOutcome { waiting, attempt, .. }) = self.unknown_outcome.take() {
                    if attempt.number == Some(commits) {
                        answer(waiting, attempt);
                    } else {
                        answer_all(waiting, &ChangeError::Unavailable("the connection to the database broke".into()));
                    }
                }
                Ok(commits)
            }
            Err(reason) => {
                self.health.set(Some(reason.clone()));
                let is_over = |late: &mut UnknownOutcome| late.until <= Instant::now() || self.health.is_superseded();
                if let Some(UnknownOutcome { waiting, .. }) = self.unknown_outcome.take_if(is_over) {
                    answer_all(waiting, &ChangeError::Storage(reason));
                }
                Err(())
            }
        }
    }

    fn try_reconnect(&self, attempted: Option<i64>) -> Result<(Connection, i64), String> {
        let mut connection = self.server.connect().map_err(|fault| fault.to_string())?;
        let mut tries = 0;
        while let Ownership::InUse = take_ownership(&mut connection).map_err(|fault| fault.to_string())? {
            // Its owner has recorded itself: this process need not wait until that one has ended to know what it lost.
            let owner = connection.snapshot().and_then(|mut queries| queries.number(OWNER));
            if owner.map_err(|fault| fault.to_string())? != Some(self.owner) {
                return Err(self.supersede(USED_SINCE));
            }
            if tries == OWNERSHIP_TRIES {
                return Err(format!("another process uses {}", self.server.name()));
            }
            tries += 1;
            std::thread::sleep(OWNERSHIP_PAUSE);
        }
        let found = connection.snapshot().and_then(|mut queries| {
            let schema = schema_of(&mut queries)?;
            Ok((schema, queries.number(OWNER)?, queries.number(COMMITS)?.unwrap_or(0)))
        });
        let (schema, owner, commits) = found.map_err(|fault| fault.to_string())?;
        if schema != SCHEMA || owner != Some(self.owner) {
            return Err(self.supersede(USED_SINCE));
        }
        if commits != self.committed && Some(commits) != attempted {
            return Err(self.supersede("it does not have all commits that it acknowledged"));
        }
        Ok((connection, commits))
    }

    /// What this process has in memory differs from the database for good.
    fn supersede(&self, reason: &str) -> String {
        self.health.superseded.store(true, Ordering::Relaxed);
        format!("{} cannot be used any more: {reason}", self.server.name())
    }
}

fn answer(waiting: Vec<OnCommit>, attempt: Attempt) {
    waiting.into_iter().zip(attempt.results).for_each(|(done, result)| done(result));
}

fn answer_all(waiting: Vec<OnCommit>, error: &ChangeError) {
    waiting.into_iter().for_each(|done| done(Err(error.clone())));
}

/// Writes `changes` in order in one transaction, durable when this returns. One result per change.
fn commit(connection: &mut Connection, changes: &[Change], attempt: &mut Attempt) -> Result<(), Fault> {
    let mut queries = connection.writing()?;
    for change in changes {
        attempt.results.push(match apply(&mut queries, change.clone()) {
            Ok(rows) => Ok(rows),
            Err(ApplyError::Refused(refusal)) => Err(refusal),
            Err(ApplyError::Fault(fault)) => return Err(fault),
        });
    }
    // A completely refused group changed nothing: it needs no commit. Dropped, the transaction is rolled back.
    if attempt.results.iter().any(Result::is_ok) {
        let number = queries.count_commit()?;
        attempt.number = Some(number);
        queries.commit()?;
    }
    Ok(())
}
