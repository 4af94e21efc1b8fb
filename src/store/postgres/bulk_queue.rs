//! Runs of `backdrop bulk` as chunks of objects in a PostgreSQL database, which workers claim under a lease.
//!
//! A chunk is claimed with `FOR UPDATE SKIP LOCKED`, so that workers do not wait for each other. Each claim has the time at which
//! its run began and a number, the attempt: progress and the end are written only by the newest one, and a worker that lost its
//! lease is refused. The lease is measured by the server's clock alone. Everything that is written twice after an unknown outcome
//! has the same effect as once.
//!
//! Tasks and report rows are the texts of `bulk`; this module counts the lines of rows, and reads nothing else of them.

use std::time::Duration;

use serde::Deserialize;
use tokio_postgres::Row;

use super::database::{self, Database};
use super::error::DatabaseError;
use super::rows::{Parameters, count, execute, json, stored};
use crate::store::OpenError;

/// How long a claim lasts after its last heartbeat.
pub const BULK_LEASE: Duration = Duration::from_secs(15);

/// The lister of a run that is being removed.
pub(super) const REMOVED: i64 = -1;

/// Deletes the run `$1` if it is being removed: its lister is `$2`, [`REMOVED`].
pub(super) const DELETE_REMOVED: &str = "DELETE FROM bulk_runs WHERE id = $1 AND lister = $2";

/// Marks the run `$1` as one that is being removed: its lister becomes `$2`, [`REMOVED`].
pub(super) const MARK_REMOVED: &str = "UPDATE bulk_runs SET state = 'cancelled', lister = $2 WHERE id = $1";

/// A database as the queue of bulk runs. Clones share its connections.
#[derive(Clone, Debug)]
pub struct BulkQueue {
    pub(super) database: Database,
}

/// Runs `$work` in the transaction `$on` of the queue `$self`.
macro_rules! transaction {
    ($self:ident, $on:ident, $work:block) => {
        database::transaction!($self.database, $on, $work).map_err(|error| error.into_open_error($self.database.name()))
    };
}
pub(super) use transaction;

/// A run as it was begun.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BulkRun {
    /// Its name, the same for the same parameters.
    pub id: String,
    /// What is done with each object, as JSON.
    pub spec: String,
    /// The background's file.
    pub background: Option<Vec<u8>>,
    /// The watermark's file.
    pub mark: Option<Vec<u8>>,
}

/// Whether chunks of a run are claimed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BulkRunState {
    /// Chunks are claimed.
    #[default]
    Running,
    /// No chunk is claimed until the run is resumed.
    Paused,
    /// No chunk is claimed any more.
    Cancelled,
}

impl BulkRunState {
    /// The state as stored and shown.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The progress of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct BulkStatus {
    /// Its name.
    pub id: String,
    /// Whether its chunks are claimed.
    pub state: BulkRunState,
    /// Whether all its objects are in chunks.
    pub is_listed: bool,
    /// What is done, as JSON.
    pub spec: String,
    /// When it began, in seconds since 1970.
    pub created_at: i64,
    /// Objects that an earlier run finished, as the listing found at its end.
    pub skipped: u64,
    /// Objects that are excluded, as the listing found at its end.
    pub ignored: u64,
    /// Objects in chunks.
    pub objects: u64,
    /// Objects with a report row, at most `objects`.
    pub finished: u64,
    /// Chunks that are not done.
    pub open_chunks: u64,
    /// Chunks that workers process now.
    pub claimed_chunks: u64,
}

/// A chunk to add.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewChunk {
    /// From 0, in the order of the listing.
    pub number: i64,
    /// Objects in it.
    pub objects: u32,
    /// What is to be done; without tasks the chunk is done.
    pub tasks: Option<String>,
    /// Report rows of objects that need no processing.
    pub report: Vec<u8>,
}

