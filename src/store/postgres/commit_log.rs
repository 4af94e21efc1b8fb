//! The log of commits: what each transaction wrote, as JSON, so that every process on a database follows the changes of the others.
//!
//! A transaction counts itself before anything else. The counter's row stays locked until the transaction ends, so commits
//! have one order, numbers have no gaps, and who has the lock sees every earlier commit in the log.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use tokio_postgres::Row;

use super::reads::Queries;
use crate::store::followers::Followers;
use crate::store::storage_fault::Fault;
use crate::store::{Follower, Rows};

/// Commits that are read at once.
pub(super) const BATCH: usize = 500;

/// Commits that are dropped at once.
const DROPPED: i64 = 10_000;

/// How long the log is kept. A process that was cut off for longer loads everything again.
const KEPT: &str = "1 hour";

/// A commit in the log.
#[derive(Clone, Debug)]
pub(super) struct LoggedCommit {
    pub(super) place: LogPlace,
    /// The process that committed.
    pub(super) process: i64,
    /// Its [`Rows`] as JSON.
    pub(super) rows: String,
}

/// The last commit that a process knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LogPlace {
    pub(super) number: i64,
    /// `None` for a commit that is not in the log.
    pub(super) token: Option<i64>,
}

/// What follows the commits of other processes.
#[derive(Debug, Default)]
pub(super) struct LogFollowers {
    callbacks: Followers,
    /// The number of the last commit in what was loaded.
    loaded: AtomicI64,
    /// Whether the first follower is new.
    is_new: AtomicBool,
}

impl LogFollowers {
    /// Records the commit up to which everything was loaded.
    pub(super) fn loaded(&self, number: i64) {
        self.loaded.store(number, Ordering::Release);
    }

    /// Adds a follower. The first one gets every commit after what was loaded.
    pub(super) fn add(&self, follower: Follower) {
        if self.callbacks.add(follower) {
            self.is_new.store(true, Ordering::Release);
        }
    }

    /// Once after the first follower was added: the commit after which it follows.
    pub(super) fn begin(&self) -> Option<i64> {
        self.is_new.swap(false, Ordering::AcqRel).then(|| self.loaded.load(Ordering::Acquire))
    }

    pub(super) fn call(&self, rows: &Rows) {
        self.callbacks.call(rows);
    }
}

impl LoggedCommit {
    pub(super) fn rows(&self) -> Result<Rows, Fault> {
        serde_json::from_str(&self.rows)
            .map_err(|error| Fault::Damaged(format!("commit {} cannot be read: {error}", self.place.number)))
    }
}

impl Queries<'_> {
    /// Counts this transaction, once all that counted themselves before have ended; returns its number.
    pub(super) fn count_commit(&mut self) -> Result<i64, Fault> {
        let text = "INSERT INTO meta AS m VALUES ('commits', 1) \
             ON CONFLICT (name) DO UPDATE SET number = m.number + 1 RETURNING number";
        let row = self.row(text, &[])?;
        row.map(|row| row.get(0)).ok_or_else(|| Fault::Damaged("the transaction could not be counted".into()))
    }

    /// Waits until all transactions that counted themselves have ended.
    pub(super) fn wait_for_commits(&mut self) -> Result<(), Fault> {
        self.row("SELECT number FROM meta WHERE name = 'commits' FOR UPDATE", &[]).map(drop)
    }

    /// The last commit.
    pub(super) fn last_commit(&mut self) -> Result<LogPlace, Fault> {
        let number = self.number("commits")?.unwrap_or(0);
        Ok(LogPlace { number, token: self.token_of(number)? })
    }

    /// The token of a commit; `None` where the log does not have it.
    pub(super) fn token_of(&mut self, number: i64) -> Result<Option<i64>, Fault> {
        Ok(self.row("SELECT token FROM commits WHERE number = $1", &[&number])?.map(|row| row.get(0)))
    }

    /// Writes this transaction's commit to the log.
    pub(super) fn log_commit(&mut self, commit: &LoggedCommit) -> Result<(), Fault> {
        let LoggedCommit { place: LogPlace { number, token }, process, rows } = commit;
        let text = "INSERT INTO commits (number, process, token, rows) VALUES ($1, $2, $3, $4)";
        self.execute(text, &[number, process, token, rows])
    }

    /// Commits after a number, oldest first: at most [`BATCH`].
    pub(super) fn commits_after(&mut self, number: i64) -> Result<Vec<LoggedCommit>, Fault> {
        let text = "SELECT number, token, process, rows FROM commits WHERE number > $1 ORDER BY number LIMIT $2";
        let logged = |row: &Row| LoggedCommit {
            place: LogPlace { number: row.get(0), token: Some(row.get(1)) },
            process: row.get(2),
            rows: row.get(3),
        };
        Ok(self.rows(text, &[&number, &(BATCH as i64)])?.iter().map(logged).collect())
    }

    /// All commits after a number, oldest first.
    pub(super) fn all_commits_after(&mut self, number: i64) -> Result<Vec<LoggedCommit>, Fault> {
        let mut commits = self.commits_after(number)?;
        let mut batch = commits.len();
        while batch == BATCH {
            let last = commits.last().map_or(number, |commit| commit.place.number);
            let more = self.commits_after(last)?;
            batch = more.len();
            commits.extend(more);
        }
        Ok(commits)
    }

    /// Drops some of the commits that are older than the log is kept, but for the last one; returns whether there may be more.
    pub(super) fn drop_old_commits(&mut self) -> Result<bool, Fault> {
        let text = "DELETE FROM commits WHERE number IN (SELECT number FROM commits \
             WHERE at < now() - $1::text::interval AND number < (SELECT number FROM meta WHERE name = 'commits') \
             ORDER BY number LIMIT $2)";
        Ok(self.count_changed(text, &[&KEPT, &DROPPED])? == DROPPED.unsigned_abs())
    }
}
