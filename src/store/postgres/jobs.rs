//! Jobs in the database: any daemon claims a queued one, or one whose daemon is gone, under a lease by the server's clock.
//!
//! Each claim has a number, the attempt: progress and the end are written by the newest one only, and a daemon that lost its
//! lease to another is refused.

use std::time::Duration;

use deadpool_postgres::Transaction;
use tokio_postgres::Row;

use super::database::{Database, transaction};
use super::error::DatabaseError;
use super::requests::{days_of, refused};
use super::rows::{Parameters, count, execute, job, limit_of, put_job, row, rows, stored};
use crate::store::transitions::job_after;
use crate::store::unreadable_jobs::report_unreadable;
use crate::store::{
    Bill, ChangeError, ClaimedJob, Job, JobChange, JobHeartbeat, JobState, OpenError, Renewal, Rows, UnixSeconds,
};

/// How long a claim of a job lasts after its last renewal.
pub const JOB_LEASE: Duration = Duration::from_secs(15);

/// How long a due webhook is left to the daemon that has it.
const WEBHOOK_LEASE: i64 = 120;

impl Database {
    pub(in crate::store) async fn job(&self, id: &str) -> Result<Option<Job>, OpenError> {
        Ok(self.read("SELECT id, record, progress FROM jobs WHERE id = $1", &[&id], job).await?.pop())
    }

    pub(in crate::store) async fn job_named(&self, key_id: &str, name: &str) -> Result<Option<Job>, OpenError> {
        let text = "SELECT id, record, progress FROM jobs WHERE key_id = $1 AND name = $2";
        Ok(self.read(text, &[&key_id, &name], job).await?.pop())
    }

    pub(in crate::store) async fn jobs(
        &self,
        key_id: &str,
        after: Option<(i64, &str)>,
        limit: usize,
    ) -> Result<Vec<Job>, OpenError> {
        // No id and no place sorts behind these.
        let (place, id) = after.unwrap_or((i64::MAX, "\u{10ffff}"));
        let text = "SELECT id, record, progress FROM jobs WHERE key_id = $3 AND (place, id) < ($4, $5) \
             ORDER BY place DESC, id DESC LIMIT $1 OFFSET $2";
        self.readable_jobs(text, &[&key_id, &place, &id], limit, readable).await
    }

    pub(in crate::store) async fn waiting_jobs(&self, limit: usize) -> Result<Vec<Job>, OpenError> {
        let text = "SELECT id, record, progress FROM jobs WHERE state IN ('queued', 'processing') \
             ORDER BY place, id LIMIT $1 OFFSET $2";
        self.readable_jobs(text, &[], limit, readable).await
    }

    /// The first rows whose records can be read: the others do not count. The statement begins with the parameters of `LIMIT` and
    /// `OFFSET`.
    async fn readable_jobs<T>(
        &self,
        text: &'static str,
        parameters: Parameters<'_>,
        limit: usize,
        convert: impl Fn(&Row) -> Option<T>,
    ) -> Result<Vec<T>, OpenError> {
        let (mut found, mut from) = (Vec::new(), 0);
        loop {
            let more = limit - found.len();
            let page: Parameters<'_> = &[&limit_of(more), &limit_of(from)];
            let all = [page, parameters].concat();
            let page = self.read(text, &all, |row| Ok(convert(row))).await?;
            let is_last = page.len() < more;
            from += page.len();
            found.extend(page.into_iter().flatten());
            if is_last || found.len() == limit {
                return Ok(found);
            }
        }
    }

    pub(in crate::store) async fn count_queued(&self) -> Result<u64, OpenError> {
        let counted =
            self.read("SELECT count(*) FROM jobs WHERE state = 'queued'", &[], |row| Ok(count(row, 0))).await?;
        Ok(counted.into_iter().sum())
    }

    pub(in crate::store) async fn expiring_jobs(&self, limit: usize) -> Result<Vec<(UnixSeconds, Job)>, OpenError> {
        let text = "SELECT id, record, progress, due_at FROM jobs WHERE due_at IS NOT NULL \
             ORDER BY due_at, id LIMIT $1 OFFSET $2";
        self.readable_jobs(text, &[], limit, |row| readable(row).map(|job| (UnixSeconds(row.get(3)), job))).await
    }

