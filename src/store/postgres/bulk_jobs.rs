//! Bulk runs that `POST /bulk` begins, as jobs of a key: which daemon leads each, how far it is, and how it ended.
//!
//! A daemon claims the lead of a run under a lease, as workers claim chunks: each claim has a number, and only the newest one
//! may renew, count or end. So another daemon continues where one that led is gone, and one that comes back too late is refused.

use std::time::Duration;

use serde::Deserialize;

use super::bulk_queue::{
    BULK_LEASE, BulkQueue, BulkRun, BulkRunState, DELETE_REMOVED, MARK_REMOVED, REMOVED, transaction,
};
use super::database;
use super::error::DatabaseError;
use super::rows::{Parameters, execute, json, limit_of, row, stored};
use super::schema::{CREATION_LOCK, LOCKS};
use crate::store::{JobError, JobState, OpenError, UnixSeconds};

/// The beginning of every id.
pub const BULK_ID_PREFIX: &str = "bulk_";

/// A run to begin for a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewBulkJob {
    /// The run. Its id is also the id of the job. Requests with equal ids are for one run.
    pub run: BulkRun,
    /// Public id of the caller's key.
    pub key_id: String,
    /// The account of the key.
    pub account: String,
    /// The `Idempotency-Key`.
    pub name: Option<String>,
    /// Where the pictures are.
    pub source: String,
    /// Where the results go.
    pub destination: String,
    /// The address of the report.
    pub report: String,
}

/// The outcome of a creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BulkJobCreated {
    /// The run is queued, for the first time or after an earlier one ended.
    Queued,
    /// The run has not ended yet, or the request with this `Idempotency-Key` began it before. Nothing was changed.
    Same,
    /// Another request used this `Idempotency-Key` before. Nothing was changed.
    Conflict,
    /// Another run that has not ended writes this report. Nothing was changed.
    ReportInUse,
    /// The key has its maximum of runs that have not ended. Nothing was changed.
    TooMany,
}

/// A run of a key, and how far it is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct BulkJob {
    /// Its id.
    pub id: String,
    /// Its state as a job.
    pub state: JobState,
    /// Where the pictures are.
    pub source: String,
    /// Where the results go.
    pub destination: String,
    /// The address of the report.
    pub report: String,
    /// When it was requested, in milliseconds since 1970.
    pub created_ms: i64,
    /// When its state last changed.
    pub updated_at: UnixSeconds,
    /// Whether its chunks are claimed; `None` once it has ended and is removed from the queue.
    pub run_state: Option<BulkRunState>,
    /// Whether all its objects are in chunks.
    pub is_listed: bool,
    /// Objects in chunks.
    pub objects: u64,
    /// Objects with a report row.
    pub finished: u64,
    /// Objects without a result, in chunks that are done.
    pub failed: u64,
    /// When it is expected to end.
    pub ends_at: Option<UnixSeconds>,
    /// The totals of one that has ended, as JSON.
    pub summary: Option<String>,
    /// Why it has no complete report.
    pub error: Option<JobError>,
}

impl BulkJob {
    /// Whether a text has the form of a bulk run's id.
    #[must_use]
    pub fn is_id(text: &str) -> bool {
        let hash = text.strip_prefix(BULK_ID_PREFIX);
        hash.is_some_and(|hash| !hash.is_empty() && hash.bytes().all(|byte| byte.is_ascii_alphanumeric()))
    }
}

/// The claim of a daemon to lead a run.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct BulkLead {
    /// The run.
    pub id: String,
    /// The number of this claim.
    pub leader: i64,
    /// The account of the key.
    pub account: String,
    /// Where the pictures are.
    pub source: String,
    /// Where the results go.
    pub destination: String,
    /// The address of the report.
    pub report: String,
}

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BulkJobEnd {
    /// The totals of its report, as JSON. Where none is written the run is kept, paused: the same request continues it.
    pub summary: Option<String>,
    /// Objects without a result.
    pub failed: u64,
    /// Why it failed or was cancelled; `None` for one that is done.
    pub error: Option<JobError>,
}

/// A run in a row of its job, with what its chunks add up to until it has ended: a [`BulkJob`] as JSON.
const JOBS: &str = "SELECT json_build_object( \
       'id', j.id, 'state', j.state, 'source', j.source, 'destination', j.destination, 'report', j.report, \
       'created_ms', created_ms, 'updated_at', extract(epoch FROM j.updated_at)::bigint, 'run_state', r.state, \
       'is_listed', coalesce(r.is_listed, j.is_listed), 'objects', coalesce(c.objects, j.objects), \
       'finished', coalesce(c.finished, j.finished), 'failed', j.failed, \
       'ends_at', extract(epoch FROM j.ends_at)::bigint, 'summary', j.summary, \
       'error', CASE WHEN j.error_code IS NOT NULL THEN \
         json_build_object('code', j.error_code, 'message', j.error_message) END \
     )::text \
     FROM bulk_jobs j LEFT JOIN bulk_runs r ON r.id = j.id LEFT JOIN LATERAL ( \
       SELECT sum(objects)::bigint AS objects, sum(least(finished, objects))::bigint AS finished \
       FROM bulk_chunks WHERE run = j.id AND j.state IN ('queued', 'processing') \
     ) c ON true CROSS JOIN LATERAL (SELECT (extract(epoch FROM j.created_at) * 1000)::bigint AS created_ms) created \
     WHERE j.key_id = $1 AND ($2::text IS NULL OR j.id = $2) AND (created_ms, j.id) < ($3, $4) \
     ORDER BY created_ms DESC, j.id DESC LIMIT $5";

