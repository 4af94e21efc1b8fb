//! Deletes what is over: results an hour after their job's end, records a day after it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use super::runner::stopped;
use super::service::Shared;
use super::{Job, JobsError, UnixSeconds};
use crate::account::WriteError;
use crate::store::{Change, ChangeError};
use crate::telemetry::with_causes;

/// How often. Nothing is shown or opened after its time; this only says how long it lies around.
const EVERY: Duration = Duration::from_secs(30);

/// Jobs read at once.
const AT_ONCE: usize = 64;

pub(super) async fn run(shared: &Arc<Shared>, mut stop: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            () = stopped(&mut stop) => return,
            () = sweep(shared, shared.now()) => {}
        }
        tokio::select! {
            () = stopped(&mut stop) => return,
            () = sleep(EVERY) => {}
        }
    }
}

/// Deletes what is over at `now`. What cannot be deleted is logged and stays for the next time.
pub(super) async fn sweep(shared: &Shared, now: UnixSeconds) {
    let mut failed = HashSet::new();
    loop {
        let limit = AT_ONCE + failed.len();
        let jobs = match shared.read(move |store| store.expiring_jobs(limit)).await {
            Ok(jobs) => jobs,
            Err(error) => {
                tracing::error!(error = with_causes(&error), "what is over cannot be read");
                return;
            }
        };
        let over = jobs.into_iter().filter(|(at, job)| *at <= now && !failed.contains(&job.id));
        let over: Vec<Job> = over.map(|(_, job)| job).collect();
        if over.is_empty() {
            return;
        }
        for job in over {
            if let Err(error) = delete(shared, &job, now).await {
                tracing::warn!(job = job.id, error = with_causes(&error), "what is left of the job cannot be deleted");
                failed.insert(job.id);
            }
        }
    }
}

async fn delete(shared: &Shared, job: &Job, now: UnixSeconds) -> Result<(), JobsError> {
    if job.expires_at <= now {
        return shared.delete(job).await;
    }
    // The object first: a crash in between leaves a name of nothing, and not a file that nobody knows of.
    if let Some(object) = job.result.as_ref().and_then(|result| result.object.as_ref()) {
        shared.means.keep.delete(object).await?;
    }
    match shared.change(Change::ForgetJobResult { id: job.id.clone() }).await {
        Ok(_) | Err(WriteError::Change(ChangeError::NoSuchJob(_))) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
