//! Computes a row of an account, key or job after a change, or why the change is refused. Both engines use it.

use super::{
    Account, AccountModel, Bill, ChangeError, Day, Job, JobChange, JobEnd, JobResult, JobState, Key, KeyChange,
    KeyHash, KeyUpdate, KeyUse, Plan, PreviousSecret, Usage, Webhook,
};

/// An account after [`Change::SetAccount`](super::Change::SetAccount).
pub(super) fn account_after(
    account: Account,
    plan: Option<Plan>,
    generates: Option<bool>,
    model: Option<AccountModel>,
) -> Account {
    let (plan, generates) = (plan.unwrap_or(account.plan), generates.unwrap_or(account.generates));
    Account { plan, generates, model: model.unwrap_or(account.model), ..account }
}

/// A key after a change, and the hash of its token. The engine checks that the hash of a new token is new.
pub(super) fn key_after(hash: KeyHash, key: Key, change: KeyChange) -> Result<(KeyHash, Key), ChangeError> {
    let is_revoked = key.revoked_at.is_some();
    match change {
        KeyChange::Revoke { at } => Ok((hash, Key { revoked_at: key.revoked_at.or(Some(at)), ..key })),
        KeyChange::Rotate { .. } | KeyChange::Set(_) if is_revoked => Err(ChangeError::KeyRevoked(key.id)),
        KeyChange::Rotate { from, .. } if hash != from => Err(ChangeError::KeyRotated(key.id)),
        KeyChange::Rotate { to, keep_until, .. } => {
            let previous = keep_until.map(|until| PreviousSecret { hash: hash.0, until });
            Ok((to, Key { previous, ..key }))
        }
        KeyChange::Set(KeyUpdate { expires_at, images_per_month, scopes }) => {
            let key = Key {
                expires_at: expires_at.unwrap_or(key.expires_at),
                images_per_month: images_per_month.unwrap_or(key.images_per_month),
                scopes: scopes.unwrap_or(key.scopes),
                ..key
            };
            Ok((hash, key))
        }
    }
}

/// A job after a change, with its bill; `None` where it is removed.
pub(super) fn job_after(job: Job, change: JobChange) -> Result<Option<(Job, Option<Bill>)>, ChangeError> {
    let is_final = job.state.is_final();
    let is_allowed = match change {
        JobChange::Start { .. } => job.state == JobState::Queued,
        JobChange::Finish { end: JobEnd::Done { .. }, .. } => job.state == JobState::Processing,
        JobChange::Requeue { .. } | JobChange::Finish { .. } => !is_final,
        JobChange::ForgetResult | JobChange::NoteWebhook { .. } | JobChange::Remove => is_final,
    };
    expect_state(&job, is_allowed)?;
    let mut bill = None;
    let job = match change {
        JobChange::Start { at } => Job { state: JobState::Processing, updated_at: at, ..job },
        JobChange::Requeue { progress, at } => {
            Job { state: JobState::Queued, progress: progress.max(job.progress), updated_at: at, ..job }
        }
        JobChange::Finish { at, expires_at, end } => {
            let webhook = job.webhook.map(|webhook| Webhook { next_at: Some(at), ..webhook });
            let job = Job { updated_at: at, expires_at, webhook, ..job };
            match end {
                JobEnd::Done { result, warnings, bill: usage } => {
                    let milliseconds = (result.seconds() * 1000.0).round() as u64;
                    // A day of the month that the reservation is in.
                    let by = KeyUse { key_id: job.key_id.clone(), day: Day::of(job.created_at), milliseconds };
                    bill = usage.map(|Usage { images, microdollars }| Bill {
                        account: job.account.clone(),
                        month: job.month,
                        images,
                        microdollars,
                        request: None,
                        by: Some(by),
                    });
                    Job { state: JobState::Done, progress: 100, result: Some(result), warnings, ..job }
                }
                JobEnd::Failed { error, progress } => {
                    Job { state: JobState::Failed, progress, error: Some(error), ..job }
                }
            }
        }
        JobChange::ForgetResult => Job { result: job.result.map(|result| JobResult { object: None, ..result }), ..job },
        JobChange::NoteWebhook { next_at } => {
            let after = |webhook: Webhook| Webhook { attempts: webhook.attempts.saturating_add(1), next_at, ..webhook };
            Job { webhook: job.webhook.map(after), ..job }
        }
        JobChange::Remove => return Ok(None),
    };
    Ok(Some((job, bill)))
}

/// Refuses a change that the job's state does not allow.
pub(super) fn expect_state(job: &Job, allowed: bool) -> Result<(), ChangeError> {
    if allowed { Ok(()) } else { Err(ChangeError::JobState { id: job.id.clone(), state: job.state }) }
}
