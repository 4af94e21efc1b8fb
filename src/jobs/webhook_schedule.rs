//! Sends webhooks about finished jobs, with retries until they are accepted or the record expires.
//!
//! The time of the next attempt is part of the job's record, so a restart loses none. An attempt that was interrupted by
//! the end of the process is repeated with an equal id, by which the receiver recognises it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};

use super::deps::DeliveryOutcome;
use super::job_view::JobView;
use super::shared::{Shared, stopped};
use super::{Job, UnixSeconds};
use crate::store::JobChange;
use crate::telemetry::{metrics, with_causes};

/// Seconds from one attempt to the next; the last number holds for all further ones.
const DELAYS: [i64; 6] = [5, 60, 5 * 60, 30 * 60, 2 * 60 * 60, 6 * 60 * 60];

/// Concurrent attempts. Each is bounded in time, so a slow receiver delays the others by seconds.
const CONCURRENT_ATTEMPTS: usize = 16;

/// Limit of an attempt. The transport has a shorter one.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(60);

/// The longest sleep: the clock may be set meanwhile.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// The longest sleep on a database, where other daemons end jobs too.
const SHARED_SLEEP: Duration = Duration::from_secs(5);

pub(super) async fn run(shared: &Arc<Shared>, mut stop: watch::Receiver<bool>) {
    let mut attempts = JoinSet::new();
    let mut started: HashMap<tokio::task::Id, String> = HashMap::new();
    loop {
        let is_shared = shared.deps.store.is_shared();
        // Reading webhooks from a database claims them for this daemon.
        let limit = if is_shared { CONCURRENT_ATTEMPTS - started.len() } else { started.len() + CONCURRENT_ATTEMPTS };
        let (mut pause, now) = (if is_shared { SHARED_SLEEP } else { LONGEST_SLEEP }, shared.now());
        match shared.deps.store.webhook_jobs(now, limit).await {
            Ok(jobs) => {
                for (at, job) in jobs {
                    if started.values().any(|id| *id == job.id) {
                        continue;
                    }
                    if at > now {
                        let seconds = u64::try_from(at.0.saturating_sub(now.0)).unwrap_or(0);
                        pause = pause.min(Duration::from_secs(seconds));
                        break;
                    }
                    if started.len() == CONCURRENT_ATTEMPTS {
                        break;
                    }
                    let (id, attempt) = (job.id.clone(), attempt(Arc::clone(shared), job));
                    started.insert(attempts.spawn(attempt).id(), id);
                }
            }
            Err(error) => {
                tracing::error!(error = with_causes(&error), "due webhooks cannot be read");
                pause = shared.tuning.pause;
            }
        }
        tokio::select! {
            () = stopped(&mut stop) => return,
            Some(ended) = attempts.join_next_with_id() => {
                let task = ended.as_ref().map_or_else(JoinError::id, |(task, ())| *task);
                started.remove(&task);
            }
            () = shared.ended.notified() => {}
            () = sleep(pause) => {}
        }
    }
}

/// Makes one attempt and records it.
async fn attempt(shared: Arc<Shared>, job: Job) {
    // In a separate task, so that a panic is a failed attempt.
    let mut delivery = JoinSet::new();
    delivery.spawn(deliver(Arc::clone(&shared), job.clone()));
    let outcome = match timeout(ATTEMPT_TIMEOUT, delivery.join_next()).await {
        Ok(Some(Ok(outcome))) => outcome,
        Ok(Some(Err(_)) | None) => DeliveryOutcome::Retry("the attempt panicked".into()),
        Err(_) => DeliveryOutcome::Retry("the attempt took too long".into()),
    };
    let (counted, next_at) = match outcome {
        DeliveryOutcome::Delivered => {
            tracing::debug!(job = job.id, "the webhook was delivered");
            ("delivered", None)
        }
        DeliveryOutcome::Gone => {
            tracing::info!(job = job.id, "the receiver of the webhook is gone");
            ("gone", None)
        }
        DeliveryOutcome::Retry(reason) => {
            let next_at = next_attempt(&job, shared.now());
            let next = next_at.map(|at| at.to_string());
            tracing::info!(job = job.id, reason, next_at = next, "the webhook was not delivered");
            ("failed", next_at)
        }
    };
    metrics::webhook_tried(counted);
    if let Err(error) = shared.change(&job.id, JobChange::NoteWebhook { next_at }).await {
        tracing::error!(job = job.id, error = with_causes(&error), "a webhook attempt cannot be recorded");
        // It is still due: not at once.
        sleep(shared.tuning.pause).await;
    }
}

async fn deliver(shared: Arc<Shared>, job: Job) -> DeliveryOutcome {
    let Some(webhook) = job.webhook.clone() else { return DeliveryOutcome::Gone };
    let view = JobView::finished(job);
    let body = match shared.deps.webhooks.body(&view).await {
        Ok(body) => body,
        Err(error) => return DeliveryOutcome::Retry(error.to_string()),
    };
    shared.deps.webhooks.deliver(&view.job, &webhook.url, &webhook_id(&view.job), body).await
}

/// The id of the message about a job, equal at every attempt.
fn webhook_id(job: &Job) -> String {
    format!("msg_{}", job.id.strip_prefix("job_").unwrap_or(&job.id))
}

/// When to retry an attempt that failed now; `None` when the record will have expired by then.
fn next_attempt(job: &Job, now: UnixSeconds) -> Option<UnixSeconds> {
    let attempts = job.webhook.as_ref().map_or(0, |webhook| webhook.attempts);
    let turn = usize::try_from(attempts).unwrap_or(usize::MAX).min(DELAYS.len() - 1);
    let next = UnixSeconds(now.0.saturating_add(DELAYS[turn]));
    (next < job.expires_at).then_some(next)
}
