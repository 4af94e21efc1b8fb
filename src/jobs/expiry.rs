//! Deletes expired results, an hour after the end of their job, and expired records, a day after it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use super::error::JobsError;
use super::shared::{Shared, stopped};
use super::{Job, UnixSeconds};
use crate::store::JobChange;
use crate::telemetry::with_causes;

/// How often. Expired jobs are neither shown nor opened; this only bounds how long their files stay on the disk.
const INTERVAL: Duration = Duration::from_secs(30);

/// Jobs read at once.
const BATCH: usize = 64;

pub(super) async fn run(shared: &Arc<Shared>, mut stop: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            () = stopped(&mut stop) => return,
            () = delete_expired(shared, shared.now()) => {}
        }
        tokio::select! {
            () = stopped(&mut stop) => return,
            () = sleep(INTERVAL) => {}
        }
    }
}

/// Deletes what has expired at `now`. A failure is logged and retried the next time.
pub(super) async fn delete_expired(shared: &Shared, now: UnixSeconds) {
    let mut failed = HashSet::new();
    loop {
        let limit = BATCH + failed.len();
        let jobs = match shared.deps.store.expiring_jobs(limit).await {
            Ok(jobs) => jobs,
            Err(error) => {
                tracing::error!(error = with_causes(&error), "expired jobs cannot be read");
                return;
            }
        };
        let expired = jobs.into_iter().filter(|(at, job)| *at <= now && !failed.contains(&job.id));
        let expired: Vec<Job> = expired.map(|(_, job)| job).collect();
        if expired.is_empty() {
            return;
        }
        for job in expired {
            if let Err(error) = delete(shared, &job, now).await {
                tracing::warn!(job = job.id, error = with_causes(&error), "an expired job cannot be deleted");
                failed.insert(job.id);
            }
        }
    }
}

async fn delete(shared: &Shared, job: &Job, now: UnixSeconds) -> Result<(), JobsError> {
    if job.expires_at <= now {
        return shared.delete(job).await;
    }
    // The object first: a crash in between leaves a name without an object, not an object without a name.
    if let Some(object) = job.result.as_ref().and_then(|result| result.object.as_ref()) {
        shared.deps.results.delete(object).await?;
    }
    Ok(shared.change(&job.id, JobChange::ForgetResult).await?)
}
