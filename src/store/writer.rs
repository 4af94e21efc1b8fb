//! The one thread that writes: group commit.
//!
//! While a commit waits for the disk, changes pile up in the queue; the next commit takes all of them. One change alone
//! is committed at once. So the latency is one or two commits, whatever the load, and the disk is asked as seldom as
//! possible.
//!
//! A commit that fails over the storage is tried once more on the file opened anew. Each transaction counts itself
//! (`facts.rs`), so the reopened file shows whether the failed one was committed after all: it is then acknowledged.
//! Until the store can write again, other changes are refused at once.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use redb::{Database, Durability};

use super::fault::{Failure, Fault};
use super::recovery::{Recovery, guarded};
use super::redb_store::OpenDatabase;
use super::reserve::Reserve;
use super::tables::Writing;
use super::upkeep::Upkeep;
use super::{Change, ChangeError, Done, QUEUED_CHANGES, Rows};

/// Changes in one commit. Bounds how long the first of them waits for the others to be written.
const CHANGES_PER_COMMIT: usize = 1024;

/// How long changes wait for the reopening that shows whether they were committed.
const PATIENCE: Duration = Duration::from_secs(30);

enum Message {
    Change(Box<Submitted>),
    /// A read failed over the storage, on the opening of this number.
    ReadFailed {
        opening: u64,
        reason: String,
    },
}

struct Submitted {
    change: Change,
    done: Done,
}

/// The writer thread's owner. Dropping it commits what is queued and waits for the thread.
#[derive(Debug)]
pub(super) struct Writer {
    queue: Option<SyncSender<Message>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(
        database: Arc<OpenDatabase>,
        upkeep: Upkeep,
        recovery: Recovery,
        reserve: Reserve,
    ) -> std::io::Result<Self> {
        let (queue, submitted) = sync_channel(QUEUED_CHANGES);
        let mut work = Work { database, upkeep, recovery, reserve, undecided: None };
        work.reserve.renew();
        let thread = std::thread::Builder::new().name("store-writer".into()).spawn(move || work.run(&submitted))?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    /// Queues a change, or refuses it at once when the queue is full.
    pub(super) fn submit(&self, change: Change, done: Done) {
        let stopped = || ChangeError::Storage("the writer has stopped".into());
        let Some(queue) = &self.queue else { return done(Err(stopped())) };
        match queue.try_send(Message::Change(Box::new(Submitted { change, done }))) {
            Ok(()) | Err(TrySendError::Full(Message::ReadFailed { .. })) => {}
            Err(TrySendError::Full(Message::Change(refused))) => (refused.done)(Err(ChangeError::Busy)),
            Err(TrySendError::Disconnected(Message::Change(refused))) => (refused.done)(Err(stopped())),
            Err(TrySendError::Disconnected(Message::ReadFailed { .. })) => {}
        }
    }

    /// Has the file opened again, which a read of the opening of this number found failed. With a full queue nothing is
    /// to be done: the next change finds it failed as well.
    pub(super) fn report(&self, opening: u64, fault: &Fault) {
        if let Some(queue) = &self.queue {
            drop(queue.try_send(Message::ReadFailed { opening, reason: fault.to_string() }));
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            // The thread ends when the queue is empty. Its panics were caught below; there is nothing to report.
            drop(thread.join());
        }
    }
}

/// What the thread works with.
struct Work {
    database: Arc<OpenDatabase>,
    upkeep: Upkeep,
    recovery: Recovery,
    reserve: Reserve,
    /// Changes of which only the next opening of the file shows whether they were committed.
    undecided: Option<Undecided>,
}

struct Undecided {
    waiting: Vec<Done>,
    attempt: Attempt,
    until: Instant,
}

/// One transaction, as far as it came.
#[derive(Default)]
struct Attempt {
    /// Its number; nothing before the last of its changes was applied.
    number: Option<u64>,
    results: Vec<Result<Rows, ChangeError>>,
}

impl Attempt {
    /// Whether it was committed, after which the file has so many commits.
    fn is_in(&self, commits: u64) -> bool {
        self.number == Some(commits)
    }
}

impl Work {
    fn run(mut self, submitted: &Receiver<Message>) {
        while let Some(message) = self.next(submitted) {
            match message {
                Message::Change(first) => self.take(*first, submitted),
                Message::ReadFailed { opening, reason } => self.after_read(opening, reason),
            }
        }
        if let Some(Undecided { waiting, .. }) = self.undecided.take() {
            answer_all(waiting, &ChangeError::Storage("the store was closed".into()));
        }
    }

