//! Writer thread on PostgreSQL: group commit of own changes, in one order with the commits of other processes.
//!
//! All changes that queue up during one transaction share the next. The thread also reads the log of commits
//! (`commit_log.rs`), several times a second and with each own commit, so that the followers get the rows of other
//! processes and the callers those of their changes in the order of the commits.
//!
//! When the connection breaks it is made again, and changes are refused until then; those whose commit was in progress wait for
//! its outcome, which the log has. Bills whose images are leased are not refused: their callers may have an answer already. They
//! wait in their order, and transactions of them alternate with those of later changes afterwards. Leases bound their number. One is
//! given up only for a reason of its own, not because the server refuses every change, as with a full disk.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::bill_batch::BillBatch;
use super::commit_log::{BATCH, LogFollowers, LogPlace, LoggedCommit};
use super::connect::{Connection, Server};
use super::locks::{Locking, lock_shared, unlock};
use super::reads::Queries;
use super::schema::schema_of;
use crate::store::apply_bill::apply_bill;
use crate::store::apply_change::apply;
use crate::store::storage_fault::{ApplyError, Fault};
use crate::store::write_tables::BillTables;
use crate::store::{Bill, Change, ChangeError, OnCommit, QUEUED_CHANGES, Rows};

type ChangeResult = Result<Rows, ChangeError>;

/// Changes in one transaction.
const CHANGES_PER_COMMIT: usize = 256;

/// How long changes are added to a transaction: but for bills each takes some round trips, for which the first one and all other
/// processes wait.
const GROUP_TIME: Duration = Duration::from_millis(250);

/// How long changes with an unknown outcome wait for the connection.
const OUTCOME_TIMEOUT: Duration = Duration::from_secs(30);

/// How often the log is read, and a broken connection is made again. Within this time a daemon follows the commits of the
/// others.
const INTERVAL: Duration = Duration::from_millis(250);

/// How often a daemon renews its lease.
const HEARTBEAT: Duration = Duration::from_secs(2);

/// How long a daemon's jobs are its own after its last heartbeat.
const DAEMON_LEASE: Duration = Duration::from_secs(15);

/// How often a daemon drops old commits from the log.
const CLEANUP: Duration = Duration::from_secs(60);

/// How often a new connection tries to take the locks: the server needs a moment to end the session of a broken one.
const LOCK_TRIES: u32 = 10;

/// The pause between two of them.
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// How long the server may take to answer the test of an idle connection.
const TEST_TIMEOUT: Duration = Duration::from_secs(5);

/// The state that the writer shows to others.
#[derive(Debug, Default)]
pub(super) struct Health {
    fault: Mutex<Option<String>>,
    /// When the connection was last made; `None` while it is broken.
    connected: Mutex<Option<Instant>>,
    superseded: AtomicBool,
}

impl Health {
    pub(super) fn fault(&self) -> Option<String> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn is_superseded(&self) -> bool {
        self.superseded.load(Ordering::Relaxed)
    }

    /// Whether the others have had the time to renew their leases since this process is connected: after an outage of the
    /// server all leases have ended, also those of daemons that live.
    pub(super) fn is_settled(&self) -> bool {
        let connected = *self.connected.lock().unwrap_or_else(PoisonError::into_inner);
        connected.is_some_and(|since| since.elapsed() >= DAEMON_LEASE)
    }

    fn set(&self, fault: Option<String>) {
        let connected = fault.is_none().then(Instant::now);
        *self.connected.lock().unwrap_or_else(PoisonError::into_inner) = connected;
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }
}

/// The owner of the writer thread. Dropped, it commits what is queued and waits for the thread.
#[derive(Debug)]
pub(super) struct Writer {
    queue: Option<SyncSender<Submitted>>,
    thread: Option<JoinHandle<()>>,
}

struct Submitted {
    change: Change,
    /// `None` where the caller has an error, and the outcome is still unknown.
    done: Option<OnCommit>,
}

impl Submitted {
    fn as_bill(&self) -> Option<&Bill> {
        if let Change::Bill(bill) = &self.change { Some(bill) } else { None }
    }

    /// Whether it waits for the database, rather than being refused.
    fn is_deferrable(&self) -> bool {
        self.done.is_some() && self.change.is_covered()
    }

    fn answer(self, result: Result<Rows, ChangeError>) {
        if let Some(done) = self.done {
            done(result);
        }
    }
}

