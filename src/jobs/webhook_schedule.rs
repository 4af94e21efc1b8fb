//! Tells callers' servers of the ends of their jobs, again and again until they hear it or a day is over.
//!
//! When the next attempt is due is in the store: a restart forgets none. An attempt that the process died in is made
//! again, with the same id, by which the receiver knows it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};

use super::runner::stopped;
use super::service::Shared;
use super::{Delivery, Job, Shown, UnixSeconds};
use crate::account::WriteError;
use crate::store::{Change, ChangeError};
use crate::telemetry::metrics;
use crate::telemetry::with_causes;

/// Seconds from one attempt to the next; the last number holds for all further ones.
const DELAYS: [i64; 6] = [5, 60, 5 * 60, 30 * 60, 2 * 60 * 60, 6 * 60 * 60];

/// Attempts at once. Each is bounded in time, so a slow receiver holds up the others for seconds.
const AT_ONCE: usize = 16;

/// An attempt that takes longer has failed; who delivers has a shorter limit of its own.
const MOST: Duration = Duration::from_secs(60);

/// How long to sleep at most: the clock may be set meanwhile.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

pub(super) async fn run(shared: &Arc<Shared>, mut stop: watch::Receiver<bool>) {
    let mut under_way = JoinSet::new();
    let mut taken: HashMap<tokio::task::Id, String> = HashMap::new();
    loop {
        let limit = taken.len() + AT_ONCE;
        let (mut rest, now) = (LONGEST_SLEEP, shared.now());
        match shared.read(move |store| store.webhook_jobs(limit)).await {
            Ok(jobs) => {
                for (at, job) in jobs {
                    if taken.values().any(|id| *id == job.id) {
                        continue;
                    }
                    if at > now {
                        let seconds = u64::try_from(at.0.saturating_sub(now.0)).unwrap_or(0);
                        rest = rest.min(Duration::from_secs(seconds));
                        break;
                    }
                    if taken.len() == AT_ONCE {
                        break;
                    }
                    let (id, told) = (job.id.clone(), tell(Arc::clone(shared), job));
                    taken.insert(under_way.spawn(told).id(), id);
                }
            }
            Err(error) => {
                tracing::error!(error = with_causes(&error), "what is to be told cannot be read");
                rest = shared.habits.pause;
            }
        }
        tokio::select! {
            () = stopped(&mut stop) => return,
            Some(told) = under_way.join_next_with_id() => {
                let task = told.as_ref().map_or_else(JoinError::id, |(task, ())| *task);
                taken.remove(&task);
            }
            () = shared.ended.notified() => {}
            () = sleep(rest) => {}
        }
    }
}

/// Makes one attempt and notes it.
async fn tell(shared: Arc<Shared>, job: Job) {
    // In a task of its own, so that a panic is an attempt that failed.
    let mut attempt = JoinSet::new();
    attempt.spawn(deliver(Arc::clone(&shared), job.clone()));
    let outcome = match timeout(MOST, attempt.join_next()).await {
        Ok(Some(Ok(outcome))) => outcome,
        Ok(Some(Err(_)) | None) => Delivery::Retry("the attempt panicked".into()),
        Err(_) => Delivery::Retry("the attempt took too long".into()),
    };
    let next_at = match &outcome {
        Delivery::Delivered | Delivery::Gone => None,
        Delivery::Retry(_) => next_attempt(&job, shared.now()),
    };
    match &outcome {
        Delivery::Delivered => tracing::debug!(job = job.id, "the end of the job was told"),
        Delivery::Gone => tracing::info!(job = job.id, "nobody wants to hear of the end of the job"),
        Delivery::Retry(reason) => {
            let next_at = next_at.map(|at| at.to_string());
            tracing::info!(job = job.id, reason, next_at, "the end of the job was not told");
        }
    }
    metrics::webhook_tried(match &outcome {
        Delivery::Delivered => "delivered",
        Delivery::Gone => "gone",
        Delivery::Retry(_) => "failed",
    });
    match shared.change(Change::NoteWebhook { id: job.id.clone(), next_at }).await {
        // Removed meanwhile.
        Ok(_) | Err(WriteError::Change(ChangeError::NoSuchJob(_))) => {}
        Err(error) => {
            tracing::error!(job = job.id, error = with_causes(&error), "an attempt to tell of a job cannot be noted");
            // It is due still: not at once.
            sleep(shared.habits.pause).await;
        }
    }
}

async fn deliver(shared: Arc<Shared>, job: Job) -> Delivery {
    let Some(webhook) = job.webhook.clone() else { return Delivery::Gone };
    let shown = Shown::at_end(job);
    let body = match shared.means.deliver.body(&shown).await {
        Ok(body) => body,
        Err(error) => return Delivery::Retry(error.to_string()),
    };
    shared.means.deliver.deliver(&shown.job, &webhook.url, &id_of(&shown.job), body).await
}

/// The id of the one message about a job: the same at every attempt.
fn id_of(job: &Job) -> String {
    format!("msg_{}", job.id.strip_prefix("job_").unwrap_or(&job.id))
}

/// When to try again after an attempt that failed now; nothing when the record will be gone by then.
fn next_attempt(job: &Job, now: UnixSeconds) -> Option<UnixSeconds> {
    let attempts = job.webhook.as_ref().map_or(0, |webhook| webhook.attempts);
    let turn = usize::try_from(attempts).unwrap_or(usize::MAX).min(DELAYS.len() - 1);
    let next = UnixSeconds(now.0.saturating_add(DELAYS[turn]));
    (next < job.expires_at).then_some(next)
}