    /// Takes webhooks that are due: no other daemon gets them for two minutes.
    pub(in crate::store) async fn claim_webhooks(
        &self,
        now: UnixSeconds,
        limit: usize,
    ) -> Result<Vec<(UnixSeconds, Job)>, OpenError> {
        let text = "WITH due AS ( \
               SELECT id FROM jobs WHERE webhook_at <= $1 ORDER BY webhook_at, id LIMIT $2 FOR UPDATE SKIP LOCKED \
             ) \
             UPDATE jobs j SET webhook_at = $1 + $3 FROM due WHERE j.id = due.id RETURNING j.id, j.record, j.progress";
        let due = |row: &Row| Ok(readable(row).map(|job| (now, job)));
        Ok(self.read(text, &[&now.0, &limit_of(limit), &WEBHOOK_LEASE], due).await?.into_iter().flatten().collect())
    }

    /// Claims a job that waits, or whose daemon has not renewed its lease: of the account whose last job was started longest ago,
    /// the oldest.
    pub(in crate::store) async fn claim_job(
        &self,
        at: UnixSeconds,
        running: &[String],
    ) -> Result<Option<ClaimedJob>, ChangeError> {
        let claimed = transaction!(self, on, {
            // Of this daemon, or unreadable.
            let mut excluded = running.to_vec();
            let (job, attempt) = loop {
                let text = "SELECT j.id, j.record, j.progress, j.attempt FROM jobs j JOIN accounts a ON a.name = j.account \
                     WHERE (j.state = 'queued' OR j.state = 'processing' AND coalesce(j.lease_until < now(), true)) \
                       AND j.id <> ALL ($1) \
                     ORDER BY a.last_job_at NULLS FIRST, j.place, j.id LIMIT 1 FOR UPDATE OF j SKIP LOCKED";
                let Some(row) = row(&on, text, &[&excluded]).await? else { return Ok(None) };
                match readable(&row) {
                    Some(job) => break (job, row.get::<_, i64>(3) + 1),
                    None => excluded.push(row.get(0)),
                }
            };
            let job = Job { state: JobState::Processing, updated_at: at, ..job };
            put_job(&*on, &job).await?;
            let text = "UPDATE jobs SET attempt = $2, lease_until = now() + make_interval(secs => $3) WHERE id = $1";
            execute(&on, text, &[&job.id, &attempt, &JOB_LEASE.as_secs_f64()]).await?;
            let text = "UPDATE accounts SET last_job_at = clock_timestamp() WHERE name = $1";
            execute(&on, text, &[&job.account]).await?;
            Ok(Some(ClaimedJob { job, attempt }))
        });
        Ok(claimed?)
    }

    pub(in crate::store) async fn renew_jobs(&self, running: &[JobHeartbeat]) -> Result<Vec<Renewal>, OpenError> {
        let ids: Vec<&str> = running.iter().map(|job| job.id.as_str()).collect();
        let attempts: Vec<i64> = running.iter().map(|job| job.attempt).collect();
        let progress: Vec<i16> = running.iter().map(|job| i16::from(job.progress)).collect();
        let text = "UPDATE jobs j SET lease_until = now() + make_interval(secs => $4), \
               progress = greatest(j.progress, r.progress) \
             FROM unnest($1::text[], $2::bigint[], $3::smallint[]) r (id, attempt, progress) \
             WHERE j.id = r.id AND j.attempt = r.attempt AND j.state = 'processing' RETURNING j.id";
        let id = |row: &Row| Ok(row.get::<_, String>(0));
        let kept = self.read(text, &[&ids, &attempts, &progress, &JOB_LEASE.as_secs_f64()], id).await?;
        let mut elsewhere = Vec::new();
        if kept.len() < ids.len() {
            let text = "SELECT id FROM jobs WHERE id = ANY ($1) AND state <> 'error'";
            elsewhere = self.read(text, &[&ids], id).await?;
        }
        let contains = |ids: &[String], id: &str| ids.iter().any(|other| other == id);
        let renewal = |id: &str| {
            if contains(&kept, id) {
                Renewal::Kept
            } else if contains(&elsewhere, id) {
                Renewal::Lost
            } else {
                Renewal::Ended
            }
        };
        Ok(ids.into_iter().map(renewal).collect())
    }
}