/// No id sorts behind it.
const LAST_ID: &str = "\u{10ffff}";

impl BulkQueue {
    /// Begins a run for a key that has fewer than `at_most` runs, or continues one that ended without its report.
    ///
    /// # Errors
    /// See [`BulkQueue::begin`].
    pub async fn create_job(&self, new: &NewBulkJob, at_most: usize) -> Result<BulkJobCreated, OpenError> {
        transaction!(self, on, {
            // What is checked here holds until the end of the transaction.
            row(&on, "SELECT pg_advisory_xact_lock($1, $2)", &[&LOCKS, &CREATION_LOCK]).await?;
            let named = "SELECT id FROM bulk_jobs WHERE key_id = $1 AND name = $2";
            if let Some(row) = row(&on, named, &[&new.key_id, &new.name]).await? {
                let is_same = row.get::<_, &str>(0) == new.run.id;
                return Ok(if is_same { BulkJobCreated::Same } else { BulkJobCreated::Conflict });
            }
            let unfinished = "SELECT 1 FROM bulk_jobs WHERE id = $1 AND state IN ('queued', 'processing')";
            if row(&on, unfinished, &[&new.run.id]).await?.is_some() {
                return Ok(BulkJobCreated::Same);
            }
            let written = "SELECT 1 FROM bulk_jobs WHERE report = $1 AND state IN ('queued', 'processing')";
            if row(&on, written, &[&new.report]).await?.is_some() {
                return Ok(BulkJobCreated::ReportInUse);
            }
            let full = "SELECT 1 FROM bulk_jobs WHERE key_id = $1 AND state IN ('queued', 'processing') \
                 HAVING count(*) >= $2";
            if row(&on, full, &[&new.key_id, &limit_of(at_most)]).await?.is_some() {
                return Ok(BulkJobCreated::TooMany);
            }
            let BulkRun { id, spec, background, mark } = &new.run;
            execute(&on, DELETE_REMOVED, &[id, &REMOVED]).await?;
            // No command has 0: the daemon that leads the run becomes its lister.
            let run = "INSERT INTO bulk_runs (id, lister, spec, background, mark) VALUES ($1, 0, $2, $3, $4) \
                 ON CONFLICT (id) DO UPDATE SET state = 'running'";
            execute(&on, run, &[id, spec, background, mark]).await?;
            let job = "INSERT INTO bulk_jobs AS j (id, key_id, name, state, source, destination, report, account) \
                 VALUES ($1, $2, $3, 'queued', $4, $5, $6, $7) ON CONFLICT (id) DO UPDATE SET name = $3, state = 'queued', \
                   created_at = now(), updated_at = now(), leader = NULL, leader_until = NULL, failed = 0, ends_at = NULL, \
                   is_listed = false, objects = 0, finished = 0, summary = NULL, error_code = NULL, error_message = NULL \
                 WHERE j.state IN ('done', 'error')";
            let NewBulkJob { key_id, account, name, source, destination, report, .. } = new;
            execute(&on, job, &[id, key_id, name, source, destination, report, account]).await?;
            Ok(BulkJobCreated::Queued)
        })
    }

    /// A run of a key; `None` for a run of another key.
    ///
    /// # Errors
    /// See [`BulkQueue::begin`].
    pub async fn job(&self, key_id: &str, id: &str) -> Result<Option<BulkJob>, OpenError> {
        Ok(self.database.read(JOBS, &[&key_id, &id, &i64::MAX, &LAST_ID, &1_i64], json).await?.pop())
    }

    /// Up to `limit` runs of a key, newest first, after the creation in milliseconds and the id `after`.
    ///
    /// # Errors
    /// See [`BulkQueue::begin`].
    pub async fn jobs(
        &self,
        key_id: &str,
        after: Option<(i64, &str)>,
        limit: usize,
    ) -> Result<Vec<BulkJob>, OpenError> {
        let (created_ms, last) = after.unwrap_or((i64::MAX, LAST_ID));
        self.database.read(JOBS, &[&key_id, &None::<&str>, &created_ms, &last, &limit_of(limit)], json).await
    }

