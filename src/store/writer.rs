//! The one thread that writes: group commit.
//!
//! While a commit waits for the disk, changes pile up in the queue; the next commit takes all of them. One change alone
//! is committed at once. So the latency is one or two commits, whatever the load, and the disk is asked as seldom as
//! possible.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use redb::{Database, Durability};

use super::fault::{Failure, Fault};
use super::redb_store::OpenDatabase;
use super::tables::Writing;
use super::upkeep::Upkeep;
use super::{Change, ChangeError, Done, QUEUED_CHANGES, Rows};

/// Changes in one commit. Bounds how long the first of them waits for the others to be written.
const CHANGES_PER_COMMIT: usize = 1024;

struct Submitted {
    change: Change,
    done: Done,
}

/// The writer thread's owner. Dropping it commits what is queued and waits for the thread.
#[derive(Debug)]
pub(super) struct Writer {
    queue: Option<SyncSender<Submitted>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(database: Arc<OpenDatabase>, upkeep: Upkeep) -> std::io::Result<Self> {
        let (queue, submitted) = sync_channel(QUEUED_CHANGES);
        let thread = std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || run(&database, &submitted, upkeep))?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    /// Queues a change, or refuses it at once when the queue is full.
    pub(super) fn submit(&self, change: Change, done: Done) {
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
            // The thread ends when the queue is empty. Its panics were caught below; there is nothing to report.
            drop(thread.join());
        }
    }
}

/// The next change; `None` when there will be none.
fn next(submitted: &Receiver<Submitted>, database: &OpenDatabase, upkeep: &mut Upkeep) -> Option<Submitted> {
    while let Some(idle) = upkeep.due_after() {
        match submitted.recv_timeout(idle) {
            Ok(change) => return Some(change),
            Err(RecvTimeoutError::Timeout) => upkeep.tidy(database),
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
    submitted.recv().ok()
}

fn run(database: &OpenDatabase, submitted: &Receiver<Submitted>, mut upkeep: Upkeep) {
    while let Some(first) = next(submitted, database, &mut upkeep) {
        let (mut changes, mut waiting) = (vec![first.change], vec![first.done]);
        while changes.len() < CHANGES_PER_COMMIT {
            let Ok(next) = submitted.try_recv() else { break };
            changes.push(next.change);
            waiting.push(next.done);
        }
        upkeep.note(changes.len());
        // redb panics on some kinds of damage. A panic fails the changes at hand, as any other storage error does.
        let outcome = catch_unwind(AssertUnwindSafe(|| database.with(|database| commit(database, changes))))
            .unwrap_or_else(|_| Err(Fault::Damaged("the storage engine panicked; the file may be damaged".into())))
            .map_err(|fault| fault.to_string());
        match outcome {
            Ok(results) => waiting.into_iter().zip(results).for_each(|(done, result)| done(result)),
            Err(reason) => {
                tracing::error!(reason, changes = waiting.len(), "the store failed to commit");
                waiting.into_iter().for_each(|done| done(Err(ChangeError::Storage(reason.clone()))));
            }
        }
    }
}

/// Writes `changes` in order in one transaction, durable when this returns. One result per change.
fn commit(database: &Database, changes: Vec<Change>) -> Result<Vec<Result<Rows, ChangeError>>, Fault> {
    let mut transaction = database.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    let mut results = Vec::with_capacity(changes.len());
    {
        let mut tables = Writing::open(&transaction)?;
        for change in changes {
            results.push(match tables.apply(change) {
                Ok(rows) => Ok(rows),
                Err(Failure::Refused(refusal)) => Err(refusal),
                Err(Failure::Fault(fault)) => return Err(fault),
            });
        }
    }
    // A group that was refused as a whole changed nothing: it needs no disk.
    if results.iter().all(Result::is_err) {
        transaction.abort()?;
    } else {
        transaction.commit()?;
    }
    Ok(results)
}