/// A claimed chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkClaim {
    /// The run.
    pub run: String,
    /// When the run began, in microseconds since 1970. A later run may have the same name and chunks of the same numbers.
    pub run_began_us: i64,
    /// The chunk.
    pub number: i64,
    /// The number of this claim.
    pub attempt: i64,
    /// Earlier claims whose worker did not answer until their lease ended.
    pub lost: u64,
    /// What is to be done.
    pub tasks: String,
    /// Report rows of earlier attempts.
    pub report: Vec<u8>,
}

impl Database {
    /// The queue of bulk runs, on the same connections.
    #[must_use]
    pub fn bulk_queue(&self) -> BulkQueue {
        BulkQueue { database: self.clone() }
    }
}

impl BulkQueue {
    /// Runs one statement, as [`Database::execute`].
    pub(super) async fn execute(&self, text: &'static str, parameters: Parameters<'_>) -> Result<u64, OpenError> {
        let executed = self.database.execute(text, parameters).await;
        executed.map_err(|error| error.into_open_error(self.database.name()))
    }

    /// Begins a run, or resumes it. From here on `lister` alone may add chunks.
    ///
    /// # Errors
    /// As every call here: when the database cannot be used, or has tables on which this version does not work.
    pub async fn begin(&self, run: &BulkRun, lister: i64) -> Result<(), OpenError> {
        transaction!(self, on, {
            execute(&on, DELETE_REMOVED, &[&run.id, &REMOVED]).await?;
            let text = "INSERT INTO bulk_runs (id, lister, spec, background, mark) VALUES ($1, $2, $3, $4, $5) \
                 ON CONFLICT (id) DO UPDATE SET lister = $2";
            execute(&on, text, &[&run.id, &lister, &run.spec, &run.background, &run.mark]).await.map(drop)
        })
    }

    /// Adds a chunk; false where another command lists the run now, or it was cancelled or removed.
    ///
    /// # Errors
    /// See [`BulkQueue::begin`].
    pub async fn add_chunk(&self, run: &str, lister: i64, chunk: &NewChunk) -> Result<bool, OpenError> {
        let NewChunk { number, objects, tasks, report } = chunk;
        let (state, finished) = if tasks.is_some() { ("queued", 0) } else { ("done", i64::from(*objects)) };
        // The run stays as it is until the chunk is there. One that was added already counts as added.
        let text = "INSERT INTO bulk_chunks (run, number, state, objects, tasks, finished, report) \
             SELECT id, $3::bigint, $4::text, $5::bigint, $6::text, $7::bigint, $8::bytea FROM bulk_runs \
             WHERE id = $1 AND lister = $2 AND state <> 'cancelled' FOR SHARE \
             ON CONFLICT (run, number) DO UPDATE SET number = excluded.number";
        let (objects, tasks) = (i64::from(*objects), tasks.as_deref().unwrap_or_default());
        Ok(self.execute(text, &[&run, &lister, number, &state, &objects, &tasks, &finished, report]).await? > 0)
    }

    /// Records that all objects of a run are in chunks, except for those that were `skipped` or `ignored`; false as in
    /// [`BulkQueue::add_chunk`].
    ///
    /// # Errors
    /// See [`BulkQueue::begin`].
    pub async fn end_listing(&self, run: &str, lister: i64, skipped: u64, ignored: u64) -> Result<bool, OpenError> {
        let text = "UPDATE bulk_runs SET is_listed = true, skipped = $3, ignored = $4 \
             WHERE id = $1 AND lister = $2 AND state <> 'cancelled'";
        Ok(self.execute(text, &[&run, &lister, &stored(skipped), &stored(ignored)]).await? > 0)
    }

    /// Chunks of a run from a number on, at most `limit`.
    ///
    /// # Errors
    /// See [`BulkQueue::begin`].
    pub async fn chunks(&self, run: &str, from: i64, limit: u16) -> Result<Vec<NewChunk>, OpenError> {
        let text = "SELECT number, objects, tasks, report FROM bulk_chunks WHERE run = $1 AND number >= $2 \
             ORDER BY number LIMIT $3";
        let chunk = |row: &Row| {
            Ok(NewChunk {
                number: row.get(0),
                objects: u32::try_from(row.get::<_, i64>(1)).unwrap_or(u32::MAX),
                tasks: Some(row.get(2)).filter(|tasks: &String| !tasks.is_empty()),
                report: row.get(3),
            })
        };
        self.database.read(text, &[&run, &from, &i64::from(limit)], chunk).await
    }