/// Adds a queued job, whose images are counted as reserved from now on.
pub(super) async fn create_job(
    on: &Transaction<'_>,
    job: &Job,
    at_most: usize,
    free_images_per_month: u64,
) -> Result<(), DatabaseError> {
    let (first, last) = days_of(job.month);
    let text = "SELECT check_quota($1, $2, $3, $4, $5, $6, $7)";
    let (month, images, free) = (i64::from(job.month.0), stored(job.reserved), stored(free_images_per_month));
    // Locks the account: what follows holds until the end of the transaction.
    let checked = row(on, text, &[&job.account, &job.key_id, &month, &first, &last, &images, &free]).await?;
    let refusal: Option<String> = checked.and_then(|row| row.get(0));
    if refusal.as_deref() == Some("account") {
        return Err(ChangeError::NoSuchAccount(job.account.clone()).into());
    }
    // Before the limit: a repeated request is refused with the id of its first job even at the limit.
    check_new_job(on, job).await?;
    let text = "SELECT id, record, progress FROM jobs WHERE key_id = $1 AND state IN ('queued', 'processing')";
    if rows(on, text, &[&job.key_id]).await?.iter().filter_map(readable).count() >= at_most {
        return Err(ChangeError::TooManyJobs.into());
    }
    if let Some(refusal) = refusal {
        return Err(refused(&refusal, &job.account).into());
    }
    put_job(&**on, job).await
}

/// Refuses a job whose id or name exists already.
pub(super) async fn check_new_job(on: &Transaction<'_>, job: &Job) -> Result<(), DatabaseError> {
    if row(on, "SELECT 1 FROM jobs WHERE id = $1", &[&job.id]).await?.is_some() {
        return Err(ChangeError::JobExists(job.id.clone()).into());
    }
    let text = "SELECT id FROM jobs WHERE key_id = $1 AND name = $2";
    match row(on, text, &[&job.key_id, &job.name]).await? {
        Some(row) => Err(ChangeError::JobNameTaken(row.get(0)).into()),
        None => Ok(()),
    }
}

/// Changes a job: with `attempt` as this claim, which is refused where another one has the job.
pub(super) async fn change_job(
    on: &Transaction<'_>,
    id: &str,
    attempt: Option<i64>,
    change: JobChange,
) -> Result<Rows, DatabaseError> {
    let text = "SELECT id, record, progress, attempt FROM jobs WHERE id = $1 FOR UPDATE";
    let found = row(on, text, &[&id]).await?.ok_or_else(|| ChangeError::NoSuchJob(id.to_owned()))?;
    if attempt.is_some_and(|attempt| attempt != found.get::<_, i64>(3)) {
        return Err(ChangeError::JobElsewhere(id.to_owned()).into());
    }
    let Some((job, bill)) = job_after(job(&found)?, change)? else {
        execute(on, "DELETE FROM jobs WHERE id = $1", &[&id]).await?;
        return Ok(Rows::default());
    };
    if let Some(Bill { account, month, images, microdollars, by: Some(by), .. }) = bill {
        let text = "SELECT add_usage($1, $2, $3, $4, $5, $6, $7)";
        let (month, day) = (i64::from(month.0), i64::from(by.day.0));
        let [images, milliseconds, microdollars] = [images, by.milliseconds, microdollars].map(stored);
        row(on, text, &[&account, &month, &by.key_id, &day, &images, &milliseconds, &microdollars]).await?;
    }
    put_job(&**on, &job).await?;
    Ok(Rows { jobs: vec![job], ..Rows::default() })
}

/// The job of a row; `None`, and a line in the log, where its record cannot be read.
fn readable(row: &Row) -> Option<Job> {
    job(row).map_err(|error| report_unreadable(row.get(0), &error.to_string())).ok()
}