impl Writer {
    /// With a connection that has the shared lock.
    pub(super) fn start(
        server: Server,
        mut connection: Connection,
        process: i64,
        followers: Arc<LogFollowers>,
        health: Arc<Health>,
    ) -> Result<Self, Fault> {
        renew_lease(&mut connection)?;
        let place = connection.snapshot()?.last_commit()?;
        followers.loaded(place.number);
        health.set(None);
        let (queue, submitted) = sync_channel(QUEUED_CHANGES);
        let state =
            WriterState { connection: Some(connection), ..WriterState::new(server, process, place, followers, health) };
        let thread = std::thread::Builder::new().name("store-writer".into()).spawn(move || state.run(&submitted));
        let thread = thread.map_err(|error| Fault::Server(format!("no thread can be started: {error}")))?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    /// Queues a change, or refuses it at once when the queue is full.
    pub(super) fn submit(&self, change: Change, done: OnCommit) {
        let stopped = || ChangeError::Storage("the writer has stopped".into());
        let Some(queue) = &self.queue else { return done(Err(stopped())) };
        match queue.try_send(Submitted { change, done: Some(done) }) {
            Ok(()) => {}
            Err(TrySendError::Full(refused)) => refused.answer(Err(ChangeError::Busy)),
            Err(TrySendError::Disconnected(refused)) => refused.answer(Err(stopped())),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.queue.take());
        // A callback may be the last to hold the store: the thread does not wait for itself.
        if let Some(thread) = self.thread.take_if(|thread| thread.thread().id() != std::thread::current().id()) {
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
    /// Identifies this process in the log.
    process: i64,
    /// The last commit whose rows were passed on.
    place: LogPlace,
    followers: Arc<LogFollowers>,
    health: Arc<Health>,
    lease_renewed: Instant,
    cleaned_up: Instant,
    /// Changes that the last transaction left for a further one.
    remaining: Vec<Submitted>,
    /// Bills that wait for the database, in their order.
    deferred: VecDeque<Submitted>,
    /// Whether a transaction has failed since the log was last read: deferred bills are not written until it is read again.
    has_failed: bool,
    /// Changes whose outcome only the next connection shows.
    unknown_outcome: Option<UnknownOutcome>,
    /// The token of changes whose outcome is still unknown, and whose callers have an error.
    given_up: Option<i64>,
}

struct UnknownOutcome {
    group: Vec<Submitted>,
    attempt: Attempt,
    until: Instant,
}

/// The progress of one transaction.
struct Attempt {
    /// Identifies it in the log.
    token: i64,
    /// Whether it got as far as a commit: before it is counted it cannot have happened.
    is_counted: bool,
    results: Vec<ChangeResult>,
    /// How many changes after those with results failed, one of them by its own rows or values, so that it would fail again.
    invalid: usize,
}

impl Attempt {
    fn new() -> Self {
        Self { token: rand::random(), is_counted: false, results: Vec::new(), invalid: 0 }
    }
}

impl WriterState {
    /// Without a connection.
    fn new(server: Server, process: i64, place: LogPlace, followers: Arc<LogFollowers>, health: Arc<Health>) -> Self {
        Self {
            server,
            connection: None,
            process,
            place,
            followers,
            health,
            lease_renewed: Instant::now(),
            cleaned_up: Instant::now(),
            remaining: Vec::new(),
            deferred: VecDeque::new(),
            has_failed: false,
            unknown_outcome: None,
            given_up: None,
        }
    }

    fn run(mut self, submitted: &Receiver<Submitted>) {
        let mut due = Instant::now() + INTERVAL;
        loop {
            // A few transactions later at most: neither continuous changes nor many deferred bills may delay the lease.
            if due <= Instant::now() {
                self.follow();
                self.has_failed = false;
                due = Instant::now() + INTERVAL;
            }
            self.write_deferred();
            let is_idle = self.remaining.is_empty() && !self.can_write_deferred();
            let wait = if is_idle { due.saturating_duration_since(Instant::now()) } else { Duration::ZERO };
            match self.next_group(submitted, wait) {
                Ok(group) => self.write(group),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.end();
    }

    /// Answers what is left. Nothing is deferred as a rule: the callers keep the store until such bills are committed.
    fn end(mut self) {
        let unknown = self.unknown_outcome.take().map(|unknown| unknown.group).unwrap_or_default();
        answer_all(unknown, &ChangeError::Storage("the store was closed".into()));
        answer_all(self.deferred.drain(..), &ChangeError::Unavailable("the store was closed".into()));
        if let Some(connection) = &self.connection {
            unlock(connection);
        }
    }

    /// Passes on the commits of other processes and renews the lease, or makes the connection again.
    fn follow(&mut self) {
        self.begin();
        let Some(connection) = &mut self.connection else {
            if let Ok(group) = self.reconnect() {
                self.refuse(group, &ChangeError::Unavailable("the connection to the database broke".into()));
            }
            return;
        };
        let is_lease_due = self.lease_renewed.elapsed() >= HEARTBEAT;
        let is_cleanup_due = self.cleaned_up.elapsed() >= CLEANUP;
        let read = connection.test(TEST_TIMEOUT).and_then(|()| {
            if is_lease_due {
                renew_lease(connection)?;
            }
            let is_cleaned_up = is_cleanup_due && !clean_up(connection)?;
            Ok((read_log(connection, self.place)?, is_cleaned_up))
        });
        match read {
            Ok((commits, is_cleaned_up)) => {
                if is_lease_due {
                    self.lease_renewed = Instant::now();
                }
                if is_cleaned_up {
                    self.cleaned_up = Instant::now();
                }
                self.pass_on(commits);
            }
            Err(fault) => {
                self.fail(fault.to_string());
                // At once, and again at the next turn. No outcome is unknown here; a failure is in `health`.
                drop(self.reconnect());
            }
        }
    }

    /// Begins after what was loaded, once the first follower is there.
    fn begin(&mut self) {
        if let Some(number) = self.followers.begin() {
            self.place = LogPlace { number, token: None };
        }
    }

    /// Passes commits on in their order: those of other processes to the followers, that of an attempt with an unknown
    /// outcome to its callers.
    fn pass_on(&mut self, commits: Vec<LoggedCommit>) {
        for commit in commits {
            if commit.place.number != self.place.number + 1 {
                let (next, found) = (self.place.number + 1, commit.place.number);
                return self.supersede(&format!("its log has commit {found} after {next} was expected"));
            }
            self.place = commit.place;
            if commit.process == self.process {
                let is_attempt = |unknown: &mut UnknownOutcome| Some(unknown.attempt.token) == commit.place.token;
                if let Some(UnknownOutcome { group, attempt, .. }) = self.unknown_outcome.take_if(is_attempt) {
                    self.answer(group, attempt.results);
                }
                if self.given_up.is_some() && self.given_up == commit.place.token {
                    // Nothing here knows its rows: its callbacks are gone.
                    return self.supersede("it has changes that were given up");
                }
                continue;
            }
            match commit.rows() {
                Ok(rows) => self.followers.call(&rows),
                // Damaged, or of a later version whose migration is not as additive as it says.
                Err(fault) => return self.supersede(&fault.to_string()),
            }
        }
    }

    /// The changes of the next transaction: those that remain of the last one, and what waits. Bills that can be deferred follow
    /// those that are: they may continue one with the same `Idempotency-Key`.
    fn next_group(
        &mut self,
        submitted: &Receiver<Submitted>,
        wait: Duration,
    ) -> Result<Vec<Submitted>, RecvTimeoutError> {
        let mut group = std::mem::take(&mut self.remaining);
        if group.is_empty() {
            group.push(submitted.recv_timeout(wait)?);
        }
        while group.len() < CHANGES_PER_COMMIT
            && let Ok(next) = submitted.try_recv()
        {
            group.push(next);
        }
        if self.deferred.is_empty() {
            return Ok(group);
        }
        let (bills, others): (Vec<_>, Vec<_>) = group.into_iter().partition(Submitted::is_deferrable);
        self.deferred.extend(bills);
        Ok(others)
    }

    fn can_write_deferred(&self) -> bool {
        self.connection.is_some() && !self.has_failed && !self.deferred.is_empty()
    }

    /// Writes deferred bills, as many as one transaction has.
    fn write_deferred(&mut self) {
        if self.can_write_deferred() {
            let count = self.deferred.len().min(CHANGES_PER_COMMIT);
            let group = self.deferred.drain(..count).collect();
            self.write(group);
        }
    }

    /// Writes changes in one transaction, and once again where the connection breaks. Those for which it has no time are kept for a
    /// further one, and so are the others where one of them makes it fail.
    fn write(&mut self, mut group: Vec<Submitted>) {
        if group.is_empty() {
            return;
        }
        self.begin();
        let mut is_last = false;
        let mut bills_at_once = CHANGES_PER_COMMIT;
        loop {
            let Some(connection) = &mut self.connection else {
                let reason = self.health.fault().unwrap_or_default();
                return self.refuse(group, &ChangeError::Unavailable(reason));
            };
            let mut attempt = Attempt::new();
            let (process, known) = (self.process, self.place.number);
            let fault = match commit(connection, &group, bills_at_once, process, known, &mut attempt) {
                Ok(Committed { earlier, place }) => {
                    self.pass_on(earlier);
                    if let Some(place) = place {
                        if place.number != self.place.number + 1 && !self.health.is_superseded() {
                            self.supersede("commits are missing in its log");
                        }
                        // Also where this process cannot follow the others any more: its own change is durable.
                        self.place = place;
                    }
                    let remaining = group.split_off(attempt.results.len());
                    self.answer(group, attempt.results);
                    return self.put_back(remaining);
                }
                Err(fault) => fault,
            };
            let reason = fault.to_string();
            tracing::error!(reason, changes = group.len(), "the store failed to commit");
            if attempt.invalid > 0 || !fault.needs_reopening() {
                // The next use of the connection ends the transaction.
                if let Err(fault) = connection.test(TEST_TIMEOUT) {
                    self.fail(fault.to_string());
                }
                if attempt.invalid > 1 {
                    // Which bill it is shows when they are written one by one.
                    bills_at_once = 1;
                    continue;
                }
                let error = ChangeError::Storage(reason);
                if attempt.invalid == 1 {
                    group.remove(attempt.results.len()).answer(Err(error));
                    return self.put_back(group);
                }
                self.has_failed = true;
                return self.refuse(group, &error);
            }
            self.has_failed = true;
            self.fail(reason.clone());
            let (is_counted, until) = (attempt.is_counted, Instant::now() + OUTCOME_TIMEOUT);
            self.unknown_outcome = Some(UnknownOutcome { group, attempt, until });
            group = match self.reconnect() {
                Ok(group) if group.is_empty() => return,
                Ok(group) if is_last => return self.refuse(group, &ChangeError::Unavailable(reason)),
                Ok(group) => group,
                Err(()) => {
                    // Otherwise a later connection shows the outcome.
                    if let Some(unknown) = self.unknown_outcome.take_if(|_| !is_counted) {
                        self.refuse(unknown.group, &ChangeError::Unavailable(reason));
                    }
                    return;
                }
            };
            is_last = true;
        }
    }

    /// Answers changes that did not happen with an error, but for those that can be deferred.
    fn refuse(&mut self, group: Vec<Submitted>, error: &ChangeError) {
        let others = self.defer(group);
        answer_all(others, error);
    }

    /// Keeps changes that did not happen for a further transaction, in their order where no older ones are deferred.
    fn put_back(&mut self, group: Vec<Submitted>) {
        if self.deferred.is_empty() {
            drop(self.remaining.splice(0..0, group));
            return;
        }
        let others = self.defer(group);
        self.remaining.extend(others);
    }

    /// Defers the bills of a group that can be, and returns its other changes. They are older than all that are deferred: a group
    /// that is taken from the queue has none while there are such.
    fn defer(&mut self, group: Vec<Submitted>) -> Vec<Submitted> {
        if self.health.is_superseded() {
            return group;
        }
        let (bills, others): (Vec<_>, Vec<_>) = group.into_iter().partition(Submitted::is_deferrable);
        bills.into_iter().rev().for_each(|bill| self.deferred.push_front(bill));
        others
    }

    /// Answers changes with their results. Those without one were not in the transaction.
    fn answer(&mut self, mut group: Vec<Submitted>, results: Vec<Result<Rows, ChangeError>>) {
        let left_out = group.split_off(results.len().min(group.len()));
        group.into_iter().zip(results).for_each(|(submitted, result)| submitted.answer(result));
        self.refuse(left_out, &ChangeError::Unavailable("the connection to the database broke".into()));
    }

    /// Gives the connection up.
    fn fail(&mut self, reason: String) {
        if self.health.fault().is_none() {
            tracing::error!(reason, "the database cannot be used; the connection is made again until it can");
        }
        self.health.set(Some(reason));
        self.connection = None;
    }

    /// Connects, passes on what was committed meanwhile, and resolves a transaction whose outcome is unknown. Returns its
    /// changes where it did not happen.
    fn reconnect(&mut self) -> Result<Vec<Submitted>, ()> {
        if self.health.is_superseded() {
            return Err(());
        }
        match self.try_reconnect() {
            Ok(connection) if !self.health.is_superseded() => {
                self.connection = Some(connection);
                self.health.set(None);
                self.given_up = None;
                // After a long outage the others need a moment to follow the log before its old commits are dropped.
                self.cleaned_up = Instant::now();
                tracing::info!("the database can be used again");
                let mut group = self.unknown_outcome.take().map(|unknown| unknown.group).unwrap_or_default();
                group.retain(|submitted| submitted.done.is_some());
                Ok(group)
            }
            outcome => {
                let reason = outcome.err().or(self.health.fault()).unwrap_or_default();
                self.health.set(Some(reason.clone()));
                let is_over = |late: &mut UnknownOutcome| late.until <= Instant::now() || self.health.is_superseded();
                if let Some(unknown) = self.unknown_outcome.take_if(is_over) {
                    self.give_up(unknown, &ChangeError::Storage(reason));
                }
                Err(())
            }
        }
    }

    /// Answers the callers of a transaction whose outcome is still unknown, but for deferred bills, which wait for it.
    fn give_up(&mut self, unknown: UnknownOutcome, error: &ChangeError) {
        let UnknownOutcome { mut group, attempt, .. } = unknown;
        let is_superseded = self.health.is_superseded();
        for submitted in &mut group {
            if (is_superseded || !submitted.is_deferrable())
                && let Some(done) = submitted.done.take()
            {
                self.given_up = Some(attempt.token);
                done(Err(error.clone()));
            }
        }
        if group.iter().any(|submitted| submitted.done.is_some()) {
            self.unknown_outcome = Some(UnknownOutcome { group, attempt, until: Instant::now() + OUTCOME_TIMEOUT });
        }
    }

    fn try_reconnect(&mut self) -> Result<Connection, String> {
        let text = |fault: Fault| fault.to_string();
        let mut connection = self.server.connect().map_err(text)?;
        let mut tries = 0;
        while lock_shared(&mut connection).map_err(text)? == Locking::InUse {
            unlock(&connection);
            if tries == LOCK_TRIES {
                return Err(format!("another process keeps {} for itself", self.server.name()));
            }
            tries += 1;
            std::thread::sleep(LOCK_PAUSE);
        }
        let place = self.place;
        let read = renew_lease(&mut connection).and_then(|()| {
            let mut queries = connection.snapshot()?;
            let found = (schema_of(&mut queries)?, queries.last_commit()?.number, queries.token_of(place.number)?);
            queries.roll_back()?;
            Ok(found)
        });
        let (schema, last, known) = read.map_err(text)?;
        self.lease_renewed = Instant::now();
        if !self.server.migrations.work_on(schema) {
            self.supersede("another version has changed its tables");
        } else if last < place.number || place.token.is_some() && known != place.token {
            self.supersede("it does not have all commits that it acknowledged, or keeps them no longer");
        } else {
            self.catch_up(&mut connection).map_err(text)?;
        }
        Ok(connection)
    }

    /// Passes on what was committed meanwhile, up to the end of the broken connection's transaction.
    fn catch_up(&mut self, connection: &mut Connection) -> Result<(), Fault> {
        // Most of it before others wait.
        loop {
            let commits = read_log(connection, self.place)?;
            let is_last = commits.len() < BATCH;
            self.pass_on(commits);
            if is_last || self.health.is_superseded() {
                break;
            }
        }
        let mut queries = connection.writing()?;
        queries.wait_for_commits()?;
        let commits = queries.all_commits_after(self.place.number)?;
        queries.roll_back()?;
        self.pass_on(commits);
        Ok(())
    }

    /// What this process has in memory differs from the database for good.
    fn supersede(&mut self, reason: &str) {
        let reason = format!("{} cannot be used any more: {reason}", self.server.name());
        tracing::error!(reason, "the copies of the database in memory are stale");
        self.health.superseded.store(true, Ordering::Relaxed);
        self.health.set(Some(reason.clone()));
        self.connection = None;
        answer_all(std::mem::take(&mut self.deferred), &ChangeError::Unavailable(reason));
    }
}

fn answer_all(group: impl IntoIterator<Item = Submitted>, error: &ChangeError) {
    group.into_iter().for_each(|submitted| submitted.answer(Err(error.clone())));
}

/// The next commits after a place.
fn read_log(connection: &mut Connection, place: LogPlace) -> Result<Vec<LoggedCommit>, Fault> {
    let mut queries = connection.snapshot()?;
    let commits = queries.commits_after(place.number)?;
    queries.roll_back()?;
    Ok(commits)
}

/// Drops some of the old commits, and without more of them ended leases and daemons that have not been back for a week; returns
/// whether there may be more. They are dropped turn by turn: neither bills nor the renewal of the lease wait for all of them.
pub(super) fn clean_up(connection: &mut Connection) -> Result<bool, Fault> {
    let mut queries = connection.writing()?;
    let may_be_more = queries.drop_old_commits()?;
    queries.commit()?;
    if may_be_more {
        return Ok(true);
    }
    let mut queries = connection.writing()?;
    queries.drop_ended_leases()?;
    queries.execute("DELETE FROM daemons WHERE lease_until < now() - interval '7 days'", &[])?;
    queries.commit().map(|()| false)
}

/// Renews the lease of the connection's daemon.
fn renew_lease(connection: &mut Connection) -> Result<(), Fault> {
    let Some(daemon) = connection.daemon else { return Ok(()) };
    let mut queries = connection.writing()?;
    let text = "INSERT INTO daemons VALUES ($1, now() + make_interval(secs => $2)) \
         ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until";
    queries.execute(text, &[&daemon, &DAEMON_LEASE.as_secs_f64()])?;
    queries.commit()
}

/// What a transaction found and did.
struct Committed {
    /// The commits of others before it.
    earlier: Vec<LoggedCommit>,
    /// Its own commit; `None` where all its changes were refused.
    place: Option<LogPlace>,
}

/// Writes the changes of `group` in order in one transaction, durable when this returns: one at least, and as many as
/// [`GROUP_TIME`] allows, up to `bills_at_once` consecutive bills together. One result per written change.
fn commit(
    connection: &mut Connection,
    group: &[Submitted],
    bills_at_once: usize,
    process: i64,
    known: i64,
    attempt: &mut Attempt,
) -> Result<Committed, Fault> {
    let mut queries = connection.writing()?;
    let number = queries.count_commit()?;
    let began = Instant::now();
    let earlier = if number > known + 1 { queries.all_commits_after(known)? } else { Vec::new() };
    let mut left = group;
    while let Some(next) = left.first()
        && (attempt.results.is_empty() || began.elapsed() < GROUP_TIME)
    {
        let bills: Vec<&Bill> = left.iter().map_while(Submitted::as_bill).take(bills_at_once).collect();
        let applied = if bills.is_empty() {
            outcome(apply(&mut queries, next.change.clone())).map(|result| vec![result])
        } else {
            apply_bills(&mut queries, &bills, began)
        };
        let results = applied.inspect_err(|fault| {
            if !fault.needs_reopening() || queries.driver.has_invalid_values() {
                attempt.invalid = bills.len().max(1);
            }
        })?;
        left = &left[results.len()..];
        attempt.results.extend(results);
    }
    // A completely refused group changed nothing: it needs no commit.
    if attempt.results.iter().all(Result::is_err) {
        queries.roll_back()?;
        return Ok(Committed { earlier, place: None });
    }
    let mut rows = Rows::default();
    attempt.results.iter().flatten().for_each(|written| rows.append(written.clone()));
    let rows = serde_json::to_string(&rows).map_err(|error| Fault::Damaged(error.to_string()))?;
    let place = LogPlace { number, token: Some(attempt.token) };
    queries.log_commit(&LoggedCommit { place, process, rows })?;
    attempt.is_counted = true;
    queries.commit()?;
    Ok(Committed { earlier, place: Some(place) })
}

/// Applies the first of these bills, as many as [`GROUP_TIME`] allows; one result for each of them.
fn apply_bills(queries: &mut Queries<'_>, bills: &[&Bill], began: Instant) -> Result<Vec<ChangeResult>, Fault> {
    let mut rows = BillBatch::of(queries, bills.iter().copied())?;
    let mut results = Vec::with_capacity(bills.len());
    for &bill in bills {
        if !results.is_empty() && began.elapsed() >= GROUP_TIME {
            break;
        }
        results.push(outcome(apply_bill(&mut rows, bill.clone()))?);
    }
    rows.write().map(|()| results)
}

/// The outcome of a change for its caller, unless the transaction failed.
fn outcome(applied: Result<Rows, ApplyError>) -> Result<ChangeResult, Fault> {
    match applied {
        Ok(rows) => Ok(Ok(rows)),
        Err(ApplyError::Refused(refusal)) => Ok(Err(refusal)),
        Err(ApplyError::Fault(fault)) => Err(fault),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{BillCheck, LeaseShare, Month, StoreConfig};

    fn disconnected() -> WriterState {
        let server = Server::new("postgres://127.0.0.1:1/none", &StoreConfig::default()).expect("an address");
        WriterState::new(server, 1, LogPlace::default(), Arc::default(), Arc::default())
    }

    /// A bill that is known by its price, and sends that when it is answered.
    fn bill(number: u64, is_leased: bool, answered: &std::sync::mpsc::Sender<u64>) -> Submitted {
        let share = LeaseShare { id: 1, images: 1 };
        let change = Change::Bill(Bill {
            account: "acme".into(),
            month: Month(202_611),
            images: 1,
            microdollars: number,
            request: None,
            by: None,
            check: Some(BillCheck { lease: is_leased.then_some(share), ..BillCheck::default() }),
        });
        let answered = answered.clone();
        let done: OnCommit = Box::new(move |_| answered.send(number).expect("the receiver is open"));
        Submitted { change, done: Some(done) }
    }

    fn numbers(deferred: &VecDeque<Submitted>) -> Vec<u64> {
        let number = |bill: &Submitted| {
            let Change::Bill(Bill { microdollars, .. }) = bill.change else { panic!("only bills are deferred") };
            microdollars
        };
        deferred.iter().map(number).collect()
    }

    #[test]
    fn changes_for_which_a_transaction_had_no_time_keep_their_order() {
        let mut state = disconnected();
        let (queue, submitted) = sync_channel(10);
        let (answer, answered) = std::sync::mpsc::channel();
        state.put_back(vec![bill(0, false, &answer), bill(1, true, &answer), bill(2, false, &answer)]);
        drop(queue.send(bill(3, true, &answer)));
        let group = state.next_group(&submitted, Duration::ZERO).unwrap_or_default();
        assert_eq!(numbers(&group.into()), [0, 1, 2, 3]);
        // The rest of a transaction of deferred ones precedes those that were not in it.
        state.deferred.push_back(bill(6, true, &answer));
        state.put_back(vec![bill(4, true, &answer), bill(5, true, &answer)]);
        assert_eq!(numbers(&state.deferred), [4, 5, 6]);
        drop(answered);
    }

    #[test]
    fn deferred_bills_keep_their_order_and_others_are_refused() {
        let mut state = disconnected();
        let (queue, submitted) = sync_channel(10);
        let (answer, answered) = std::sync::mpsc::channel();
        for turn in 0..2 {
            for (number, is_leased) in [(0, true), (1, false), (2, true)] {
                drop(queue.send(bill(10 * turn + number, is_leased, &answer)));
            }
            let group = state.next_group(&submitted, Duration::ZERO).unwrap_or_default();
            state.write(group);
        }
        assert_eq!(numbers(&state.deferred), [0, 2, 10, 12]);
        assert_eq!(answered.try_iter().collect::<Vec<_>>(), [1, 11]);
        assert!(!state.can_write_deferred(), "there is no connection");
        // A transaction of the first three that failed.
        let group = state.deferred.drain(..3).collect();
        state.refuse(group, &ChangeError::Busy);
        assert_eq!(numbers(&state.deferred), [0, 2, 10, 12]);
        state.supersede("of the test");
        assert_eq!(answered.try_iter().collect::<Vec<_>>(), [0, 2, 10, 12]);
        state.write(vec![bill(20, true, &answer)]);
        assert_eq!(answered.try_iter().collect::<Vec<_>>(), [20], "it is never written");
    }
}