    /// Claims a chunk that waits, or whose worker has not answered for [`BULK_LEASE`]: of the run with the fewest claimed
    /// chunks, the first. Runs in `excluded` are left to other workers.
    ///
    /// # Errors
    /// See [`BulkQueue::begin`].
    pub async fn claim(&self, owner: &str, excluded: &[String]) -> Result<Option<ChunkClaim>, OpenError> {
        // The first chunk of each run, by the index: a sort of all open ones took twelve times as long with 10,000.
        let text = "WITH load AS ( \
               SELECT run, count(*) AS claimed FROM bulk_chunks \
               WHERE state = 'claimed' AND lease_until >= now() GROUP BY run \
             ), next AS ( \
               SELECT r.id AS run, r.created_at, chunk.number, chunk.state FROM bulk_runs r \
               LEFT JOIN load ON load.run = r.id CROSS JOIN LATERAL ( \
                 SELECT number, state FROM bulk_chunks \
                 WHERE run = r.id AND state <> 'done' AND (state = 'queued' OR lease_until < now()) \
                 ORDER BY number LIMIT 1 FOR UPDATE SKIP LOCKED \
               ) chunk \
               WHERE r.state = 'running' AND NOT r.id = ANY ($2) \
               ORDER BY coalesce(load.claimed, 0), r.created_at, r.id LIMIT 1 \
             ) \
             UPDATE bulk_chunks c SET state = 'claimed', owner = $1, attempt = c.attempt + 1, \
               lost = c.lost + CASE next.state WHEN 'claimed' THEN 1 ELSE 0 END, \
               lease_until = now() + make_interval(secs => $3) \
             FROM next WHERE c.run = next.run AND c.number = next.number \
             RETURNING c.run, (extract(epoch FROM next.created_at) * 1000000)::bigint, c.number, c.attempt, c.lost, \
               c.tasks, c.report";
        let claim = |row: &Row| {
            Ok(ChunkClaim {
                run: row.get(0),
                run_began_us: row.get(1),
                number: row.get(2),
                attempt: row.get(3),
                lost: count(row, 4),
                tasks: row.get(5),
                report: row.get(6),
            })
        };
        Ok(self.database.read(text, &[&owner, &excluded, &BULK_LEASE.as_secs_f64()], claim).await?.pop())
    }

    /// Renews the lease of a claim and stores its report rows, including rows of earlier attempts, each a line. Returns the
    /// state of the run; `None` if another worker has the chunk now, or the run was removed.
    ///
    /// # Errors
    /// See [`BulkQueue::begin`].
    pub async fn heartbeat(&self, claim: &ChunkClaim, report: &[u8]) -> Result<Option<BulkRunState>, OpenError> {
        self.record(claim, report, "claimed").await
    }

    /// Ends a claim with its last report rows. The chunk `is_done`, or another worker continues it. False where another worker
    /// has the chunk now, or the run was removed: nothing was changed then.
    ///
    /// # Errors
    /// See [`BulkQueue::begin`].
    pub async fn end(&self, claim: &ChunkClaim, report: &[u8], is_done: bool) -> Result<bool, OpenError> {
        Ok(self.record(claim, report, if is_done { "done" } else { "queued" }).await?.is_some())
    }

