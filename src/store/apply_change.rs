//! Applies one `Change` to the tables of an open write transaction.
//!
//! All checks of a change come before its first write: a refused change leaves the transaction unchanged, and with it the
//! other changes of the same group commit.

use super::storage_fault::ApplyError;
use super::tables::Writing;
use super::{
    Account, Change, ChangeError, Day, Job, JobEnd, JobResult, JobState, Key, KeyDay, KeyHash, KeyUse, Month,
    PreviousSecret, Request, Rows, UnixSeconds, Usage, Webhook,
};

impl Writing<'_> {
    /// Applies `change`; returns the written rows.
    pub(super) fn apply(&mut self, change: Change) -> Result<Rows, ApplyError> {
        match change {
            Change::CreateAccount { account, first_key } => self.create_account(account, first_key),
            Change::SetAccount { account, plan, generates, model } => {
                let account = self.accounts.require(&account)?;
                let (plan, generates) = (plan.unwrap_or(account.plan), generates.unwrap_or(account.generates));
                self.put_account(Account { plan, generates, model: model.unwrap_or(account.model), ..account })
            }
            Change::CreateKey { hash, key } => {
                self.accounts.require(&key.account)?;
                self.keys.check_new(hash, &key)?;
                Ok(Rows { keys: vec![self.keys.put(hash, key)?], ..Rows::default() })
            }
            Change::RevokeKey { id, at } => {
                let (hash, key) = self.keys.require(&id)?;
                let key = Key { revoked_at: key.revoked_at.or(Some(at)), ..key };
                Ok(Rows { keys: vec![self.keys.put(hash, key)?], ..Rows::default() })
            }
            Change::RotateKey { id, from, to, keep_until } => self.rotate_key(id, from, to, keep_until),
            Change::SetKey { id, expires_at, images_per_month, scopes } => {
                let (hash, key) = self.active_key(id)?;
                let key = Key {
                    expires_at: expires_at.unwrap_or(key.expires_at),
                    images_per_month: images_per_month.unwrap_or(key.images_per_month),
                    scopes: scopes.unwrap_or(key.scopes),
                    ..key
                };
                Ok(Rows { keys: vec![self.keys.put(hash, key)?], ..Rows::default() })
            }
            Change::TouchKeys { used } => self.touch_keys(used),
            Change::Bill { account, month, images, microdollars, request, by } => {
                self.bill(account, month, Usage { images, microdollars }, request, by)
            }
            Change::ForgetKeyDays { before } => {
                let names: Vec<String> = self.accounts.names()?.collect::<Result<_, _>>()?;
                for name in names {
                    self.key_days.forget(&name, before)?;
                }
                Ok(Rows::default())
            }
            Change::CountGenerated { day } => {
                Ok(Rows { generated: Some(self.meta.count_generated(day)?), ..Rows::default() })
            }
            Change::ForgetRequests { before } => {
                self.requests.forget(before)?;
                Ok(Rows::default())
            }
            Change::PutPreset { preset } => {
                self.accounts.require(&preset.account)?;
                Ok(Rows { presets: vec![self.presets.put(preset)?], ..Rows::default() })
            }
            Change::ReplacePreset { preset } => {
                if self.presets.get(&preset.account, &preset.id)?.is_none() {
                    return Err(ChangeError::NoSuchPreset(preset.id).into());
                }
                Ok(Rows { presets: vec![self.presets.put(preset)?], ..Rows::default() })
            }
            Change::DeletePreset { account, id } => {
                self.presets.delete(&account, &id)?;
                Ok(Rows::default())
            }
            Change::CreateJob { job, at_most } => self.create_job(*job, at_most),
            Change::StartJob { id, at } => {
                let job = self.jobs.require(&id)?;
                expect_state(&job, job.state == JobState::Queued)?;
                self.meta.record_turn(&job.account)?;
                self.put_job(Job { state: JobState::Processing, updated_at: at, ..job })
            }
            Change::RequeueJobs { at } => self.requeue_jobs(at),
            Change::FinishJob { id, at, expires_at, end } => self.finish_job(&id, at, expires_at, end),
            Change::ForgetJobResult { id } => {
                let job = self.jobs.require(&id)?;
                expect_state(&job, job.state.is_final())?;
                let result = job.result.map(|result| JobResult { object: None, ..result });
                self.put_job(Job { result, ..job })
            }
            Change::NoteWebhook { id, next_at } => {
                let job = self.jobs.require(&id)?;
                expect_state(&job, job.state.is_final())?;
                let record_attempt =
                    |webhook: Webhook| Webhook { attempts: webhook.attempts.saturating_add(1), next_at, ..webhook };
                self.put_job(Job { webhook: job.webhook.map(record_attempt), ..job })
            }
            Change::RemoveJob { id } => {
                let job = self.jobs.require(&id)?;
                expect_state(&job, job.state.is_final())?;
                self.jobs.remove(&job)?;
                Ok(Rows::default())
            }
        }
    }

    fn create_account(&mut self, account: Account, first_key: Option<(KeyHash, Key)>) -> Result<Rows, ApplyError> {
        self.accounts.check_new(&account.name)?;
        if let Some((hash, key)) = &first_key {
            self.keys.check_new(*hash, key)?;
        }
        let mut rows = self.put_account(account)?;
        if let Some((hash, key)) = first_key {
            rows.keys.push(self.keys.put(hash, key)?);
        }
        Ok(rows)
    }

    fn put_account(&mut self, account: Account) -> Result<Rows, ApplyError> {
        Ok(Rows { accounts: vec![self.accounts.put(account)?], ..Rows::default() })
    }

    fn rotate_key(
        &mut self,
        id: String,
        from: KeyHash,
        to: KeyHash,
        keep_until: Option<UnixSeconds>,
    ) -> Result<Rows, ApplyError> {
        let (hash, key) = self.active_key(id)?;
        if hash != from {
            return Err(ChangeError::KeyRotated(key.id).into());
        }
        if self.keys.get(to)?.is_some() {
            return Err(ChangeError::KeyExists.into());
        }
        let previous = keep_until.map(|until| PreviousSecret { hash: hash.0, until });
        self.keys.remove(hash)?;
        Ok(Rows { keys: vec![self.keys.put(to, Key { previous, ..key })?], ..Rows::default() })
    }

    /// The key with this id, unless it was revoked.
    fn active_key(&self, id: String) -> Result<(KeyHash, Key), ApplyError> {
        let (hash, key) = self.keys.require(&id)?;
        if key.revoked_at.is_some() { Err(ChangeError::KeyRevoked(id).into()) } else { Ok((hash, key)) }
    }

    fn touch_keys(&mut self, used: Vec<(String, UnixSeconds)>) -> Result<Rows, ApplyError> {
        let mut rows = Rows::default();
        for (id, at) in used {
            let Some((hash, key)) = self.keys.find(&id)? else { continue };
            if key.last_used_at < Some(at) {
                rows.keys.push(self.keys.put(hash, Key { last_used_at: Some(at), ..key })?);
            }
        }
        Ok(rows)
    }

    fn bill(
        &mut self,
        account: String,
        month: Month,
        more: Usage,
        request: Option<(String, Request)>,
        by: Option<KeyUse>,
    ) -> Result<Rows, ApplyError> {
        if !self.accounts.contains(&account)? {
            return Err(ChangeError::NoSuchAccount(account).into());
        }
        let usage = self.usage.add(&account, month, more)?;
        let mut rows = Rows::default();
        if let Some((key, request)) = request {
            self.requests.put(&account, &key, request.clone())?;
            rows.requests.push((account.clone(), key, request));
        }
        // A sandbox key bills nothing, and leaves no row.
        if let Some(KeyUse { key_id, day, milliseconds }) = by
            && more != Usage::default()
        {
            let more = KeyDay { images: more.images, milliseconds, microdollars: more.microdollars };
            let sum = self.key_days.add(&account, day, &key_id, more)?;
            rows.key_days.push((account.clone(), day, key_id, sum));
        }
        rows.usage.push((account, month, usage));
        Ok(rows)
    }

    fn create_job(&mut self, job: Job, at_most: usize) -> Result<Rows, ApplyError> {
        self.accounts.require(&job.account)?;
        // Before the limit: a repeated request is refused with the id of its first job even at the limit.
        self.jobs.check_new(&job)?;
        let count = self.jobs.count_waiting(&job.key_id)?;
        if count >= at_most {
            return Err(ChangeError::TooManyJobs { key_id: job.key_id, count }.into());
        }
        expect_state(&job, job.state == JobState::Queued)?;
        self.put_job(job)
    }

    fn put_job(&mut self, job: Job) -> Result<Rows, ApplyError> {
        Ok(Rows { jobs: vec![self.jobs.put(job)?], ..Rows::default() })
    }

    fn requeue_jobs(&mut self, at: UnixSeconds) -> Result<Rows, ApplyError> {
        let mut rows = Rows::default();
        for job in self.jobs.waiting(usize::MAX)?.into_iter().filter(|job| job.state == JobState::Processing) {
            rows.jobs.push(self.jobs.put(Job { state: JobState::Queued, updated_at: at, ..job })?);
        }
        Ok(rows)
    }

    fn finish_job(
        &mut self,
        id: &str,
        at: UnixSeconds,
        expires_at: UnixSeconds,
        end: JobEnd,
    ) -> Result<Rows, ApplyError> {
        let job = self.jobs.require(id)?;
        let webhook = job.webhook.clone().map(|webhook| Webhook { next_at: Some(at), ..webhook });
        let job = Job { updated_at: at, expires_at, webhook, ..job };
        match end {
            JobEnd::Done { result, warnings, bill } => {
                expect_state(&job, job.state == JobState::Processing)?;
                // Before the job is written: a refusal leaves no trace.
                let mut rows = match bill {
                    Some(more) => {
                        let milliseconds = (result.seconds() * 1000.0).round() as u64;
                        // A day of the month that the reservation is in.
                        let day = Day::of(job.created_at);
                        let by = KeyUse { key_id: job.key_id.clone(), day, milliseconds };
                        self.bill(job.account.clone(), job.month, more, None, Some(by))?
                    }
                    None => Rows::default(),
                };
                let (state, progress) = (JobState::Done, 100);
                rows.jobs.push(self.jobs.put(Job { state, progress, result: Some(result), warnings, ..job })?);
                Ok(rows)
            }
            JobEnd::Failed { error, progress } => {
                expect_state(&job, !job.state.is_final())?;
                self.put_job(Job { state: JobState::Failed, progress, error: Some(error), ..job })
            }
        }
    }
}

/// Refuses a change that the job's state does not allow.
fn expect_state(job: &Job, allowed: bool) -> Result<(), ChangeError> {
    if allowed { Ok(()) } else { Err(ChangeError::JobState { id: job.id.clone(), state: job.state }) }
}
