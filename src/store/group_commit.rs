//! Writer thread with group commit: all changes that queue up during one commit share the next.
//!
//! A single change is committed at once, so the latency is one or two commits at any load, with as few syncs as possible.
//!
//! A commit that fails with a storage fault is retried once on the reopened file. Each transaction counts itself
//! (`tables/meta.rs`), so the reopened file shows whether the failed one was committed after all: it is then acknowledged.
//! Its changes wait for that, also when the file cannot be opened for a long time. Until the store can write again, other
//! changes are refused at once.
//!
//! After one failed write or read redb refuses all further work until the file is opened again ("latched" I/O error).
//! The first attempt follows at once, further ones after 0.1 s, doubled up to 10 s. Opening repairs the file as after a
//! crash: each transaction is present as a whole or not at all. The jobs of a crashed daemon are `jobs/recovery.rs`.

use std::iter;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use redb::{Database, Durability, ReadableDatabase};

use super::apply_change::apply;
use super::database_file::OpenDatabase;
use super::storage_fault::Fault;
use super::tables::{Meta, Writing};
use super::{Change, ChangeError, OnCommit, QUEUED_CHANGES, Rows};
use crate::telemetry::with_causes;

/// Changes in one commit. Limits how long the first waits for the others to be written.
const CHANGES_PER_COMMIT: usize = 1024;

/// The pause before the second attempt to reopen the file; it doubles with each one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

enum Message {
    Change(Box<Change>, OnCommit),
    /// A read failed with this storage fault.
    ReadFailed(String),
}

/// The owner of the writer thread. Dropped, it commits what is queued and waits for the thread.
#[derive(Debug)]
pub(super) struct Writer {
    queue: Option<SyncSender<Message>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(database: Arc<OpenDatabase>) -> std::io::Result<Self> {
        let (queue, submitted) = sync_channel(QUEUED_CHANGES);
        let state = WriterState { database, next_attempt: None, unknown_outcome: None };
        let thread = std::thread::Builder::new().name("store-writer".into()).spawn(move || state.run(&submitted))?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    /// Queues a change, or refuses it at once when the queue is full.
    pub(super) fn submit(&self, change: Change, done: OnCommit) {
        let stopped = || ChangeError::Storage("the writer has stopped".into());
        let Some(queue) = &self.queue else { return done(Err(stopped())) };
        let (refused, error) = match queue.try_send(Message::Change(Box::new(change), done)) {
            Ok(()) => return,
            Err(TrySendError::Full(refused)) => (refused, ChangeError::Busy),
            Err(TrySendError::Disconnected(refused)) => (refused, stopped()),
        };
        if let Message::Change(_, done) = refused {
            done(Err(error));
        }
    }

    /// Has the file reopened after a failed read. With a full queue there is nothing to do: the next change finds the same
    /// fault.
    pub(super) fn report_read_fault(&self, fault: &Fault) {
        if let Some(queue) = &self.queue {
            drop(queue.try_send(Message::ReadFailed(fault.to_string())));
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            // The thread ends when the queue is empty. Panics of the storage engine are caught in `OpenDatabase`.
            drop(thread.join());
        }
    }
}

/// The state of the thread.
struct WriterState {
    database: Arc<OpenDatabase>,
    /// While the store cannot write: the pause before the next attempt to reopen the file, and when it is due.
    next_attempt: Option<(Duration, Instant)>,
    /// Callers of a transaction of which only the next opening of the file shows whether it was committed.
    unknown_outcome: Option<(Vec<OnCommit>, Attempt)>,
}

/// The progress of one transaction.
#[derive(Default)]
struct Attempt {
    /// Its number; `None` before the last of its changes was applied.
    number: Option<u64>,
    results: Vec<Result<Rows, ChangeError>>,
}

impl Attempt {
    /// Whether it was committed, by the number of commits in the file.
    fn is_committed(&self, commits: u64) -> bool {
        self.number == Some(commits)
    }
}

impl WriterState {
    fn run(mut self, submitted: &Receiver<Message>) {
        while let Some(first) = self.next(submitted) {
            let (mut changes, mut waiting, mut failed_read) = (Vec::new(), Vec::new(), None);
            for message in iter::once(first).chain(submitted.try_iter()).take(CHANGES_PER_COMMIT) {
                match message {
                    Message::Change(change, done) => {
                        changes.push(*change);
                        waiting.push(done);
                    }
                    Message::ReadFailed(reason) => failed_read = Some(reason),
                }
            }
            if !changes.is_empty() {
                self.write(&changes, waiting);
            }
            if let Some(reason) = failed_read {
                self.after_read(reason);
            }
        }
        if let Some((waiting, _)) = self.unknown_outcome.take() {
            answer_all(waiting, &ChangeError::Storage("the store was closed".into()));
        }
    }