    /// Stores the report rows of a claim, and the state of its chunk: a lease has only a claimed one. Returns the state of the run.
    async fn record(&self, claim: &ChunkClaim, report: &[u8], state: &str) -> Result<Option<BulkRunState>, OpenError> {
        // A chunk that this very claim ended already, with an answer that was lost, matches too.
        let text = "UPDATE bulk_chunks c SET state = $4, report = $5, finished = $6, \
               owner = CASE $4 WHEN 'claimed' THEN c.owner END, \
               lease_until = CASE $4 WHEN 'claimed' THEN now() + make_interval(secs => $8) END \
             FROM bulk_runs r \
             WHERE c.run = $1 AND number = $2 AND attempt = $3 AND c.state IN ('claimed', $4) AND r.id = c.run \
               AND (extract(epoch FROM r.created_at) * 1000000)::bigint = $7 \
             RETURNING to_json(r.state)::text";
        let ChunkClaim { run, run_began_us, number, attempt, .. } = claim;
        let finished = stored(report.iter().filter(|&&byte| byte == b'\n').count() as u64);
        let lease = BULK_LEASE.as_secs_f64();
        let parameters: Parameters<'_> = &[run, number, attempt, &state, &report, &finished, run_began_us, &lease];
        Ok(self.database.read(text, parameters, json).await?.pop())
    }

    /// A run as it was begun.
    ///
    /// # Errors
    /// See [`BulkQueue::begin`].
    pub async fn run(&self, id: &str) -> Result<Option<BulkRun>, OpenError> {
        let text = "SELECT id, spec, background, mark FROM bulk_runs WHERE id = $1";
        let run =
            |row: &Row| Ok(BulkRun { id: row.get(0), spec: row.get(1), background: row.get(2), mark: row.get(3) });
        Ok(self.database.read(text, &[&id], run).await?.pop())
    }

    /// The progress of a run, or of all.
    ///
    /// # Errors
    /// See [`BulkQueue::begin`].
    pub async fn status(&self, id: Option<&str>) -> Result<Vec<BulkStatus>, OpenError> {
        let text = "SELECT json_build_object( \
               'id', r.id, 'state', r.state, 'is_listed', r.is_listed, 'spec', r.spec, \
               'created_at', extract(epoch FROM r.created_at)::bigint, 'skipped', r.skipped, 'ignored', r.ignored, \
               'objects', coalesce(sum(c.objects), 0)::bigint, \
               'finished', coalesce(sum(least(c.finished, c.objects)), 0)::bigint, \
               'open_chunks', count(*) FILTER (WHERE c.state <> 'done'), \
               'claimed_chunks', count(*) FILTER (WHERE c.state = 'claimed' AND c.lease_until >= now()) \
             )::text FROM bulk_runs r LEFT JOIN bulk_chunks c ON c.run = r.id \
             WHERE ($1::text IS NULL OR r.id = $1) AND r.lister <> $2 GROUP BY r.id ORDER BY r.created_at, r.id";
        self.database.read(text, &[&id, &REMOVED], json).await
    }

    /// Numbers and report rows of chunks, except for `known` ones, at most `limit`: of those that are done, or of `all`.
    ///
    /// # Errors
    /// See [`BulkQueue::begin`].
    pub async fn reports(
        &self,
        run: &str,
        known: &[i64],
        all: bool,
        limit: u16,
    ) -> Result<Vec<(i64, Vec<u8>)>, OpenError> {
        let text = "SELECT number, report FROM bulk_chunks \
             WHERE run = $1 AND (state = 'done' OR $3) AND NOT number = ANY ($2) ORDER BY number LIMIT $4";
        let report = |row: &Row| Ok((row.get(0), row.get(1)));
        self.database.read(text, &[&run, &known, &all, &i64::from(limit)], report).await
    }

    /// Changes the state of a run, unless it was cancelled. Returns the state before; `None` for an unknown run.
    ///
    /// # Errors
    /// See [`BulkQueue::begin`].
    pub async fn set_state(&self, id: &str, to: BulkRunState) -> Result<Option<BulkRunState>, OpenError> {
        let text = "WITH before AS (SELECT id, state FROM bulk_runs WHERE id = $1 AND lister <> $2 FOR UPDATE) \
             UPDATE bulk_runs r SET state = CASE before.state WHEN 'cancelled' THEN 'cancelled' ELSE $3 END \
             FROM before WHERE r.id = before.id RETURNING to_json(before.state)::text";
        Ok(self.database.read(text, &[&id, &REMOVED, &to.name()], json).await?.pop())
    }
}
