//! The rules of changes to one account, key or job: the row after a change, or why it is refused. Both engines apply them.

use super::{
    Account, Change, ChangeError, Day, Job, JobEnd, JobResult, JobState, Key, KeyHash, KeyUse, PreviousSecret, Usage,
    Webhook,
};

/// The bill of a job that ended with a result.
pub(super) type JobBill = (Usage, KeyUse);

/// What becomes of a job's row.
pub(super) enum JobAfter {
    /// It is written, with its bill.
    Put(Box<Job>, Option<JobBill>),
    /// It is removed.
    Removed,
}

/// An account after [`Change::SetAccount`].
pub(super) fn account_after(account: Account, change: Change) -> Account {
    let Change::SetAccount { plan, generates, model, .. } = change else { return account };
    let (plan, generates) = (plan.unwrap_or(account.plan), generates.unwrap_or(account.generates));
    Account { plan, generates, model: model.unwrap_or(account.model), ..account }
}

/// A key after [`Change::RevokeKey`], [`Change::RotateKey`] or [`Change::SetKey`]. That the hash of a new token is new is
/// checked by the engine.
pub(super) fn key_after(hash: KeyHash, key: Key, change: Change) -> Result<(KeyHash, Key), ChangeError> {
    if let Change::RevokeKey { at, .. } = change {
        return Ok((hash, Key { revoked_at: key.revoked_at.or(Some(at)), ..key }));
    }
    if key.revoked_at.is_some() {
        return Err(ChangeError::KeyRevoked(key.id));
    }
    if let Change::RotateKey { from, to, keep_until, .. } = change {
        if hash != from {
            return Err(ChangeError::KeyRotated(key.id));
        }
        let previous = keep_until.map(|until| PreviousSecret { hash: hash.0, until });
        return Ok((to, Key { previous, ..key }));
    }
    let Change::SetKey { expires_at, images_per_month, scopes, .. } = change else { return Ok((hash, key)) };
    let key = Key {
        expires_at: expires_at.unwrap_or(key.expires_at),
        images_per_month: images_per_month.unwrap_or(key.images_per_month),
        scopes: scopes.unwrap_or(key.scopes),
        ..key
    };
    Ok((hash, key))
}

/// A job after a change of this job.
pub(super) fn job_after(job: Job, change: Change) -> Result<JobAfter, ChangeError> {
    let put = |job| Ok(JobAfter::Put(Box::new(job), None));
    match change {
        Change::StartJob { at, .. } => {
            expect_state(&job, job.state == JobState::Queued)?;
            put(Job { state: JobState::Processing, updated_at: at, ..job })
        }
        Change::RequeueJob { progress, at, .. } => {
            expect_state(&job, !job.state.is_final())?;
            put(Job { state: JobState::Queued, progress: progress.max(job.progress), updated_at: at, ..job })
        }
        Change::FinishJob { at, expires_at, end, .. } => {
            let webhook = job.webhook.clone().map(|webhook| Webhook { next_at: Some(at), ..webhook });
            finished(Job { updated_at: at, expires_at, webhook, ..job }, end)
        }
        Change::ForgetJobResult { .. } => {
            expect_state(&job, job.state.is_final())?;
            let result = job.result.map(|result| JobResult { object: None, ..result });
            put(Job { result, ..job })
        }
        Change::NoteWebhook { next_at, .. } => {
            expect_state(&job, job.state.is_final())?;
            let record_attempt =
                |webhook: Webhook| Webhook { attempts: webhook.attempts.saturating_add(1), next_at, ..webhook };
            put(Job { webhook: job.webhook.map(record_attempt), ..job })
        }
        Change::RemoveJob { .. } => {
            expect_state(&job, job.state.is_final())?;
            Ok(JobAfter::Removed)
        }
        Change::CreateAccount { .. }
        | Change::SetAccount { .. }
        | Change::CreateKey { .. }
        | Change::RevokeKey { .. }
        | Change::RotateKey { .. }
        | Change::SetKey { .. }
        | Change::TouchKeys { .. }
        | Change::Bill(_)
        | Change::ForgetKeyDays { .. }
        | Change::CountGenerated { .. }
        | Change::ReturnGenerated { .. }
        | Change::ForgetRequests { .. }
        | Change::PutPreset { .. }
        | Change::ReplacePreset { .. }
        | Change::DeletePreset { .. }
        | Change::CreateJob { .. } => unreachable!("the caller makes these"),
    }
}

fn finished(job: Job, end: JobEnd) -> Result<JobAfter, ChangeError> {
    match end {
        JobEnd::Done { result, warnings, bill } => {
            expect_state(&job, job.state == JobState::Processing)?;
            let milliseconds = (result.seconds() * 1000.0).round() as u64;
            // A day of the month that the reservation is in.
            let by = KeyUse { key_id: job.key_id.clone(), day: Day::of(job.created_at), milliseconds };
            let (state, progress) = (JobState::Done, 100);
            let job = Job { state, progress, result: Some(result), warnings, ..job };
            Ok(JobAfter::Put(Box::new(job), bill.map(|usage| (usage, by))))
        }
        JobEnd::Failed { error, progress } | JobEnd::Cancelled { error, progress } => {
            expect_state(&job, !job.state.is_final())?;
            Ok(JobAfter::Put(Box::new(Job { state: JobState::Failed, progress, error: Some(error), ..job }), None))
        }
    }
}

/// Refuses a change that the job's state does not allow.
pub(super) fn expect_state(job: &Job, allowed: bool) -> Result<(), ChangeError> {
    if allowed { Ok(()) } else { Err(ChangeError::JobState { id: job.id.clone(), state: job.state }) }
}