    /// The next message; `None` when there will be none.
    fn next(&mut self, submitted: &Receiver<Message>) -> Option<Message> {
        loop {
            let is_failed = self.recovery.reason().is_some();
            let wait = if is_failed { self.recovery.due_after() } else { self.upkeep.due_after() };
            let Some(wait) = wait else { return submitted.recv().ok() };
            // Messages that keep coming must not put a reopening off.
            let is_due = is_failed && wait.is_zero();
            match if is_due { Err(RecvTimeoutError::Timeout) } else { submitted.recv_timeout(wait) } {
                Ok(message) => return Some(message),
                Err(RecvTimeoutError::Timeout) if is_failed => self.recover(),
                Err(RecvTimeoutError::Timeout) => {
                    if let Err(fault) = self.upkeep.tidy(&self.database)
                        && fault.needs_reopening()
                    {
                        self.recovery.fail(fault.to_string());
                        self.recover();
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Takes all changes that wait with the first one, and writes them.
    fn take(&mut self, first: Submitted, submitted: &Receiver<Message>) {
        let (mut changes, mut waiting) = (vec![first.change], vec![first.done]);
        let mut read_failed = None;
        while changes.len() < CHANGES_PER_COMMIT && read_failed.is_none() {
            match submitted.try_recv() {
                Ok(Message::Change(next)) => {
                    changes.push(next.change);
                    waiting.push(next.done);
                }
                Ok(Message::ReadFailed { opening, reason }) => read_failed = Some((opening, reason)),
                Err(_) => break,
            }
        }
        self.write(&changes, waiting);
        if let Some((opening, reason)) = read_failed {
            self.after_read(opening, reason);
        }
    }

    fn write(&mut self, changes: &[Change], waiting: Vec<Done>) {
        if let Some(reason) = self.recovery.reason() {
            return answer_all(waiting, &ChangeError::Unavailable(reason.to_owned()));
        }
        self.upkeep.note(changes.len());
        for is_last in [false, true] {
            let mut attempt = Attempt::default();
            // redb panics on some kinds of damage. A panic fails the changes at hand, as any other storage error does.
            let Err(fault) = guarded(|| self.database.with(|database| commit(database, changes, &mut attempt))) else {
                self.reserve.renew();
                return answer(waiting, attempt);
            };
            let reason = fault.to_string();
            tracing::error!(reason, changes = waiting.len(), "the store failed to commit");
            if !fault.needs_reopening() {
                return answer_all(waiting, &ChangeError::Storage(reason));
            }
            match self.recovery.reopen() {
                Ok(commits) if attempt.is_in(commits) => return answer(waiting, attempt),
                Ok(_) if is_last => {
                    self.recovery.fail(reason.clone());
                    return answer_all(waiting, &ChangeError::Unavailable(reason));
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::error!(error, "the store could not be opened again");
                    self.recovery.fail(reason.clone());
                    if attempt.number.is_none() {
                        return answer_all(waiting, &ChangeError::Unavailable(reason));
                    }
                    self.undecided = Some(Undecided { waiting, attempt, until: Instant::now() + PATIENCE });
                    return;
                }
            }
        }
    }

    /// A read failed, and with it all further work on that opening of the file.
    fn after_read(&mut self, opening: u64, reason: String) {
        if self.recovery.reason().is_none() && opening == self.database.opening() {
            tracing::error!(reason, "the store failed to read");
            self.recovery.fail(reason);
            self.recover();
        }
    }

    /// Opens the file again and writes to it.
    fn recover(&mut self) {
        match self.recovery.reopen() {
            Err(error) => {
                self.recovery.fail(error.clone());
                if let Some(Undecided { waiting, .. }) = self.undecided.take_if(|late| late.until <= Instant::now()) {
                    answer_all(waiting, &ChangeError::Storage(error));
                }
            }
            Ok(commits) => {
                if let Some(Undecided { waiting, attempt, .. }) = self.undecided.take() {
                    if attempt.is_in(commits) {
                        answer(waiting, attempt);
                    } else {
                        let reason = self.recovery.reason().unwrap_or_default().to_owned();
                        answer_all(waiting, &ChangeError::Unavailable(reason));
                    }
                }
                match self.recovery.probe() {
                    Ok(()) => {
                        self.recovery.succeed();
                        self.reserve.renew();
                    }
                    Err(fault) => {
                        self.recovery.fail(fault.to_string());
                        // What fails here the next attempt finds as well; until then the store can be read.
                        drop(self.recovery.reopen());
                    }
                }
            }
        }
    }
}

fn answer(waiting: Vec<Done>, attempt: Attempt) {
    waiting.into_iter().zip(attempt.results).for_each(|(done, result)| done(result));
}

fn answer_all(waiting: Vec<Done>, error: &ChangeError) {
    waiting.into_iter().for_each(|done| done(Err(error.clone())));
}

/// Writes `changes` in order in one transaction, durable when this returns. One result per change.
fn commit(database: &Database, changes: &[Change], attempt: &mut Attempt) -> Result<(), Fault> {
    let mut transaction = database.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    let number = {
        let mut tables = Writing::open(&transaction)?;
        for change in changes {
            attempt.results.push(match tables.apply(change.clone()) {
                Ok(rows) => Ok(rows),
                Err(Failure::Refused(refusal)) => Err(refusal),
                Err(Failure::Fault(fault)) => return Err(fault),
            });
        }
        // A group that was refused as a whole changed nothing: it needs no disk.
        if attempt.results.iter().all(Result::is_err) { None } else { Some(tables.facts.count_commit()?) }
    };
    if number.is_none() {
        transaction.abort()?;
    } else {
        attempt.number = number;
        transaction.commit()?;
    }
    Ok(())
}