    /// The next message; `None` when there will be none.
    fn next(&mut self, submitted: &Receiver<Message>) -> Option<Message> {
        loop {
            let Some((_, due)) = self.next_attempt else { return submitted.recv().ok() };
            let wait = due.saturating_duration_since(Instant::now());
            // Continuous messages must not delay a reopening.
            match if wait.is_zero() { Err(RecvTimeoutError::Timeout) } else { submitted.recv_timeout(wait) } {
                Ok(message) => return Some(message),
                Err(RecvTimeoutError::Timeout) => self.recover(),
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Writes changes in one transaction.
    fn write(&mut self, changes: &[Change], waiting: Vec<OnCommit>) {
        if let Some(reason) = self.fault() {
            return answer_all(waiting, &ChangeError::Unavailable(reason));
        }
        for is_last in [false, true] {
            let mut attempt = Attempt::default();
            let Err(fault) = self.database.with(|database| commit(database, changes, &mut attempt)) else {
                return answer(waiting, attempt);
            };
            let reason = fault.to_string();
            tracing::error!(reason, changes = waiting.len(), "the store failed to commit");
            if !fault.needs_reopening() {
                return answer_all(waiting, &ChangeError::Storage(reason));
            }
            match self.reopen() {
                Ok(commits) if attempt.is_committed(commits) => return answer(waiting, attempt),
                Ok(_) if is_last => {
                    self.fail(reason.clone());
                    return answer_all(waiting, &ChangeError::Unavailable(reason));
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::error!(error, "the store could not be opened again");
                    self.fail(reason.clone());
                    if attempt.number.is_none() {
                        return answer_all(waiting, &ChangeError::Unavailable(reason));
                    }
                    self.unknown_outcome = Some((waiting, attempt));
                    return;
                }
            }
        }
    }

    /// A read failed, and with it all further work until the file is opened again, which may have happened since.
    fn after_read(&mut self, reason: String) {
        if self.next_attempt.is_none() && self.probe().is_err() {
            tracing::error!(reason, "the store failed to read");
            self.fail(reason);
            self.recover();
        }
    }

    /// Reopens the file and tests whether it can be written.
    fn recover(&mut self) {
        match self.reopen() {
            Err(error) => self.fail(error),
            Ok(commits) => {
                if let Some((waiting, attempt)) = self.unknown_outcome.take() {
                    if attempt.is_committed(commits) {
                        answer(waiting, attempt);
                    } else {
                        let reason = self.fault().unwrap_or_default();
                        answer_all(waiting, &ChangeError::Unavailable(reason));
                    }
                }
                match self.probe() {
                    Ok(()) => {
                        self.next_attempt = None;
                        *self.database.fault() = None;
                        tracing::info!("the store can write again");
                    }
                    Err(fault) => {
                        self.fail(fault.to_string());
                        // The next attempt finds an error of this one, too. Until then the store can be read.
                        drop(self.reopen());
                    }
                }
            }
        }
    }

    /// Why changes are refused; `None` while the store works.
    fn fault(&self) -> Option<String> {
        self.database.fault().clone()
    }

    /// Records a persistent fault: the store is unready until an attempt succeeds.
    fn fail(&mut self, reason: String) {
        if self.next_attempt.is_none() {
            tracing::error!(reason, "the store cannot write; it is reopened until it can");
        }
        let pause = self.next_attempt.map_or(FIRST_PAUSE, |(pause, _)| (pause * 2).min(LONGEST_PAUSE));
        *self.database.fault() = Some(reason);
        self.next_attempt = Some((pause, Instant::now() + pause));
    }

    /// Opens the file again; returns how many transactions were committed.
    fn reopen(&self) -> Result<u64, String> {
        self.database.reopen().map_err(|error| with_causes(&error))?;
        let commits = |database: &Database| Meta::open(&database.begin_read()?)?.commits();
        self.database.with(commits).map_err(|fault| fault.to_string())
    }

    /// Commits a transaction without a change, to test whether the file can be written.
    fn probe(&self) -> Result<(), Fault> {
        self.database.with(|database| {
            let mut transaction = database.begin_write()?;
            transaction.set_durability(Durability::Immediate)?;
            Writing::open(&transaction)?.meta.count_commit()?;
            Ok(transaction.commit()?)
        })
    }
}

fn answer(waiting: Vec<OnCommit>, attempt: Attempt) {
    waiting.into_iter().zip(attempt.results).for_each(|(done, result)| done(result));
}

fn answer_all(waiting: Vec<OnCommit>, error: &ChangeError) {
    waiting.into_iter().for_each(|done| done(Err(error.clone())));
}

/// Writes `changes` in order in one transaction, durable when this returns. One result per change.
fn commit(database: &Database, changes: &[Change], attempt: &mut Attempt) -> Result<(), Fault> {
    let mut transaction = database.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    let number = {
        let mut tables = Writing::open(&transaction)?;
        for change in changes {
            attempt.results.push(match apply(&mut tables, change.clone()) {
                Ok(rows) => Ok(rows),
                Err(Fault::Refused(refusal)) => Err(refusal),
                Err(fault) => return Err(fault),
            });
        }
        // A completely refused group changed nothing: it needs no commit.
        if attempt.results.iter().all(Result::is_err) { None } else { Some(tables.meta.count_commit()?) }
    };
    if number.is_none() {
        transaction.abort()?;
    } else {
        attempt.number = number;
        transaction.commit()?;
    }
    Ok(())
}