    /// Claims the lead of a run that no daemon leads: of the key with the fewest led runs, the oldest. Runs in `excluded` are left
    /// to others unless they are cancelled, which any daemon can end, and those that are paused wait.
    ///
    /// # Errors
    /// See [`BulkQueue::begin`].
    pub async fn lead(&self, leader: i64, excluded: &[String]) -> Result<Option<BulkLead>, OpenError> {
        let text = "WITH next AS ( \
               SELECT j.id FROM bulk_jobs j LEFT JOIN bulk_runs r ON r.id = j.id \
               WHERE j.state IN ('queued', 'processing') AND (j.leader_until IS NULL OR j.leader_until < now()) \
                 AND (r.state = 'cancelled' OR NOT j.id = ANY ($2)) \
                 AND NOT EXISTS (SELECT 1 FROM waiting_bulk_runs w WHERE w.id = j.id) \
               ORDER BY ( \
                 SELECT count(*) FROM bulk_jobs led \
                 WHERE led.key_id = j.key_id AND led.state = 'processing' AND led.leader_until >= now() \
               ), j.created_at, j.id LIMIT 1 FOR UPDATE OF j SKIP LOCKED \
             ) \
             UPDATE bulk_jobs j SET state = 'processing', leader = $1, \
               leader_until = now() + make_interval(secs => $3), \
               updated_at = CASE j.state WHEN 'queued' THEN now() ELSE j.updated_at END \
             FROM next WHERE j.id = next.id RETURNING json_build_object('id', j.id, 'leader', j.leader, \
               'account', j.account, 'source', j.source, 'destination', j.destination, 'report', j.report)::text";
        Ok(self.database.read(text, &[&leader, &excluded, &BULK_LEASE.as_secs_f64()], json).await?.pop())
    }

    /// Renews the lease of a lead, and records what it has counted and the time that it expects to be left; false where another
    /// daemon leads the run now, or the run is paused with all its objects queued: the lead is given up then.
    ///
    /// # Errors
    /// See [`BulkQueue::begin`].
    pub async fn renew_lead(&self, lead: &BulkLead, failed: u64, left: Option<Duration>) -> Result<bool, OpenError> {
        let text = "UPDATE bulk_jobs j SET failed = $4, \
               leader_until = CASE WHEN w.id IS NULL THEN now() + make_interval(secs => $3) END, \
               ends_at = CASE WHEN w.id IS NULL THEN now() + make_interval(secs => $5) END \
             FROM (VALUES (1)) one LEFT JOIN waiting_bulk_runs w ON w.id = $1 \
             WHERE j.id = $1 AND j.leader = $2 AND j.state = 'processing' RETURNING w.id IS NULL";
        let (lease, left) = (BULK_LEASE.as_secs_f64(), left.map(|left| left.as_secs_f64()));
        let parameters: Parameters<'_> = &[&lead.id, &lead.leader, &lease, &stored(failed), &left];
        Ok(self.database.read(text, parameters, |row| Ok(row.get(0))).await?.pop().unwrap_or(false))
    }

    /// Gives a lead up, so that another daemon may claim it at once.
    ///
    /// # Errors
    /// See [`BulkQueue::begin`].
    pub async fn release_lead(&self, lead: &BulkLead) -> Result<(), OpenError> {
        let text = "UPDATE bulk_jobs SET leader_until = NULL WHERE id = $1 AND leader = $2";
        self.execute(text, &[&lead.id, &lead.leader]).await.map(drop)
    }

    /// Ends a run, and removes it where its report is written; false where another daemon leads it now: nothing was changed then.
    ///
    /// # Errors
    /// See [`BulkQueue::begin`].
    pub async fn end_job(&self, lead: &BulkLead, end: &BulkJobEnd) -> Result<bool, OpenError> {
        let keeps_run = end.summary.is_none();
        let ended = transaction!(self, on, {
            let state = if end.error.is_some() { JobState::Failed } else { JobState::Done };
            let (code, message) = end.error.as_ref().map(|error| (&error.code, &error.message)).unzip();
            let text = "UPDATE bulk_jobs j SET state = $3, updated_at = now(), ends_at = NULL, summary = $4, \
                   error_code = $5, error_message = $6, failed = $7, \
                   is_listed = coalesce((SELECT is_listed FROM bulk_runs WHERE id = $1), false), \
                   (objects, finished) = (SELECT coalesce(sum(c.objects), 0)::bigint, \
                     coalesce(sum(least(c.finished, c.objects)), 0)::bigint FROM bulk_chunks c WHERE c.run = $1) \
                 WHERE j.id = $1 AND leader = $2 AND state = 'processing' RETURNING 1";
            let (summary, failed) = (&end.summary, stored(end.failed));
            let ended = row(&on, text, &[&lead.id, &lead.leader, &state.name(), summary, &code, &message, &failed])
                .await?
                .is_some();
            if ended && keeps_run {
                let pause = "UPDATE bulk_runs SET state = 'paused' WHERE id = $1 AND state = 'running'";
                execute(&on, pause, &[&lead.id]).await?;
            } else if ended {
                execute(&on, MARK_REMOVED, &[&lead.id, &REMOVED]).await?;
            }
            Ok(ended)
        })?;
        if ended && !keeps_run {
            // The end is recorded. What is left of the run after an error goes with the next removal of old ones.
            let _ = self.delete_marked(&lead.id).await;
        }
        Ok(ended)
    }
}
